"""Reads directories whose paths hold columns: ``topic=orders/date=2026-11-21/...`` (Hive's and Spark's layout).

What ``brokerless export`` wrote by date has a partition's records in several files at once; they are put together again
by their offsets, so that they can be loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from brokerless.arrow import column_of_numbers, column_of_values, numbers
from brokerless.errors import UnreadableError, UsageError
from brokerless.interchange.input_splits import InputSplit
from brokerless.log.storage import paths
from brokerless.log.storage.location import Location

_COLUMN = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_KNOWN = ("topic", "partition", "date")
_EXPORTED = re.compile(r"partition-([0-9]{1,10})-([0-9]{20})\.parquet")


@dataclass(frozen=True, slots=True)
class InputSource:
    """Files that are read as one, by offset; nearly always one file."""

    name: str
    """The path, if there is one file."""
    files: tuple[str, ...]
    starts: tuple[int, ...] = ()
    """The first offset of each file, if there are several."""
    topic: str | None = None
    """The topic that the path names, if it does."""
    partition: int | None = None
    """The partition that the path names, if it does."""
    size: int | None = None
    """Bytes of the files, None if they were not listed."""
    part: InputSplit | None = None


def find_sources(path: str, suffixes: tuple[str, ...]) -> list[InputSource]:
    """Return the files of a directory, by topic, partition and offset, each with what its whole path says.

    Raises :class:`UsageError` for directories in it that are no columns of a record, and :class:`UnreadableError` if
    there are no files.
    """
    topic, partition = _columns_of(paths.full_path(path))
    found = list(_find(path, suffixes, InputSource(path, (), (), topic=topic, partition=partition)))
    if not found:
        raise UnreadableError(path, f"no file in it ends with {', '.join(suffixes)}")
    return sorted(found, key=_place)


def file_source(path: str) -> InputSource:
    """Return a file, with what the directories say that it is in: ``topic=orders/date=2026-11-21/...``."""
    return InputSource(path, (path,), (), *_columns_of(paths.full_path(path).rpartition("/")[0]))


def exported_start(source: InputSource, partition: int) -> int | None:
    """Return the first offset of a file by its name, if it is one of an exported partition."""
    _, own, first = _place(source)
    return first if own == partition else None


def put_together(sources: Iterable[InputSource]) -> list[InputSource]:
    """Return the files of an exported partition as one; others unchanged, in their order."""
    groups: dict[tuple[str, int] | int, list[InputSource]] = {}
    for number, source in enumerate(sources):
        topic, partition, _ = _place(source)
        is_alone = partition < 0 or len(source.files) > 1 or source.part is not None
        name = topic or f"{source.name.rpartition('/')[0]}/"  # of a topic that is not known, only of one directory
        groups.setdefault(number if is_alone else (name, partition), []).append(source)
    return [_joined(sorted(own, key=_place)) if len(own) > 1 else own[0] for own in groups.values()]


def merge(starts: Iterable[int], opens: Iterable[Callable[[], Iterator[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of several inputs with a column ``offset`` that rises, as one in which it rises; an input is
    opened when its first offset is due."""
    waiting = sorted(zip(starts, opens, strict=True), key=lambda each: each[0])
    current: list[tuple[Iterator[pa.RecordBatch], pa.RecordBatch]] = []
    while current or waiting:
        while waiting and (not current or waiting[0][0] <= min(_last(batch) for _, batch in current)):
            _advance(current, waiting.pop(0)[1]())
        if not current:
            continue
        bound = min(_last(batch) for _, batch in current)
        taken: list[pa.RecordBatch] = []
        going: list[tuple[Iterator[pa.RecordBatch], pa.RecordBatch]] = []
        for rest, batch in current:
            rows = int(np.searchsorted(_offsets(batch), bound, side="right"))
            if rows:
                taken.append(batch.slice(0, rows))
            if rows < batch.num_rows:
                going.append((rest, batch.slice(rows)))
            else:
                _advance(going, rest)
        current = going
        yield _sorted(taken)


