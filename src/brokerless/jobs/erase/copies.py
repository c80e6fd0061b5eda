"""Where copies of erased records may still be: what a broker does not serve, other topics, and tiered storage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.findings import Kind
from brokerless.format.read.batch_headers import checksums_match
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.jobs.erase.job import Erasure
from brokerless.jobs.erase.selection import Matcher
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths
from brokerless.log.live_segments import directory_as_it_lies
from brokerless.log.segment import check_checksums, scan
from brokerless.log.settings.topic import REMOTE_STORAGE, is_true
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import is_remote, local
from brokerless.progress import Done, Report, ignore

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
    """A place that an erasure does not change, though it may hold copies of erased records."""

    path: str
    """A directory or file."""
    what: str
    """Why it may hold copies."""
    selected: int | None = None
    """How many of its records would have been erased; None where they were not counted."""

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "what": self.what, "selected": self.selected}


def find_copies(
    sources: Sequence[tuple[LogDirectory, Sequence[PartitionPath]]],
    erasure: Erasure,
    done: Done = ignore,
    named: Collection[str] = (),
) -> list[Copy]:
    """Return the places within some log directories, beside the partitions that are chosen of each, that hold selected
    records or may hold some. ``named``: which of Kafka's own topics are erased, as
    :func:`brokerless.jobs.erase.job.plan` takes it. Damaged batches are passed over."""
    found: list[Copy] = []
    for directory, partitions in sources:
        erased = {*named, *(each.topic for each in partitions if each.path == directory.path)}
        chosen = [each for each in partitions if not names.is_internal(each.topic) or each.topic in erased]
        for place in other_places(directory, chosen):
            selected = count_selected(place.partition, erasure, done)
            if selected:
                found.append(Copy(place.path, place.what, selected))
        topics = {each.topic: each for each in chosen if each.topic is not None}
        for topic, partition in sorted(topics.items()):
            read = partition.read_setting
            if read is not None and is_true(read(partition.location, topic, REMOTE_STORAGE)):
                found.append(Copy(topic, "tiered storage: segments that were moved there are not changed"))
        for each in directory.partitions:
            if each.topic == names.REMOTE_LOG_METADATA and each.size:
                what = "metadata of segments in tiered storage, which are not changed"
                found.append(Copy(each.path, what))
    return found


@dataclass(frozen=True, slots=True)
class OtherPlace:
    """A log that is not erased."""

    partition: PartitionPath
    """Its segments, as a partition."""
    path: str
    """The path as users know it."""
    what: str
    """A description of what it is."""
    is_live: bool = False
    """Whether a broker serves it."""


def other_places(directory: LogDirectory, chosen: Sequence[PartitionPath]) -> Iterator[OtherPlace]:
    """Yield what a log directory has next to the partitions ``chosen``: other partitions of any state, files that
    brokers pass over, and files and directories that are not Kafka's, as far as they hold batches."""
    directory = directory_as_it_lies(directory)
    paths = {each.path for each in chosen}
    for each in directory.others:
        if not each.is_unfinished:
            what = _DIRECTORIES.get(each.state, f"a partition's directory that is {each.state}")
            yield OtherPlace(each, each.path, what)
    for each in directory.partitions:
        if each.path not in paths and each.topic != names.CLUSTER_METADATA:
            what = _other_topic(each.topic or "", {one.topic for one in chosen})
            yield OtherPlace(each, each.path, what, is_live=True)
    for each in (*directory.partitions, *directory.others):
        for entry in each.orphaned_files:
            file = names.parse_segment_file(entry.name)
            if file is not None and file.kind == "log":
                lone = replace(each, segments=(SegmentPaths(file.offset, entry),), log_start_offset=0)
                yield OtherPlace(lone, entry.path, _FILES.get(file.state, file.state))
        yield from _foreign_places(each, each.foreign)
    if directory.kind == "log-directory":
        yield from _foreign_places(PartitionPath(None, None, directory.location), directory.foreign)


def _foreign_places(owner: PartitionPath, entries: Sequence[DirectoryEntry]) -> Iterator[OtherPlace]:
    """Yield each file that begins with an intact batch, however it is named and however deep. Links are not followed,
    and what cannot be listed or opened is passed over."""
    for entry in entries:
        if entry.is_directory and not _is_link(entry.path):
            with suppress(UnreadableError):
                inner = entry.location.entries()
                yield from _foreign_places(owner, inner)
        elif not entry.is_directory and _begins_with_batch(entry):
            lone = replace(owner, segments=(SegmentPaths(0, entry),), log_start_offset=0)
            yield OtherPlace(lone, entry.path, "a file that is not Kafka's, which holds batches")


def _is_link(path: str) -> bool:
    return not is_remote(path) and Path(local(path)).is_symlink()


def _begins_with_batch(entry: DirectoryEntry) -> bool:
    with suppress(UnreadableError), entry.location.open() as file:
        for chunk in scan(file, ignore):
            return bool(checksums_match(chunk.buffer, chunk.batches)[:1].any())
    return False


def _other_topic(topic: str, chosen: Collection[str | None]) -> str:
    if topic in chosen:
        return "a partition that was not selected"
    if names.is_internal(topic):
        return "one of Kafka's own topics, which is copied unchanged"
    if topic.endswith(_CHANGELOG):
        return "another topic, a changelog of Kafka Streams"
    return "another topic"


def count_selected(partition: PartitionPath, erasure: Erasure, done: Done = ignore, report: Report = ignore) -> int:
    """Count the records of a partition that are selected, as far as it can be read. ``report``: called with what
    cannot."""
    selection = erasure.selection
    matcher = Matcher(selection, *partition.place)
    decoder = Decoder(
        selection.needs_keys, selection.needs_values, selection.needs_headers, erasure.max_batch_bytes
    )  # fmt: skip
    count = 0
    for finding in partition.findings:
        report(finding)
    for segment in partition.segments:
        path = segment.log.path
        try:
            with segment.log.location.open() as file:
                for chunk in scan(file, report):
                    batches = chunk.batches.take(check_checksums(chunk, path, report))
                    for decoded in decode_whole(decoder, chunk.buffer, batches, chunk.base):
                        count += int(matcher.match(decoded).sum())
                        del decoded
                    done(int(chunk.batches.sizes.sum()))
        except UnreadableError as error:
            report(Kind.UNREADABLE.at(path, str(error)))
    return count
