"""How far each partition of a topic was exported: a small file beside the topic's files, written last.

It is ``topic=NAME/_brokerless.json``; readers of Parquet pass over names that begin with ``_``. Whoever removes a
topic's directory removes what is known of it as well, and the next export begins anew.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.exports import target
from brokerless.log import storage
from brokerless.log.storage import StorageOptions

NAME = "_brokerless.json"
_VERSION = 1
_LIMIT = 256 << 20
_FILE = re.compile(r"partition-(?P<partition>[0-9]{1,10})-(?P<offset>[0-9]{20})\.parquet")

Isolation = Literal["read_uncommitted", "read_committed"]
Offsets = tuple[int, int | None]
"""The first and the last of some offsets; None: all from the first one on."""


@dataclass(frozen=True, slots=True)
class Exported:
    """How far one partition was exported: up to ``next_offset``, without it. ``until``: a run that began there, and of
    which no end is known, may have left files that begin before ``until``. ``left_out``: what was damaged. ``files``:
    how many there are, None where that was not noted."""

    next_offset: int
    until: int | None = None
    left_out: tuple[Offsets, ...] = ()
    files: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was exported of one topic. ``topic_id`` is None where the log did not say it."""

    topic: str
    topic_id: str | None
    by_date: bool
    isolation: Isolation
    partitions: Mapping[int, Exported] = field(default_factory=dict[int, Exported])

    def with_partition(self, partition: int, exported: Exported) -> Manifest:
        partitions = {**self.partitions, partition: exported}
        return Manifest(self.topic, self.topic_id, self.by_date, self.isolation, partitions)


def topic_directory(directory: str, topic: str) -> str:
    return storage.join(directory, f"topic={topic}")


def file_name(partition: int, first_offset: int) -> str:
    """Of the file whose first record has this offset, within its date if there is one. The topic is not in it: with
    ``_schemas``, say, readers would pass over the file."""
    return f"partition-{partition}-{first_offset:020d}.parquet"


def load(directory: str, topic: str, storage_options: StorageOptions | None) -> Manifest | None:
    """The manifest of a topic; None if nothing of it was exported.

    Raises :class:`UnreadableError` for one that cannot be read, and UsageError for files without one.
    """
    own = topic_directory(directory, topic)
    path = storage.join(own, NAME)
    if not storage.exists(path, storage_options):
        others = [each for each in target.find(own, storage_options) if not each.startswith(("_", "."))]
        if others:
            raise UsageError(
                f"{own}: there are files ({others[0]}), but not {NAME}, which would say what they hold; export to "
                f"another directory, or move these away"
            )
        return None
    try:
        found: Any = json.loads(storage.read_bytes(path, _LIMIT, storage_options))
        if found["version"] != _VERSION:
            raise UnreadableError(f"{path}: version {found['version']} of an export; this is for {_VERSION}")
        return Manifest(
            str(found["topic"]),
            None if found["topicId"] is None else str(found["topicId"]),
            bool(found["byDate"]),
            cast(Isolation, found["isolation"]),
            {int(partition): _exported(each) for partition, each in found["partitions"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = "this does not say what was exported; put back the file that was here, or export to another directory"
        raise UnreadableError(f"{path}: {text}") from error


def save(manifest: Manifest, directory: str, storage_options: StorageOptions | None) -> None:
    """Writes it at once: after a crash there is the old one or the new one. Raises :class:`UnwritableError`."""
    value = {
        "version": _VERSION,
        "topic": manifest.topic,
        "topicId": manifest.topic_id,
        "byDate": manifest.by_date,
        "isolation": manifest.isolation,
        "partitions": {str(number): _as_dict(each) for number, each in sorted(manifest.partitions.items())},
    }
    path = storage.join(topic_directory(directory, manifest.topic), NAME)
    target.write(path, json.dumps(value).encode() + b"\n", storage_options)


def forget(manifest: Manifest, directory: str, storage_options: StorageOptions | None) -> None:
    """Takes the manifest of a topic away of which nothing was exported. Raises :class:`UnwritableError`."""
    own = topic_directory(directory, manifest.topic)
    target.remove(storage.join(own, NAME), storage_options)
    target.remove_if_empty(own)


def count_files(directory: str, topic: str, storage_options: StorageOptions | None) -> Counter[int]:
    """How many files there are of each partition."""
    names = target.find(topic_directory(directory, topic), storage_options)
    matches = (_FILE.fullmatch(name.rpartition("/")[2]) for name in names)
    return Counter(int(match["partition"]) for match in matches if match is not None)


def clean(directory: str, manifest: Manifest, partitions: set[int], storage_options: StorageOptions | None) -> None:
    """Takes away what an interrupted run left of some partitions: it will be written again."""
    own = topic_directory(directory, manifest.topic)
    target.remove_unfinished(own)
    begun = {number: each for number, each in manifest.partitions.items() if each.until is not None}
    if not begun.keys() & partitions:
        return
    for name in target.find(own, storage_options):
        match = _FILE.fullmatch(name.rpartition("/")[2])
        if match is None or int(match["partition"]) not in partitions:
            continue
        exported = begun.get(int(match["partition"]))
        if exported is not None and exported.next_offset <= int(match["offset"]) < (exported.until or 0):
            target.remove(storage.join(own, name), storage_options)


def _exported(value: Any) -> Exported:
    left_out = tuple((int(first), None if last is None else int(last)) for first, last in value.get("leftOut", ()))
    until, files = value.get("until"), value.get("files")
    until, files = (None if each is None else int(each) for each in (until, files))
    return Exported(int(value["nextOffset"]), until, left_out, files)


def _as_dict(exported: Exported) -> dict[str, Any]:
    value: dict[str, Any] = {"nextOffset": exported.next_offset}
    if exported.until is not None:
        value["until"] = exported.until
    if exported.left_out:
        value["leftOut"] = [list(each) for each in exported.left_out]
    if exported.files is not None:
        value["files"] = exported.files
    return value
