"""Writes what is new of a partition as segments, after those that stay."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from brokerless.errors import RefusedError, UnreadableError
from brokerless.jobs.backup.erased import ErasedFilter
from brokerless.jobs.recovered.open_files import OpenFiles
from brokerless.jobs.recovered.writing import groups_of, intact_bytes, write_batches
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.config import LogConfig
from brokerless.log.directory import SegmentPaths
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.snapshot import parse_producer_snapshot
from brokerless.log.producer.state import ProducerState, load_state
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.manifest import LIMIT, parse_manifest
from brokerless.log.tiered.object_names import ObjectKind, object_name
from brokerless.log.tiered.segment_log import read_index
from brokerless.log.tiered.segments import RemoteSegment
from brokerless.log.tiered.writing.objects import ObjectFormat, StoredSegment, UploadPlace
from brokerless.log.upload.remote_log import RemoteLogOutput, UploadedLog
from brokerless.log.write.follower_append import whole_batches
from brokerless.progress import Report
from brokerless.values import WrongJsonError

_MOST_PRODUCERS, _PRODUCERS_SIZE = 8, 64 << 10
"""Segments of a partition after which producers are recorded, the last ones, and the bytes of this."""
KINDS: tuple[ObjectKind, ...] = ("log", "indexes", "rsm-manifest")
IntactBatches = NDArray[np.void]
"""Of :data:`INTACT_BATCH`, by offset."""


@dataclass(frozen=True, slots=True)
class Storing:
    """How the new batches of a partition are written."""

    place: UploadPlace
    opened: OpenFiles
    config: LogConfig
    max_batch_bytes: int
    indexed: Sequence[SegmentPaths]
    """Segments with the transaction indexes of the log."""
    how: ObjectFormat
    """How objects are written."""
    report: Report
    done: Callable[[int], object]
    dry_run: bool
    """Whether nothing is written; ``report`` and ``done`` are not called then either."""
    erased: ErasedFilter | None = None
    """Removes what was erased of the partition, which is not stored again."""
    base_offsets: Sequence[int] = ()
    """Where segments begin, in addition to those that ``config`` makes necessary."""


@dataclass(frozen=True, slots=True)
class _FilteredOutput:
    """Takes batches without what was erased."""

    output: RemoteLogOutput
    erased: ErasedFilter

    def append(self, buffer: NDArray[np.uint8], /) -> None:
        self.output.append(self.erased.apply(buffer))


@dataclass
class StoredLog:
    """The segments of a partition in order: those that stay, and those that are written."""

    how: Storing
    segments: list[SnapshotSegment] = field(default_factory=list[SnapshotSegment])
    new_size: int = 0
    """Bytes of logs that were written, or would be."""
    _known: SnapshotSegment | ProducerState | None = None
    _since: list[IntactBatches] = field(default_factory=list[IntactBatches])

    def keep(self, segments: Sequence[SnapshotSegment], batches: IntactBatches | None = None) -> None:
        """Takes segments that stay. ``batches``: theirs, of the open files, by which producers are followed where
        nothing else says which there are after them."""
        self.segments += segments
        is_read = bool(segments) and (segments[-1].producers is not None or self.how.how.data_key is None)
        if is_read or batches is None:
            self._known, self._since = segments[-1] if segments else None, []
        else:
            self._since.append(batches)

    def producers(self) -> ProducerState | None:
        """Return what is known of producers at the end; None without a segment."""
        return self._producers_at(self.segments[-1].end_offset + 1) if self.segments else None

    def _producers_at(self, base_offset: int) -> ProducerState:
        state = self._known
        if not isinstance(state, ProducerState):
            state = producers_at(self.how, state, base_offset if not self._since else None)
        for batches in self._since:
            _follow(state, batches, self.how)
        state.end_offset = base_offset
        self._known, self._since = state, []
        return state

    def write(self, batches: IntactBatches, base_offset: int, epochs: Epochs) -> NDArray[np.bool_]:
        """Writes batches of the open files, from a segment on that begins at ``base_offset``, and says which of them
        the log took. ``epochs``: of the whole log. Raises :class:`UnwritableError`."""
        self.new_size += int(batches["size"].sum())
        how = self.how
        if not len(batches):
            return np.ones(0, np.bool_)
        if how.dry_run:
            self.segments.append(_planned(batches, base_offset, how.place))
            return np.ones(len(batches), np.bool_)
        log = UploadedLog(
            base_offset, self._producers_at(base_offset), epochs, how.config, base_offsets=how.base_offsets
        )
        before = set[int]() if how.erased is None else set(how.erased.found)
        with RemoteLogOutput(how.place, log, how.how) as output:
            taken = write_batches(
                output if how.erased is None else _FilteredOutput(output, how.erased),
                batches, how.opened, report=how.report, done=how.done, max_batch_bytes=how.max_batch_bytes,
            )  # fmt: skip
            stored = output.finish()
        self._known = output.producers
        removed = () if how.erased is None else how.erased.found - before
        self.segments += (_described(each, batches[taken], how.place, removed) for each in stored)
        return taken


def _described(
    segment: StoredSegment, batches: IntactBatches, place: UploadPlace, removed: Collection[int] = ()
) -> SnapshotSegment:
    """Return a segment that was written as a snapshot has it. Records with the offsets ``removed`` were left out of
    ``batches``, which are those of the disk."""
    within = (batches["first"] >= segment.start_offset) & (batches["last"] <= segment.end_offset)
    left_out = sum(segment.start_offset <= each <= segment.end_offset for each in removed)
    return describe_stored(segment, place, int(batches["records"][within].sum()) - left_out)


def describe_stored(segment: StoredSegment, place: UploadPlace, records: int) -> SnapshotSegment:
    """Return a segment that was written as a snapshot has it."""
    (log_size, log), (indexes_size, indexes), (manifest_size, manifest) = (segment.objects[each] for each in KINDS)
    return SnapshotSegment(
        place.topic, place.topic_id, place.partition, start_offset=segment.start_offset,
        end_offset=segment.end_offset, segment_id=segment.segment_id,
        records=records, max_timestamp=segment.max_timestamp,
        size_in_bytes=segment.size, sha256=segment.sha256, log_size_in_bytes=log_size, log_xxh3=log,
        indexes_size_in_bytes=indexes_size, indexes_xxh3=indexes, manifest_size_in_bytes=manifest_size,
        manifest_xxh3=manifest,
        producers=base64.b64encode(segment.producers).decode(),
    )  # fmt: skip


def _planned(batches: IntactBatches, base_offset: int, place: UploadPlace) -> SnapshotSegment:
    """Return what would be written, as one segment."""
    size = int(batches["size"].sum())
    objects: dict[ObjectKind, tuple[int, str]] = dict.fromkeys(KINDS, (0, "0" * 32))
    last = int(batches["last"][-1])
    return _described(
        StoredSegment("A" * 22, base_offset, last, max_timestamp=0, size=size, sha256="0" * 64, objects=objects),
        batches,
        place,
    )


def with_last_producers(segments: list[SnapshotSegment]) -> list[SnapshotSegment]:
    """Return the segments of a partition, the last few with what is known of producers after them: the next run may
    write again what follows these."""
    size, found = 0, list[SnapshotSegment]()
    for number, each in enumerate(reversed(segments)):
        size += len(each.producers or "")
        is_kept = not number or (number < _MOST_PRODUCERS and size <= _PRODUCERS_SIZE)
        found.append(each if is_kept or each.producers is None else structs.replace(each, producers=None))
    return found[::-1]


def _follow(state: ProducerState, batches: IntactBatches, how: Storing) -> None:
    for start, end in groups_of(batches):
        for buffer in intact_bytes(batches[start:end], how.opened, how.max_batch_bytes):
            state.update(whole_batches(buffer), buffer)


def producers_at(how: Storing, before: SnapshotSegment | None, base_offset: int | None) -> ProducerState:
    """Return what is known of producers at an offset, by the segment before. Where that cannot be read, which is
    reported, producers are known from there on, as of a log that begins there. ``base_offset``: None for the end of
    that segment."""
    state = None
    if base_offset is None:
        base_offset = 0 if before is None else before.end_offset + 1
    if before is not None and before.end_offset == base_offset - 1:
        try:
            if before.producers is None:
                data = read_index(as_remote(before, how.place), "producerSnapshot", KeyPairs({}))
            else:
                data = base64.b64decode(before.producers)
            snapshot = parse_producer_snapshot(np.frombuffer(data, np.uint8), before.segment_id)
            state = load_state(snapshot, base_offset)
            for finding in snapshot.findings:
                how.report(finding)
        except (UnreadableError, ValueError) as error:
            wrong = error if isinstance(error, UnreadableError) else UnreadableError("", "its producers are no Base64")
            how.report(wrong.finding(how.place.directory.path, before.start_offset))
    state = state or ProducerState(base_offset)
    state.recorded = RecordedAborts(how.indexed)
    return state


def as_remote(segment: SnapshotSegment, place: UploadPlace) -> RemoteSegment:
    """Return a stored segment by its objects. Raises :class:`UnreadableError`."""

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
    batches: IntactBatches, known: Sequence[SnapshotSegment], how: Storing, filling: Container[SnapshotSegment]
) -> Iterator[tuple[SnapshotSegment | None, IntactBatches]]:
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


def _is_same(batches: IntactBatches, segment: SnapshotSegment, how: Storing, *, is_filling: bool) -> bool:
    if is_filling and not (batches["last"] > segment.end_offset).any():
        return True
    if not len(batches) or int(batches["last"][-1]) != segment.end_offset or batches["partial"].any():
        return False
    erased = how.erased if how.erased is not None and how.erased.meets(batches) else None
    if erased is None and int(batches["size"].sum()) != segment.size_in_bytes:
        return False
    sha256 = hashlib.sha256()
    for start, end in groups_of(batches):
        for buffer in intact_bytes(batches[start:end], how.opened, how.max_batch_bytes):
            try:
                sha256.update((buffer if erased is None else erased.apply(buffer)).data)
            except RefusedError:
                return False
    return sha256.hexdigest() == segment.sha256
