"""Writes intact batches of some files as a new partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import RefusedError, refused_batch
from brokerless.format import layouts
from brokerless.jobs.recovered.open_files import OpenFiles
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.directory import SegmentPaths
from brokerless.log.offsets_once.parts import part_of_batch
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.state import ProducerState
from brokerless.log.segment_end import shrunk
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import DirectoryEntry
from brokerless.progress import Done, Report

_GROUP_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class PartitionContents:
    """The contents that a new partition is to have. Its log has ``start <= offset < end``."""

    batches: NDArray[np.void]
    """Its batches (:data:`INTACT_BATCH`) by offset, whose ``file`` counts in ``files``."""
    files: OpenFiles
    begin: int
    """The offset at which its first segment begins."""
    start: int
    end: int
    base_offsets: Sequence[int] = ()
    """Where segments begin in addition to those that a config makes necessary."""
    cleaned_until: int | None = None
    """Up to which offset it was compacted; None if it was not."""
    indexed: Sequence[SegmentPaths] = ()
    """Segments with the transaction indexes of the log."""
    markers: Sequence[bytes] = ()
    """Batches of no file, which are written at the log's end."""

    def producers(self) -> ProducerState:
        """Return what is known of producers where the log begins."""
        return ProducerState(self.begin, recorded=RecordedAborts(self.indexed))


def write_unfinished(
    place: NewPartition,
    contents: PartitionContents,
    epochs: Epochs,
    report: Report,
    done: Done,
    max_batch_bytes: int,
    beside: Iterable[DirectoryEntry] = (),
) -> tuple[NDArray[np.bool_], StagedPartition]:
    """Writes a partition, and says which of the batches the log took; to give it its name is left to whoever has the
    result. ``epochs``: the first offset of each leader epoch; those of the batches if there are none. ``beside``: files
    that are put beside the segments. Raises what :class:`PartitionWriter` does."""
    Destination.of(place.directory).make()
    with PartitionWriter(
        place, start_offset=contents.begin, base_offsets=contents.base_offsets, producers=contents.producers()
    ) as output:
        taken = write_batches(
            output, contents.batches, contents.files, report=report, done=done, max_batch_bytes=max_batch_bytes
        )
        for each in contents.markers:
            output.append(np.frombuffer(each, np.uint8))
        output.set_limits(contents.start, contents.end, epochs, cleaned_until=contents.cleaned_until)
        for file in beside:
            output.copy_file(file)
        return taken, output.finish()


def cut(batches: NDArray[np.void], end: int) -> NDArray[np.void]:
    """Batches without what is from an offset on. One that goes on past it is written again, without these records; a
    compressed one of v0 or v1 stays whole."""
    kept = batches[batches["first"] < end].copy()
    across = (kept["last"] >= end) & (kept["magic"] >= layouts.MAGIC_V2)
    kept["partial"][across], kept["complete"][across] = True, False
    kept["last"][across] = end - 1
    return kept


class BatchOutput(Protocol):
    def append(self, buffer: NDArray[np.uint8], /) -> object:
        """Takes batches, in the order of their offsets; raises :class:`RefusedError` as a log does."""
        ...


def write_batches(
    output: BatchOutput,
    saved: NDArray[np.void],
    files: OpenFiles,
    report: Report,
    done: Done,
    max_batch_bytes: int,
) -> NDArray[np.bool_]:
    """Appends batches, by offset, and says which of them the log took (bool); why not is reported. ``max_batch_bytes``:
    bytes that a batch may inflate to, as it was found."""
    taken = np.ones(len(saved), np.bool_)
    for start, end in groups_of(saved):
        group = saved[start:end]
        try:
            buffers = list(intact_bytes(group, files, max_batch_bytes))
            output.append(buffers[0] if len(buffers) == 1 else np.concatenate(buffers))
        except (RefusedError, _ShrunkError):
            for row in range(start, end):
                try:
                    output.append(np.concatenate(list(intact_bytes(saved[row : row + 1], files, max_batch_bytes))))
                except RefusedError as error:
                    taken[row] = False
                    report(refused_batch(files.path(int(saved["file"][row])), error, place=_place(saved[row])))
                except _ShrunkError:
                    taken[row] = False
                    report(shrunk(files.path(int(saved["file"][row])), *_place(saved[row])))
        buffers = []
        done(int(group["size"].sum()))
    return taken


def _place(batch: np.void) -> tuple[int, int]:
    """Return a batch's position and first offset."""
    return int(batch["position"]), int(batch["first"])


class _ShrunkError(Exception):
    """A file has not the bytes any more that were found in it."""


def groups_of(saved: NDArray[np.void]) -> Iterator[tuple[int, int]]:
    """Yield the rows of batches that are read together, some megabytes of them: from each first row to before the
    second."""
    start = 0
    ends = np.cumsum(saved["size"])
    while start < len(saved):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + _GROUP_BYTES, side="right")))
        yield start, end
        start = end


def intact_bytes(group: NDArray[np.void], files: OpenFiles, max_batch_bytes: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the bytes of batches, adjacent ones at once."""
    apart = (group["file"][1:] != group["file"][:-1]) | (
        group["position"][1:] != group["position"][:-1] + group["size"][:-1]
    )
    apart |= group["partial"][1:] | group["partial"][:-1]
    starts = [0, *(np.flatnonzero(apart) + 1).tolist()]
    for start, end in zip(starts, [*starts[1:], len(group)], strict=True):
        position = int(group["position"][start])
        size = int(group["position"][end - 1] + group["size"][end - 1]) - position
        file = files.get(int(group["file"][start]))
        buffer = file.read(position, size)
        if len(buffer) < size:
            raise _ShrunkError
        changed = np.flatnonzero((group["magic"][start:end] > layouts.MAGIC_V2) | group["restamped"][start:end])
        if len(changed):
            # Kafka's reader takes every larger magic for 2, and so was the checksum right; a log has to say 2.
            buffer = buffer.copy()
            for row in (start + changed).tolist():
                at = int(group["position"][row]) - position
                header = buffer[at : at + layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)
                header["magic"], header["partition_leader_epoch"] = layouts.MAGIC_V2, group["epoch"][row]
        if group["partial"][start]:
            first, last = int(group["first"][start]), int(group["last"][start])
            buffer = part_of_batch(buffer, first, last, max_batch_bytes)
        yield buffer
