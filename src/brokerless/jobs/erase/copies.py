"""Where copies of erased records may still be: what a broker does not serve, other topics, and tiered storage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
) -> list[Copy]:
    """The places within some log directories, beside the partitions that are chosen of each, that hold selected records
    or may hold some. Damaged batches are passed over."""
    found: list[Copy] = []
    for directory, chosen in sources:
        for each in _places(directory, chosen):
            selected = count_selected(each[0], erasure, done, storage_options)
            if selected:
                found.append(Copy(each[0].path if len(each[0].segments) != 1 else each[1], each[2], selected))
        topics = {each.topic: each for each in chosen if each.topic is not None}
        for topic, partition in sorted(topics.items()):
            read = partition.read_setting
            if read is not None and read(partition.path, topic, REMOTE_STORAGE, storage_options) == "true":
                found.append(Copy(topic, "tiered storage: segments that were moved there are not changed"))
    return found


def _places(directory: LogDirectory, chosen: Sequence[PartitionPath]) -> Iterator[tuple[PartitionPath, str, str]]:
    """Logs that are not erased, with their paths, and what they are."""
    paths = {each.path for each in chosen}
    for each in directory.others:
        if not each.is_unfinished:
            yield each, each.path, f"a partition's directory that is {each.state}"
    for each in directory.partitions:
        if each.path not in paths and not names.is_internal(each.topic):
            yield each, each.path, "a partition that was not selected"
    for each in (*directory.partitions, *directory.others):
        for entry in each.orphaned_files:
            file = names.parse_segment_file(entry.name)
            if file is not None and file.kind == "log":
                segments = (SegmentPaths(file.offset, entry),)
                yield replace(each, segments=segments, log_start_offset=0), entry.path, f"a file that is {file.state}"


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
