"""Says how a segment's log file ends: with its last batch, within one, in zeros, or in something else."""

from __future__ import annotations

from numpy import uint8
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.other_files import LONGEST_MAGIC, name_contents
from brokerless.log.names import parse_segment_file
from brokerless.log.storage.files import File

_MOST_OFFSETS = MAX_INT32
"""How far a segment's offsets are from the one that it is named after, at most."""
_FARTHEST_OFFSET = 1 << 56
"""Where a name says no offset, one above this is rather something else, such as text."""
_LEAST_BLOCK, _LARGEST_BLOCK = 1 << 16, 8 << 20
"""Bytes that are read at once where nothing but zeros is expected: few at first, as it may be otherwise."""


def describe_end(file: File, position: int, zeros: int | None = None) -> Finding | None:
    """Return the finding about the end of a chain of batches at ``position``, if anything is wrong with it. ``zeros``:
    how many bytes are checked for being all zero; by default all are."""
    left = file.size - position
    if left <= 0:
        return None
    if file.size_now() < file.size:
        return describe_shrinking(file, position, file.size_now())
    head = file.read(position, layouts.HEADER_SIZE_UP_TO_MAGIC)
    if len(head) < min(left, layouts.HEADER_SIZE_UP_TO_MAGIC):
        return describe_shrinking(file, position, position + len(head))
    offset = int.from_bytes(head[:8].tobytes(), "big", signed=True) if left >= layouts.LOG_ENTRY_SIZE else None
    if left <= layouts.HEADER_SIZE_UP_TO_MAGIC:
        if not head.any():
            text = "zero bytes at the end, too few for a batch; Kafka's reader takes no notice of them"
            return Kind.TRAILING_ZEROS.at(file.path, text, position=position, expected="the end", found=f"{left} bytes")
        if not _may_begin_a_batch(head, file.path):
            return no_batches(file, position, left)
        text = "the file ends within the header of a batch: it was not written to its end, or was cut off"
        return Kind.TRUNCATED_BATCH.at(
            file.path, text, severity="warning", position=position, expected="a whole batch", found=f"{left} bytes"
        )
    size = int.from_bytes(head[8:12].tobytes(), "big", signed=True)
    if size < layouts.MESSAGE_V0_OVERHEAD:
        return _zeros(file, position, zeros) or _no_size(file, position, offset, size)
    if not _may_begin_a_batch(head, file.path):
        return no_batches(file, position, left)
    whole = size + layouts.LOG_ENTRY_SIZE
    if whole <= left:  # it was not there before, so that the chain ended: it was cut back, and is written again
        return describe_shrinking(file, position, position)
    text = "the file ends within a batch: it was not written to its end, or its size is wrong"
    found = f"{left} bytes"
    return Kind.TRUNCATED_BATCH.at(
        file.path, text, severity="warning", position=position, offset=offset, expected=f"{whole} bytes", found=found
    )


def _zeros(file: File, position: int, zeros: int | None) -> Finding | None:
    """Return the finding about a file that has nothing but zeros, or so many bytes of them."""
    if not is_zero(file, position, None if zeros is None else position + zeros):
        return None
    left = file.size - position
    text, found = "nothing but zeros from here on", f"{left} zero bytes"
    if zeros is not None and file.next_data(position + zeros) < file.size:
        text, found = f"nothing but zeros in the {zeros >> 20} MiB from here on", f"{left} bytes"
    text += ": a preallocated file whose end was not trimmed, or lost pages; Kafka's reader refuses them"
    return Kind.ZERO_TAIL.at(file.path, text, severity="error", position=position, expected="a batch", found=found)


def _no_size(file: File, position: int, offset: int | None, size: int) -> Finding:
    text = "the batches end here: the next batch's size is less than the smallest message takes"
    if position == 0 and (named := named_contents(file)) is not None:
        text = f"nothing here reads as a batch: {named}"
    expected = f"a size of at least {layouts.MESSAGE_V0_OVERHEAD}"
    return too_small(file.path, text, (position, offset), expected=expected, found=str(size))


def too_small(path: str, text: str, place: tuple[int, int | None], expected: str, found: str) -> Finding:
    """Return the finding about a batch whose size is none. ``place``: its position, and its offset if it has one."""
    position, offset = place
    return Kind.BATCH_SIZE_INVALID.at(path, text, position=position, offset=offset, expected=expected, found=found)


def describe_shrinking(file: File, position: int, end: int) -> Finding:
    """Return the finding about a file that ended at ``end`` when it was read, before the size that it had when it was
    opened. Nothing from ``position`` on was read."""
    return shrunk(file.path, position, sizes=(file.size, min(end, file.size_now())))


def shrunk(path: str, position: int, offset: int | None = None, sizes: tuple[int, int] | None = None) -> Finding:
    """Return the finding about a file of which nothing from ``position`` on was read. ``offset``: the first there, if
    that is known; ``sizes``: the file's when it was opened, and when it was read."""
    text = "the file became shorter while it was read: what was from here on was not read; read it again"
    expected, found = (None, None) if sizes is None else (f"{size} bytes" for size in sizes)
    return Kind.FILE_SHRUNK.at(path, text, position=position, offset=offset, expected=expected, found=found)


def _may_begin_a_batch(head: NDArray[uint8], path: str) -> bool:
    """Return whether the first bytes of something could be a batch of this segment, of which the rest was not written
    yet: by its magic, if it is there, and its offset, of which there may be fewer than eight bytes.

    To a broker (4.4.0) there is no difference: its recovery cuts off either; after a clean stop it appends after it.
    """
    if len(head) > layouts.MAGIC_POSITION and head[layouts.MAGIC_POSITION] > layouts.MAGIC_V2:
        return False
    known = head[:8].tobytes()
    least, most = (int.from_bytes(known.ljust(8, rest), "big") for rest in (b"\0", b"\xff"))
    name = parse_segment_file(path.replace("\\", "/").rpartition("/")[2])
    if name is None or name.kind != "log":
        return least <= _FARTHEST_OFFSET
    return name.offset <= most and least <= name.offset + _MOST_OFFSETS


def named_contents(file: File) -> str | None:
    """Return what a file is that is no log, by its first bytes; None where that is not known."""
    return name_contents(file.read(0, LONGEST_MAGIC).tobytes(), file.path)


def no_batches(file: File, position: int, left: int) -> Finding:
    """Return the finding about a file in which nothing from ``position`` on, ``left`` bytes, reads as a batch."""
    named = named_contents(file)
    text = f"nothing here reads as a batch: {named or 'this is not a Kafka log, or its beginning is lost'}"
    if position:
        text = "nothing from here on reads as a batch: the end of the log is lost, overwritten by something else"
    return Kind.NO_BATCHES.at(
        file.path, text, severity="error", position=position, expected="a batch", found=f"{left} bytes"
    )


def is_zero(file: File, position: int, until: int | None = None) -> bool:
    """Return whether a file has nothing but zero bytes from ``position`` on, or up to ``until``. Holes are passed
    over."""
    end = file.size if until is None else min(until, file.size)
    length = _LEAST_BLOCK
    while (position := file.next_data(position)) < end:
        block = file.read(position, min(length, end - position))
        if not len(block):  # it became shorter
            return True
        if block.max():
            return False
        position += len(block)
        length = min(8 * length, _LARGEST_BLOCK)
    return True
