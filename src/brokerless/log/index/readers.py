"""Reads a segment's indexes: offset to position, timestamp to offset, and aborted transactions.

Indexes are hints: a log can be read without them, and nothing in them has a checksum. What is wrong with one by itself
are its ``findings``; one with an error among them is not used for looking up. Whether it fits its log is another
question (``index_checks.py``).

Sources: ``AbstractIndex``, ``OffsetIndex``, ``TimeIndex``, ``TransactionIndex`` and ``AbortedTxn`` of Kafka 3.9.1;
KIP-33 (time index), KIP-98 (transaction index).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.arrays import Int64s
from brokerless.log.storage.files import File, limit_exceeded
from brokerless.log.storage.location import Location

LIMIT = 256 << 20
"""Bytes of an index that is read. Kafka's ``segment.index.bytes`` is 10 MB, and a log of 2 GB fills half of that."""

_ZERO_WINDOW = 1 << 20
_LONGEST_ENTRY = max(layouts.OFFSET_INDEX_ENTRY.itemsize, layouts.TIME_INDEX_ENTRY.itemsize)


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """An offset index: its entries in file order."""

    file: str
    base_offset: int
    offsets: Int64s
    """The entries' offsets (absolute, int64)."""
    positions: Int64s
    """The entries' positions (bytes, int64)."""
    slots: int
    """The file's capacity in entries: those after the last entry are zero, as Kafka preallocates them."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return the last entry whose offset is at most ``offset``, as (offset, position): a batch with this offset is
        at that position or after it. Without such an entry, and for an invalid index: (base offset, 0)."""
        slot = int(np.searchsorted(self.offsets, offset, side="right")) - 1
        if slot < 0 or not self.is_valid:
            return self.base_offset, 0
        return int(self.offsets[slot]), int(self.positions[slot])


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """A time index: its entries in file order."""

    file: str
    base_offset: int
    timestamps: Int64s
    """The entries' timestamps (ms, int64)."""
    offsets: Int64s
    """The entries' offsets (absolute, int64)."""
    slots: int
    """As for :class:`OffsetIndex`."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return the last entry whose timestamp is at most ``timestamp``, as (timestamp, offset): records with larger
        timestamps come at that offset or after it, but one with this very timestamp may be before. So the first record
        from a time on is found with ``lookup(time - 1)``. Without such an entry, and for an invalid index: (-1, base
        offset)."""
        slot = int(np.searchsorted(self.timestamps, timestamp, side="right")) - 1
        if slot < 0 or not self.is_valid:
            return layouts.NO_TIMESTAMP, self.base_offset
        return int(self.timestamps[slot]), int(self.offsets[slot])


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """The aborted transactions whose marker is in the segment: int64 arrays of one length, in file order."""

    file: str
    base_offset: int
    producer_ids: Int64s
    first_offsets: Int64s
    last_offsets: Int64s
    """The offsets of the markers."""
    last_stable_offsets: Int64s
    """How far a ``read_committed`` reader could get when the marker was written."""
    findings: tuple[Finding, ...] = ()

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def aborted(self, start_offset: int, end_offset: int) -> tuple[NDArray[np.bool_], bool]:
        """Return which transactions touch the offsets ``[start_offset, end_offset)`` (a mask over the entries), and
        whether that is all: if not, the indexes of later segments can have more
        (``TransactionIndex.collectAbortedTxns``)."""
        enough = self.last_stable_offsets >= end_offset
        touched = (self.last_offsets >= start_offset) & (self.first_offsets < end_offset)
        if not enough.any():
            return touched, False
        touched[int(np.argmax(enough)) + 1 :] = False
        return touched, True


def parse_offset_index(data: NDArray[np.uint8], file: str, base_offset: int, size: int | None = None) -> OffsetIndex:
    """Reads the bytes of a ``.index`` file; ``base_offset`` is that of its segment. ``size``: of the file, in bytes, if
    ``data`` is without the hole at its end. Never raises."""
    entries, slots, findings = _entries(data, layouts.OFFSET_INDEX_ENTRY, file, size)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    positions = entries["position"].astype(np.int64)
    if len(entries):
        _check_last_offset(findings, file, base_offset, offsets=offsets, entry_size=layouts.OFFSET_INDEX_ENTRY.itemsize)
        falls = np.flatnonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0)) + 1
        if positions[0] < 0:
            falls = np.append(0, falls)
        if len(falls):
            text = "offsets and positions must grow from entry to entry"
            at = int(falls[0])
            pairs = [f"offset {offsets[i]} at {positions[i]}" for i in (max(at - 1, 0), at)]
            findings.append(
                not_sorted(file, at * layouts.OFFSET_INDEX_ENTRY.itemsize, len(falls), int(offsets[at]), text, *pairs)
            )
    return OffsetIndex(file, base_offset, offsets, positions=positions, slots=slots, findings=tuple(findings))


