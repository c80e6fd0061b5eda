"""Decodes batches of any format into record columns, chunk by chunk in bounded memory.

:class:`Decoder` fills columns with the records of one buffer after another, and yields the columns when they are full.
Runs of batches of one kind are decoded by one call of a kernel.
"""

# Kernels take all columns as positional arguments, which the checker cannot count.
# pyright: reportCallIssue=false

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Kind
from brokerless.format import columns as reasons
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater, Inflating, find_payloads
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES, CodecError, LimitError
from brokerless.format.codecs.payload_kernels import INFLATE
from brokerless.format.columns import REUSED, SLACK, Damage, RecordColumns, allocate
from brokerless.format.crc.kernels import crc32c_ranges
from brokerless.format.kernel import load_kernels
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.intact_batch_kernels import NO_ROOM, decode_intact_batches
from brokerless.format.read.message_kernels import decode_messages, decode_wrappers
from brokerless.format.read.record_kernels import decode_batches
from brokerless.format.read.wrappers import find_wrapper_values

__all__ = ["Damage", "DecodedRecords", "Decoder"]

ROWS = 1 << 17
"""The most records in one chunk of columns."""
DATA = 8 << 20
"""The bytes of values (of keys, ...) at which a chunk of columns is full; one larger record gets columns of its own."""
HEADERS = 1 << 18
MOST_HEADERS = 1 << 22
"""The most headers that one record may have, as a small payload could fill the memory with empty ones."""

_LEAST, _FEW = 1 << 16, 1 << 10
"""The smallest capacity of columns: bytes, and rows or headers."""
_INFLATES = 8
"""The factor by which payloads are expected to inflate; beyond it, columns are full early, which is harmless."""
_GROUP = 1 << 21
"""Inflated bytes that are decoded at once."""
_HEADERS_OF_RECORDS = (
    *("count", "entry_offset", "base_timestamp", "max_timestamp", "timestamp_type", "base_sequence", "is_control"),
    *("codec", "magic", "sizes"),
)


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """Record columns, and the batches that they come from. A batch may continue in the next chunk."""

    columns: RecordColumns
    positions: NDArray[np.int64]
    """Where each batch is (bytes, int64)."""
    given: NDArray[np.int32]
    """How many rows each batch has, in order (int32)."""
    is_control: NDArray[np.bool_]
    """Whether each batch is a control batch (bool)."""
    damages: list[Damage]
    """The damage found in these batches."""


def load_decoding_kernels(batches: Batches) -> None:
    """Loads what checking and decoding such batches takes; where it is to be compiled first, in parallel."""
    if len(batches) and not batches.is_legacy[0]:
        codec = int(batches.codec[0])
        inflate = [INFLATE[codec]] if codec in INFLATE else []
        load_kernels([decode_intact_batches, *inflate, crc32c_ranges])


