"""Reads Parquet and JSON Lines files as Arrow record batches of a few MiB."""

from __future__ import annotations

import io
import os
import selectors
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
from brokerless.findings import Kind
from brokerless.interchange.hive_paths import InputSource, file_source, find_sources, merge, put_together, with_path
from brokerless.interchange.input_splits import (
    PARQUET_MAGIC,
    FileStream,
    InputSplit,
    is_parquet,
    open_parquet,
    recorded_topic_id,
    rows_before,
    split_file,
)
from brokerless.log.storage.files import File
from brokerless.log.storage.location import Location
from brokerless.progress import Done, ignore
from brokerless.tables.rows import IGNORED, RowError, normalize

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.interchange.jsonl_writer import BytesMode

STDIN = "-"
SUFFIXES = (".parquet", ".jsonl", ".ndjson", ".json")
"""Names of the files of a directory that are read; those that begin with ``_`` or ``.`` are metadata of their
writer."""
_GZIP_MAGIC = b"\x1f\x8b"
_ROWS = 1 << 15
_PART = 128 << 20
"""Bytes of a file that a task reads at least, as Spark's do (``spark.sql.files.maxPartitionBytes``)."""
_BYTES, _BYTES_OF_SEVERAL = 8 << 20, 1 << 20
_COMPACT = 8
"""Bytes that a value takes in Parquet at most, on average, if most of a column is indices of its dictionary."""


