"""Finds what a broker gets wrong by the indexes of segments that it does not recover.

Indexes have no checksums, and nobody compares them with the log: the last entry of the time index is the segment's
age, by which retention goes; the transaction index says which records ``read_committed`` passes over; the offset index
says where the last segment ends, and where a lookup begins.

Sources: ``LogSegment`` (``largestTimestamp``, ``readNextOffset``, ``collectAbortedTxns``; 4.4.0). Each was tried with
a broker (``tests/states``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.completion.offsets import next_offset
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.index.checks import (
    KEEP_INDEXES,
    SegmentBatches,
    check_offset_index,
    check_time_index,
    check_transaction_index,
    has_unmarked,
    keeping_indexes,
)
from brokerless.log.index.readers import load_offset_index, load_time_index, load_transaction_index
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import missing_offsets, missing_segment
from brokerless.log.partition import transactions_of
from brokerless.log.producer.recorded_aborts import RecordedAborts
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.producer.transactions import Transactions
from brokerless.log.recovery.trust import TrustedSegment
from brokerless.log.segment import scan, scan_headers
from brokerless.log.storage.location import Location
from brokerless.log.storage.segment_files import SegmentFiles
from brokerless.log.write.segment_state import first_timestamp
from brokerless.progress import ignore

Aborted = tuple[int, int, int]
"""An aborted transaction: its producer's id, the offset of its first record that is left (-1 where there is none, or it
is not known), and that of its marker."""
CheckSegment = Callable[[SegmentPaths, Sequence[Aborted]], list[Finding]]
Misleading = Literal["retention", "aborted-shown", "aborted-exposed", "end-hidden", "lookup"]
"""What a broker gets wrong by an index: how old a segment is, which records were aborted (as the index does not have
them, or as only the index had them and is rebuilt), where the log ends, or where an offset or a time is."""


@dataclass(frozen=True, slots=True)
class IndexEffect:
    """An effect of a misleading index: what a broker gets wrong by an index of a segment that it does not recover."""

    effect: Misleading
    base_offset: int
    finding: Finding
    """The finding about the index."""


def last_time_entry(files: SegmentFiles, base_offset: int) -> int | None:
    """Return the timestamp of a time index's last entry as a broker reads it, which takes all of the file for entries,
    and does not check it where the segment is not recovered (``LogSegment.largestTimestamp``, ``TimeIndex``); None
    where there is none."""
    if not files.has(base_offset, "time-index"):
        return None
    width = layouts.TIME_INDEX_ENTRY.itemsize
    with files.location(base_offset, "time-index").open() as file:
        count = file.size // width
        data = file.read((count - 1) * width, width) if count else b""
    return int(np.frombuffer(data, layouts.TIME_INDEX_ENTRY)["timestamp"][0]) if count else None


def misread_age(files: SegmentFiles, base_offset: int) -> IndexEffect | None:
    """Return that a broker takes a segment for older than its first batch, by the last entry of its time index; None
    where it does not."""
    read = last_time_entry(files, base_offset)
    if read is None or read < 0:
        return None
    with files.location(base_offset, "log").open() as file:
        if read >= first_timestamp(file):
            return None
    path = str(files.path(base_offset, "time-index"))
    text = "after a clean stop a broker takes the last entry of this for the age of its segment"
    finding = Kind.RETENTION_MISREAD.at(path, text, offset=base_offset)
    if _are_indexes_needed(files, base_offset):
        (finding,) = keeping_indexes([finding])
    return IndexEffect("retention", base_offset, finding.in_scope("start"))


def _are_indexes_needed(files: SegmentFiles, base_offset: int) -> bool:
    """Return whether the transaction index of a segment has an entry whose marker is not in its log."""
    path = files.path(base_offset, "transaction-index")
    if not files.has(base_offset, "transaction-index") or not path.stat().st_size:
        return False
    with files.location(base_offset, "log").open() as file:
        lasts = [chunk.batches.last_offset for chunk in scan_headers(file, ignore)]
    index = load_transaction_index(Location(str(path)), base_offset)
    return has_unmarked(index, np.concatenate([np.empty(0, np.int64), *lasts]))


@dataclass(frozen=True, slots=True)
class TrustedEnd:
    """The end of a log."""

    offset: int
    findings: tuple[Finding, ...] = ()
    """What was found in the log from the index's last entry on."""
    of_index: tuple[Finding, ...] = ()
    """What was found in the index."""
    hidden: tuple[IndexEffect, ...] = ()
    """The effect of an index that leads past the end, so that the segment counts as empty."""
    is_trusted: bool = False
    """Whether the end is that of the last segment by its index's last entry, which nobody checks after a clean stop
    (``LogSegment.readNextOffset``)."""

    @property
    def is_damaged(self) -> bool:
        """Whether Kafka throws as it looks for the end."""
        return any(each.severity == "error" and each.kind != Kind.NO_BATCHES for each in self.findings)


