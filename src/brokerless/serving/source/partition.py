"""One partition that is served: its offsets, leader epochs and transactions, and its batches.

Offsets are those that all commands report. The high watermark is the log's end, as of a broker that is the only
replica. A broker may be writing: the partition is listed again where its files have changed, at most every half second.
All here may wait for a disk; callers are worker threads, one at a time for each partition.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.read.batch_headers import Batches
from brokerless.log.checkpoint.leader_epochs import Epochs, assign, end_offset_for, load_epochs
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import ReplacedError, list_again, open_listed, open_segments
from brokerless.log.names import partition_directory
from brokerless.log.positions import first_position
from brokerless.log.producer.transactions import Transaction, open_transaction
from brokerless.log.seek import end_offset, last_offset, log_start_after_end, offset_for_timestamp
from brokerless.log.segment import scan_headers
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.tail import Tail, look, look_committed
from brokerless.log.tiered.detection import is_tiered
from brokerless.log.walk import check_ends
from brokerless.progress import Report, ignore
from brokerless.serving.source.bad_sectors import readable_end
from brokerless.serving.source.batch_finder import NOTHING, BatchFinder, Found, Spare, Want

REFRESH_S, REMOTE_REFRESH_S = 0.5, 10.0
"""How often a partition is listed again at most, while consumers wait at its end."""
_LARGE = 1 << 30
"""Bytes of a log whose last stable offset is found only for who needs it: all of its headers are read for that."""
_TRIES = 20
_WRITTEN_WITHIN_S = 0.2
NO_OFFSET, NO_TIMESTAMP, NO_EPOCH, NO_SEQUENCE = -1, -1, -1, -1


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets of a partition that clients may request."""

    start: int
    """The log start offset."""
    end: int
    """The next offset of the log, which is the high watermark, too."""
    stable: int | None
    """The last stable offset, None where it was not searched for."""
    reach: int = -1
    """Where the log ended before damage at its end; consumers may have read up to there."""


@dataclass(frozen=True, slots=True)
class Located:
    """An offset with the timestamp (ms) and leader epoch of its record; -1 where there is none."""

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class ServedTransaction:
    """A transaction without an end, the last sequence number of its producer, and the coordinator's epoch in the
    marker of the one before it; -1 where there is none."""

    transaction: Transaction
    last_sequence: int
    coordinator_epoch: int


