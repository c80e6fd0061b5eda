"""Files with records, of Parquet or JSON Lines -> record batches, a few MiB at a time."""

from __future__ import annotations

import io
import os
import select
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from brokerless.arrow import numbers
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.hive import Source, find_sources, merge, with_path
from brokerless.jobs.job import Done, ignore
from brokerless.log import storage
from brokerless.rows import IGNORED, RowError, normalize

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.views.jsonl import BytesMode

STDIN = "-"
SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json")
"""Names of the files of a directory that are read; those that begin with ``_`` or ``.`` are notes of who wrote it."""
_GZIP_MAGIC = b"\x1f\x8b"
_PARQUET_MAGIC = b"PAR1"
_ROWS = 1 << 15
_BYTES, _BYTES_OF_SEVERAL = 8 << 20, 1 << 20
_COMPACT = 8
"""Bytes that a value takes in Parquet at most, on average, if most of a column is indices of its dictionary."""


class Inputs:
    """Record batches of files, one after the other; :meth:`place` says where a row of them is.

    ``paths``: files, or directories of them such as Spark or an export writes, local or URLs; ``-`` is ``stdin`` (JSON
    Lines). ``done`` is called with the bytes that were read since the last call, about.
    """

    def __init__(
        self,
        paths: Sequence[str | Source],
        mode: BytesMode = "auto",
        stdin: io.BufferedReader | None = None,
    ) -> None:
        self.done: Done = ignore
        self._sources = [each for path in paths for each in _find(path)]
        self._mode: BytesMode = mode
        self._stdin = stdin
        self._starts: list[int] = []
        self._names: list[tuple[str, bool]] = []
        self._rows = 0

    @property
    def files(self) -> list[str]:
        """All files that are read, in this order; :data:`STDIN` among them if it is."""
        return [file for source in self._sources for file in source.files]

    @property
    def size(self) -> int | None:
        """Bytes to read; None if some come from stdin. Raises :class:`UnreadableError`."""
        if STDIN in self.files:
            return None
        self._sources = [replace(each, size=_size(each)) for each in self._sources]
        return sum(map(_size, self._sources))

    def split(self, most: int) -> list[tuple[Inputs, int]]:
        """The same as several, about so many at most, in their order and about equally large, which can be sent to
        other processes; and the bytes of each. No file is in more than one of them."""
        total, before = self.size or 0, 0
        groups: list[list[Source]] = []
        for each in self._sources:
            if len(self._sources) <= most or before * most >= len(groups) * total:
                groups.append([])
            groups[-1].append(each)
            before += _size(each)
        return [(Inputs(each, self._mode), sum(map(_size, each))) for each in groups]

    def refusal(self, error: RowError) -> UnreadableError:
        """The same error, with the place of the row."""
        return refused(error, self.place(error.row))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Reads ahead in a thread. Raises :class:`UnreadableError` for what cannot be opened or is damaged, with the
        place."""
        for source in self._sources:
            if source.name == STDIN:
                yield from self._read_stdin()
            elif len(source.files) > 1:
                opens = [partial(_exported, path, self.done) for path in source.files]
                batches = (with_path(batch, source) for batch in merge(source.starts, opens))
                yield from _ahead(self._count(source.name, batches, is_lines=False))
            else:
                with storage.open_file(source.name) as file:
                    yield from _ahead(with_path(each, source) for each in self._read(source.name, file))

    def _read_stdin(self) -> Iterator[pa.RecordBatch]:
        """Not ahead: a thread that waits for input could not be interrupted."""
        if self._stdin is None:
            raise UnreadableError("stdin: it is closed")
        stdin = _interruptible(self._stdin)
        if stdin.peek(4)[:4] == _PARQUET_MAGIC:
            raise UnreadableError("stdin: Parquet cannot be read from a pipe; give the file")
        return self._count("stdin", self._lines("stdin", stdin), is_lines=True)

    def _read(self, path: str, file: storage.File) -> Iterator[pa.RecordBatch]:
        start = file.read(0, 4).tobytes()
        is_parquet = start == _PARQUET_MAGIC
        if not file.size and path.endswith(".parquet"):
            raise UnreadableError(f"{path}: this Parquet file cannot be read: it is empty")
        if not is_parquet and path.endswith(".parquet"):
            raise UnreadableError(f"{path}: this is no Parquet file: it does not begin with PAR1")
        if start[:2] == _GZIP_MAGIC:
            raise UnreadableError(f"{path}: this is compressed; use gzip -dc {path} | brokerless load -")
        batches = _parquet(path, file, self.done) if is_parquet else self._lines(path, _Stream(file, self.done))
        return self._count(path, batches, is_lines=not is_parquet)

    def place(self, row: int) -> str:
        """The file of a row, by its number in all that was read so far, and its line or row there."""
        at = bisect_right(self._starts, row) - 1
        name, is_lines = self._names[at]
        number = row - self._starts[at]
        return f"{name}, line {number + 1}" if is_lines else f"{name}, row {number} (from 0)"

    def _count(self, name: str, batches: Iterable[pa.RecordBatch], *, is_lines: bool) -> Iterator[pa.RecordBatch]:
        self._starts.append(self._rows)
        self._names.append((name, is_lines))
        for batch in batches:
            self._rows += batch.num_rows
            yield batch

    def _lines(self, name: str, stream: Any) -> Iterator[pa.RecordBatch]:
        from brokerless.jobs.json_lines import read_lines

        return read_lines(stream, name, self._mode)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, the next one being read meanwhile."""
    with ThreadPoolExecutor(1, "brokerless-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


class _Pipe(io.RawIOBase):
    """A pipe whose reader looks up four times a second. With several threads, Python may miss a signal that comes just
    before it begins to wait, and then would wait on."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._descriptor], [], [], 0.25)[0]:
            pass
        return os.readv(self._descriptor, [buffer])


def _interruptible(stdin: io.BufferedReader) -> io.BufferedReader:
    """What is read before anything was; a file in memory stays what it is."""
    try:
        return io.BufferedReader(_Pipe(stdin.fileno()), 1 << 16)
    except (OSError, ValueError):
        return stdin


class _Stream(io.RawIOBase):
    """A file of :mod:`storage` as Python's libraries want to have it."""

    def __init__(self, file: storage.File, done: Done = ignore) -> None:
        self._file = file
        self._done = done
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(self._at, max(0, self._file.size - self._at) if size < 0 else size)
        self._file.release(self._at, len(found))
        self._at += len(found)
        self._done(len(found))
        return found.tobytes()


def refused(error: RowError, place: str) -> UnreadableError:
    """What is said of a row that cannot become a record, with its place in a file."""
    return UnreadableError(f"{place}, {error.column}: {error.reason}")


def _find(path: str | Source) -> list[Source]:
    if isinstance(path, Source):
        return [path]
    if path == STDIN:
        return [Source(path, (path,))]
    if storage.is_directory(path):
        return find_sources(path, SUFFIXES)
    return [Source(each, (each,)) for each in storage.expand(path)]


def _size(source: Source) -> int:
    if source.size is not None:
        return source.size
    with storage.open_file(source.name) as file:
        return file.size


def _exported(path: str, done: Done) -> Iterator[pa.RecordBatch]:
    """One of several files that are read at once, in small pieces, with rising offsets."""
    import pyarrow as pa

    last = -1
    with storage.open_file(path) as file:
        for batch in _parquet(path, file, done, is_one=False):
            if "offset" not in batch.schema.names or batch.schema.field("offset").type != pa.int64():
                raise UnreadableError(f"{path}: this is named as a file of an export, but has no offsets")
            offsets = np.concatenate([[last], numbers(batch.column("offset"), np.int64)])
            if not (offsets[1:] > offsets[:-1]).all():
                raise UnreadableError(f"{path}: this is named as a file of an export, but its offsets do not rise")
            last = int(offsets[-1])
            yield batch


def _parquet(path: str, file: storage.File, done: Done, *, is_one: bool = True) -> Iterator[pa.RecordBatch]:
    """The columns of a record of a Parquet file; of one of several, in small batches that are all of one type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A local file is read as it is, not mapped, and without Python's lock.
        source = pa.PythonFile(_Stream(file), mode="r") if storage.is_remote(path) else pa.OSFile(storage.local(path))
        metadata = pq.read_metadata(source)
        schema = metadata.schema.to_arrow_schema()
        normalize(_empty(schema))  # to refuse a file for its columns before anything is read
        compact, widest = _widths(metadata)
        # Without pre_buffer and with a buffer, a row group need not be in memory as a whole.
        options: Any = {"pre_buffer": False, "buffer_size": 1 << 20, "read_dictionary": compact if is_one else []}
        options["coerce_int96_timestamp_unit"] = "ms"  # Spark's; years from 2262 on have too many nanoseconds
        source.seek(0)
        with closing(pq.ParquetFile(source, **options)) as parquet:
            names = [name for name in schema.names if name not in IGNORED]
            rows = max(1, min(_ROWS, (_BYTES if is_one else _BYTES_OF_SEVERAL) // max(widest, 1)))
            for batch in parquet.iter_batches(rows, columns=names, use_threads=False):
                yield batch
                done(file.size * batch.num_rows // metadata.num_rows)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableError(f"{path}: this Parquet file cannot be read: {error}") from error


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns: Any = [column.combine_chunks() for column in schema.empty_table().columns]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _widths(metadata: Any) -> tuple[list[str], int]:
    """The columns whose values are nearly all in dictionaries, and the largest average of a row's bytes."""
    compact: set[str] = set()
    plain: set[str] = set()
    widest = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        widest = max(widest, group.total_byte_size // max(group.num_rows, 1))
        for column in map(group.column, range(metadata.num_columns)):
            is_compact = column.has_dictionary_page and column.total_uncompressed_size < _COMPACT * column.num_values
            (compact if is_compact else plain).add(column.path_in_schema)
    names = ("key", "value", "topic", "timestampType")
    return [name for name in names if name in compact and name not in plain], widest
