"""Segments that an erasure wrote in place of others: ``replaced/TIME-RUN.parquet``, a row for each.

From then on every snapshot that names the old segment reads the new one, which has the same offsets. A row also has the
offsets of the records that were erased, each with its leader epoch, by which a later run leaves them out of what it
stores, as long as a disk still has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from msgspec import structs
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.kafka_names import TopicPartition
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.snapshot import Snapshot, SnapshotSegment
from brokerless.log.own_file import digest, dump_table, parse_table, table_schema
from brokerless.log.storage.location import Location
from brokerless.values import Int32OrNone, Int64, LenientValue, Sha256, Uuid, WrongJsonError, from_members, members

_DIGEST = b"sha256"
"""The key of the list's metadata with the hash of its rows."""
_Known = tuple[str, int, int, int, str, str]
_ADVICE = "look for an earlier version of the file in the bucket"


class OldSegment(LenientValue, frozen=True):
    """A segment that was replaced: its log, and the records that were erased of it."""

    old_segment_id: Uuid
    old_sha256: Sha256
    old_size_in_bytes: Int64
    old_records: Int64
    erased_offsets: tuple[Int64, ...]
    """The offsets of the records that the new segment lacks."""
    erased_epochs: tuple[Int32OrNone, ...]
    """The leader epoch of each erased record, -1 in formats without epochs."""

    def __post_init__(self) -> None:
        if len(self.erased_offsets) != len(self.erased_epochs):
            raise WrongJsonError("erasedEpochs are not one for each of erasedOffsets")


@dataclass(frozen=True, slots=True)
class ReplacedSegment:
    """A segment that was replaced, and the one that is read in its place."""

    old: OldSegment
    new: SnapshotSegment


@dataclass(frozen=True, slots=True)
class ReplacedList:
    """The segments that one run replaced."""

    name: SnapshotName
    location: Location
    segments: tuple[ReplacedSegment, ...]
    written: int | None = None
    """When the list came into the store (ms since the epoch), None where the store does not say so."""