def parse_time_index(data: NDArray[np.uint8], file: str, base_offset: int, size: int | None = None) -> TimeIndex:
    """Reads the bytes of a ``.timeindex`` file; see :func:`parse_offset_index`. Never raises."""
    entries, slots, findings = _entries(data, layouts.TIME_INDEX_ENTRY, file, size)
    timestamps = entries["timestamp"].astype(np.int64)
    offsets = entries["relative_offset"].astype(np.int64) + base_offset
    if len(entries):
        _check_last_offset(findings, file, base_offset, offsets=offsets, entry_size=layouts.TIME_INDEX_ENTRY.itemsize)
        falls = np.flatnonzero((timestamps[1:] <= timestamps[:-1]) | (np.diff(offsets) < 0)) + 1
        if len(falls):
            text = "timestamps must grow from entry to entry, and offsets must not fall"
            at = int(falls[0])
            pairs = [f"timestamp {timestamps[i]} at offset {offsets[i]}" for i in (at - 1, at)]
            findings.append(
                not_sorted(file, at * layouts.TIME_INDEX_ENTRY.itemsize, len(falls), int(offsets[at]), text, *pairs)
            )
    return TimeIndex(file, base_offset, timestamps, offsets=offsets, slots=slots, findings=tuple(findings))


def parse_transaction_index(data: NDArray[np.uint8], file: str, base_offset: int) -> TransactionIndex:
    """Reads the bytes of a ``.txnindex`` file; ``base_offset`` is that of its segment. Never raises.

    Entries after one with an unknown version are not read, as Kafka stops there.
    """
    entry = layouts.TRANSACTION_INDEX_ENTRY
    entries, _, findings = _entries(data, entry, file, None, is_preallocated=False)
    unknown = np.flatnonzero(has_unknown_version(entries))
    if len(unknown):
        at = int(unknown[0])
        text = "an entry of an unknown version; it and what follows was not read"
        found = str(int(entries["version"][at]))
        findings.append(
            Kind.INDEX_CORRUPT.at(
                file, text, severity="error", position=at * entry.itemsize, expected="version 0", found=found
            )
        )
        entries = entries[:at]
    columns = {name: entries[name].astype(np.int64) for name in entry.names or () if name != "version"}
    first, last, stable = columns["first_offset"], columns["last_offset"], columns["last_stable_offset"]
    impossible = np.flatnonzero((first < 0) | (first > last) | (last < base_offset) | (stable > last + 1))
    if len(impossible):
        at = int(impossible[0])
        text = f"{_count(len(impossible))} an aborted transaction that cannot have ended in this segment"
        expected = (
            f"{base_offset} or more for the last offset, no less than the first, and the last stable offset up to it"
        )
        found = f"first {first[at]}, last {last[at]}, last stable {stable[at]}"
        position = at * entry.itemsize
        findings.append(
            Kind.INDEX_CORRUPT.at(
                file, text, severity="error", position=position, offset=int(last[at]), expected=expected, found=found
            )
        )
    falls = np.flatnonzero(last[1:] <= last[:-1]) + 1
    if len(falls):
        at = int(falls[0])
        text = "last offsets must grow from entry to entry"
        pair = str(last[at - 1]), str(last[at])
        findings.append(not_sorted(file, at * entry.itemsize, len(falls), int(last[at]), text, *pair))
    return TransactionIndex(
        file,
        base_offset,
        columns["producer_id"],
        first_offsets=first,
        last_offsets=last,
        last_stable_offsets=stable,
        findings=tuple(findings),
    )