@dataclass(slots=True)
class ServedPartition:
    """A partition that is served."""

    paths: PartitionPath
    report: Report
    skips_damage: bool = False
    epoch: int | None = None
    """The leader epoch that is announced, None before it is known."""
    spares: Sequence[Spare] = ()
    """Other replicas of the partition."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _finder: BatchFinder | None = None
    _bounds: tuple[int, int, int] | None = None
    _tail: Tail | None = None
    _tail_of: PartitionPath | None = None
    _latest: tuple[PartitionPath, Located] | None = None
    _epochs: tuple[PartitionPath, Epochs] | None = None
    _listed_at: float = field(default_factory=time.monotonic)
    _directory: DirectoryEntry | None = None
    _is_checked: bool = False
    _unreadable: set[str] = field(default_factory=set[str])

    @property
    def name(self) -> str:
        return partition_directory(*self.paths.place)

    @property
    def topic(self) -> str:
        return self.paths.topic or ""

    @property
    def number(self) -> int:
        return self.paths.partition or 0

    def offsets(self, *, needs_stable: bool = False) -> Offsets:
        """Return its offsets. ``needs_stable``: the last stable one in any case.

        Raises :class:`UnreadableError` where its files cannot be read."""
        with self._lock:
            self._refresh()
            start, end, reach = self._found_bounds()
            stable = None
            if needs_stable or self._tail is not None or self.paths.size <= _LARGE:
                stable = self._stable(end)
            return Offsets(start, end, stable, reach)

    def find(self, want: Want) -> Found:
        """Return the next range of batches. Raises :class:`UnreadableError`."""
        with self._lock:
            if self._finder is None:
                self._finder = BatchFinder(self.report, self.skips_damage, self.spares)
            for _ in range(_TRIES):
                try:
                    return self._finder.find(self.paths, want)
                except ReplacedError:
                    if not self._list():
                        raise
            return NOTHING

    def aborted(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the aborted transactions with data or a marker in ``start <= offset < end``: the producer's ID and the
        first offset of each."""
        with self._lock:
            transactions = None if self._tail is None else self._tail.transactions
            ended = [] if transactions is None else transactions.ended
            return [
                (each.producer_id, each.first_offset)
                for each in ended
                if each.state == "aborted" and each.first_offset is not None
                if each.last_offset >= start and each.first_offset < end
            ]

    def unmarked_end(self, start: int) -> int | None:
        """Return the offset after the first aborted transaction that ends at ``start`` or later and has no marker:
        there, nothing tells a consumer that it is over. None without one."""
        with self._lock:
            transactions = None if self._tail is None else self._tail.transactions
            ended = [] if transactions is None else transactions.ended
            return min(
                (each.last_offset + 1 for each in ended if not each.has_marker and each.last_offset >= start),
                default=None,
            )

    def open_transactions(self) -> list[ServedTransaction]:
        """Return the transactions that have not ended.

        Raises :class:`UnreadableError`."""
        with self._lock:
            self.offsets(needs_stable=True)
            transactions = None if self._tail is None else self._tail.transactions
            if transactions is None or not transactions.open:
                return []
            epochs = {each.producer_id: each.coordinator_epoch for each in transactions.ended}
            found: list[ServedTransaction] = []
            for each in transactions.open.values():
                batch, epoch = self._batch_at(each.last_offset), epochs.get(each.producer_id)
                sequence = NO_SEQUENCE if batch is None else int(batch.last_sequence[0])
                found.append(ServedTransaction(each, sequence, NO_EPOCH if epoch is None else epoch))
            return found

    def epochs(self) -> Epochs:
        """Return its leader epochs with their first offsets, the announced one last."""
        with self._lock:
            return assign(self._recorded_epochs(), self.announced_epoch(), self._start_and_end()[1])

    def announced_epoch(self) -> int:
        """Return the leader epoch that is announced: that of the cluster's metadata, or else the last one of the
        log."""
        with self._lock:
            if self.epoch is None:
                epochs = self._recorded_epochs()
                self.epoch = epochs[-1][0] if epochs else 0
            return self.epoch

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one, and where it ended; -1 and -1 where that is not known."""
        with self._lock:
            found = end_offset_for(self.epochs(), epoch, self._start_and_end()[1])
        return (NO_EPOCH, NO_OFFSET) if found is None else found

    def earliest(self) -> Located:
        """Return the log start offset, and the newest leader epoch that begins there or before, if any."""
        start, epochs = self.offsets().start, self.epochs()
        epoch = max((epoch for epoch, first in epochs if first <= start), default=NO_EPOCH)
        return Located(start, NO_TIMESTAMP, epoch)

    def at_time(self, timestamp: int) -> Located:
        """Return the first record whose timestamp (ms) is at least this."""
        with self._lock:
            self._refresh()
            for _ in range(_TRIES):
                try:
                    found = offset_for_timestamp(self.paths, timestamp)
                    return Located() if found is None else Located(*found, self._epoch_at(found[0]))
                except ReplacedError:
                    if not self._list():
                        raise
            return Located()

    def latest_time(self) -> Located:
        """Return the first record with the largest timestamp."""
        with self._lock:
            self._refresh()
            if self._latest is None or self._latest[0] is not self.paths:
                self._latest = self.paths, self._find_latest_time()
            return self._latest[1]

    def _find_latest_time(self) -> Located:
        latest = NO_TIMESTAMP
        for each in open_segments(self.paths, self.report):
            for chunk in scan_headers(each.file, ignore):
                latest = max(latest, int(chunk.batches.max_timestamp.max()))
        return Located() if latest < 0 else self.at_time(latest)

    def _epoch_at(self, offset: int) -> int:
        """The leader epoch of the batch with an offset."""
        batch = self._batch_at(offset)
        return NO_EPOCH if batch is None else max(NO_EPOCH, int(batch.partition_leader_epoch[0]))

    def _batch_at(self, offset: int) -> Batches | None:
        """The header of the batch with an offset."""
        for segment in reversed(self.paths.segments):
            if segment.base_offset <= offset:
                with open_listed(segment, segment is self.paths.segments[-1]) as file:
                    position = first_position(file, segment, offset)
                    for chunk in scan_headers(file, ignore, position, position + 1):
                        return chunk.batches
        return None

    def _recorded_epochs(self) -> Epochs:
        if self._epochs is None or self._epochs[0] is not self.paths:
            self._epochs = self.paths, load_epochs(self.paths.leader_epoch_checkpoint)
        return self._epochs[1]

    def _start_and_end(self) -> tuple[int, int]:
        return self._found_bounds()[:2]

    def _found_bounds(self) -> tuple[int, int, int]:
        if self._bounds is None:
            start = self.paths.start_offset
            if start is None:
                start = self.paths.log_start_offset
                self._bounds = start, start, start
            else:
                if not self._is_checked:
                    self._report_missing()
                end, reach = self._end()
                self._bounds = start, max(start, end), max(start, reach)
        return self._bounds

    def _end(self) -> tuple[int, int]:
        """Return where the log ends: where damage is skipped, without that at its end, so that consumers come to the
        end; and with it. Of a last segment that is not read to its end, it is only known that it goes on, so that
        consumers get an error there, unless damage is skipped."""
        last = self.paths.segments[-1]
        try:
            reach = end_offset(self.paths) or 0
            return (look(self.paths).end_offset if self.skips_damage and not self.spares else reach), reach
        except ReplacedError:
            raise
        except UnreadableError as error:
            self.report(error.finding(last.log.path, last.base_offset))
        end = last.base_offset
        with suppress(UnreadableError), open_listed(last, True) as file:
            end = readable_end(file, last)
        return end if self.skips_damage else end + 1, end + 1

    def _report_missing(self) -> None:
        self._is_checked = True
        for finding in self.paths.findings:
            self.report(finding)
        check_ends(self.paths, self.report)
        finding = log_start_after_end(self.paths)
        if finding is not None:
            self.report(finding)

    def _stable(self, end: int) -> int:
        for _ in range(_TRIES + len(self.paths.segments)):
            readable = tuple(each for each in self.paths.segments if each.log.path not in self._unreadable)
            if not readable:
                return end
            try:
                if self._tail is None or self._tail_of is not self.paths:
                    # The announced end may be after the last intact batch, where the rest is damaged.
                    paths = replace(self.paths, segments=readable)
                    self._tail = look_committed(paths, self._tail, None, self.report)
                    self._tail_of = self.paths
                break
            except ReplacedError:
                if not self._list():
                    raise
            except UnreadableError as error:
                failed = [each for each in readable if each.log.path == error.path]
                if not failed:
                    raise
                self.report(error.finding(failed[0].log.path, failed[0].base_offset))
                self._unreadable.add(error.path)
        transactions = None if self._tail is None else self._tail.transactions
        stable = None if transactions is None else transactions.last_stable_offset
        return end if stable is None else min(end, max(stable, self._start_and_end()[0]))

    def survey(self) -> None:
        """Report what consumers will not get, as far as that is seen without reading all: files that cannot be opened,
        an end that is cut off, and open transactions. Of a log that is elsewhere, nothing is read before anybody
        else does; but remote segments are opened, which needs their key pairs."""
        if self.paths.location.is_remote and not is_tiered(self.paths.location):
            return
        if is_tiered(self.paths.location):
            with self._lock:
                self._report_unreadable(self.paths.segments[-1:])
            return
        try:
            self.offsets()
            with self._lock:
                self._report_unreadable(self.paths.segments[:-1])
                self._report_cut_end()
                self._report_open()
        except UnreadableError as error:
            self.report(error.finding(self.paths.path))

    def _report_unreadable(self, segments: Sequence[SegmentPaths]) -> None:
        for segment in segments:
            try:
                open_listed(segment, False).close()
            except ReplacedError:
                pass
            except UnreadableError as error:
                self.report(error.finding(segment.log.path, segment.base_offset))

    def _report_cut_end(self) -> None:
        found: list[Finding] | None = None
        for pause_s in (0.0, _WRITTEN_WITHIN_S):  # a broker may be writing its last batch
            time.sleep(pause_s)
            again: list[Finding] = []
            for segment in self.paths.segments[-1:]:
                with suppress(UnreadableError), open_listed(segment, True) as file:
                    last_offset(file, segment, again.append)
            found = again if found is None else [each for each in again if each in found]
            if not found:
                return
        for finding in found or ():
            self.report(finding)

    def _report_open(self) -> None:
        transactions = None if self._tail is None else self._tail.transactions
        first = None if transactions is None else transactions.last_stable_offset
        if transactions is None or first is None:
            return
        text = "consumers with read_committed stop there, those with read_uncommitted go on"
        text += f"; {len(transactions.open)} have no end" if len(transactions.open) > 1 else ""
        self.report(open_transaction(self.paths.path, first, text))

    def _refresh(self) -> None:
        """Lists the partition again where its directory or its last segment has changed."""
        now, location = time.monotonic(), self.paths.location
        if now - self._listed_at < (REMOTE_REFRESH_S if location.is_remote else REFRESH_S):
            return
        self._listed_at = now
        if location.is_remote:
            self._list()
            return
        above, active = location.containing, self.paths.segments[-1:]
        if above is None or any(each.log.path == self.paths.path for each in active):
            return
        directory = above.find_entry(location.name)
        is_same = directory is not None and directory == self._directory
        self._directory = directory
        if not is_same or any(location.find_entry(each.log.name) != each.log for each in active):
            self._list()

    def _list(self) -> bool:
        """Lists it again; whether it is still there."""
        again = list_again(self.paths, self.report)
        if again is None:
            return False
        if again != self.paths:
            self.paths, self._bounds = again, None
        return True