@dataclass(frozen=True, slots=True)
class ErasedPlaces:
    """Records that were erased of a partition."""

    offsets: NDArray[np.int64]
    """The offsets of the records (int64, ascending)."""
    epochs: NDArray[np.int32]
    """The leader epoch of each record (int32)."""

    def within(
        self, first: NDArray[np.int64], last: NDArray[np.int64], epoch: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offsets that some batches have, and the number of the batch of each: a record is known by its
        offset and leader epoch. The batches are given by their first and last offsets, ascending, and epochs."""
        rows = np.searchsorted(first, self.offsets, "right") - 1
        is_in = rows >= 0
        rows = np.maximum(rows, 0)
        if not len(first):
            return self.offsets[:0], rows[:0]
        is_in &= (last[rows] >= self.offsets) & (epoch[rows] == self.epochs)
        return self.offsets[is_in], rows[is_in]


@dataclass
class Replacements:
    """All segments of a backup that were replaced."""

    lists: Sequence[ReplacedList] = ()
    """The lists of all runs, the oldest first."""
    _rows: dict[_Known, ReplacedSegment] = field(init=False, default_factory=dict[_Known, ReplacedSegment])

    def __post_init__(self) -> None:
        for each in (one for known in self.lists for one in known.segments):
            self._rows.setdefault(_replaced_by(each), each)

    def current(self, segment: SnapshotSegment) -> SnapshotSegment:
        """Return the segment that is read in place of another one, which may be itself."""
        found = segment
        for each in self._after(_known_as(segment, segment.segment_id, segment.sha256)):
            found = each.new
        return found if found is segment else structs.replace(found, producers=segment.producers)

    def _after(self, known: _Known) -> Iterator[ReplacedSegment]:
        """Yield what is read in place of a segment, one after the other."""
        for _ in range(len(self._rows)):
            row = self._rows.get(known)
            if row is None:
                return
            yield row
            known = _known_as(row.new, row.new.segment_id, row.new.sha256)

    def applied(
        self, snapshot: Snapshot, segments: Sequence[SnapshotSegment]
    ) -> tuple[Snapshot, list[SnapshotSegment]]:
        """Return a snapshot as it is read: its segments, and the records and bytes of its partitions by these."""
        if not self._rows:
            return snapshot, list(segments)
        found = [self.current(each) for each in segments]
        less: dict[TopicPartition, list[int]] = defaultdict(lambda: [0, 0])
        for before, after in zip(segments, found, strict=True):
            own = less[before.place]
            own[0] += before.records - after.records
            own[1] += before.size_in_bytes - after.size_in_bytes
        partitions = (
            structs.replace(
                each,
                records=max(0, each.records - less[each.place][0]),
                size_in_bytes=max(0, each.size_in_bytes - less[each.place][1]),
            )
            for each in snapshot.partitions
        )
        return structs.replace(snapshot, partitions=tuple(partitions)), found

    def erased(self) -> Mapping[TopicPartition, ErasedPlaces]:
        """Return the records that were erased of each partition."""
        found: dict[TopicPartition, set[tuple[int, int]]] = defaultdict(set)
        for each in (one for known in self.lists for one in known.segments):
            found[each.new.place] |= set(zip(each.old.erased_offsets, each.old.erased_epochs, strict=True))
        return {
            place: ErasedPlaces(
                np.array([each for each, _ in sorted(own)], np.int64),
                np.array([each for _, each in sorted(own)], np.int32),
            )
            for place, own in found.items()
        }

    def findings(self, read: Collection[str] | None = None) -> list[Finding]:
        """Return what is wrong with the lists: two erasures replaced a segment at the same time. The earlier list is
        read, and what the other one erased is there until it is erased in what is read. ``read``: the IDs of segments
        that can be read at all; None for any."""
        text = "another erasure replaced the same segments meanwhile, and is read; what this one erased may be there"
        return [
            Kind.ERASED_TWICE.at(each.location.path, text)
            for each in self.lists
            if any(self._lacks(one, read) for one in each.segments)
        ]

    def _lacks(self, row: ReplacedSegment, read: Collection[str] | None) -> bool:
        """Return whether what is read in place of a segment has records that a list says were erased of it."""
        known = _replaced_by(row)
        if self._rows[known] is row:
            return False
        after = list(self._after(known))
        if read is not None and after[-1].new.segment_id not in read:
            return False
        return not set(_erased_of(row)) <= {pair for each in after for pair in _erased_of(each)}


def _replaced_by(row: ReplacedSegment) -> _Known:
    return _known_as(row.new, row.old.old_segment_id, row.old.old_sha256)


def _erased_of(row: ReplacedSegment) -> Iterator[tuple[int, int | None]]:
    """The offset and leader epoch of each record that was erased of a segment."""
    return zip(row.old.erased_offsets, row.old.erased_epochs, strict=True)


def _known_as(segment: SnapshotSegment, segment_id: str, sha256: str) -> _Known:
    return *segment.place, segment.start_offset, segment.end_offset, segment_id, sha256


_SCHEMA = table_schema(SnapshotSegment, OldSegment)


def dump_replaced(segments: Iterable[ReplacedSegment]) -> bytes:
    """Return the list of replaced segments as Parquet. Its metadata has the SHA-256 of the rows, as JSON without spaces
    whose members are sorted."""
    found = [{**members(each.new), **members(each.old)} for each in segments]
    schema = _SCHEMA.with_metadata({_DIGEST: digest(found).encode()})
    return dump_table(pa.Table.from_pylist(found, schema))


def parse_replaced(location: Location, data: bytes) -> tuple[ReplacedSegment, ...]:
    """Raises :class:`UnreadableError` for what is no list of replaced segments, or not what was written."""
    from brokerless.arrow import rows

    try:
        table = parse_table(data, _SCHEMA)
        written = (table.schema.metadata or {}).get(_DIGEST, b"")
        found = [row for batch in table.to_batches() for row in rows(batch)]
        if digest(found).encode() != written:
            raise WrongJsonError("its rows are not those that were written, by their SHA-256")
        return tuple(
            ReplacedSegment(from_members(each, OldSegment), from_members(each, SnapshotSegment)) for each in found
        )
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0][:200]
        text = f"this is not the list of segments that an erasure replaced, without which nothing is read: {reason}"
        raise UnreadableError(location.path, f"{text}; {_ADVICE}", Kind.SNAPSHOT_UNREADABLE) from error
