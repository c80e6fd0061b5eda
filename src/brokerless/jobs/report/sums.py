"""Sums over batches by hour, size, codec and producer, of bounded size whatever the headers say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from brokerless.clock import HOUR_MS
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.format.read.batch_headers import Batches
from brokerless.values import Row

WIDTHS_MS = (HOUR_MS, 24 * HOUR_MS, 30 * 24 * HOUR_MS)
MOST_TIMES = 5000
END_OF_TIME_MS = 7_258_118_400_000
"""The year 2200: what is later is no time at which a record was written."""
NO_TIME = -1
MOST_PRODUCERS = 1000
OTHERS = -2
"""In the place of a producer's id: all that came after the first thousand."""

BATCHES, RECORDS, BYTES = range(3)


@dataclass(slots=True)
class Sums:
    """Batches, records and bytes by a key of integers."""

    by_key: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def add(self, keys: Int64s, records: Int64s, sizes: Int64s) -> None:
        """Adds ``n`` batches; all arrays have shape ``(n,)``."""
        found, first = np.unique(keys, return_inverse=True)
        totals = np.zeros((len(found), 3), np.int64)
        np.add.at(totals[:, BATCHES], first, 1)
        np.add.at(totals[:, RECORDS], first, records)
        np.add.at(totals[:, BYTES], first, sizes)
        for key, added in zip(found.tolist(), totals.tolist(), strict=True):
            self.put(key, added)

    def put(self, key: int, added: list[int]) -> None:
        """Adds batches, records and bytes to one key."""
        sums = self.by_key.setdefault(key, [0, 0, 0])
        for index, value in enumerate(added):
            sums[index] += value

    def rows(self) -> Iterator[tuple[int, Row]]:
        """Each key with its columns, in order."""
        for key, (batches, records, size) in sorted(self.by_key.items()):
            yield key, {"batches": batches, "records": records, "sizeInBytes": size}


@dataclass(slots=True)
class TimeSums:
    """Sums by hour; where there are too many hours, by day, and then by 30 days."""

    width_ms: int = HOUR_MS
    sums: Sums = field(default_factory=Sums)

    def add(self, times: Int64s, records: Int64s, sizes: Int64s) -> None:
        """Add the records and sizes of batches by their ``times`` (ms), shape ``(n,)``."""
        is_time = (times >= 0) & (times < END_OF_TIME_MS)
        self.sums.add(np.where(is_time, times // self.width_ms, NO_TIME), records, sizes)
        while len(self.sums.by_key) > MOST_TIMES and self.width_ms != WIDTHS_MS[-1]:
            wider, before = WIDTHS_MS[WIDTHS_MS.index(self.width_ms) + 1], self.sums
            self.sums = Sums()
            for key, added in before.by_key.items():
                self.sums.put(NO_TIME if key == NO_TIME else key * self.width_ms // wider, added)
            self.width_ms = wider

    def rows(self) -> Iterator[Row]:
        for key, sums in self.sums.rows():
            start, end = (None, None) if key == NO_TIME else (key * self.width_ms, (key + 1) * self.width_ms)
            yield {"start": start, "end": end, **sums}


@dataclass(slots=True)
class TopicSums:
    """Sums over the batches of one topic."""

    times: TimeSums = field(default_factory=TimeSums)
    sizes: Sums = field(default_factory=Sums)
    """By the exponent of the largest power of two that is not above the batch's size."""
    codecs: Sums = field(default_factory=Sums)
    """By magic, times 8, plus codec."""

    def add(self, batches: Batches, records: Int64s) -> None:
        """Add batches. ``records`` is how many records each has, shape ``(len(batches),)``."""
        sizes = batches.sizes
        self.times.add(batches.max_timestamp, records, sizes)
        self.sizes.add(np.frexp(np.maximum(sizes, 1).astype(np.float64))[1].astype(np.int64) - 1, records, sizes)
        self.codecs.add(batches.magic.astype(np.int64) * 8 + batches.codec, records, sizes)

    def size_rows(self) -> Iterator[Row]:
        for exponent, sums in self.sizes.rows():
            yield {"fromBytes": 1 << exponent, "belowBytes": 2 << exponent, **sums}

    def codec_rows(self) -> Iterator[Row]:
        for key, sums in self.codecs.rows():
            magic, codec = divmod(key, 8)
            yield {
                "magic": magic,
                "compression": layouts.CODECS[codec] if codec < len(layouts.CODECS) else None,
                **sums,
            }


@dataclass(slots=True)
class ProducerSums:
    """Sums over the batches of each producer in one partition."""

    sums: Sums = field(default_factory=Sums)
    more: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    """Largest epoch, transactional batches, first and last timestamp in ms."""

    def add(self, batches: Batches, records: Int64s) -> None:
        """Add batches. ``records`` is how many records each has, shape ``(len(batches),)``."""
        ids = np.where(batches.producer_id < 0, -1, batches.producer_id)
        known = self.sums.by_key
        new = [each for each in np.unique(ids).tolist() if each not in known]
        if len(known) + len(new) > MOST_PRODUCERS:
            left_out = new[max(MOST_PRODUCERS - len(known), 0) :]
            ids = np.where(np.isin(ids, left_out), OTHERS, ids)
        self.sums.add(ids, records, batches.sizes)
        times = batches.max_timestamp
        for each in np.unique(ids).tolist():
            rows = ids == each
            written = times[rows & (times >= 0)]
            epoch, transactional = int(batches.producer_epoch[rows].max()), int(batches.is_transactional[rows].sum())
            first, last = (int(written.min()), int(written.max())) if len(written) else (-1, -1)
            if (so_far := self.more.get(each)) is not None:
                epoch, transactional = max(epoch, so_far[0]), transactional + so_far[1]
                first = min((time for time in (first, so_far[2]) if time >= 0), default=-1)
                last = max(last, so_far[3])
            self.more[each] = [epoch, transactional, first, last]

    def rows(self) -> Iterator[Row]:
        for key, sums in self.sums.rows():
            epoch, transactional, first, last = self.more[key]
            yield {
                "producerId": None if key == OTHERS else key,
                "producerEpoch": None if key == OTHERS else epoch,
                **sums,
                "transactionalBatches": transactional,
                "minTimestamp": first if first >= 0 else None,
                "maxTimestamp": last if last >= 0 else None,
            }
