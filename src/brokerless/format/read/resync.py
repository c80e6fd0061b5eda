"""Finds the next valid batch after damage, in bytes of unknown content.

A position counts as a batch only if its header is plausible and its checksum matches. In random bytes a v2 header is
plausible once in 2^24 positions where 1 GiB follows (magic, attributes, offset, a size that fits, consistent deltas and
counts), and once in 2^30 where 16 MiB do; one of v0 or v1 once in 2^50 (magic, attributes, lengths that add up to the
size). The checksum then matches by chance once in 2^32: in 1 TiB of random bytes, a false batch is found with a chance
of 2^-16. Salvage also decodes what was found, which a false batch does not survive.

Where a log is read on after damage (:func:`find_continuation`), a batch that is intact is not yet one of this log:
records may have batches as their values. Nothing in an intact batch is searched, and what looks like a part of a
damaged one is taken only if its offsets say that it comes after it, and what follows it does, too. Or if the damaged
one's checksum is right once it ends there: it does not cover the size, so that a size which alone is wrong is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.format import layouts
from brokerless.format.plain_varint import decode_unsigned, undo_zigzag
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers

_CANDIDATES = 256
_ALLOWANCE = 256 << 20
"""Bytes whose checksums are always computed; more than any broker's largest batch."""
_SHARE = 8
"""Such bytes for each byte that is searched."""
_FIRST_WINDOW, _WINDOW = 1 << 16, 8 << 20
"""Bytes that are searched at once, at first and later; a batch that is found may end far after them."""
_OVERLAP = 60
"""One less than the header that must be in the window where a batch begins in it."""

MOST_BROKEN = 256
"""Batches before a break that are examined for whether they are intact, at most."""

ReadRange = Callable[[int, int], NDArray[np.uint8]]
"""Reads from a position (the first argument) a number of bytes (the second), or as many as there are."""
IsPossible = Callable[[Batches, int], NDArray[np.bool_]]
"""Which batches of a buffer, which is at a position (bytes), may be what is searched: bool, shape ``(n,)``."""


def find_batch(buffer: NDArray[np.uint8], start: int = 0, until: int | None = None) -> int | None:
    """The position of the first valid batch that begins in ``[start, until)`` of a buffer, or None; by the rules of
    :func:`find_next_batch`."""
    end = len(buffer) if until is None else until
    return find_next_batch(lambda position, length: buffer[position : position + length], len(buffer), start, end)


def find_next_batch(
    read: ReadRange,
    size: int,
    start: int,
    until: int,
    largest: int = _ALLOWANCE,
    skip: Callable[[int], int] = lambda at: at,
    is_possible: IsPossible | None = None,
) -> int | None:
    """The position of the first valid batch that begins in ``[start, until)`` of ``size`` bytes, or None.

    There may be many false headers that each claim all the bytes after them: where their checksums would take more
    than a fixed share of what is searched, those of the largest are not computed; nor are those of batches of more than
    ``largest`` bytes. ``skip`` returns where to continue from a position after which there may be nothing but zeros.
    ``is_possible``: which batches count, by their headers.
    """
    from brokerless.format.read.batch_candidate_kernels import find_candidates

    begin, spent, window = start, 0, _FIRST_WINDOW
    while (start := max(start, skip(start) - _OVERLAP)) < until:
        buffer = read(start, min(window + _OVERLAP, size - start))
        if not len(buffer):
            return None
        at, end, more = 0, min(window, until - start), size - start - len(buffer)
        positions = np.empty(1, np.int64)  # the first one is nearly always valid
        while True:
            count, at = find_candidates(buffer, at, end, more, positions)
            batches = read_headers(buffer, positions[:count])
            if is_possible is not None and count:
                batches = batches.take(is_possible(batches, start))
            affordable: list[int] = []
            searched = (batches.positions + (start - begin)).tolist()
            for row, (before, each) in enumerate(zip(searched, batches.sizes.tolist(), strict=True)):
                if each <= largest and spent + each <= _ALLOWANCE + _SHARE * before:
                    affordable.append(row)
                    spent += each
            found = _first_valid(read, start, buffer, batches.take(np.array(affordable, np.int64)))
            if found is not None:
                return found
            if count < len(positions):
                break
            positions = np.empty(_CANDIDATES, np.int64)
        start += end
        window = min(8 * window, _WINDOW)
    return None


