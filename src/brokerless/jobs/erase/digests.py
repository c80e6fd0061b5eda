"""SHA-256 of what an erasure leaves unchanged: whole batches, and the other records of touched ones."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import numpy as np
from numpy.typing import NDArray

from brokerless.format.columns import RecordColumns
from brokerless.format.read.batch_headers import Batches
from brokerless.format.write.column_slices import filter_rows, replace_values
from brokerless.jobs.manifest import ManifestFile
from brokerless.log import names


class UntouchedHash:
    """The SHA-256 of all batches that are not touched, one after the other as they are in the log."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, buffer: NDArray[np.uint8], batches: Batches, is_touched: NDArray[np.bool_]) -> None:
        """Takes the batches of a buffer but those that are touched (bool)."""
        kept = np.flatnonzero(~is_touched)
        starts, ends = batches.positions[kept], batches.ends[kept]
        borders = np.flatnonzero(starts[1:] != ends[:-1]) + 1
        firsts, lasts = np.append(0, borders), np.append(borders, len(kept)) - 1
        if len(kept):
            for start, end in zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True):
                self._sha256.update(buffer[start:end].data)

    def hexdigest(self) -> str:
        return self._sha256.hexdigest()


class WrittenHashes:
    """The SHA-256 of each log in which a batch is touched, while it is written. Up to its first touched chunk, a log is
    what was read, and so is its hash."""

    def __init__(self, bases: Sequence[int], read: Callable[[], hashlib._Hash | None]) -> None:  # pyright: ignore[reportPrivateUsage]
        """Hash the logs of the segments with these base offsets. ``read`` returns the hash of the source's log before
        the chunk that is about to be written, if all is written that is before it; None if it is not."""
        self._bases, self._read = bases, read
        self._hashes: dict[int, hashlib._Hash | None] = {}  # pyright: ignore[reportPrivateUsage]
        self._sizes: dict[int, int] = {}

    def begin(self, offset: int, position: int | None, *, is_touched: bool) -> None:
        """Before a chunk is written that begins at this offset, and was at this position in its file; None where not
        all of it is written."""
        base = self._base(offset)
        if is_touched and base not in self._hashes:
            self._hashes[base] = None if position is None else self._read()
            self._sizes[base] = position or 0

    def add(self, offset: int, pieces: Iterable[NDArray[np.uint8]]) -> None:
        """Takes what becomes of that chunk."""
        base = self._base(offset)
        sha256 = self._hashes.get(base)
        if sha256 is not None:
            for each in pieces:
                sha256.update(np.ascontiguousarray(each).data)
                self._sizes[base] += len(each)

    def files(self) -> dict[str, ManifestFile]:
        """Return the size and SHA-256 of each log in which a batch is touched, by name."""
        logs = {names.segment_file(base, "log"): base for base, each in self._hashes.items() if each is not None}
        return {
            name: ManifestFile(name, self._sizes[base], None, sha256.hexdigest())
            for name, base in logs.items()
            if (sha256 := self._hashes[base]) is not None
        }

    def _base(self, offset: int) -> int:
        return self._bases[max(0, bisect_right(self._bases, offset) - 1)]


class OutputHashes:
    """Both of one partition, computed in a thread of its own while the same bytes are written."""

    def __init__(self, bases: Sequence[int], read: Callable[[], hashlib._Hash | None]) -> None:  # pyright: ignore[reportPrivateUsage]
        """As :class:`WrittenHashes`."""
        self.untouched, self.written = UntouchedHash(), WrittenHashes(bases, read)
        self._thread = ThreadPoolExecutor(1)
        self._running: Future[None] | None = None

    def begin(
        self,
        buffer: NDArray[np.uint8],
        batches: Batches,
        position: int,
        rows: NDArray[np.int64],
        pieces: Sequence[NDArray[np.uint8]],
    ) -> None:
        """Begins with a chunk: its batches, its place in the file, which rows are touched (int64), and what is written.
        These buffers stay unchanged until :meth:`wait`."""
        is_touched = np.zeros(len(batches), np.bool_)
        is_touched[rows] = True
        offset = int(batches.entry_offset[0])
        is_whole = batches.positions[0] == 0
        self.written.begin(offset, position if is_whole else None, is_touched=bool(len(rows)))

        def update() -> None:
            self.untouched.add(buffer, batches, is_touched)
            self.written.add(offset, pieces)

        self._running = self._thread.submit(update)

    def wait(self) -> None:
        if self._running is not None:
            self._running.result()
            self._running = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()


def digest_kept(columns: RecordColumns, selected: NDArray[np.bool_], *, is_blanked: bool) -> str:
    """Return the digest of a touched batch's records without the ``selected`` ones (bool), or, where these are blanked,
    with null for their values; it is the same before and after an erasure."""
    return digest_records(replace_values(columns, selected) if is_blanked else filter_rows(columns, ~selected))


def digest_records(columns: RecordColumns) -> str:
    """SHA-256 (hexadecimal) of records: the number of records (int32), their offsets and timestamps (int64), the
    lengths of their keys (int32, -1 for null) and the bytes of all keys, the same of values; the number of headers of
    each record (int32), and lengths and bytes of all headers' keys, and of their values. Integers are big-endian."""
    rows = columns.rows
    sha256 = hashlib.sha256(rows.to_bytes(4, "big"))
    for numbers in (columns.offset, columns.timestamp):
        sha256.update(numbers[:rows].astype(">i8").tobytes())
    _add_values(sha256, columns.key_ends, columns.key_null, data=columns.key_data, first=0, last=rows)
    _add_values(sha256, columns.value_ends, columns.value_null, data=columns.value_data, first=0, last=rows)
    first, last = int(columns.header_ends[0]), int(columns.header_ends[rows])
    sha256.update(np.diff(columns.header_ends[: rows + 1]).astype(">i4").tobytes())
    _add_values(sha256, columns.header_key_ends, None, data=columns.header_key_data, first=first, last=last)
    _add_values(
        sha256,
        columns.header_value_ends,
        columns.header_value_null,
        data=columns.header_value_data,
        first=first,
        last=last,
    )
    return sha256.hexdigest()


def _add_values(
    sha256: hashlib._Hash,  # pyright: ignore[reportPrivateUsage]
    ends: NDArray[np.int32],
    null: NDArray[np.uint8] | None,
    data: NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    lengths = np.diff(ends[first : last + 1])
    if null is not None:
        lengths = np.where(null[first:last] != 0, -1, lengths)
    sha256.update(lengths.astype(">i4").tobytes())
    sha256.update(np.ascontiguousarray(data[int(ends[first]) : int(ends[last])]).data)
