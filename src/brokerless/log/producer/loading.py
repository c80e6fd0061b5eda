"""Loads the producer state of a log from its last snapshot and the batches after it.

Reads only; the snapshots that a broker would write or drop are part of the result.

Sources: ``UnifiedLog`` (``rebuildProducerState``, ``loadProducersFromRecords``), ``ProducerStateManager``
(``truncateAndReload``, ``loadFromSnapshot``), 4.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from brokerless.errors import refused_log
from brokerless.findings import Finding, Kind
from brokerless.log.directory import PartitionPath
from brokerless.log.index.readers import load_offset_index
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.producer.state import ProducerState, load_state
from brokerless.log.ranges import from_log_start
from brokerless.log.segment import scan
from brokerless.log.storage.segment_files import SegmentFiles


@dataclass(slots=True)
class LoadedProducers:
    """The producers of a log at the requested offset."""

    state: ProducerState
    snapshot_offset: int
    """The offset of the last snapshot that exists then."""
    write: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """Snapshots to write, by their offsets."""
    corrupt: list[int] = field(default_factory=list[int])
    """The offsets of snapshots to drop."""

    def take_snapshot(self) -> None:
        """Write a snapshot as ``ProducerStateManager.takeSnapshot`` does: none if there is one at this offset or after
        it."""
        if self.state.end_offset > self.snapshot_offset:
            self.write[self.state.end_offset] = self.state.snapshot()
            self.snapshot_offset = self.state.end_offset


def load_producers(
    files: SegmentFiles, base_offsets: Sequence[int], log_start_offset: int, end_offset: int, now_ms: int
) -> LoadedProducers:
    """Return what is known of producers when the log ends at ``end_offset``. Producers that were idle for a day at
    ``now_ms`` are forgotten, as far as they come from a snapshot. ``base_offsets`` of the log's segments, sorted.

    Raises :class:`UnreadableError` for what cannot be read, or what Kafka would refuse to load."""
    offsets = files.offsets("producer-snapshot")
    found = _from_snapshot(files, offsets, log_start_offset, log_end=end_offset, now_ms=now_ms)
    advance(found, files, base_offsets, log_start_offset=log_start_offset, end_offset=end_offset)
    return found


def load_first_state(source: PartitionPath) -> ProducerState:
    """Return what is known of producers where a log begins: by the snapshot there, if it is intact. What comes next is
    followed by the log's transaction indexes as well. Batches before it may be gone.
    ``end_offset`` is the base offset of the first segment that has the log start offset."""
    segments = from_log_start(source).segments(source.segments)
    first = segments[0] if segments else None
    if first is None or first.producer_snapshot is None:
        state = ProducerState(0 if first is None else first.base_offset)
    else:
        snapshot = load_producer_snapshot(first.producer_snapshot.location)
        state = ProducerState(first.base_offset) if snapshot.findings else load_state(snapshot, first.base_offset)
    state.recorded = RecordedAborts(segments)
    return state


def no_producers(base_offsets: Sequence[int], end_offset: int) -> LoadedProducers:
    """Return what is made of a log without any snapshot after a clean stop: it never had producers, and is not read."""
    found = LoadedProducers(ProducerState(0), 0)
    for offset in (*base_offsets[-2:], end_offset):
        found.state.end_offset = offset
        found.take_snapshot()
    return found


def advance(
    found: LoadedProducers, files: SegmentFiles, base_offsets: Sequence[int], log_start_offset: int, end_offset: int
) -> None:
    """Follows a log's batches from where ``found`` is to ``end_offset``. Raises :class:`UnreadableError`."""
    starts = [base for base in base_offsets if base < end_offset]
    # The segment that holds the state's end offset, and all later ones.
    first = max(int(np.searchsorted(starts, found.state.end_offset, side="right")) - 1, 0)
    for base_offset in starts[first:] if found.state.end_offset < end_offset else []:
        found.state.end_offset = max(base_offset, found.state.end_offset, log_start_offset)
        if base_offset in base_offsets[-2:]:
            found.take_snapshot()
        _follow(files, base_offset, found.state, end_offset)
    found.state.end_offset = end_offset
    found.take_snapshot()


def _from_snapshot(
    files: SegmentFiles, offsets: list[int], log_start: int, log_end: int, now_ms: int
) -> LoadedProducers:
    corrupt: list[int] = []
    for offset in reversed([offset for offset in offsets if log_start < offset <= log_end]):
        snapshot = load_producer_snapshot(files.location(offset, "producer-snapshot"))
        if not snapshot.findings:
            state = load_state(snapshot, offset)
            state.expire(now_ms)
            return LoadedProducers(state, offset, corrupt=corrupt)
        corrupt.append(offset)
    return LoadedProducers(ProducerState(log_start), log_start, corrupt=corrupt)


def _follow(files: SegmentFiles, base_offset: int, state: ProducerState, end_offset: int) -> None:
    """Follows the batches of a segment that reach beyond the state's end, up to ``end_offset``. Raises UnreadableError
    where Kafka throws: here, nothing is cut off."""
    start = state.end_offset
    stops: list[Finding] = []
    index = load_offset_index(files.location(base_offset, "offset-index"), base_offset)
    with files.location(base_offset, "log").open() as file:
        for chunk in scan(file, stops.append, index.lookup(start)[1], chain_only=True):
            batches = chunk.batches
            required = batches.take((batches.last_offset >= start) & (batches.last_offset < end_offset))
            refused = state.update(required, chunk.buffer).refused
            if refused is not None:
                raise refused_log(file.path, f"offset {refused.offset}: {refused.message}")
            if not len(required) and (batches.last_offset >= end_offset).any():
                return
    broken = [each for each in stops if each.kind == Kind.BATCH_SIZE_INVALID]
    if broken:
        raise refused_log("", str(broken[0]))
