"""Samples a topic's log evenly: where its runs of batches begin, and what is in them.

All bytes of the topic's segments are divided into equal parts. In each of these a run begins at the first batch after
a position that is drawn from it (so that nothing periodic in the log misleads), the same one each time: by the offset
index where that has a valid batch, or by searching for one. The runs are laid one after the other, with the gaps
between their offsets and timestamps closed, as if they were one log: so a batch may be larger than a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage, RecordColumns, empty_columns
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import Decoder
from brokerless.format.write.column_slices import concat_columns
from brokerless.format.write.grouping import BatchGroup, join_groups
from brokerless.jobs.size.batch_finder import BatchSearch
from brokerless.jobs.size.contents import decode_contents, stored_bytes, without_records
from brokerless.jobs.size.places import SampledSegment
from brokerless.log.live_segments import ReplacedError, open_listed
from brokerless.log.segment import Chunk, check_checksums, damage_finding
from brokerless.log.segment_end import no_batches
from brokerless.log.storage.files import File
from brokerless.progress import Report

SHARE = 0.04
"""Of a topic's bytes that are read; its indexes are read beside that, about 0.2 % more."""
MOST_BYTES = 4 << 20
"""Bytes that are read of a topic where nothing else is requested, and that these may inflate to, about."""
WHOLE = 1 << 20
"""Bytes of a topic that is read as a whole."""
FEWEST_RUNS, SOME_RUNS, MOST_RUNS = 4, 12, 40
RUN, LEAST_RUN = 64 << 10, 4 << 10
"""Bytes of a run; fewer if that would make less than :data:`SOME_RUNS`, but at least a batch."""
_ABOVE = 1.3
"""How much longer than a usual batch runs are, as some batches are longer than others."""
_BLOCK = 64 << 10
"""Bytes of batches that are decoded at once."""
_FAR = 1 << 60


@dataclass(slots=True)
class Sample:
    """Runs of batches as one log of ``n`` records."""

    columns: RecordColumns = field(default_factory=empty_columns)
    breaks: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """With which records a batch must begin in v2: bool, shape ``(n,)``."""
    legacy_breaks: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """With which records a batch must begin in v0 and v1: bool, shape ``(n,)``."""
    firsts: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """The first row of each of the source's batches."""
    single: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Which of the source's batches are messages without a codec."""
    row_bytes: NDArray[np.float64] = field(default_factory=lambda: np.empty(0, np.float64))
    """What each record takes in the source: float64, shape ``(n,)``."""
    runs: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """The run of each record: int64, shape ``(n,)``."""
    groups: list[BatchGroup] = field(default_factory=list[BatchGroup])
    """The batches of each run."""
    bytes_other: int = 0
    """The bytes of control batches and of batches without records."""
    touched: int = 0
    """The bytes that were read."""
    is_over_budget: bool = False
    """Whether more was read than requested, because the fewest batches that a sample has are so large."""

    @property
    def rows(self) -> int:
        return self.columns.rows

    @property
    def bytes_read(self) -> float:
        """The bytes of the source's whole batches, control batches included."""
        return float(self.row_bytes.sum()) + self.bytes_other


