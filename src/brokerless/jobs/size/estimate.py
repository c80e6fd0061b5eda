"""Estimates the size of a whole topic for one choice after another, from a sample of its batches.

Without a codec, sizes are arithmetic on the columns. With one, the sample's batches are encoded as a conversion would
encode them. What that gives for blocks of the sample, relative to what these take now, is a ratio estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.columns import RecordColumns
from brokerless.format.convert import PACKED
from brokerless.format.write.column_slices import filter_rows
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches, cut_by_count
from brokerless.format.write.grouping import BatchGroup
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.intervals import Ratio, ratio_estimates, ratio_of
from brokerless.jobs.size.record_sizes import MESSAGE_OVERHEADS, RecordSizes, batch_sizes, measure, varint_sizes
from brokerless.jobs.size.sample import Sample

_MOST_BATCHES = 4096
"""Batches of a sample that are compressed for one choice."""
_PLACES = 32
"""Places within a large batch at which the widths of deltas are compared."""
_MOST_STEP = 1 << 32
_ROWS_OF_RUN = 100
"""Records of each run where batches are so small that all would be more."""
_NEAR_ONE = 0.05
"""How far the mean logarithm of the estimated compression ratio may be from 0 to make no difference."""
_MODEL_ERROR = 0.002, 0.01
"""The share of the estimate that is added to the interval without a codec, and with one: for what the sample does not
show, such as batches that end with their segment. By measurement; see docs/size.md."""
_GAIN, _EXPECTED = 1.0, 0.3
"""Batches larger than a run are made of several runs. Records that were neighbours may compress better: the interval
goes down by this share of what the step from smaller batches gained, the estimate by that share of it."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes in all, and their 95 % interval."""

    bytes: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Population:
    """The partitions that a sample stands for."""

    partitions: tuple[int, ...]
    """The bytes of each partition."""
    segments: int
    """How many segments they have."""
    offsets: int | None = None
    """How many offsets they have; None where that is not known."""

    @property
    def bytes(self) -> int:
        return sum(self.partitions)


@dataclass(frozen=True, slots=True)
class _Pass:
    """The batches that the sample makes, cut in one way."""

    sizes: NDArray[np.float64]
    payloads: Int64s
    plain: Int64s
    """The bytes of each batch before compression."""
    source: NDArray[np.float64]
    """The bytes that the records of each batch take now."""
    runs: Int64s