def has_unknown_version(entries: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which entries have a version that Kafka refuses to read (``TransactionIndex.iterable``, 4.4.0). Up to 4.1,
    it only read the first of the two bytes, and took negative versions for known ones."""
    return entries["version"] != 0


def load_offset_index(location: Location, base_offset: int) -> OffsetIndex:
    """Reads a ``.index`` file; one that cannot be read is an empty index with a finding."""
    return _load(parse_offset_index, location, base_offset, _read_preallocated)


def load_time_index(location: Location, base_offset: int) -> TimeIndex:
    """Reads a ``.timeindex`` file; one that cannot be read is an empty index with a finding."""
    return _load(parse_time_index, location, base_offset, _read_preallocated)


def load_transaction_index(location: Location, base_offset: int) -> TransactionIndex:
    """Reads a ``.txnindex`` file; one that cannot be read is an empty index with a finding."""

    def parse(data: NDArray[np.uint8], file: str, base_offset: int, _: int) -> TransactionIndex:
        return parse_transaction_index(data, file, base_offset)

    return _load(parse, location, base_offset, _read_whole)


def not_sorted(file: str, position: int, count: int, offset: int, rule: str, before: str, found: str) -> Finding:
    """Return the finding for entries that are not in order, of which the first is at ``position``."""
    text = f"{_count(count)} not in order: {rule}"
    return Kind.INDEX_NOT_SORTED.at(
        file, text, position=position, offset=offset, expected=f"more than {before}", found=found
    )


IndexT = TypeVar("IndexT", OffsetIndex, TimeIndex, TransactionIndex)


def _load(
    parse: Callable[[NDArray[np.uint8], str, int, int], IndexT],
    location: Location,
    base_offset: int,
    read: Callable[[File], tuple[NDArray[np.uint8], int]],
) -> IndexT:
    nothing = np.empty(0, np.uint8)
    try:
        with location.open() as file:
            if file.size <= LIMIT:
                data, size = read(file)
                return parse(data, location.path, base_offset, size)
            text = "an index larger than any that Kafka writes; it was not read"
            finding = limit_exceeded(location.path, text, file.size, LIMIT)
    except UnreadableError as error:
        finding = error.finding(location.path)
    return replace(parse(nothing, location.path, base_offset, 0), findings=(finding,))


def _read_whole(file: File) -> tuple[NDArray[np.uint8], int]:
    """The bytes of a file, and how many it has: fewer than at opening where a broker trims it meanwhile."""
    data = file.read(0, file.size)
    return data, len(data)


def _read_preallocated(file: File) -> tuple[NDArray[np.uint8], int]:
    """Read an index without the hole at its end, save the rest of an entry that may reach into it."""
    end = min(file.size, file.data_end() + _LONGEST_ENTRY)
    data = file.read(0, end)
    return data, len(data) if len(data) < end else file.size_now()


def _entries(
    data: NDArray[np.uint8], entry: np.dtype[Any], file: str, size: int | None, is_preallocated: bool = True
) -> tuple[NDArray[Any], int, list[Finding]]:
    """The entries before the zeros at the end, how many the file has room for, and what is wrong with its size."""
    findings: list[Finding] = []
    size = len(data) if size is None else max(size, len(data))
    slots, rest = divmod(size, entry.itemsize)
    if rest:
        text = "the size is not a whole number of entries: the file was cut off, or it is not an index"
        expected, found = f"a multiple of {entry.itemsize} bytes", f"{size} bytes"
        # Kafka rebuilds an offset or time index of such a size; of a transaction index it leaves the rest alone.
        severity = "error" if is_preallocated else "warning"
        position = slots * entry.itemsize
        findings.append(
            Kind.INDEX_CORRUPT.at(file, text, severity=severity, position=position, expected=expected, found=found)
        )
    used = slots
    if is_preallocated:
        used = -(-_end_of_nonzero(data[: slots * entry.itemsize]) // entry.itemsize)
        if not used and slots == 1 == len(data) // entry.itemsize and entry == layouts.TIME_INDEX_ENTRY:
            used = 1  # not room for one entry, but one: the first offset's timestamp is 0, and the largest
    return data[: used * entry.itemsize].view(entry), slots, findings


def _end_of_nonzero(data: NDArray[np.uint8]) -> int:
    """The number of bytes up to the last one that is not zero."""
    end = len(data)
    while end:
        start = max(0, end - _ZERO_WINDOW)
        nonzero = np.flatnonzero(data[start:end])
        if len(nonzero):
            return start + int(nonzero[-1]) + 1
        end = start
    return 0


def _check_last_offset(findings: list[Finding], file: str, base_offset: int, offsets: Int64s, entry_size: int) -> None:
    if offsets[-1] < base_offset:
        at = (len(offsets) - 1) * entry_size
        text = "the last entry's offset is before the segment's base offset"
        expected, found = f"{base_offset} or more", str(offsets[-1])
        findings.append(
            Kind.INDEX_CORRUPT.at(
                file, text, severity="error", position=at, offset=int(offsets[-1]), expected=expected, found=found
            )
        )


def _count(count: int) -> str:
    return "1 entry:" if count == 1 else f"{count} entries, this is the first:"