def with_path(batch: pa.RecordBatch, source: InputSource) -> pa.RecordBatch:
    """Return a batch with the topic and partition of its path, where the file itself does not have them."""
    if source.topic is not None and "topic" not in batch.schema.names:
        indices = column_of_numbers(pa.int32(), np.zeros(batch.num_rows, np.int32))
        names = pa.DictionaryArray.from_arrays(indices, column_of_values([source.topic], pa.string()))
        batch = batch.append_column("topic", cast(Any, names))
    if source.partition is not None and "partition" not in batch.schema.names:
        column = column_of_numbers(pa.int32(), np.full(batch.num_rows, source.partition, np.int32))
        batch = batch.append_column("partition", column)
    return batch


def _find(
    path: str, suffixes: tuple[str, ...], parent: InputSource, columns: tuple[str, ...] = ()
) -> Iterator[InputSource]:
    entries = [each for each in Location(path).entries() if not each.name.startswith(("_", "."))]
    for each in entries:
        if not each.is_directory:
            if each.name.endswith(suffixes):
                yield InputSource(
                    each.path, (each.path,), (), topic=parent.topic, partition=parent.partition, size=each.size
                )
        elif (column := _column(each.name)) is None:
            raise UsageError(f"{path} has directories in it ({each.name}); give those that are to be loaded, or files")
        elif column[0] in columns:  # a link may lead back, and two of them to more places than anybody can visit
            raise UsageError(f"{each.path}: the column {column[0]} comes twice on this path")
        else:
            inner = _within(InputSource(each.path, (), (), *_values(parent)), column)
            yield from _find(each.path, suffixes, inner, (*columns, column[0]))


def _columns_of(directory: str) -> tuple[str | None, int | None]:
    """Topic and partition as the last parts of a directory's path say them."""
    source = InputSource(directory, ())
    parts = directory.rstrip("/").split("/")
    columns = list(takewhile(lambda column: column is not None, map(_column, reversed(parts))))
    for column in reversed(columns):
        assert column is not None
        source = _within(source, column)
    return _values(source)


def _column(name: str) -> tuple[str, str] | None:
    match = _COLUMN.fullmatch(name)
    return (match[1], match[2]) if match is not None and match[1] in _KNOWN else None


def _within(source: InputSource, column: tuple[str, str]) -> InputSource:
    """Return the source in a directory of this name."""
    name, value = column
    if name == "topic":
        return replace(source, topic=unquote(value))
    if name == "partition":
        if re.fullmatch(r"[0-9]{1,9}", value) is None:
            raise UsageError(f"{source.name}: {value!r} is not a partition number")
        return replace(source, partition=int(value))
    return source


def _values(source: InputSource) -> tuple[str | None, int | None]:
    return source.topic, source.partition


def _place(source: InputSource) -> tuple[str, int, int]:
    """Topic, partition and first offset by the name of an exported file; others come before."""
    match = _EXPORTED.fullmatch(source.files[0].rpartition("/")[2])
    return (source.topic or "", int(match[1]), int(match[2])) if match else (source.topic or "", -1, 0)


def _joined(own: list[InputSource]) -> InputSource:
    files = tuple(each.files[0] for each in own)
    name = f"{files[0]} and {len(files) - 1} more files of {own[0].topic}-{_place(own[0])[1]}"
    sizes = [each.size for each in own]
    size = None if None in sizes else sum(each or 0 for each in sizes)
    return InputSource(
        name, files, tuple(_place(each)[2] for each in own), topic=own[0].topic, partition=own[0].partition, size=size
    )


def _advance(current: list[tuple[Iterator[pa.RecordBatch], pa.RecordBatch]], rest: Iterator[pa.RecordBatch]) -> None:
    following = next((batch for batch in rest if batch.num_rows), None)
    if following is not None:
        current.append((rest, following))


def _sorted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    together = pa.concat_batches(batches)
    order = np.argsort(_offsets(together), kind="stable")
    return together.take(column_of_numbers(pa.int64(), order))


def _offsets(batch: pa.RecordBatch) -> Any:
    return numbers(batch.column("offset"), np.int64)


def _last(batch: pa.RecordBatch) -> int:
    return int(_offsets(batch)[-1])