def trusted_end(files: SegmentFiles, base_offset: int) -> TrustedEnd:
    """Return where the log ends whose last segment begins at ``base_offset``, if it is not recovered."""
    findings: list[Finding] = []
    path = files.location(base_offset, "offset-index")
    index = load_offset_index(path, base_offset) if files.has(base_offset, "offset-index") else None
    of_index = () if index is None else index.findings
    with files.location(base_offset, "log").open() as file:
        chunks_from = partial(scan, file, findings.append, chain_only=True)
        end, is_found = next_offset(chunks_from, file.size, base_offset, index)
    if index is None or is_found:
        return TrustedEnd(end, tuple(findings), of_index, is_trusted=True)
    text = "the last entry points after the end of the log: a broker takes the segment for empty; "
    is_needed = _are_indexes_needed(files, base_offset)
    remedy = "delete its .index and .timeindex files before the start, and it reads the segment and rebuilds both"
    text += f"its indexes are {KEEP_INDEXES}" if is_needed else remedy
    last = int(index.offsets[-1])
    finding = Kind.OFFSET_INDEX_MISMATCH.at(path.path, text, severity="error", offset=last).in_scope("start")
    finding = finding.in_case(Kind.ABORT_MARKER_MISSING) if is_needed else finding
    hidden = (IndexEffect("end-hidden", base_offset, finding),)
    return TrustedEnd(base_offset, tuple(findings), (*of_index, finding), hidden, is_trusted=True)


def check_transaction_indexes(
    partition: PartitionPath, transactions: Transactions, check: CheckSegment
) -> Iterator[tuple[SegmentPaths, Finding]]:
    """Yield what of each segment's transaction index does not fit the aborted transactions whose markers are in its
    log, of which ``transactions`` are all. ``check``: compares one segment's, as :func:`check_segment` does.

    Where a log lacks offsets, it is not known where a transaction began whose records may have been among them.
    """
    aborted = [
        (each.producer_id, -1 if each.first_offset is None else each.first_offset, each.last_offset)
        for each in transactions.ended
        if each.state == "aborted"
    ]
    missing: list[range] | None = None
    for segment, following in zip_longest(partition.segments, partition.segments[1:]):
        end = 1 << 63 if following is None else following.base_offset
        own = [each for each in aborted if segment.base_offset <= each[2] < end]
        found = check(segment, own)
        if found and missing is None:  # which takes a look at the end of each segment
            missing = _missing_ranges(partition)
        if found and missing:
            found = check(segment, known_beginnings(own, missing))
        if any(not each.has_marker and segment.base_offset <= each.last_offset < end for each in transactions.ended):
            found = keeping_indexes(found)
        yield from ((segment, each) for each in found)


def known_beginnings(aborted: Iterable[Aborted], missing: Sequence[range]) -> list[Aborted]:
    """Return transactions with -1 for the first offset of those that may have begun in ``missing`` offsets."""
    last = max((each.start for each in missing), default=-1)
    return [(id_, -1 if first < last <= until else first, until) for id_, first, until in aborted]


def _missing_ranges(partition: PartitionPath) -> list[range]:
    findings = (missing_segment(each) for each in open_segments(partition, ignore))
    return [missing_offsets(each) for each in findings if each is not None]


def check_segment(segment: SegmentPaths, aborted: Iterable[Aborted]) -> list[Finding]:
    """Return what of a segment's transaction index, or of its absence, does not fit these aborted transactions."""
    columns = np.array(list(aborted), np.int64).reshape(-1, 3).T
    name = names.segment_file(segment.base_offset, "transaction-index")
    path, index = segment.log.path.removesuffix(segment.log.name) + name, None
    findings: list[Finding] = []
    if segment.transaction_index is not None:
        path = segment.transaction_index.path
        index = load_transaction_index(segment.transaction_index.location, segment.base_offset)
        findings += index.findings
    return [*findings, *check_transaction_index(index, path, *columns)]


