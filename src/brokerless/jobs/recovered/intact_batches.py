"""Finds the intact batches and the damaged regions of a file that may be damaged anywhere.

Batches are found by a batch scan, and where it breaks, by structure and checksum. Nothing but the batch that is
read is ever in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import Damage, release_memory
from brokerless.format.read.batch_headers import Batches, checksums_match, read_headers
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.format.read.resync import find_next_batch
from brokerless.format.read.wrappers import inspect_wrappers
from brokerless.jobs.recovered.damaged_regions import Region
from brokerless.log.offsets_once.parts import decode_batch
from brokerless.log.segment import LARGEST_WINDOW, Chunk, all_decoded, scan
from brokerless.log.storage.files import File

INTACT_BATCH = np.dtype(
    [
        ("file", "i4"),
        ("position", "i8"),
        ("size", "i8"),
        ("first", "i8"),
        ("last", "i8"),
        ("records", "i4"),
        ("epoch", "i4"),
        ("base_timestamp", "i8"),
        ("max_timestamp", "i8"),
        ("checksum", "u4"),
        ("magic", "i1"),
        ("follows", "?"),
        ("compacted", "?"),
        ("partial", "?"),
        ("complete", "?"),
        ("past_last", "?"),
        ("restamped", "?"),
    ]
)
"""An intact batch. ``first`` and ``last``: its offsets; ``position`` and ``size`` in bytes; timestamps in ms;
``follows``: whether it is directly after another intact batch; ``compacted``: whether it shows that it was
compacted; ``partial``: of its records, those from ``first`` to ``last`` are meant: others do not decode, or other
batches have their offsets; ``complete``: but those are all, and only its header's last offset is another;
``past_last``: its records go past the last offset that its header says;
``restamped``: ``epoch`` is not that of its header, which no checksum covers, but the one that is right."""

_STEP = 1 << 20
_LARGE = 1 << 20


def find_intact_batches(
    file: File,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    partial: bool = False,
    is_log: bool = True,
    start: int = 0,
) -> Iterator[NDArray[np.void] | Region]:
    """Yield the intact batches of a file (:data:`INTACT_BATCH`, shape ``(n,)``), and the regions between them, by
    position.

    ``max_batch_bytes``: bytes that one batch may inflate to; a larger one is not intact. ``partial``: of v2 batches
    whose checksum is right, but whose records do not decode to the end, what comes before counts as intact.
    ``is_log``: the file is one log, in which offsets go up, and not an image that may have many. ``start``: the
    position (bytes) from which on it is read.
    """
    finder = _SearchState(file, max_batch_bytes, partial, is_log)
    finder.at = start
    while finder.at < file.size:
        yield from finder.follow()


class _SearchState:
    """The state of a search: where in a file it is."""

    def __init__(self, file: File, max_batch_bytes: int, partial: bool, is_log: bool) -> None:
        self._partial, self._is_log = partial, is_log
        self.at = 0
        """Everything before this position was yielded."""
        self._file, self._end, self._limit = file, -1, max_batch_bytes
        self._after: int | None = None
        """The offset after the last intact batch, which ended at ``_end``."""
        self._wrapper_end = 0
        """Where a damaged wrapper message ends, as it says."""
        self._has_wrappers = False
        self._decoder = Decoder(keys=False, values=False, headers=False, max_batch_bytes=max_batch_bytes)

    def follow(self) -> Iterator[NDArray[np.void] | Region]:
        """Follows the chain from where the search is to where it breaks, and goes to the next true batch."""
        ends: list[Finding] = []
        for chunk in scan(self._file, ends.append, self.at, step=_STEP, chain_only=True):
            begin = int(chunk.positions[0])
            if begin > self.at:
                yield self._region(begin, Kind.LIMIT_EXCEEDED, "a batch larger than what is read at once")
            end = chunk.base + int(chunk.batches.ends[-1])
            yield from self._of_chunk(chunk)
            if self.at != end:
                return
        if self.at >= self._file.size:
            return
        if ends and ends[-1].kind == Kind.FILE_SHRUNK:
            yield self._region(self._file.size, Kind.FILE_SHRUNK, ends[-1].message)
            return
        if ends and ends[-1].kind in (Kind.ZERO_TAIL, Kind.TRAILING_ZEROS):
            yield self._region(self._file.size, Kind.ZERO_TAIL, "nothing but zero bytes up to the end")
            return
        kind, text = Kind.TRUNCATED_BATCH, "no complete batch begins here"
        if ends:
            kind, text = ends[-1].kind, ends[-1].message
        self._believe_wrapper(self.at)
        found = self._search(self.at + 1)
        yield self._region(self._file.size if found is None else found, kind, text)

    def _of_chunk(self, chunk: Chunk) -> Iterator[NDArray[np.void] | Region]:
        batches, positions = chunk.batches, chunk.positions
        matches = _checksums_match(chunk.buffer, batches)
        valid = matches & _is_possible(batches)
        broken = np.flatnonzero(~valid)
        row = 0
        while row < len(batches):
            at = int(np.searchsorted(broken, row))
            bad = int(broken[at]) if at < len(broken) else len(batches)
            if bad > row:
                yield from self._decodable(chunk, slice(row, bad))
            if bad == len(batches):
                return
            self._believe_wrapper(int(positions[bad]))
            found = self._behind(chunk, valid, bad)
            end = self._file.size if found is None else found
            kind, text = Kind.CHECKSUM_MISMATCH, "the checksum of the batch does not match"
            if matches[bad]:
                kind, text = Kind.OFFSET_MISPLACED, "the checksum of the batch is right, but it has impossible offsets"
            yield self._region(end, kind, text, batches=batches, row=bad)
            row = int(np.searchsorted(positions, end))
            if row == len(positions) or positions[row] != end:
                return

    def _behind(self, chunk: Chunk, valid: NDArray[np.bool_], bad: int) -> int | None:
        """Return where the next true batch is after a damaged one."""
        batches, positions = chunk.batches, chunk.positions
        following = bad + 1
        if following == len(batches) or not valid[following]:
            return self._search(int(positions[bad]) + 1)
        if batches.entry_offset[following] == batches.last_offset[bad] + 1:
            return int(positions[following])
        # Its size may have led over others. But what has no place between its neighbours is part of a record's value.
        start, end = int(positions[bad]) + 1, int(positions[following])
        while (found := self._search(start, end)) is not None:
            inner = read_headers(self._file.read(found, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
            after = -1 if self._after is None else self._after
            if after <= inner.entry_offset[0] and inner.last_offset[0] < batches.entry_offset[following]:
                return found
            start = found + 1
        return end

    def _decodable(self, chunk: Chunk, rows: slice) -> Iterator[NDArray[np.void] | Region]:
        batches = chunk.batches.take(rows)
        damages = self._damages(chunk, batches)
        positions = batches.positions + chunk.base
        broken = np.flatnonzero(np.isin(positions, list(damages))) if damages else np.empty(0, np.int64)
        row = 0
        for bad in [*broken.tolist(), len(batches)]:
            if bad > row:
                yield self._intact(chunk, batches.take(slice(row, bad)))
            if bad < len(batches):
                damage = damages[int(positions[bad])]
                is_readable = damage.kind == Kind.MESSAGE_CHECKSUM_MISMATCH or (
                    self._partial and not batches.is_legacy[bad]
                )
                parts: list[NDArray[np.void]] = []
                if is_readable and not batches.is_control[bad]:
                    parts = self._parts_of(chunk, batches.take(slice(bad, bad + 1)))
                for each in parts[:1]:
                    self._after = int(each["last"][0]) + 1
                    yield each
                yield self._region(
                    chunk.base + int(batches.ends[bad]), damage.kind, damage.message, batches=batches, row=bad
                )
                for each in parts[1:]:
                    self._after = int(each["last"][0]) + 1
                    yield each
            row = bad + 1

    def _damages(self, chunk: Chunk, batches: Batches) -> dict[int, Damage]:
        """Return why batches do not decode, by their positions in the file."""
        damages: dict[int, Damage] = {}
        is_huge = False
        for decoded in decode_whole(self._decoder, chunk.buffer, batches, chunk.base):
            damages |= {damage.position: damage for damage in decoded.damages}
            is_huge |= decoded.columns.is_huge
            del decoded
        if is_huge:
            release_memory()
        return damages

    def _parts_of(self, chunk: Chunk, batch: Batches) -> list[NDArray[np.void]]:
        """The records of a batch before it breaks off, or those of a wrapper message that are intact; its bytes are
        still those of a region."""
        columns = decode_batch(chunk.buffer, batch, self._limit)
        if columns is None:
            return []
        at, end, offsets = self.at, self._end, columns.offset[: columns.rows]
        intact = self._intact(chunk, batch)
        intact["partial"], intact["complete"] = True, False
        self.at, self._end = at, end
        parts: list[NDArray[np.void]] = []
        borders = np.flatnonzero(np.diff(offsets) != 1) + 1 if batch.is_legacy[0] else []
        for start, after in zip([0, *borders], [*borders, len(offsets)], strict=True):
            part = intact.copy()
            part["first"], part["last"], part["records"] = offsets[start], offsets[after - 1], after - start
            if not batch.is_legacy[0]:
                part["first"] = intact["first"]
            parts.append(part)
        return parts

    def _intact(self, chunk: Chunk, batches: Batches) -> NDArray[np.void]:
        intact = np.zeros(len(batches), INTACT_BATCH)
        inside = inspect_wrappers(chunk.buffer, batches, self._limit)
        first = np.where(inside.has_base_offset, inside.base_offset, batches.entry_offset)
        intact["position"], intact["size"] = batches.positions + chunk.base, batches.sizes
        intact["first"], intact["last"], intact["records"] = first, batches.end_of_records, inside.count
        for row in np.flatnonzero(batches.goes_past_last_offset).tolist():
            intact["last"][row] = self._last_offset(chunk, batches.take(slice(row, row + 1)))
        intact["partial"] = intact["complete"] = intact["past_last"] = intact["last"] > batches.last_offset
        intact["epoch"], intact["checksum"], intact["magic"] = (
            batches.partition_leader_epoch,
            batches.checksum,
            batches.magic,
        )
        intact["max_timestamp"] = batches.max_timestamp
        has_base = ~batches.is_legacy & ~batches.has_delete_horizon
        intact["base_timestamp"] = np.where(has_base, batches.base_timestamp, batches.max_timestamp)
        intact["follows"] = True
        intact["follows"][0] = int(intact["position"][0]) == self._end
        span = batches.end_of_records - batches.entry_offset + 1
        intact["compacted"] = ~batches.is_legacy & (
            ~batches.is_control & (batches.count < span) | batches.has_delete_horizon
        )
        self.at = self._end = int(intact["position"][-1] + intact["size"][-1])
        self._after = int(intact["last"][-1]) + 1
        self._has_wrappers = bool(batches.is_wrapper[-1])
        return intact

    def _last_offset(self, chunk: Chunk, batch: Batches) -> int:
        """The highest offset of a batch's records, which its header does not say."""
        last = int(batch.last_offset[0])
        for decoded in all_decoded(self._decoder, chunk, batch):
            last = max(last, int(decoded.columns.offset[: decoded.columns.rows].max(initial=last)))
            del decoded
        return last

    def _region(self, end: int, kind: Kind, text: str, batches: Batches | None = None, row: int = 0) -> Region:
        offset = None if batches is None else int(batches.entry_offset[row])
        region = Region(self._file.path, self.at, end, kind=kind, message=text, after=self._after, offset=offset)
        self.at = end
        return region

    def _is_inner(self, position: int) -> bool:
        """Return whether what looks like a message may be one of those in a damaged wrapper message, as far as that
        says where it ends; their offsets count from the wrapper's, and so go back."""
        header = read_headers(self._file.read(position, layouts.BATCH_V2_SIZE), np.zeros(1, np.int64))
        if not header.is_legacy[0] or header.codec[0]:
            return False
        goes_back = self._is_log and self._after is not None and int(header.entry_offset[0]) < self._after
        return position < self._wrapper_end or (goes_back and self._has_wrappers)

    def _believe_wrapper(self, position: int) -> None:
        """Takes what is at a position for a damaged wrapper message if its lengths add up: without a checksum, nothing
        else tells it from bytes that would hide the intact messages in up to 2 GB after them."""
        buffer = self._file.read(position, layouts.BATCH_V2_SIZE)
        header = read_headers(buffer, np.zeros(1, np.int64))
        if len(buffer) < layouts.BATCH_V2_SIZE or not header.is_wrapper[0] or header.magic[0] < 0:
            return
        key = layouts.MESSAGE_V0_HEADER_SIZE if header.magic[0] == layouts.MAGIC_V0 else layouts.MESSAGE_V1_HEADER_SIZE
        lengths = buffer[key - 4 : key + 4].tobytes()
        key_length, value_length = (int.from_bytes(lengths[at : at + 4], "big", signed=True) for at in (0, 4))
        if key_length == -1 and key + 4 + value_length == int(header.sizes[0]):  # no client has given a wrapper a key
            self._wrapper_end = position + int(header.sizes[0])

    def _search(self, position: int, until: int | None = None) -> int | None:
        """The position of the next true batch that begins in ``[position, until)``."""
        file = self._file
        until = file.size if until is None else until
        while True:
            found = find_next_batch(
                file.read, file.size, position, until=until, largest=LARGEST_WINDOW, skip=file.next_data
            )
            if found is None or not self._is_inner(found):
                return found
            position = found + 1


def _checksums_match(buffer: NDArray[np.uint8], batches: Batches) -> NDArray[np.bool_]:
    """Return whether checksums are right. Where the batch scan leads into garbage, it may claim gigabytes: what is
    large is examined only if its header makes sense."""
    from brokerless.format.read.batch_candidate_kernels import find_candidates

    matches = np.ones(len(batches), np.bool_)
    position = np.empty(1, np.int64)
    for row in np.flatnonzero(batches.sizes > _LARGE).tolist():
        at = int(batches.positions[row])
        matches[row] = find_candidates(buffer, at, at + 1, 0, position)[0] == 1
    matches[matches] = checksums_match(buffer, batches.take(matches))
    return matches


def _is_possible(batches: Batches) -> NDArray[np.bool_]:
    """Return whether what no checksum covers makes sense. Of v2, that is the offset, the leader epoch and the magic,
    where everything above 2 is read as 2 (``FileLogInputStream``); of v0 and v1 only the offset."""
    return (batches.magic >= 0) & (batches.entry_offset >= 0) & (batches.last_offset >= batches.entry_offset)
