"""Reads records with typed keys and values: types first, by the records that will be read, then the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pyarrow as pa

from brokerless.errors import UsageError, raise_errors
from brokerless.findings import NOT_DECODED, Finding, Kind
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore
from brokerless.schemas import RECORDS
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.typed.decode import decoder_of
from brokerless.typed.reasons import Reason
from brokerless.typed.resolve import QUIETLY, resolve_topic
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import COLUMNS, Decoding, SideType, TopicType, decoding_of

Decode = Decoding | TopicType | str | bool | None
"""What a caller gives as ``decode``: see :func:`topic_type.decoding_of`; a :class:`TopicType` was resolved before."""
ReadColumns = Callable[[Sequence[PartitionPath], Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads some columns of the records of some partitions."""


def resolve_types(
    partitions: Sequence[PartitionPath],
    decoding: Decoding,
    read: ReadColumns | None = None,
    *,
    max_batch_bytes: int | None = None,
) -> dict[str | None, TopicType]:
    """Return the types of each topic among some partitions. ``read``: how they are read to find schemas; all of them
    without it. ``storage_options``: those of ``decoding.schemas``, where it is a URL."""
    registry = load_registry(decoding.schemas, partitions)
    topics: dict[str | None, list[PartitionPath]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each)
    return {
        topic: resolve_topic(
            topic, own, decoding, registry, reading=replace(QUIETLY, max_batch_bytes=max_batch_bytes),
            batches=None if read is None else read(own, ["key", "value", "headers"]),
        )
        for topic, own in topics.items()
    }  # fmt: skip


def read_typed(
    partitions: Sequence[PartitionPath],
    decode: Decode,
    options: ReadOptions,
) -> pa.RecordBatchReader:
    """Records, decoded. The columns are those of ``schemas.RECORDS`` and :data:`topic_type.COLUMNS`.

    Raises :class:`UsageError` for an unknown column, and for several topics whose types are not the same."""
    decoding = None if isinstance(decode, TopicType) else decoding_of(decode)
    if decode is None or (decoding is None and not isinstance(decode, TopicType)):
        return read_records(partitions, options)

    def read_first(own: Sequence[PartitionPath], names: Sequence[str]) -> pa.RecordBatchReader:
        return read_records(own, replace(options, columns=names, on_damage=ignore, done=ignore))

    if isinstance(decode, TopicType):
        topic_type = decode
    else:
        assert decoding is not None
        topic_type = one_type(resolve_types(partitions, decoding, read_first))
    columns, inner = options.columns, inner_columns(options.columns)
    report = options.on_damage or raise_errors
    whole = topic_type.schema(RECORDS if inner is None else pa.schema([RECORDS.field(name) for name in inner]))
    schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])

    def batches() -> Iterator[pa.RecordBatch]:
        failures = Failures()
        for batch in read_records(partitions, replace(options, columns=inner)):
            decoded = failures.decode(topic_type, batch)
            yield decoded if columns is None else decoded.select(list(columns))
        for finding in failures.findings("records" if not partitions else partitions[0].path):
            report(finding)

    return pa.RecordBatchReader.from_batches(schema, batches())


def one_type(types: dict[str | None, TopicType]) -> TopicType:
    """Return the type of all topics, which has to be one. Raises :class:`UsageError`."""
    found = list(types.values())
    if not found:
        return resolve_topic(None, [], Decoding(), load_registry(None, []))
    for each in found[1:]:
        if _form(each) != _form(found[0]):
            raise UsageError(
                f"the topics {found[0].topic} and {each.topic} have different types, and these records are one table; "
                "decode one topic at a time"
            )
    if len(found) == 1:
        return found[0]
    return TopicType(None, _joined([each.key for each in found]), _joined([each.value for each in found]))


def _form(each: TopicType) -> tuple[Any, ...]:
    return each.key.type, each.key.format, each.value.type, each.value.format


def _joined(sides: Sequence[SideType]) -> SideType:
    used = {(each.framing, each.id): each for side in sides for each in side.schemas}
    of_all = SideType(sides[0].format, sides[0].type, tuple(used.values()))
    return replace(of_all, has_unsigned_indexes=sides[0].has_unsigned_indexes)