def read_sample(
    places: Sequence[SampledSegment], budget: int, report: Report, max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
) -> Sample:
    """Reads about ``budget`` bytes, evenly from all places. What is damaged is reported and left out."""
    reader = _SampleReader(report, max_batch_bytes)
    total, sample = sum(place.size for place in places), reader.sample
    spacing = max((reader.spacing(place) for place in places[:: max(1, len(places) // 3)]), default=0)
    number = int(np.clip(budget // max(RUN, spacing), FEWEST_RUNS, MOST_RUNS))
    if number < SOME_RUNS:
        number = int(np.clip(budget // max(LEAST_RUN, _ABOVE * spacing), FEWEST_RUNS, SOME_RUNS))
    length, most_inflated = max(1, budget // number), max(2 * budget, 2 * MOST_BYTES) // number
    ends = np.cumsum([place.size for place in places])
    within = np.random.default_rng(total).random(number)
    runs: list[BatchGroup] = []
    if budget >= total:
        number = 0
        whole = (reader.read_run(place, place.start, place.size, most_inflated) for place in places)
        runs = [each for each in whole if each is not None and each.columns.rows]
    for run in range(number if total else 0):
        at = int((run + within[run]) * total / number)
        which = int(np.searchsorted(ends, at, side="right"))
        place = places[which]
        position = min(place.start + at - int(ends[which]) + place.size, place.end - length)
        read = reader.read_run(place, max(place.start, position), length, most_inflated)
        if read is not None and read.columns.rows:
            runs.append(read)
    _lay_out(sample, runs)
    sample.touched = reader.touched
    sample.is_over_budget = FEWEST_RUNS * spacing > budget and sample.touched > budget
    return sample


class _SampleReader:
    """Reads runs of segments, in the order of their positions."""

    def __init__(self, report: Report, max_batch_bytes: int) -> None:
        self.sample = Sample()
        self._report = report
        self._decoder = Decoder(max_batch_bytes=max_batch_bytes)
        self._finder = BatchSearch()
        self._ends: dict[str, int] = {}
        """Where the last run of a segment ended, by its path."""

    @property
    def touched(self) -> int:
        return self._finder.touched

    def spacing(self, place: SampledSegment) -> int:
        """Return about how many bytes a large batch takes."""
        try:
            with self._open(place) as file:
                return self._finder.spacing(place, file)
        except UnreadableError:  # which is reported where a run is read
            return 0

    def read_run(self, place: SampledSegment, position: int, length: int, most_inflated: int) -> BatchGroup | None:
        """Return the batches of about ``length`` bytes at a position, as far as they do not inflate to more."""
        path = place.segment.log.path
        position = max(position, self._ends.get(path, 0))
        try:
            with self._open(place) as file:
                return self._read(place, file, position, length=length, most_inflated=most_inflated)
        except ReplacedError:
            return None  # deleted or compacted since it was listed: other runs stand for it
        except UnreadableError as error:
            self._report(error.finding(path, place.segment.base_offset))
            return None

    def _open(self, place: SampledSegment) -> File:
        return open_listed(place.segment, place.segment is place.partition.segments[-1])

    def _read(
        self, place: SampledSegment, file: File, position: int, length: int, most_inflated: int
    ) -> BatchGroup | None:
        path = place.segment.log.path
        start, buffer = self._finder.find(place, file, position, length, self._ends.get(path, 0))
        batches = read_headers(buffer, scan_batches(buffer).positions)
        if not len(batches):
            if file.size - position > WHOLE or (position == place.start and position < file.size):
                self._report(no_batches(file, position, file.size - position))
            return None
        self._ends[path] = start + int(batches.ends[-1])
        valid = check_checksums(Chunk(buffer, start, batches), file.path, self._report)
        batches = batches.take(valid & place.selected.batches(batches))
        other = without_records(batches)
        self.sample.bytes_other += int(batches.sizes[other].sum())
        return self._decode(file.path, buffer, batches.take(~other), start=start, most_inflated=most_inflated)

    def _decode(
        self, path: str, buffer: NDArray[np.uint8], batches: Batches, start: int, most_inflated: int
    ) -> BatchGroup | None:
        """The records of the batches, as many as inflate to ``most_inflated`` bytes; without damaged ones."""
        group: BatchGroup | None = None
        blocks, inflated = np.cumsum(batches.sizes) // _BLOCK, 0
        for block in np.unique(blocks):
            rows = np.flatnonzero(blocks == block)
            while len(rows) and inflated <= most_inflated:
                own, damages = self._decode_block(buffer, batches, rows, start)
                for damage in damages:
                    self._report(damage_finding(path, damage))
                damaged = np.array([damage.position - start for damage in damages], np.int64)
                rows = rows[~np.isin(batches.positions[rows], damaged)] if damages else rows[:0]
                if not damages and own is not None:
                    group = own if group is None else join_groups(group, own)
                    inflated += int(own.columns.used[1:].sum())
        return group

    def _decode_block(
        self, buffer: NDArray[np.uint8], batches: Batches, rows: Int64s, start: int
    ) -> tuple[BatchGroup | None, list[Damage]]:
        group: BatchGroup | None = None
        damages: list[Damage] = []
        for own, found in decode_contents(self._decoder, buffer, batches, rows=rows, base=start):
            damages += found
            if len(own.given):
                group = own if group is None else join_groups(group, own)
        return group, damages


def _lay_out(sample: Sample, runs: list[BatchGroup]) -> None:
    """Makes one log of the runs."""
    if not runs:
        return
    parts = list(_closed_up(runs))
    sample.columns = concat_columns(parts)
    sample.groups = [replace(run, columns=part) for run, part in zip(runs, parts, strict=True)]
    sample.row_bytes = np.concatenate([stored_bytes(run) for run in runs])
    sample.runs = np.repeat(np.arange(len(runs)), [part.rows for part in parts])
    given = np.concatenate([run.given for run in runs])
    sample.firsts = np.cumsum(given) - given
    sample.single = np.concatenate([run.batches.is_legacy & (run.batches.codec == 0) for run in runs])
    for magic, name in ((layouts.MAGIC_V2, "breaks"), (layouts.MAGIC_V1, "legacy_breaks")):
        breaks = [_breaks(each, magic) for each in sample.groups]
        for before, after, own in zip(sample.groups, sample.groups[1:], breaks[1:], strict=False):
            own[0] = not _may_continue(before, after, magic)
        setattr(sample, name, np.concatenate(breaks))


def _breaks(group: BatchGroup, magic: int) -> NDArray[np.bool_]:
    return replace(group, magic=np.full(len(group.batches), magic, np.int8)).breaks()


def _may_continue(before: BatchGroup, after: BatchGroup, magic: int) -> bool:
    """Return whether a batch may have the last records of one run and the first ones of the next, if nothing were
    between."""
    one, other = before.batches.take(slice(-1, None)), after.batches.take(slice(0, 1))
    names = ["timestamp_type"]
    if magic == layouts.MAGIC_V2:
        names += ["producer_id", "producer_epoch", "is_transactional", "has_delete_horizon"]
    is_append_time = bool(other.timestamp_type[0] == layouts.LOG_APPEND_TIME)
    return not is_append_time and all(getattr(one, name)[0] == getattr(other, name)[0] for name in names)


def _closed_up(groups: list[BatchGroup]) -> Iterator[RecordColumns]:
    """The columns of each run, with offsets that follow those before, and so timestamps; offsets that fall are
    numbered, and timestamps that no clock has are bounded, as sums of them would overflow."""
    offset, timestamp = 0, None
    for group in groups:
        columns, rows = group.columns, group.columns.rows
        steps = np.diff(columns.offset[:rows], prepend=columns.offset[0] - 1)
        offsets = offset - 1 + np.cumsum(np.where((steps > 0) & (steps <= MAX_INT32), steps, 1))
        timestamps = np.clip(columns.timestamp[:rows], -_FAR, _FAR)
        first, last = int(timestamps[0]), int(timestamps[-1])
        if timestamp is not None and first >= 0:
            timestamps += timestamp - first
        columns = replace(columns, offset=offsets, timestamp=timestamps)
        offset = int(offsets[-1]) + 1
        timestamp = int(timestamps[-1]) if 0 <= last < _FAR else timestamp
        yield columns
