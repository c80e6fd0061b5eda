"""Writes what is new of a partition as segments, after those that stay."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.jobs.recovered.open_files import OpenFiles
from brokerless.jobs.recovered.writing import groups_of, intact_bytes, write_batches
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.checkpoint.producer_snapshot import parse_producer_snapshot
from brokerless.log.config import LogConfig
from brokerless.log.directory import SegmentPaths
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.state import ProducerState, load_state
from brokerless.log.snapshots.snapshot import SnapshotSegment
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.manifest import LIMIT, parse_manifest
from brokerless.log.tiered.object_names import ObjectKind
from brokerless.log.tiered.segment_log import read_index
from brokerless.log.tiered.segments import RemoteSegment
from brokerless.log.tiered.writing.objects import ObjectFormat, StoredSegment, UploadPlace, object_name
from brokerless.log.upload.remote_log import RemoteLogOutput, UploadedLog
from brokerless.progress import Report
from brokerless.values import WrongJsonError

KINDS: tuple[ObjectKind, ...] = ("log", "indexes", "rsm-manifest")
Batches = NDArray[np.void]
"""Of :data:`INTACT_BATCH`, by offset."""


@dataclass(frozen=True, slots=True)
class Storing:
    """How what is new is written. ``indexed``: segments with the transaction indexes of the log. ``dry_run``: nothing
    is written; then ``report`` and ``done`` are not called either."""

    place: UploadPlace
    opened: OpenFiles
    config: LogConfig
    max_batch_bytes: int
    indexed: Sequence[SegmentPaths]
    report: Report
    done: Callable[[int], object]
    dry_run: bool


@dataclass
class StoredLog:
    """The segments of a partition, in order, as they are kept and written. ``new_size``: bytes of logs that were
    written, or would be. ``producers``: at the end of what was written last; None where nothing was."""

    how: Storing
    segments: list[SnapshotSegment] = field(default_factory=list[SnapshotSegment])
    new_size: int = 0
    producers: ProducerState | None = None

    def keep(self, segments: Sequence[SnapshotSegment]) -> None:
        self.segments += segments
        self.producers = None

    def write(self, batches: Batches, base_offset: int, epochs: Epochs) -> NDArray[np.bool_]:
        """Writes batches of the open files, from a segment on that begins at ``base_offset``, and says which of them
        the log took. ``epochs``: of the whole log. Raises :class:`UnwritableError`."""
        self.new_size += int(batches["size"].sum())
        how = self.how
        if not len(batches):
            return np.ones(0, np.bool_)
        if how.dry_run:
            self.segments.append(_planned(batches, base_offset, how.place))
            return np.ones(len(batches), np.bool_)
        state = producers_at(how, self.segments[-1] if self.segments else None, base_offset)
        log = UploadedLog(base_offset, state, epochs, how.config)
        with RemoteLogOutput(how.place, log, ObjectFormat()) as output:
            taken = write_batches(
                output, batches, how.opened, report=how.report, done=how.done, max_batch_bytes=how.max_batch_bytes
            )
            stored = output.finish()
        self.producers = output.producers
        self.segments += (_described(each, batches[taken], how.place) for each in stored)
        return taken


def _described(segment: StoredSegment, batches: Batches, place: UploadPlace) -> SnapshotSegment:
    within = (batches["first"] >= segment.start_offset) & (batches["last"] <= segment.end_offset)
    (log_size, log), (indexes_size, indexes), (manifest_size, manifest) = (segment.objects[each] for each in KINDS)
    return SnapshotSegment(
        place.topic, place.topic_id, place.partition, start_offset=segment.start_offset,
        end_offset=segment.end_offset, segment_id=segment.segment_id,
        records=int(batches["records"][within].sum()), max_timestamp=segment.max_timestamp,
        size_in_bytes=segment.size, sha256=segment.sha256, log_size_in_bytes=log_size, log_xxh3=log,
        indexes_size_in_bytes=indexes_size, indexes_xxh3=indexes, manifest_size_in_bytes=manifest_size,
        manifest_xxh3=manifest,
    )  # fmt: skip


def _planned(batches: Batches, base_offset: int, place: UploadPlace) -> SnapshotSegment:
    """Return what would be written, as one segment."""
    size = int(batches["size"].sum())
    objects: dict[ObjectKind, tuple[int, str]] = dict.fromkeys(KINDS, (0, "0" * 32))
    last = int(batches["last"][-1])
    return _described(
        StoredSegment("A" * 22, base_offset, last, max_timestamp=0, size=size, sha256="0" * 64, objects=objects),
        batches,
        place,
    )


def producers_at(how: Storing, before: SnapshotSegment | None, base_offset: int) -> ProducerState:
    """Return what is known of producers at an offset, by the segment before. Where that cannot be read, which is
    reported, producers are known from there on, as of a log that begins there."""
    state = None
    if before is not None and before.end_offset == base_offset - 1:
        try:
            data = read_index(as_remote(before, how.place), "producerSnapshot", KeyPairs({}))
            snapshot = parse_producer_snapshot(np.frombuffer(data, np.uint8), before.segment_id)
            state = load_state(snapshot, base_offset)
            for finding in snapshot.findings:
                how.report(finding)
        except UnreadableError as error:
            how.report(error.finding(how.place.directory.path, before.start_offset))
    state = state or ProducerState(base_offset)
    state.recorded = RecordedAborts(how.indexed)
    return state


def as_remote(segment: SnapshotSegment, place: UploadPlace) -> RemoteSegment:
    """A stored segment by its objects. Raises :class:`UnreadableError`."""

    def entry(kind: ObjectKind, size: int) -> DirectoryEntry:
        name = object_name(segment.start_offset, segment.segment_id, kind)
        return DirectoryEntry(name, place.directory / name, is_directory=False, size=size)

    objects: dict[ObjectKind, DirectoryEntry] = {
        "log": entry("log", segment.log_size_in_bytes),
        "indexes": entry("indexes", segment.indexes_size_in_bytes),
        "rsm-manifest": entry("rsm-manifest", segment.manifest_size_in_bytes),
    }
    location = objects["rsm-manifest"].location
    try:
        manifest = parse_manifest(location.read(LIMIT))
    except WrongJsonError as error:
        raise UnreadableError(location.path, f"this is no manifest: {error}") from error
    return RemoteSegment(segment.start_offset, segment.segment_id, objects, manifest)


def unchanged_ranges(
    batches: Batches, known: Sequence[SnapshotSegment], how: Storing, filling: Container[SnapshotSegment]
) -> Iterator[tuple[SnapshotSegment | None, Batches]]:
    """Yield all batches in order: those of a known segment with the same bytes, with it, and what is between these.
    ``filling``: known segments of the same log that have what it lacks."""
    at = 0
    for each in known:
        first = int(np.searchsorted(batches["first"], each.start_offset))
        end = int(np.searchsorted(batches["first"], each.end_offset, side="right"))
        if first >= at and _is_same(batches[first:end], each, how, is_filling=each in filling):
            if first > at:
                yield None, batches[at:first]
            yield each, batches[first:end]
            at = end
    if at < len(batches):
        yield None, batches[at:]


def _is_same(batches: Batches, segment: SnapshotSegment, how: Storing, *, is_filling: bool) -> bool:
    if is_filling and not (batches["last"] > segment.end_offset).any():
        return True
    if not len(batches) or int(batches["last"][-1]) != segment.end_offset or batches["partial"].any():
        return False
    if int(batches["size"].sum()) != segment.size_in_bytes:
        return False
    sha256 = hashlib.sha256()
    for start, end in groups_of(batches):
        for buffer in intact_bytes(batches[start:end], how.opened, how.max_batch_bytes):
            sha256.update(buffer.data)
    return sha256.hexdigest() == segment.sha256