def inner_columns(columns: Sequence[str] | None) -> list[str] | None:
    """Return the columns to read for those of decoded records. Raises :class:`UsageError` for an unknown one."""
    if columns is None:
        return None
    unknown = [name for name in columns if name not in RECORDS.names and name not in COLUMNS]
    if unknown:
        raise UsageError(f"there is no column {unknown[0]!r}; there are {', '.join((*RECORDS.names, *COLUMNS))}")
    needed = {name.removesuffix("Raw").removesuffix("Error") for name in columns} | {"headers", "offset", "isControl"}
    return [name for name in RECORDS.names if name in needed]


_MAX_CAUSES = 50
"""Of keys, or of values, each of which is a finding; all further ones are one together. A field for each record, named
by an ID, is a cause for each record."""
_OTHERS = Reason("for other reasons")


@dataclass(slots=True)
class Failures:
    """The keys and values that could not be decoded."""

    counts: dict[tuple[str, Reason], tuple[int, int | None]] = field(
        default_factory=dict[tuple[str, Reason], tuple[int, "int | None"]]
    )
    """By ``key`` or ``value`` and reason, how many there are, and the first offset."""
    shared: set[str] = field(default_factory=set[str])
    """Texts about ids that were met, by keys and values, and that several schemas have."""

    def decode(self, topic_type: TopicType, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a decoded batch, whose failures are counted."""
        decoded, why = decoder_of(topic_type)(batch)
        offsets = decoded.column("offset") if "offset" in decoded.schema.names else None
        for side, reasons in why.items():
            for row, reason in sorted(reasons.items(), key=itemgetter(0)):
                self._add(side, reason, 1, None if offsets is None else offsets[row].as_py())
        self.shared |= texts_of_shared_ids(topic_type)
        return decoded

    def _add(self, side: str, reason: Reason, count: int, first: int | None) -> None:
        at = side, reason
        if at not in self.counts and sum(own == side for own, _ in self.counts) >= _MAX_CAUSES:
            at = side, _OTHERS
        before, offset = self.counts.get(at, (0, first))
        self.counts[at] = before + count, offset

    def add(self, others: Failures) -> None:
        """Counts those of later records as well."""
        self.shared |= others.shared
        for (side, reason), (count, first) in others.counts.items():
            self._add(side, reason, count, first)

    def findings(self, path: str, advice: str = "") -> Iterator[Finding]:
        """Yield a warning for each reason: bytes are as they were written, and the table has them. ``advice``: what to
        do about values that do not fit into their field's type."""
        for (side, reason), (count, first) in self.counts.items():
            what = f"{count} {side}s were" if count > 1 else f"a {side} was"
            part = " in full" if reason.kind == "left-out" else ""
            where = "" if first is None else f" ({'the first at ' if count > 1 else ''}offset {first})"
            remedy = advice if reason.kind == "unfit" else ""
            text = f"{what} not decoded{part}: {reason}; the bytes are kept{where}{remedy}"
            yield NOT_DECODED[side].at(path, text, severity="warning", offset=first)
        yield from _of_shared(self.shared, path)


@lru_cache(maxsize=32)
def texts_of_shared_ids(topic_type: TopicType) -> frozenset[str]:
    """Return, for each ID that records name and that is several schemas, by which of them they are decoded."""
    found: set[str] = set()
    for name, side in (("key", topic_type.key), ("value", topic_type.value)):
        for each in side.schemas:
            if each.schema is not None and each.others and each.records:
                own, others = f"{each.schema.subject} {each.schema.version}", ", ".join(each.others)
                text = f"{name}s name the schema id {each.id}, which {own} has, and {others} as another schema"
                found.add(f"{text}; they are decoded by {own}")
    return frozenset(found)


def shared_ids(topic_type: TopicType, path: str) -> Iterator[Finding]:
    """Return a warning for each id that records name and that is several schemas."""
    return _of_shared(texts_of_shared_ids(topic_type), path)


def _of_shared(texts: Iterable[str], path: str) -> Iterator[Finding]:
    for text in sorted(texts):
        yield Kind.SCHEMA_ID_SHARED.at(path, text)