def shown_aborted(
    partition: PartitionPath, base_offsets: Collection[int], rebuilt: Collection[int] = ()
) -> Iterator[IndexEffect]:
    """Yield which of these segments have aborted transactions that are not in their transaction index: a broker gives
    their records to ``read_committed``. The headers of all batches are read where a file says that there are
    transactions: a transaction index, or a snapshot of producers. ``rebuilt``: segments whose indexes a broker rebuilds
    by the markers in the log, so that it forgets those transactions whose marker is gone."""
    if not (base_offsets or rebuilt) or not _has_transactions(partition):
        return
    unmarked: list[Finding] = []
    transactions = transactions_of(partition, unmarked.append)
    for segment, finding in check_transaction_indexes(partition, transactions, check_segment):
        if segment.base_offset in base_offsets and finding.kind == Kind.TRANSACTION_INDEX_MISMATCH:
            yield IndexEffect("aborted-shown", segment.base_offset, finding.in_scope("start"))
    paths = {one.transaction_index.path: one.base_offset for one in partition.segments if one.transaction_index}
    for finding in unmarked:
        base_offset = paths.get(finding.file)
        if finding.kind == Kind.ABORT_MARKER_MISSING and base_offset in rebuilt:
            text = (
                f"{finding.message}; this start rebuilds it without, so that the records count as committed with the "
            )
            text += "producer's next commit, and read_committed ends before them until then"
            finding = replace(finding, message=text, by_scope=None)
            yield IndexEffect("aborted-exposed", base_offset or 0, finding.in_scope("start"))
    for finding in orphaned_aborts(partition):
        yield IndexEffect("aborted-exposed", finding.offset or 0, finding.in_scope("start"))


def orphaned_aborts(partition: PartitionPath) -> list[Finding]:
    """Return what transaction indexes without a log know of aborted transactions whose marker is not in any log; a
    broker deletes these files at its start (``LogLoader.loadSegmentFiles``, 4.4.0)."""
    recorded = RecordedAborts.of_entries(partition.orphaned_files)
    if recorded.is_empty:
        return []
    found: list[Finding] = []
    transactions_of(partition, found.append, recorded=recorded)
    text = "the log of this index is missing, and a start deletes it: "
    return [
        replace(each, message=text + each.message, by_scope=None)
        for each in found
        if each.kind == Kind.ABORT_MARKER_MISSING
    ]


def _has_transactions(partition: PartitionPath) -> bool:
    """Return whether an index or a snapshot of producers says so; a producer that was idle for a day before a segment
    was closed is in none. Without any snapshot, there may be some."""
    if any(each.transaction_index is not None for each in partition.segments) or not partition.producer_snapshots:
        return True
    loaded = (load_producer_snapshot(each.location) for each in partition.producer_snapshots)
    return any(
        bool(each.findings)
        or bool((each.coordinator_epochs >= 0).any())
        or bool((each.current_txn_first_offsets >= 0).any())
        for each in loaded
    )


def misled(
    partition: PartitionPath, files: SegmentFiles, segments: Collection[TrustedSegment]
) -> Iterator[IndexEffect]:
    """Yield all that a broker gets wrong by the indexes of those segments that it does not recover, of which the
    headers of all batches are read."""
    bases = [each.base_offset for each in segments if each.reason is None]
    yield from shown_aborted(partition, bases)
    last = max((each.base_offset for each in segments), default=None)
    for base in bases:
        if (age := misread_age(files, base)) is not None:
            yield age
        if base == last:
            yield from trusted_end(files, base).hidden
        yield from _lookups(files, base, is_last=base == last)


def _lookups(files: SegmentFiles, base: int, *, is_last: bool) -> Iterator[IndexEffect]:
    batches = _batches(files, base)
    found: list[Finding] = []
    if files.has(base, "offset-index"):
        offset_index = load_offset_index(files.location(base, "offset-index"), base)
        found += [*offset_index.findings, *check_offset_index(offset_index, batches, is_last)]
    if files.has(base, "time-index"):
        time_index = load_time_index(files.location(base, "time-index"), base)
        found += [*time_index.findings, *check_time_index(time_index, batches, is_last)]
    for each in found:
        if each.severity == "error":
            yield IndexEffect("lookup", base, each.in_scope("start"))


def _batches(files: SegmentFiles, base_offset: int) -> SegmentBatches:
    """All batches of a segment's log; checksums are not checked."""
    columns: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]] = []
    end = 0
    with files.location(base_offset, "log").open() as file:
        for chunk in scan_headers(file, ignore, chain_only=True):
            batches = chunk.batches
            columns.append((chunk.positions, batches.last_offset, batches.max_timestamp, batches.is_legacy))
            end = chunk.base + int(batches.ends[-1])
        size = file.size
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))
    positions, lasts, largest, is_legacy = map(np.concatenate, zip(*(columns or [nothing]), strict=True))
    valid = np.ones(len(positions), np.bool_)
    return SegmentBatches(positions, lasts, largest, is_legacy=is_legacy, valid=valid, end=end, size=size)
