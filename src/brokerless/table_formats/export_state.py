"""Records how far each partition of a topic was exported, in ``topic=NAME/_brokerless.json``.

It is ``topic=NAME/_brokerless.json``; readers of Parquet pass over names that begin with ``_``. Whoever removes a
topic's directory removes what is known of it as well, and the next export begins again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from msgspec import Meta

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.kafka_names import Isolation
from brokerless.log.own_file import OwnFile
from brokerless.log.storage import file_tree
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location
from brokerless.offset_spans import Span
from brokerless.tables.last_record import LastRecord
from brokerless.values import (
    Int32,
    Int32OrNone,
    Int64,
    Value,
    WrongJsonError,
    to_json,
)

NAME = "_brokerless.json"
_FILE = re.compile(r"(?:date=[^/]+/)?partition-(?P<partition>[0-9]{1,10})-(?P<offset>[0-9]{20})\.parquet")

LeftOutOffsets = tuple[int, int | None]
"""The first and the last of some offsets; None: all from the first one on."""


class RefusedTopicError(UsageError):
    """Raised where the target of one topic belongs to something else; other topics are exported."""

    def __init__(self, topic: str, message: str) -> None:
        super().__init__(message)
        self.topic = topic


@dataclass(frozen=True, slots=True)
class Exported:
    """The state of one partition's export."""

    next_offset: int
    """The offset after the last one that was exported."""
    until: int | None = None
    """A run that began at ``next_offset``, and of which no end is known, may have left files that begin before this
    offset."""
    left_out: tuple[LeftOutOffsets, ...] = ()
    """The offsets that were damaged."""
    files: int | None = None
    """How many files there are, None where that was not recorded."""
    missing: tuple[Span, ...] = ()
    """Offsets before ``next_offset`` that the log did not have; another run takes them if they are there by then."""
    filling: tuple[Span, ...] = ()
    """Those missing offsets that a run was taking of which no end is known."""
    last: LastRecord | None = None
    """The last record before ``next_offset``; None where an earlier version recorded none."""


@dataclass(frozen=True, slots=True)
class ExportState:
    """The state of one topic's export."""

    topic: str
    topic_id: str | None
    """None where the log did not say it."""
    by_date: bool
    isolation: Isolation
    partitions: Mapping[int, Exported] = field(default_factory=dict[int, Exported])
    is_decoded: bool = False
    key_format: str | None = None
    """How the keys of a table are decoded by all runs, as the first one found them."""
    value_format: str | None = None
    """How the values of a table are decoded by all runs, as the first one found them."""
    keys_named_by: tuple[int, ...] = ()
    """For Avro with aliases, the ids (or versions) of the schemas that were the newest when the columns of keys were
    named."""
    values_named_by: tuple[int, ...] = ()
    """The same for the columns of values."""

    def with_partition(self, partition: int, exported: Exported) -> ExportState:
        partitions = {**self.partitions, partition: exported}
        return replace(self, partitions=partitions)


class _LastRecordJson(Value, frozen=True):
    offset: Int64
    timestamp: Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
    checksum: Int64
    leader_epoch: Int32OrNone

    @property
    def record(self) -> LastRecord:
        return LastRecord(self.offset, self.timestamp, self.checksum, self.leader_epoch)


class _ExportedJson(Value, frozen=True, omit_defaults=True):
    """As :class:`Exported`, but that a span ends with its last offset."""

    next_offset: Int64
    until: Int64 | None = None
    left_out: tuple[tuple[Int64, Int64 | None], ...] = ()
    files: Int64 | None = None
    missing: tuple[tuple[Int64, Int64], ...] = ()
    filling: tuple[tuple[Int64, Int64], ...] = ()
    last: _LastRecordJson | None = None

    def __post_init__(self) -> None:
        if any(last < first for first, last in (*self.missing, *self.filling)):
            raise WrongJsonError("a pair of offsets has the first above the last")

    @classmethod
    def of(cls, exported: Exported) -> _ExportedJson:
        missing, filling = (
            tuple((first, after - 1) for first, after in spans) for spans in (exported.missing, exported.filling)
        )
        last = None if exported.last is None else _LastRecordJson(*exported.last)
        bounds = exported.next_offset, exported.until, exported.left_out
        return cls(*bounds, exported.files, missing, filling, last)

    def exported(self) -> Exported:
        missing, filling = (tuple((first, last + 1) for first, last in pairs) for pairs in (self.missing, self.filling))
        last = None if self.last is None else self.last.record
        bounds = self.next_offset, self.until, self.left_out
        return Exported(*bounds, files=self.files, missing=missing, filling=filling, last=last)


