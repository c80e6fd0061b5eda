"""The cleaner's rules: which records of a batch stay, which batches stay without any, and when tombstones may go.

Sources: ``Cleaner.cleanInto``, ``shouldRetainRecord``, ``MemoryRecords.filterTo`` (4.4.0) and ``LogCleaner`` (3.9.1);
KIP-98, KIP-534.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from brokerless.errors import RefusedError
from brokerless.format import layouts
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.filter import WholeBatches
from brokerless.format.read.batch_headers import Batches
from brokerless.jobs.compact.history import History
from brokerless.jobs.compact.settings import CompactSettings

REMOVED = {
    "superseded": "records with a later value of their key",
    "tombstones": "tombstones whose time was over",
    "withoutKey": "records without a key",
    "aborted": "records of aborted transactions",
    "markers": "markers of transactions without data, whose time was over",
    "emptyBatches": "batches without records",
}
"""What the cleaner removes, by the name under which it is counted."""


@dataclass(slots=True)
class Tombstones:
    """The tombstones that are left."""

    count: int = 0
    """How many there are."""
    oldest_ms: int | None = None
    """The timestamp of the oldest one; None where no tombstone has one."""
    newest_ms: int | None = None
    """The timestamp of the newest one; None where no tombstone has one."""
    horizons_set: int = 0
    """How many got a delete horizon in this run."""
    horizons_before: int = 0
    """How many had a delete horizon."""

    def add(self, timestamps: Int64s) -> None:
        known = timestamps[timestamps >= 0]
        self.count += len(timestamps)
        if len(known):
            oldest, newest = int(known.min()), int(known.max())
            self.oldest_ms = oldest if self.oldest_ms is None else min(self.oldest_ms, oldest)
            self.newest_ms = newest if self.newest_ms is None else max(self.newest_ms, newest)


@dataclass(frozen=True, slots=True)
class Retained:
    """The records and batches that stay, for :meth:`BatchFilter.filter`."""

    rows: Bools
    """Which records stay (bool)."""
    batches: Bools
    """Which batches stay as a header alone if no record is left (bool)."""
    delete_horizons: Int64s
    """The delete horizons that batches get (ms); -1 for none."""
    changed: Bools
    """Which batches are built again in any case (bool)."""


@dataclass(slots=True)
class CleanerRules:
    """Decides for batches in order, and counts what goes and stays."""

    history: History
    settings: CompactSettings
    removed: Counter[str] = field(default_factory=Counter[str])
    """How much was removed, by the names of :data:`REMOVED`."""
    tombstones: Tombstones = field(default_factory=Tombstones)

    @property
    def upgrades(self) -> bool:
        """Whether v0 and v1 become v2."""
        return self.settings.kafka != "3.9"

    def stays_empty(self, batches: Batches) -> Bools:
        """Return which batches are retained without records, if none is left."""
        found = self.history.is_last_of_producer(batches)
        if self.settings.kafka != "3.9":  # so that the log ends where it did
            found |= batches.last_offset + 1 == self.history.end_offset
        return found

    def decide(self, whole: WholeBatches, superseded: Bools, retain_legacy_tombstones: bool) -> Retained:
        """Return which records stay. ``superseded`` are the rows whose key has a later offset. Raises
        :class:`RefusedError` for what Kafka would not write, and so leaves the partition unchanged."""
        batches, rows, now = whole.batches, whole.columns.rows, self.settings.now_ms
        is_control, has_horizon = batches.is_control, batches.has_delete_horizon
        is_over = has_horizon & (batches.base_timestamp <= now)
        may_go = self.history.is_marker_without_data(batches)
        is_aborted = self.history.is_aborted(batches)
        discarded = np.where(is_control, may_go & is_over, is_aborted)
        stays_empty = self.stays_empty(batches)
        keeps_tombstones = np.where(batches.is_legacy, retain_legacy_tombstones, ~is_over)

        counts = whole.counts
        of_control, of_discarded = np.repeat(is_control, counts), np.repeat(discarded, counts)
        has_no_key = whole.columns.key_null[:rows] != 0
        is_null = whole.columns.value_null[:rows] != 0
        is_expired = is_null & ~np.repeat(keeps_tombstones, counts)
        keep = ~of_discarded & (of_control | ~(has_no_key | superseded | is_expired))

        kept = whole.rows_of(keep)
        with_tombstones = whole.rows_of(keep & is_null) > 0
        gets = (kept > 0) & ~has_horizon & (with_tombstones | may_go) & (self.upgrades | ~batches.is_legacy)
        horizons = np.where(gets, now + self.settings.delete_retention_ms, np.int64(-1))
        rebuilt = (kept > 0) & ((kept < counts) | gets | (self.upgrades & batches.is_legacy))
        self._check_timestamps(whole, keep & np.repeat(rebuilt, counts))
        left = of_discarded | keep | of_control
        self._count(
            superseded=~left & superseded & ~has_no_key,
            tombstones=~left & ~superseded & ~has_no_key & is_expired,
            withoutKey=~left & has_no_key,
            aborted=of_discarded & ~of_control,
            markers=of_discarded & of_control,
            emptyBatches=(counts == 0) & ~stays_empty,
        )
        self.tombstones.add(whole.columns.timestamp[:rows][keep & is_null & ~of_control])
        self.tombstones.horizons_set += int((gets & with_tombstones).sum())
        self.tombstones.horizons_before += int((with_tombstones & has_horizon & (kept > 0)).sum())
        return Retained(keep, stays_empty, horizons, (counts == 0) & stays_empty)

    def _count(self, **found: Bools) -> None:
        self.removed.update({name: int(flags.sum()) for name, flags in found.items() if flags.any()})

    def _check_timestamps(self, whole: WholeBatches, rows: Bools) -> None:
        timestamps = whole.columns.timestamp[: whole.columns.rows]
        wrong = rows & (timestamps < layouts.NO_TIMESTAMP)
        if wrong.any():
            offset = int(whole.columns.offset[: whole.columns.rows][wrong][0])
            text = f"offset {offset} has the timestamp {timestamps[wrong][0]}, which Kafka's cleaner refuses to write"
            raise RefusedError("IllegalArgumentException", text)