class InputFiles:
    """Record batches of files, one after the other; :meth:`place` says where a row of them is.

    ``paths``: files, or directories of them such as Spark or an export writes, local or URLs; ``-`` is ``stdin`` (JSON
    Lines). ``max_line_bytes``: what a line of JSON may have (64 MiB). ``done`` is called with the bytes that were read
    since the last call, about.
    """

    def __init__(
        self,
        paths: Sequence[str | InputSource],
        mode: BytesMode = "auto",
        stdin: io.BufferedReader | None = None,
        max_line_bytes: int | None = None,
    ) -> None:
        self.done: Done = ignore
        self._sources = put_together(each for path in paths for each in _find(path))
        self._mode: BytesMode = mode
        self._stdin = stdin
        self._max_line_bytes = max_line_bytes
        self._starts: list[int] = []
        self._begun: list[tuple[InputSource, bool]] = []
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

    def topic_ids(self) -> dict[str, str]:
        """Return the topic IDs recorded in the files of an export. Only the first file of each directory is read."""
        found: dict[str, str] = {}
        asked: set[str] = set()
        for path in self.files:
            directory = path.rpartition("/")[0]
            if path.endswith(".parquet") and directory not in asked:
                asked.add(directory)
                recorded = recorded_topic_id(path)
                if recorded is not None:
                    found.setdefault(*recorded)
        return found

    def split(self, most: int) -> list[tuple[InputFiles, int]]:
        """Divide the files into several, about so many at most, in their order and about equally large, which can be
        sent to other processes; and the bytes of each. Large files are in several of them."""
        total, before = self.size or 0, 0
        most_bytes = max(_PART, -(-total // most))
        sources = self._sources if most == 1 else [part for each in self._sources for part in _parts(each, most_bytes)]
        groups: list[list[InputSource]] = []
        for each in sources:
            if len(sources) <= most or before * most >= len(groups) * total:
                groups.append([])
            groups[-1].append(each)
            before += _size(each)
        return [
            (InputFiles(each, self._mode, max_line_bytes=self._max_line_bytes), sum(map(_size, each)))
            for each in groups
        ]

    def refusal(self, error: RowError) -> UnreadableError:
        """Return the error with the place of the row."""
        return refused(error, self.place(error.row))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Reads ahead in a thread. Raises :class:`UnreadableError` for what cannot be opened or is damaged, with the
        place."""
        for source in self._sources:
            if source.name == STDIN:
                yield from self._read_stdin(source)
            elif len(source.files) > 1:
                opens = [partial(read_exported, path, self.done) for path in source.files]
                batches = (with_path(batch, source) for batch in merge(source.starts, opens))
                yield from _ahead(self._count(source, batches, is_lines=False))
            else:
                with Location(source.name).open() as file:
                    yield from _ahead(with_path(each, source) for each in self._read(source, file))

    def _read_stdin(self, source: InputSource) -> Iterator[pa.RecordBatch]:
        """Not ahead: a thread that waits for input could not be interrupted."""
        if self._stdin is None:
            raise UnreadableError("", "stdin: it is closed")
        stdin = _interruptible(self._stdin, self.done)
        if stdin.peek(4)[:4] == PARQUET_MAGIC:
            raise UnreadableError("", "stdin: Parquet cannot be read from a pipe; give the file")
        return self._lines(replace(source, name="stdin"), stdin)

    def _read(self, source: InputSource, file: File) -> Iterator[pa.RecordBatch]:
        path = source.name
        if is_parquet(file):
            return self._count(source, _parquet(path, file, self.done, source.part), is_lines=False)
        if path.endswith(".parquet"):
            no_parquet = "this is not a Parquet file: it does not begin with PAR1"
            reason = no_parquet if file.size else "this Parquet file cannot be read: it is empty"
            raise UnreadableError(path, reason)
        if file.read(0, 2).tobytes() == _GZIP_MAGIC:
            raise UnreadableError(path, f"this is compressed; use gzip -dc {path} | brokerless load -")
        return self._lines(source, FileStream(file, self.done, source.part))

    def place(self, row: int) -> str:
        """Return the file of a row, by its number in all that was read so far, and its line or row there."""
        at = bisect_right(self._starts, row) - 1
        source, is_lines = self._begun[at]
        number = row - self._starts[at] + rows_before(source.name, source.part)
        return f"{source.name}, line {number + 1}" if is_lines else f"{source.name}, row {number} (from 0)"

    def _count(
        self, source: InputSource, batches: Iterable[pa.RecordBatch], *, is_lines: bool
    ) -> Iterator[pa.RecordBatch]:
        self._starts.append(self._rows)
        self._begun.append((source, is_lines))
        for batch in batches:
            self._rows += batch.num_rows
            yield batch

    def _lines(self, source: InputSource, stream: Any) -> Iterator[pa.RecordBatch]:
        from brokerless.interchange.jsonl_reader import MAX_LINE_BYTES, read_lines

        most = self._max_line_bytes or MAX_LINE_BYTES
        lines = read_lines(stream, source.name, self._mode, lambda: rows_before(source.name, source.part), most)
        return self._count(source, lines, is_lines=True)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches, the next one being read meanwhile."""
    with ThreadPoolExecutor(1, "brokerless-read") as reader:
        ahead = reader.submit(next, batches, None)
        while (batch := ahead.result()) is not None:
            ahead = reader.submit(next, batches, None)
            yield batch


class _Pipe(io.RawIOBase):
    """A pipe whose reader looks up four times a second. With several threads, Python may miss a signal that comes just
    before it begins to wait, and then would wait on."""

    def __init__(self, descriptor: int, done: Done) -> None:
        self._descriptor = descriptor
        self._done = done
        self._waiting = selectors.PollSelector()  # select() refuses descriptors above 1,023
        self._waiting.register(descriptor, selectors.EVENT_READ)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._waiting.select(0.25):
            pass
        size = os.readv(self._descriptor, [buffer])
        self._done(size)
        return size


def _interruptible(stdin: io.BufferedReader, done: Done) -> io.BufferedReader:
    """Return what is read before anything was; a file in memory stays what it is."""
    try:
        return io.BufferedReader(_Pipe(stdin.fileno(), done), 1 << 16)
    except (OSError, ValueError):
        return stdin


def refused(error: RowError, place: str) -> UnreadableError:
    """Return what is said of a row that cannot become a record, with its place in a file."""
    return UnreadableError("", f"{place}, {error.column}: {error.reason}")


def _find(path: str | InputSource) -> list[InputSource]:
    if isinstance(path, InputSource):
        return [path]
    if path == STDIN:
        return [InputSource(path, (path,))]
    found: list[InputSource] = []
    for each in Location(path).expand():
        if each.path != path and each.name.startswith(("_", ".")):
            continue  # a pattern takes what a directory takes
        found += find_sources(each.path, SUFFIXES) if each.is_directory() else [file_source(each.path)]
    return found


def _parts(source: InputSource, most_bytes: int) -> list[InputSource]:
    """Divide the source into parts, if it is one file and larger than that."""
    if len(source.files) > 1 or _size(source) <= most_bytes:
        return [source]
    parts = split_file(source.name, most_bytes)
    return [replace(source, part=part, size=size) for part, size in parts] or [source]


def _size(source: InputSource) -> int:
    if source.size is not None:
        return source.size
    size = 0
    for path in source.files:
        with Location(path).open() as file:
            size += file.size
    return size


def exported_schema(path: str) -> pa.Schema:
    """Return the columns of a Parquet file. Raises :class:`UnreadableError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with Location(path).open() as file:
        try:
            return pq.read_schema(open_parquet(path, file))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnreadableError(path, f"this Parquet file cannot be read: {error}") from error


def read_exported(
    path: str, done: Done, *, may_repeat: bool = False, is_decoded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield one of several files that are read at once, in small pieces, with rising offsets. ``may_repeat``: several
    rows may have the same one. ``is_decoded``: keys and values may be of any type."""
    import pyarrow as pa

    last = -1
    with Location(path).open() as file:
        for batch in _parquet(path, file, done, is_one=False, is_decoded=is_decoded):
            if "offset" not in batch.schema.names or batch.schema.field("offset").type != pa.int64():
                text = "this is named as a file of an export, but has no offsets"
                raise UnreadableError(path, text, Kind.FOREIGN_FILE)
            offsets = np.concatenate([[last], numbers(batch.column("offset"), np.int64)])
            falls = (np.less if may_repeat else np.less_equal)(offsets[1:], offsets[:-1])
            if falls.any():
                raise UnreadableError(path, "this is named as a file of an export, but its offsets do not rise")
            last = int(offsets[-1])
            yield batch


def _parquet(
    path: str, file: File, done: Done, part: InputSplit | None = None, *, is_one: bool = True, is_decoded: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of records of a Parquet file. A file that is one of several yields small batches, all of one
    type. ``is_decoded``: keys and values may be of any type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        source = open_parquet(path, file)
        metadata = pq.read_metadata(source)
        schema = metadata.schema.to_arrow_schema()
        if not is_decoded:
            normalize(_empty(schema))  # to refuse a file for its columns before anything is read
        compact, widest = _widths(metadata)
        # Without pre_buffer and with a buffer, a row group need not be in memory as a whole.
        options: Any = {"pre_buffer": False, "buffer_size": 1 << 20, "read_dictionary": compact if is_one else []}
        options["coerce_int96_timestamp_unit"] = "ms"  # Spark's; years from 2262 on have too many nanoseconds
        source.seek(0)
        with closing(pq.ParquetFile(source, **options)) as parquet:
            names = [name for name in schema.names if name not in IGNORED]
            rows = max(1, min(_ROWS, (_BYTES if is_one else _BYTES_OF_SEVERAL) // max(widest, 1)))
            groups = None if part is None else list(range(part.start, part.end))
            for batch in parquet.iter_batches(rows, groups, columns=names, use_threads=False):
                yield batch
                done(file.size * batch.num_rows // metadata.num_rows)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableError(path, f"this Parquet file cannot be read: {error}") from error


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
