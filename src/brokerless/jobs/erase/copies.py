"""Where copies of erased records may still be: what a broker does not serve, other topics, and tiered storage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.format.read.batch_headers import checksums_match
from brokerless.format.read.decoder import Decoder
from brokerless.jobs.erase.job import Erasure
from brokerless.jobs.erase.selection import Matcher
from brokerless.jobs.run.types import Done, ignore
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths
from brokerless.log.segment import ignore as ignore_finding
from brokerless.log.segment import scan
from brokerless.log.storage.paths import StorageOptions, open_file

REMOTE_STORAGE = "remote.storage.enable"
REMOTE_LOG_METADATA = "__remote_log_metadata"
_CHANGELOG = "-changelog"
_DIRECTORIES = {
    "delete": "a partition's directory that waits for its deletion",
    "stray": "a stray partition's directory, which a broker does not serve",
    "future": "a replica that is being moved here from another directory",
}
_FILES = {
    "deleted": "a segment that waits for its deletion",
    "swap": "a segment of a compaction or a split that was being put in place",
    "cleaned": "a segment of a compaction or a split that did not end",
    "partial": "a segment that was not written to its end",
}


@dataclass(frozen=True, slots=True)
class Copy:
    """A place that an erasure does not change. ``path``: a directory or file; ``what``: why it may hold copies;
    ``selected``: records in it that would have been erased, None where they were not counted."""

    path: str
    what: str
    selected: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "what": self.what, "selected": self.selected}


def find_copies(
    sources: Sequence[tuple[LogDirectory, Sequence[PartitionPath]]],
    erasure: Erasure,
    done: Done = ignore,
    storage_options: StorageOptions | None = None,
    named: Collection[str] = (),
) -> list[Copy]:
    """The places within some log directories, beside the partitions that are chosen of each, that hold selected records
    or may hold some. ``named``: which of Kafka's own topics are erased, as :func:`brokerless.jobs.erase.job.plan`
    takes it. Damaged batches are passed over."""
    found: list[Copy] = []
    for directory, partitions in sources:
        erased = {*named, *(each.topic for each in partitions if each.path == directory.path)}
        chosen = [each for each in partitions if not names.is_internal(each.topic) or each.topic in erased]
        for each in _places(directory, chosen):
            selected = count_selected(each[0], erasure, done, storage_options)
            if selected:
                found.append(Copy(each[0].path if len(each[0].segments) != 1 else each[1], each[2], selected))
        topics = {each.topic: each for each in chosen if each.topic is not None}
        for topic, partition in sorted(topics.items()):
            read = partition.read_setting
            if read is not None and read(partition.path, topic, REMOTE_STORAGE, storage_options) == "true":
                found.append(Copy(topic, "tiered storage: segments that were moved there are not changed"))
        for each in directory.partitions:
            if each.topic == REMOTE_LOG_METADATA and each.size:
                what = "metadata of segments in tiered storage, which are not changed"
                found.append(Copy(each.path, what))
    return found


def _places(directory: LogDirectory, chosen: Sequence[PartitionPath]) -> Iterator[tuple[PartitionPath, str, str]]:
    """Logs that are not erased, with their paths, and what they are."""
    paths = {each.path for each in chosen}
    for each in directory.others:
        if not each.is_unfinished:
            yield each, each.path, _DIRECTORIES.get(each.state, f"a partition's directory that is {each.state}")
    for each in directory.partitions:
        if each.path not in paths and each.topic != names.CLUSTER_METADATA:
            yield each, each.path, _other_topic(each.topic or "", {one.topic for one in chosen})
    for each in (*directory.partitions, *directory.others):
        for entry in each.orphaned_files:
            file = names.parse_segment_file(entry.name)
            if file is not None and file.kind == "log":
                segments = (SegmentPaths(file.offset, entry),)
                yield (
                    replace(each, segments=segments, log_start_offset=0),
                    entry.path,
                    _FILES.get(file.state, file.state),
                )


def _other_topic(topic: str, chosen: Collection[str | None]) -> str:
    if topic in chosen:
        return "a partition that was not selected"
    if names.is_internal(topic):
        return "one of Kafka's own topics, which is copied unchanged"
    if topic.endswith(_CHANGELOG):
        return "another topic, a changelog of Kafka Streams"
    return "another topic"


def count_selected(
    partition: PartitionPath,
    erasure: Erasure,
    done: Done = ignore,
    storage_options: StorageOptions | None = None,
) -> int:
    """How many records of a partition are selected, as far as it can be read."""
    selection = erasure.selection
    matcher = Matcher(selection, partition.topic or "", partition.partition or 0)
    decoder = Decoder(
        selection.needs_keys, selection.needs_values, selection.needs_headers, erasure.max_batch_bytes
    )  # fmt: skip
    count = 0
    for segment in partition.segments:
        with suppress(UnreadableError), open_file(segment.log.path, storage_options) as file:
            for chunk in scan(file, ignore_finding):
                valid = chunk.batches.take(checksums_match(chunk.buffer, chunk.batches))
                for decoded in (*decoder.decode(chunk.buffer, valid, chunk.base), decoder.flush()):
                    if decoded is not None:
                        count += int(matcher.match(decoded).sum())
                done(int(chunk.batches.sizes.sum()))
    return count