class BatchDecoder(Protocol):
    """Decodes batches: a :class:`Decoder`, or one that several use."""

    def decode(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[DecodedRecords]: ...
    def flush(self) -> DecodedRecords | None: ...


def decode_whole(
    decoder: BatchDecoder, buffer: NDArray[np.uint8], batches: Batches, base: int = 0
) -> Iterator[DecodedRecords]:
    """Decode ``batches`` as :meth:`Decoder.decode` does, and yield what is left of them too. A caller that lets go of
    each chunk before the next has one in memory."""
    yield from decoder.decode(buffer, batches, base)
    rest = decoder.flush()
    if rest is not None:
        yield rest


class Decoder:
    """Decodes batches into columns; owns the buffers, so one belongs to one thread.

    ``keys``, ``values``, ``headers``: whether to keep them (all are checked). ``max_batch_bytes``: bytes that one batch
    may inflate to. ``rows`` and ``data``: when a chunk is full. ``any_of``: batches whose record bytes contain none of
    these byte strings are inflated, but neither decoded nor checked beyond that, except for wrapper messages, whose
    offsets and checksums are those of the messages in them; () decodes all.
    """

    def __init__(
        self,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
        rows: int = ROWS,
        data: int = DATA,
        any_of: Sequence[bytes] = (),
    ) -> None:
        self.selected = np.array([keys, values, headers], dtype=np.uint8)
        self._inflater = Inflater(max_batch_bytes)
        self._rows, self._data, self._fit = rows, data, data
        self._any_of = [np.frombuffer(each, np.uint8) for each in any_of]
        self._rarest: list[NDArray[np.int64]] | None = None
        self._columns: RecordColumns | None = None
        self._sources: list[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.bool_]]] = []
        self._damages: list[Damage] = []

    def decode(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[DecodedRecords]:
        """Decodes ``batches`` (whose checksums the caller has checked), and yields columns that are full.

        ``base``: the position in the file of the buffer's first byte; all positions are in the file.
        """
        if not len(batches):
            return
        # Where no record is declared, Kafka opens the stream and reads nothing of it.
        unread = (batches.codec != 0) & (batches.count == 0)
        if unread.any():
            self._check_headers(buffer, batches.take(unread), base)
        compressed = (batches.codec != 0) & ~unread
        self._expect(int(batches.sizes.sum()) * (_INFLATES if compressed.any() else 2))
        kinds = batches.is_legacy * 2 + compressed
        borders = np.flatnonzero(np.diff(kinds)) + 1
        for start, end in zip([0, *borders.tolist()], [*borders.tolist(), len(batches)], strict=True):
            run = batches if end - start == len(batches) else batches.take(slice(start, end))
            match bool(batches.is_legacy[start]), bool(compressed[start]):
                case False, False:
                    yield from self._v2(buffer, run, base)
                case False, True:
                    yield from self._v2_compressed(buffer, run, base)
                case True, False:
                    yield from self._messages(buffer, run, base)
                case _:
                    yield from self._wrappers(buffer, run, base)

    def flush(self) -> DecodedRecords | None:
        """Return what was decoded since the last chunk, or None."""
        if self._columns is None and not self._damages:
            return None
        columns = self._columns if self._columns is not None else allocate(0, 0, 0)
        sources = self._sources or [(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.bool_))]
        positions, given, is_control = (np.concatenate(part) for part in zip(*sources, strict=True))
        decoded = DecodedRecords(columns, positions, given, is_control=is_control, damages=self._damages)
        self._columns, self._sources, self._damages = None, [], []
        return decoded

    def begin(self, size: int, *, is_compressed: bool) -> RecordColumns:
        """The columns for batches that take ``size`` bytes, which a kernel decodes; :meth:`add` has to follow."""
        self._expect(size * (_INFLATES if is_compressed else 2))
        return self._current()

    def inflating(self, codec: int, first: bytes, room: int) -> Inflating | None:
        """Return what a kernel needs to inflate v2 payloads like ``first`` (:meth:`Inflater.prepare`)."""
        return self._inflater.prepare(codec, first, room)

    def add(self, batches: Batches, given: NDArray[np.int32], base: int) -> None:
        """Count the records that a kernel has decoded: ``given`` (int32, shape ``(n,)``) of each batch."""
        self._source(batches, 0, len(batches), given=given, base=base)

    def full(self) -> Iterator[DecodedRecords]:
        """Yield the columns, which the next batch does not fit in."""
        full = [self._full()]
        yield full.pop()

    def searched(self, buffer: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """The byte strings of ``any_of`` one after the other, where each ends, and three places in each: those of the
        bytes that ``buffer`` seldom has."""
        ends = np.cumsum([len(each) for each in self._any_of], dtype=np.int64)
        nothing = np.empty(0, np.uint8)
        together = np.concatenate([nothing, *self._any_of])
        rarest = np.array(self._find_rarest(buffer), np.int64).reshape(-1)
        return together, ends, rarest

    def _expect(self, needed: int) -> None:
        """Makes the next columns for so many bytes of records."""
        # What is yielded owns whole columns, so those of a small file must be small.
        needed = max(_LEAST, needed)
        self._fit = min(self._data, 1 << (needed - 1).bit_length())  # of few sizes, so that memory can be used again

    def _check_headers(self, buffer: NDArray[np.uint8], batches: Batches, base: int) -> None:
        view = buffer.data
        for row in range(len(batches)):
            payload = view[batches.positions[row] + layouts.BATCH_V2_SIZE : batches.ends[row]]
            error = self._inflater.check_header(int(batches.codec[row]), layouts.MAGIC_V2, payload)
            if error is not None:
                self._damage(batches, row, reasons.COUNT_NEGATIVE, base=base, error=error, found=None)
        self._inflater.clear()

    def _v2(self, buffer: NDArray[np.uint8], run: Batches, base: int) -> Iterator[DecodedRecords]:
        starts = run.positions + layouts.BATCH_V2_SIZE
        if self._any_of:
            found = self._has_any(buffer, starts, run.ends)
            run, starts = run.take(found), starts[found]
        inner = int(np.searchsorted(run.ends, len(buffer) - SLACK, "right"))
        if inner:
            part = run if inner == len(run) else run.take(slice(0, inner))
            yield from self._records(
                buffer, part, starts[:inner], ends=part.ends, incomplete=np.zeros(inner, np.uint8), errors={}, base=base
            )
        if inner < len(run):
            part, first = run.take(slice(inner, None)), int(starts[inner])
            last = buffer[first:]
            if len(last) <= self._data:  # else, rather slowly than twice in memory
                last = np.concatenate([last, np.zeros(SLACK, np.uint8)])
                last.flags.writeable = False
            none = np.zeros(len(part), np.uint8)
            yield from self._records(
                last, part, starts[inner:] - first, ends=part.ends - first, incomplete=none, errors={}, base=base
            )
        yield from self._if_huge()

    def _v2_compressed(self, buffer: NDArray[np.uint8], run: Batches, base: int) -> Iterator[DecodedRecords]:
        payloads = run.positions + layouts.BATCH_V2_SIZE
        for first, last, starts, ends, errors in self._inflated(buffer, run, payloads, run.ends):
            incomplete = np.zeros(last - first, np.uint8)
            incomplete[list(errors)] = 1
            part = run if last - first == len(run) else run.take(slice(first, last))
            if self._any_of:
                rows = np.flatnonzero(self._has_any(self._inflater.buffer, starts, ends) | (incomplete != 0))
                part, starts, ends, incomplete = part.take(rows), starts[rows], ends[rows], incomplete[rows]
                errors = {place: errors[row] for place, row in enumerate(rows.tolist()) if row in errors}
            yield from self._records(
                self._inflater.buffer, part, starts, ends=ends, incomplete=incomplete, errors=errors, base=base
            )
            self._inflater.clear()
            yield from self._if_huge()

    def _inflated(
        self,
        buffer: NDArray[np.uint8],
        run: Batches,
        payload_starts: NDArray[np.int64],
        payload_ends: NDArray[np.int64],
    ) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64], dict[int, CodecError]]]:
        """Inflates the payloads of a run, group by group: first batch, last, and where their bytes are in the
        inflater's buffer; and what stopped some of them, by place in the group."""
        inflater = self._inflater
        for name in _HEADERS_OF_RECORDS:  # once, and not for each group
            getattr(run, name)
        payloads = find_payloads(buffer, payload_starts, payload_ends, codecs=run.codec, magics=run.magic)
        first = 0
        while first < len(run):
            inflater.clear()
            starts, ends, errors = inflater.inflate_many(payloads, first, _GROUP)
            yield first, first + len(starts), starts, ends, errors
            first += len(starts)
        inflater.clear()

    def _records(
        self,
        buffer: NDArray[np.uint8],
        run: Batches,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        incomplete: NDArray[np.uint8],
        errors: dict[int, CodecError],
        base: int,
    ) -> Iterator[DecodedRecords]:
        """Decodes the records of v2 batches, which are ``buffer[starts[i]:ends[i]]``."""
        count = len(run)
        timestamp_types = run.timestamp_type
        base_timestamps = run.base_timestamp
        if timestamp_types.any():
            base_timestamps = np.where(timestamp_types == layouts.LOG_APPEND_TIME, run.max_timestamp, base_timestamps)
        given, status = np.zeros(count, np.int32), np.zeros(count, np.int8)
        stopped_at, resume = np.zeros(count, np.int64), np.zeros(4, np.int64)
        first, counts, enlarged = 0, run.count, -1
        while first < count:
            columns = self._current()
            if resume[0] == 0:
                after = decode_intact_batches(
                    buffer, first, starts, ends, counts, run.entry_offset, base_timestamps, timestamp_types,
                    run.base_sequence, incomplete, self.selected, *columns.arrays(), given,
                )  # fmt: skip
                self._source(run, first, after, given=given, base=base)
                first = after
                if first == count:
                    return
                if given[first] == NO_ROOM:
                    given[first] = 0
                    if columns.rows:
                        del columns  # free a chunk that was yielded
                        yield self._full()
                        continue
                    size, rows = int(ends[first] - starts[first]), int(counts[first])
                    if first != enlarged and size <= self._data and rows <= self._rows:
                        self._columns, enlarged = allocate(rows, size, min(HEADERS, size >> 1)), first
                        continue
            last = first + 1
            after = decode_batches(
                buffer, first, starts[:last], ends, counts, run.entry_offset, base_timestamps, timestamp_types,
                run.base_sequence, incomplete, self.selected, *columns.arrays(), given, status, stopped_at, resume,
            )  # fmt: skip
            self._source(run, first, last, given=given, base=base)
            if status[first]:
                found = f"record bytes from {int(stopped_at[first] - starts[first])} on"
                self._damage(run, first, int(status[first]), base=base, error=errors.get(first), found=found)
            is_empty = columns.rows == 0
            del columns
            if after == last:
                first = last
                continue
            given[first] = 0
            if is_empty and int(resume[3]) > MOST_HEADERS:
                self._damage(
                    run, first, reasons.TOO_MANY_HEADERS, base=base, error=None, found=f"{int(resume[3])} headers"
                )
                resume[:], counts = 0, counts.copy()
                counts[first] = 0
            elif is_empty:
                self._columns = allocate(1 << 10, int(resume[2]) + 64, max(HEADERS, int(resume[3])))
            else:
                yield self._full()

    def _messages(self, buffer: NDArray[np.uint8], run: Batches, base: int) -> Iterator[DecodedRecords]:
        """Decodes uncompressed v0 and v1 messages."""
        if self._any_of:
            run = run.take(self._has_any(buffer, run.positions, run.ends))
        count = len(run)
        given, status = np.zeros(count, np.int32), np.zeros(count, np.int8)
        first = 0
        while True:
            columns = self._current()
            after = decode_messages(
                buffer, first, run.positions, run.ends, run.entry_offset, self.selected, *columns.arrays(), given,
                status,
            )  # fmt: skip
            self._source(run, first, after, given=given, base=base)
            for row in (np.flatnonzero(status[first:after]) + first).tolist():
                self._damage(run, row, int(status[row]), base=base, error=None, found=None)
            is_empty = columns.rows == 0
            del columns
            if after == count:
                return
            first = after
            if not is_empty:
                yield self._full()
            else:
                self._columns = allocate(1, int(run.sizes[after]) + 64, 0)

    def _wrappers(self, buffer: NDArray[np.uint8], run: Batches, base: int) -> Iterator[DecodedRecords]:
        """Decodes the inner messages of v0 and v1 wrapper messages."""
        wrong, value_starts, value_ends = find_wrapper_values(buffer, run)
        for row, why in wrong.items():
            self._damage(run, row, why, base=base, error=None, found=None)
        if wrong:
            keep = np.setdiff1d(np.arange(len(run)), np.array(list(wrong)))
            run, value_starts, value_ends = run.take(keep), value_starts[keep], value_ends[keep]
        for first, last, starts, ends, errors in self._inflated(buffer, run, value_starts, value_ends):
            for row, error in errors.items():  # Kafka reads a whole wrapper before it returns any message
                self._damage(run, first + row, reasons.NO_MESSAGES, base=base, error=error, found=None)
            good = np.setdiff1d(np.arange(last - first), np.array(list(errors), np.int64))
            part = run.take(good + first)
            yield from self._inner_messages(part, starts[good], ends[good], base)
            self._inflater.clear()
            yield from self._if_huge()

    def _inner_messages(
        self, run: Batches, starts: NDArray[np.int64], ends: NDArray[np.int64], base: int
    ) -> Iterator[DecodedRecords]:
        count = len(run)
        given, status = np.zeros(count, np.int32), np.zeros(count, np.int8)
        stopped_at, base_offsets = np.zeros(count, np.int64), np.zeros(count, np.int64)
        has_base_offset = np.zeros(count, np.uint8)
        first = 0
        while True:
            columns = self._current()
            after = decode_wrappers(
                self._inflater.buffer, first, starts, ends, run.entry_offset, run.magic, run.timestamp_type,
                run.max_timestamp, self.selected, *columns.arrays(), given, status, stopped_at, base_offsets,
                has_base_offset,
            )  # fmt: skip
            self._source(run, first, after, given=given, base=base)
            for row in (np.flatnonzero(status[first:after]) + first).tolist():
                at = int(stopped_at[row] - starts[row])
                self._damage(run, row, int(status[row]), base=base, error=None, found=f"inner bytes from {at} on")
            is_empty = columns.rows == 0
            del columns
            if after == count:
                return
            first = after
            if not is_empty:
                yield self._full()
            else:
                size = int(ends[after] - starts[after])
                self._columns = allocate(size // 26 + 1, size + 64, 0)

    def _has_any(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return which of ``buffer[starts[i]:ends[i]]`` contain any of the requested byte strings."""
        from brokerless.format.read.search_kernels import mark_containing

        found = np.zeros(len(starts), np.uint8)
        for each, rarest in zip(self._any_of, self._find_rarest(buffer), strict=True):
            mark_containing(buffer, starts, ends, each, rarest, found)
        return found != 0

    def _find_rarest(self, buffer: NDArray[np.uint8]) -> list[NDArray[np.int64]]:
        from brokerless.format.read.search_kernels import find_rarest

        if self._rarest is None:  # once, as a buffer may be of a few small batches
            self._rarest = [find_rarest(buffer, each) for each in self._any_of]
        return self._rarest

    def _current(self) -> RecordColumns:
        if self._columns is None:
            headers = min(HEADERS, max(_FEW, self._fit >> 5)) if self.selected[2] else 0
            rows = min(self._rows, max(_FEW, self._fit >> 3))
            self._columns = allocate(rows, self._fit, headers, REUSED)
        return self._columns

    def _if_huge(self) -> Iterator[DecodedRecords]:
        """Yields columns that one huge record filled, before anything else is inflated."""
        if self._columns is not None and len(self._columns.value_data) > 4 * self._data:
            yield self._full()

    def _full(self) -> DecodedRecords:
        full = self.flush()
        assert full is not None
        return full

    def _source(self, run: Batches, first: int, last: int, given: NDArray[np.int32], base: int) -> None:
        if last > first:
            rows = slice(first, last)
            self._sources.append((run.positions[rows] + base, given[rows].copy(), run.is_control[rows]))

    def _damage(
        self, run: Batches, row: int, status: int, base: int, error: CodecError | None, found: str | None
    ) -> None:
        kind, message = reasons.REASONS[status]
        if isinstance(error, LimitError):
            kind, message, found = Kind.LIMIT_EXCEEDED, str(error), None
        elif error is not None:
            kind, message, found = Kind.DECOMPRESSION_FAILED, f"the payload does not decompress: {error}", None
        position, offset = int(run.positions[row]) + base, int(run.entry_offset[row])
        self._damages.append(Damage(kind, position, offset, message=message, found=found))