def _first_valid(read: ReadRange, start: int, buffer: NDArray[np.uint8], batches: Batches) -> int | None:
    """The position of the first batch with a matching checksum, in a buffer that is at ``start`` or after it."""
    is_inside = batches.ends <= len(buffer)
    inside = batches.take(is_inside)
    true = inside.positions[checksums_match(buffer, inside)]
    for row in np.flatnonzero(~is_inside).tolist():
        position, size = int(batches.positions[row]), int(batches.sizes[row])
        if len(true) and true[0] < position:
            break
        whole = read(start + position, size)
        if len(whole) == size and checksums_match(whole, read_headers(whole, np.zeros(1, np.int64)))[0]:
            return start + position
    return start + int(true[0]) if len(true) else None


@dataclass(frozen=True, slots=True)
class Continuation:
    """The place where a log goes on after damage."""

    broken_at: int
    """Where the damage begins (bytes): the first batch that is not intact, if the next intact one lies within it, or
    else where the batch scan breaks."""
    position: int
    """Where the next intact batch begins (bytes), or where a batch whose size alone is wrong ends."""
    first: int
    """The offset at ``position``."""
    after: int
    """The offset that was expected there."""


def find_continuation(
    read: ReadRange,
    size: int,
    before: Batches,
    stop: int,
    base_offset: int,
    largest: int = _ALLOWANCE,
    skip: Callable[[int], int] = lambda position: position,
) -> Continuation | None:
    """Find the next batch of a log of ``size`` bytes in which the batch scan breaks at ``stop``, or None.

    ``before``: the batches before it, with positions in the log; ``base_offset``: the lowest that it may have. What the
    chain has led to since the last intact batch is not believed, as a wrong size may have led over intact ones.
    """
    row = _last_intact(read, before, largest)
    expected = _Expected.after(before, row, base_offset)
    broken = before.take(slice(row + 1, len(before))) if row is not None else before.take(slice(0, 0))
    start = int(broken.positions[0]) if len(broken) else stop
    torn = read_headers(read(stop, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
    torn = Batches(torn.positions + stop, torn.raw, size)
    for each in (*(broken.take(slice(one, one + 1)) for one in range(len(broken))), torn):
        expected.suspect(each, size)
    if not len(broken) and expected.is_torn:
        found = _find_in_torn(read, size, stop + 1, expected=expected, largest=largest)
    else:
        found = _find_expected(read, size, start + 1, expected=expected, largest=largest, skip=skip)
        if not len(broken):
            found = _find_end(read, size if found is None else found, stop + 1, expected) or found
    if found is None:
        return None
    header = read_headers(read(found, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
    is_within = found < stop
    at = int(broken.positions[broken.positions < found][-1]) if is_within else stop
    return Continuation(at, found, int(header.entry_offset[0]), expected.next_offset)


def find_passed_over(
    read: ReadRange, before: Batches, stop: int, below: int, base_offset: int, largest: int = _ALLOWANCE
) -> Continuation | None:
    """Find the next batch of a log within a damaged one whose size leads exactly to ``stop`` (bytes), where the log
    ends, or a batch begins without the very next offset: the size may be wrong, and have led over others.

    ``before``: the batches up to the damaged one, with positions in the log; ``below``: the offset that the log goes on
    with at ``stop``; ``base_offset`` as for :func:`find_continuation`. None if there is no such batch.
    """
    row = _last_intact(read, before, largest)
    if row is None or row == len(before) - 1:
        return None
    expected, broken = _Expected.after(before, row, base_offset), before.take(slice(row + 1, len(before)))
    for one in range(len(broken)):
        expected.suspect(broken.take(slice(one, one + 1)), stop)
    start = int(broken.positions[-1])
    found = _find_expected(read, stop, start + 1, expected=expected, largest=largest, skip=lambda position: position)
    found = _find_end(read, stop if found is None else found, start + 1, expected) or found
    if found is None:
        return None
    header = read_headers(read(found, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
    if header.last_offset[0] >= below:
        return None
    return Continuation(start, found, int(header.entry_offset[0]), expected.next_offset)


def leads_back(read: ReadRange, before: Batches, position: int, largest: int = _ALLOWANCE) -> bool:
    """Return whether what was read at ``position`` (bytes) and after it are false headers, to which a wrong size has
    led, so that a log may go on there: they are as they were read, and none is an intact batch."""
    false = before.take(before.positions >= position)
    heads = (read(each, layouts.BATCH_V2_SIZE) for each in false.positions.tolist())
    is_same = all(np.array_equal(head, raw) for head, raw in zip(heads, false.raw, strict=True))
    is_whole = 0 < len(false) < len(before)
    return is_whole and is_same and not any(_is_intact(read, each, largest) for each in false.positions.tolist())


def _last_intact(read: ReadRange, before: Batches, largest: int) -> int | None:
    """The last row whose checksum is right, -1 if all are wrong; None if it is not among those that are examined."""
    for row in range(len(before) - 1, max(-1, len(before) - 1 - MOST_BROKEN), -1):
        if _is_intact(read, int(before.positions[row]), largest):
            return row
    return -1 if len(before) <= MOST_BROKEN else None


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A batch that is damaged or cut off."""

    start: int
    """Where the batch begins (bytes)."""
    end: int
    """Where the batch ends by its header (bytes)."""
    last_offset: int
    is_wrapper: bool

    def is_around(self, position: int) -> bool:
        return self.start < position < self.end


@dataclass(slots=True)
class _Expected:
    """The next batch of a log as it has to be. Messages v0 and v1, which have no epochs, may follow v2, as
    message.format.version was lowered.

    Offsets and epochs are not covered by checksums: where the last batch leaps, the one before it decides, so that one
    wrong offset hides nothing.
    """

    next_offset: int
    """The offset that comes next."""
    lowest: int
    """The lowest offset that is accepted."""
    epoch: int = layouts.NO_PARTITION_LEADER_EPOCH
    """The lowest leader epoch that is accepted."""
    suspects: list[_Suspect] = field(default_factory=list[_Suspect])
    is_torn: bool = False
    spent: int = 0
    """Bytes whose checksums were computed to find where suspects end."""
    walked: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """By where a suspect begins: the position of the last record that was checked, and how many were before it."""

    @classmethod
    def after(cls, before: Batches, row: int | None, base_offset: int) -> _Expected:
        if row is None or row < 0:
            return cls(base_offset, base_offset)
        near = before.take(slice(max(0, row - 1), row + 1))
        first, ends, epochs = int(near.entry_offset[-1]), near.end_of_records + 1, near.partition_leader_epoch
        leaps = len(near) > 1 and not near.is_legacy[-1] and first > int(ends[0])
        next_offset = int(ends[-1])
        return cls(next_offset, int(ends[0]) if leaps else next_offset, int(epochs.min()))

    def suspect(self, batch: Batches, size: int) -> None:
        """Remember a batch that is damaged or cut off, if its header makes sense here: what lies within it may be parts
        of its records, unless its offset is higher."""
        if not self.of_headers(batch)[0] or not _makes_sense(batch):
            return
        position, end = int(batch.positions[0]), int(batch.ends[0])
        self.is_torn = end > size and not batch.is_legacy[0] and int(batch.entry_offset[0]) == self.next_offset
        self.suspects.append(_Suspect(position, end, int(batch.last_offset[0]), bool(batch.is_wrapper[0])))

    def of_headers(self, batches: Batches) -> NDArray[np.bool_]:
        """Return which batches may follow, whatever is between."""
        fits = (batches.entry_offset >= self.lowest) & (batches.last_offset >= batches.entry_offset)
        fits &= batches.entry_offset <= min(self.next_offset + MAX_INT32, MAX_INT64)  # no segment has more offsets
        is_v2 = (batches.magic == layouts.MAGIC_V2) & (batches.partition_leader_epoch >= self.epoch)
        return fits & (is_v2 | (batches.is_legacy & (batches.magic >= 0)))

    def are_possible(self, batches: Batches, base: int) -> NDArray[np.bool_]:
        positions, possible = batches.positions + base, self.of_headers(batches)
        for each in self.suspects:
            is_within = (positions > each.start) & (positions < each.end)
            if each.is_wrapper:  # its messages may lie anywhere after it, as bytes may have been inserted
                is_within |= batches.is_legacy & ~batches.is_wrapper
            possible &= ~is_within | (batches.entry_offset > each.last_offset)
        return possible

    def goes_on(self, read: ReadRange, size: int, position: int, largest: int) -> bool:
        """Return whether after a batch within a damaged one another intact one follows: a record's value does not end
        its batch. Where the log ends, or the next one is damaged or cut off, all have to have the very next offsets."""
        around = [each for each in self.suspects if each.is_around(position)]
        if any(_is_in_value(read, each.start, position, self.walked) for each in around):
            return False
        one = read_headers(read(position, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
        end, next_offset = position + int(one.sizes[0]), int(one.last_offset[0]) + 1
        is_next = any(int(one.entry_offset[0]) == each.last_offset + 1 for each in self.suspects)
        if size - end <= layouts.HEADER_SIZE_UP_TO_MAGIC:
            return is_next
        following = read_headers(read(end, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
        if int(following.entry_offset[0]) < next_offset:
            return False
        if is_next and int(following.entry_offset[0]) == next_offset and not _end_well(read, size, around):
            return size - end < layouts.BATCH_V2_SIZE or _makes_sense(following) or _is_intact(read, end, largest)
        return _is_intact(read, end, largest)

    def may_end(self, read: ReadRange, position: int) -> bool:
        """Return whether a damaged batch has the right checksum if it ends at a position: its size alone is wrong
        then."""
        for each in self.suspects:
            length = position - each.start
            if not each.is_around(position) or self.spent + length > _ALLOWANCE:
                continue
            self.spent += length
            whole = read(each.start, max(length, layouts.BATCH_V2_SIZE)).copy()
            whole[8:12] = np.frombuffer((length - layouts.LOG_ENTRY_SIZE).to_bytes(4, "big", signed=True), np.uint8)
            if len(whole) >= length and checksums_match(whole, read_headers(whole, np.zeros(1, np.int64)))[0]:
                return True
        return False

    def is_within_suspect(self, position: int) -> bool:
        return any(each.is_around(position) for each in self.suspects)


def _find_expected(
    read: ReadRange, size: int, start: int, expected: _Expected, largest: int, skip: Callable[[int], int]
) -> int | None:
    while True:
        found = find_next_batch(
            read, size, start, until=size, largest=largest, skip=skip, is_possible=expected.are_possible
        )
        if found is None or not expected.is_within_suspect(found) or expected.goes_on(read, size, found, largest):
            return found
        if expected.may_end(read, found):
            return found
        start = found + 1


def _find_in_torn(read: ReadRange, size: int, start: int, expected: _Expected, largest: int) -> int | None:
    """Find a batch within one that is cut off, or whose size is wrong. No kernel is loaded for it, as the logs that end
    within a batch are mostly those that a broker is writing to."""
    for position, length in _candidates(read, size, start, expected):
        if expected.may_end(read, position):
            return position
        is_whole = length <= min(largest, size - position) and _is_intact(read, position, largest)
        if is_whole and expected.goes_on(read, size, position, largest):
            return position
    return None


def _find_end(read: ReadRange, until: int, start: int, expected: _Expected) -> int | None:
    """Return where a damaged batch ends whose size alone is wrong, before ``until`` (bytes), if a batch begins there:
    it may be damaged itself."""
    if not expected.suspects:
        return None
    until = min(until, expected.suspects[-1].end)
    return next((at for at, _ in _candidates(read, until, start, expected) if expected.may_end(read, at)), None)


def _candidates(read: ReadRange, until: int, start: int, expected: _Expected) -> Iterator[tuple[int, int]]:
    """Yield where batches may begin in ``[start, until)`` by their headers, and their sizes (both bytes)."""
    high, after = expected.next_offset >> 32, expected.suspects[-1].last_offset + 1
    message = after.to_bytes(8, "big")
    while start < until:
        buffer = read(start, _WINDOW + _OVERLAP)
        if len(buffer) < _WINDOW + _OVERLAP:  # a message at the end may be shorter than a header
            buffer = np.concatenate([buffer, np.zeros(_OVERLAP, np.uint8)])
        count = min(len(buffer) - _OVERLAP, until - start)
        may_begin = (buffer[16 : count + 16] == layouts.MAGIC_V2) & (buffer[21 : count + 21] == 0)
        at_messages = _find_all(buffer[: count + _OVERLAP].tobytes(), message)
        for at in sorted({*np.flatnonzero(may_begin).tolist(), *(each for each in at_messages if each < count)}):
            head = read_headers(buffer[at : at + layouts.BATCH_V2_SIZE], np.zeros(1, np.int64))
            offset = int(head.entry_offset[0])
            if not 0 <= (offset >> 32) - high <= 1 or head.is_wrapper[0]:
                continue  # a wrapper message does not say where it begins
            if offset != after and not _makes_sense(head):
                continue
            if expected.are_possible(head, start + at)[0]:
                yield start + at, int(head.sizes[0])
        start += count


def _find_all(data: bytes, wanted: bytes) -> Iterator[int]:
    at = -1
    while (at := data.find(wanted, at + 1)) >= 0:
        yield at


def _is_intact(read: ReadRange, position: int, largest: int) -> bool:
    """Return whether a batch that begins at a position has the right checksum."""
    length = int(read_headers(read(position, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64)).sizes[0])
    if not layouts.LOG_ENTRY_SIZE < length <= largest:
        return False
    whole = read(position, max(length, layouts.BATCH_V2_SIZE))
    return len(whole) >= length and bool(checksums_match(whole, read_headers(whole, np.zeros(1, np.int64)))[0])


def _end_well(read: ReadRange, size: int, suspects: list[_Suspect]) -> bool:
    """Return whether the size of one of some damaged batches seems right: the file ends there, or another header
    follows."""
    ends = [each.end for each in suspects if each.end < size]
    headers = (read_headers(read(end, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64)) for end in ends)
    return any(each.end == size for each in suspects) or any(_makes_sense(each) for each in headers)


def _is_in_value(read: ReadRange, start: int, position: int, walked: dict[int, tuple[int, int]]) -> bool:
    """Return whether a position is in a value of a v2 batch that begins at ``start``, by the lengths of its records. Of
    messages and of compressed records this is not known. Positions have to ascend (``walked``)."""
    header = read_headers(read(start, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
    if header.is_legacy[0] or header.codec[0]:
        return False
    at, first = walked.get(start, (start + layouts.BATCH_V2_SIZE, 0))
    for row in range(first, int(header.count[0])):
        walked[start] = at, row
        if at >= position:
            return False
        fields = read(at, _MOST_FIELDS).tobytes()
        length, begin = _read_varint(fields, 0)
        end = at + begin + length
        if length <= 0 or fields[begin : begin + 1] != b"\0":
            return False
        if end > position:
            place = begin + 1
            for _ in range(2):  # deltas of timestamp and offset
                _, place = _read_varint(fields, place)
            key, place = _read_varint(fields, place)
            at += place + max(key, 0)
            value, place = _read_varint(read(at, _MOST_FIELDS).tobytes(), 0)
            return at + place <= position < at + place + value < end
        at = end
    return False


_MOST_FIELDS = 40
"""Bytes that the fields before a record's key take at most."""


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag and where it ends; 0 where it does not end."""
    found = decode_unsigned(data, at, len(data), 10)
    return (0, at) if found is None else (undo_zigzag(found[0]), found[1])


def _makes_sense(batch: Batches) -> bool:
    """Return whether the rest of a header is that of a batch with at least one record."""
    if batch.is_legacy[0]:
        is_v0 = batch.magic[0] == layouts.MAGIC_V0
        key = (layouts.MESSAGE_V0_HEADER_SIZE if is_v0 else layouts.MESSAGE_V1_HEADER_SIZE) - 4
        key_length = int.from_bytes(batch.raw[0, key : key + 4].tobytes(), "big", signed=True)
        return 0 <= int(batch.attributes[0]) < 16 and -1 <= key_length <= int(batch.sizes[0])
    high, low = batch.raw[0, layouts.BATCH_CRC_START : layouts.BATCH_CRC_START + 2].tolist()
    span = int(batch.last_offset[0]) - int(batch.entry_offset[0]) + 1
    is_large = int(batch.sizes[0]) >= layouts.BATCH_V2_SIZE
    return is_large and high == 0 and low < 128 and low & layouts.CODEC_MASK <= 4 and 0 < int(batch.count[0]) <= span