class _Document(Value, frozen=True, omit_defaults=True):
    version: Literal[1]
    topic: str
    topic_id: str | None
    by_date: bool
    isolation: Isolation
    partitions: dict[Int32, _ExportedJson]
    decoded: bool = False
    key_format: str | None = None
    value_format: str | None = None
    keys_named_by: tuple[Int64, ...] = ()
    values_named_by: tuple[Int64, ...] = ()

    @classmethod
    def of(cls, state: ExportState) -> _Document:
        partitions = {number: _ExportedJson.of(each) for number, each in sorted(state.partitions.items())}
        formats = state.key_format, state.value_format, state.keys_named_by, state.values_named_by
        where = state.topic, state.topic_id, state.by_date, state.isolation
        return cls(1, *where, partitions, state.is_decoded, *formats)

    def state(self) -> ExportState:
        partitions = {number: each.exported() for number, each in self.partitions.items()}
        formats = self.key_format, self.value_format, self.keys_named_by, self.values_named_by
        return ExportState(self.topic, self.topic_id, self.by_date, self.isolation, partitions, self.decoded, *formats)


_STATE = OwnFile(
    _Document,
    "what says how far a topic was exported",
    "put back the file that was here, or export to another directory",
    limit=32 << 20,
)
"""The limit is for some 400,000 partitions, or as many places that are left out."""


def topic_directory(directory: Location, topic: str) -> Location:
    return directory / f"topic={topic}"


def file_name(partition: int, first_offset: int) -> str:
    """Return the name of the file whose first record has this offset, within its date if there is one. The topic is not
    in it: with ``_schemas``, say, readers would pass over the file."""
    return f"partition-{partition}-{first_offset:020d}.parquet"


def load(directory: Location, topic: str) -> ExportState | None:
    """Return the manifest of a topic; None if nothing of it was exported.

    Raises :class:`UnreadableError` for one that cannot be read, and UsageError for files without one.
    """
    own = topic_directory(directory, topic)
    file_tree.refuse_link(own)
    if not file_tree.exists(own / NAME):
        others = [each for each in file_tree.find(own) if not each.startswith(("_", "."))]
        if others:
            raise RefusedTopicError(
                topic,
                f"{own}: there are files ({others[0]}), but not {NAME}, which would say what they hold; export to "
                f"another directory, or move these away",
            )
        return None
    return parse(read_own(own / NAME, _STATE.limit), topic, (own / NAME).path)


def parse(data: bytes, topic: str, path: str) -> ExportState:
    """Return what :func:`dump` wrote. ``path``: where it was found. Raises :class:`UnreadableError`."""
    document = _STATE.parse(data, path)
    if document.topic != topic:
        raise UnreadableError(path, f"this is of the topic {document.topic}, not of {topic}; {_STATE.advice}")
    return document.state()


def save(manifest: ExportState, directory: Location) -> None:
    """Writes it at once: after a crash there is the old one or the new one. Raises :class:`UnwritableError`."""
    own, data = topic_directory(directory, manifest.topic), dump(manifest).encode() + b"\n"
    if len(data) > _STATE.limit:
        raise UsageError(
            f"{own}: so much of this topic is damaged that it cannot be recorded; salvage it, and export that"
        )
    file_tree.write(own / NAME, data)


def dump(manifest: ExportState) -> str:
    """Return what was exported of a topic, as one line of JSON."""
    return to_json(_Document.of(manifest)).decode().rstrip("\n")


def forget(manifest: ExportState, directory: Location) -> None:
    """Takes the manifest of a topic away of which nothing was exported. Raises :class:`UnwritableError`."""
    own = topic_directory(directory, manifest.topic)
    file_tree.remove(own, NAME)
    file_tree.remove_if_empty(own)


def count_files(directory: Location, topic: str) -> Counter[int]:
    """Return how many files there are of each partition."""
    names = file_tree.find(topic_directory(directory, topic))
    matches = (_FILE.fullmatch(name) for name in names)
    return Counter(int(match["partition"]) for match in matches if match is not None)


def clean(directory: Location, manifest: ExportState, partitions: set[int]) -> None:
    """Takes away what an interrupted run left of some partitions: it will be written again."""
    own = topic_directory(directory, manifest.topic)
    file_tree.remove_unfinished(own)
    begun = {number: each for number, each in manifest.partitions.items() if each.until is not None or each.filling}
    if not begun.keys() & partitions:
        return
    for name in file_tree.find(own):
        match = _FILE.fullmatch(name)  # an object's name may have anything above: not ours
        if match is None or int(match["partition"]) not in partitions:
            continue
        exported = begun.get(int(match["partition"]))
        if exported is None:
            continue
        spans = [(exported.next_offset, exported.until or 0), *exported.filling]
        if any(first <= int(match["offset"]) < after for first, after in spans):
            file_tree.remove(own, name)