@dataclass(slots=True)
class Estimator:
    """Estimates choices, each with those of smaller batches before it; owns no state but what these showed, so
    choices of one codec belong to one thread."""

    sample: Sample
    population: Population
    sizes: RecordSizes = field(init=False)
    _before: dict[tuple[int, str, int | None], list[tuple[float, float, float]]] = field(
        default_factory=dict[tuple[int, str, int | None], list[tuple[float, float, float]]]
    )
    """Of a format, codec and level, the choices so far: bytes of a batch before compression, ratio, relative error."""

    def __post_init__(self) -> None:
        self.sizes = measure(self.sample.columns)

    @property
    def inflation(self) -> float:
        """Uncompressed bytes for each byte that is there."""
        payload = float(self.sizes.payload.sum() + self.sizes.lengths.sum())
        return payload / max(1.0, float(self.sample.row_bytes.sum()))

    def estimate(self, choice: Choice) -> Estimate:
        """Return the size of the topic for a choice."""
        sample, population = self.sample, self.population
        if not sample.rows:
            return Estimate(0.0, 0.0, 0.0)
        first = self._pass(choice, 1.0)
        ratio, target = self._ratio(choice, first)
        ratio, gain = self._with_smaller_batches(choice, ratio, float(first.plain.mean()), target)
        records_share = float(sample.row_bytes.sum()) / sample.bytes_read
        source = population.bytes * records_share
        fixed = 0.0 if choice.magic < layouts.MAGIC_V2 else population.bytes * (1 - records_share)
        edges = 0.0 if choice.is_unchanged else 0.5 * _overhead(choice) * population.segments
        value = (ratio.value - gain * _EXPECTED) * source + fixed + edges
        half = ratio.half * source + _MODEL_ERROR[choice.is_compressed] * value
        low = value - half - gain * (1 - _EXPECTED) * source
        return Estimate(value, max(0.0, low), value + half + gain * _EXPECTED * source)

    def _with_smaller_batches(self, choice: Choice, ratio: Ratio, plain: float, target: float) -> tuple[Ratio, float]:
        """The error of a choice whose batches are so large that the sample has few of them is that of smaller ones; and
        by how much the ratio may be lower, as records that were neighbours, or more of them, may compress better.

        ``plain``: the mean bytes of the sample's batches before compression; ``target``: what they are to be."""
        if choice.is_unchanged:
            return (ratio if math.isfinite(ratio.half) else Ratio(ratio.value, 0.5 * ratio.value)), 0.0
        before = self._before.setdefault((choice.magic, choice.codec, choice.level), [])
        run_bytes = float(self.sizes.payload.sum()) / len(self.sample.groups)
        is_joined, gain = plain > run_bytes / 2, 0.0
        if before and is_joined:
            ratio = Ratio(ratio.value, before[-1][2] * ratio.value)
        elif not math.isfinite(ratio.half):
            ratio = Ratio(ratio.value, 0.5 * ratio.value)
        smaller = next((each for each in reversed(before) if each[0] < 0.7 * plain), None)
        if smaller is not None and choice.is_compressed:
            step = max(0.0, smaller[1] - ratio.value)
            missing = math.log2(max(1.0, target / plain)) / math.log2(plain / smaller[0])
            gain = step * (missing + (_GAIN if is_joined else 0.0))
        before.append((plain, ratio.value, ratio.relative))
        return ratio, min(gain, 0.5 * ratio.value)

    def records(self) -> Estimate:
        """Return how many records there are: by the records for each offset, if the number of offsets is known, or else
        for each byte."""
        sample = self.sample
        if not sample.rows:
            return Estimate(0.0, 0.0, 0.0)
        of_runs, fraction = np.bincount(sample.runs), sample.bytes_read / max(1, self.population.bytes)
        if self.population.offsets is None:
            ratio = ratio_of(of_runs, np.bincount(sample.runs, sample.row_bytes), fraction)
            source = self.population.bytes * float(sample.row_bytes.sum()) / sample.bytes_read
        else:
            ratio = ratio_of(of_runs, np.array([_offsets(group) for group in sample.groups]), fraction)
            source = self.population.offsets
        half = ratio.half if math.isfinite(ratio.half) else 0.5 * ratio.value
        return Estimate(ratio.value * source, max(0.0, (ratio.value - half) * source), (ratio.value + half) * source)

    def _ratio(self, choice: Choice, first: _Pass) -> tuple[Ratio, float]:
        """Bytes for each byte that is there now, and about how many bytes a batch is to have before compression."""
        segment = self.population.bytes * self.inflation / max(1, self.population.segments)
        if choice.batch_bytes is None:
            row_bytes = float(first.plain.sum()) / max(1, self.sample.rows)
            return self._ratio_of(first), min(segment, (choice.batch_records or 1) * row_bytes)
        if not choice.is_compressed:
            return self._ratio_of(first), min(segment, choice.batch_bytes)
        result, target = self._mixed(choice, {0.0: (first, self._ratio_of(first))})
        return result, min(segment, target)

    def _mixed(self, choice: Choice, passes: dict[float, tuple[_Pass, Ratio]]) -> tuple[Ratio, float]:
        """Return the ratio of batches whose size depends on how those before were compressed, by the share of the log
        that is cut with each estimate. ``passes``: by the logarithm of the estimate; more are added."""
        row_bytes = float((self.sizes.payload + self.sizes.lengths).mean()) + 3
        size = choice.batch_bytes or 0

        def seen(estimate: float) -> list[tuple[int, int]]:
            nearest = passes[min(passes, key=lambda each: abs(each - math.log(max(estimate, 1e-6))))][0]
            return list(zip(nearest.payloads.tolist(), nearest.plain.tolist(), strict=True))

        mixed = Ratio(0.0, 0.0), 0.0
        for more in range(4):
            points = sorted(passes)
            weight, total, batch = np.zeros(len(points)), 0.0, 0.0
            least = 0.0
            for partition in self.population.partitions:
                cut, estimates = ratio_estimates(size, partition * self.inflation, row_bytes, seen)
                logs = np.log(np.maximum(estimates, 1e-6))
                weight += [float((cut * np.interp(logs, points, row)).sum()) for row in np.eye(len(points))]
                total, least = total + float(cut.sum()), least + float((cut * logs).sum())
                batch += float((cut * size / (1.05 * estimates)).sum())
            weight /= max(total, 1.0)
            ratios = [passes[each][1] for each in points]
            value = sum(share * each.value for share, each in zip(weight, ratios, strict=True))
            shares = zip(weight, ratios, strict=True)
            half = sum(share * each.half for share, each in shares if share > 0)
            mixed = Ratio(float(value), float(half)), batch / max(total, 1.0)
            mean = least / max(total, 1.0)
            if more == 3 or min(abs(mean - each) for each in points) < _NEAR_ONE * (1 + 2 * more):
                break
            passes[mean] = self._passed(choice, math.exp(mean))
        return mixed

    def _passed(self, choice: Choice, estimate: float) -> tuple[_Pass, Ratio]:
        each = self._pass(choice, estimate)
        return each, self._ratio_of(each)

    def _ratio_of(self, each: _Pass) -> Ratio:
        """Return the compression ratio by run where batches are small; else each batch is a block. The last one is not
        full, and left out."""
        sample = self.sample
        fraction = sample.bytes_read / max(1, self.population.bytes)
        sizes, source, runs = each.sizes, each.source, each.runs
        if len(sizes) >= 2 * len(sample.groups):
            return ratio_of(np.bincount(runs, sizes), np.bincount(runs, source), fraction)
        if len(sizes) > 1:
            sizes, source = sizes[:-1], source[:-1]
        return ratio_of(sizes, source, fraction)

    def _pass(self, choice: Choice, estimate: float) -> _Pass:
        sample, sizes = self.sample, self.sizes
        columns, source, runs = sample.columns, sample.row_bytes, sample.runs
        breaks = sample.breaks if choice.magic == layouts.MAGIC_V2 else sample.legacy_breaks
        if choice.is_compressed and _is_tiny(choice, sample):
            rows = _rows_of_runs(sample, _ROWS_OF_RUN)
            columns, source, runs, breaks = filter_rows(columns, rows), source[rows], runs[rows], breaks[rows].copy()
            breaks[np.flatnonzero(np.diff(runs, prepend=-1))] = True
        starts = self._starts(choice, columns, breaks, estimate)
        of_batches = np.diff(np.concatenate([np.zeros(1), np.cumsum(source)])[starts])
        headers = build_headers(columns, starts)
        more = self._move_into_batch(choice, columns, headers[:1], estimate) if len(starts) == 2 else 0.0
        if not choice.is_compressed:
            bytes_ = batch_sizes(columns, sizes, starts, choice.magic, headers)
            return _Pass((bytes_ + more).astype(np.float64), bytes_, bytes_, source=of_batches, runs=runs[starts[:-1]])
        encoder = Encoder(choice.magic, choice.codec, choice.level, with_zlib=True)
        encoder.encode(columns, starts, headers)
        whole = (encoder.payloads + _overhead(choice)).astype(np.float64)
        return _Pass(whole, encoder.payloads, encoder.uncompressed, source=of_batches, runs=runs[starts[:-1]])

    def _move_into_batch(
        self, choice: Choice, columns: RecordColumns, header: NDArray[np.void], estimate: float
    ) -> float:
        """Makes a batch that has all of the sample a part of a larger one, at a place where deltas are about as wide as
        on average; returns how many bytes more they are on average."""
        rows = columns.rows
        largest = choice.batch_records or 0
        if choice.batch_bytes is not None:
            row_bytes = float((self.sizes.payload + self.sizes.lengths).mean()) + 5
            size = min(choice.batch_bytes, self._largest_batch(estimate))
            largest = int(size / (1.05 * estimate if choice.is_compressed else 1.0) / row_bytes)
        if largest <= rows or rows < 2 or columns.timestamp_type[0]:
            return 0.0
        step = (int(columns.timestamp[rows - 1]) - int(columns.timestamp[0])) // (rows - 1)
        step = max(-_MOST_STEP, min(step, _MOST_STEP))
        places = np.linspace(0, largest - rows, _PLACES).astype(np.int64)
        moved = [(columns.offset[:rows] + each, columns.timestamp[:rows] + each * step) for each in places]
        bases = int(header["base_offset"][0]), int(header["base_timestamp"][0])
        widths = np.array(
            [sum(int(varint_sizes(at - base).sum()) for at, base in zip(each, bases, strict=True)) for each in moved]
        )
        chosen = int(np.argmin(np.abs(widths - widths.mean())))
        header["base_offset"] -= int(places[chosen])
        header["base_timestamp"] -= int(places[chosen]) * step
        return float(widths.mean() - widths[chosen])

    def _starts(self, choice: Choice, columns: RecordColumns, breaks: NDArray[np.bool_], estimate: float) -> Int64s:
        if choice.batch_records is not None:
            return cut_by_count(columns, choice.batch_records, breaks)
        if choice.is_unchanged and (choice.is_compressed or choice.magic == layouts.MAGIC_V2):
            return self._unchanged(choice, columns, breaks, estimate)
        if choice.batch_bytes is None:
            return np.arange(columns.rows + 1)
        size = min(choice.batch_bytes, self._largest_batch(estimate if choice.is_compressed else 1.0))
        return cut_batches(columns, size, estimate if choice.is_compressed else None, breaks=breaks, magic=choice.magic)

    def _largest_batch(self, estimate: float) -> int:
        """A batch ends with its segment: what it may be called, so that it does not reach further."""
        segment = self.population.bytes * self.inflation / max(1, self.population.segments)
        return max(1, int(1.05 * estimate * segment) + layouts.BATCH_V2_SIZE)

    def _unchanged(self, choice: Choice, columns: RecordColumns, breaks: NDArray[np.bool_], estimate: float) -> Int64s:
        """The source's batches; messages without a codec, which are in none, are packed as a conversion does."""
        sample = self.sample
        ends = np.append(sample.firsts, columns.rows)
        if not sample.single.any():
            return ends
        breaks = breaks.copy()
        for first, last in pairwise(np.flatnonzero(np.diff(sample.single, prepend=False, append=False)).tolist()):
            breaks[ends[[first, min(last, len(ends) - 2)]]] = True
        packed = cut_batches(
            columns, PACKED, estimate if choice.is_compressed else None, breaks=breaks, magic=choice.magic
        )
        of = np.searchsorted(sample.firsts, packed[:-1], side="right") - 1
        return np.unique(np.concatenate([packed[:-1][sample.single[of]], ends[:-1][~sample.single], ends[-1:]]))


def _offsets(group: BatchGroup) -> int:
    """Return how many offsets a run has, those that compaction took included."""
    return int(group.columns.offset[group.columns.rows - 1] - group.columns.offset[0]) + 1


def _overhead(choice: Choice) -> int:
    if choice.magic == layouts.MAGIC_V2:
        return layouts.BATCH_V2_SIZE
    return MESSAGE_OVERHEADS[choice.magic] if choice.is_compressed else 0


def _is_tiny(choice: Choice, sample: Sample) -> bool:
    return choice.batch_records is not None and sample.rows // choice.batch_records > _MOST_BATCHES


def _rows_of_runs(sample: Sample, count: int) -> NDArray[np.bool_]:
    """The first ``count`` records of each run."""
    firsts = np.flatnonzero(np.diff(sample.runs, prepend=-1))
    return np.arange(sample.rows) - firsts[sample.runs] < count
