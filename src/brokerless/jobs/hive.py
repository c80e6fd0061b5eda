"""Directories of files whose paths hold columns, as ``topic=orders/date=2026-11-21/...`` (Hive's way, and Spark's).

What ``brokerless export`` wrote by date has a partition's records in several files at once; they are put together again
by their offsets, so that they can be loaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from brokerless.arrow import column_of_numbers, column_of_values, numbers
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.parts import Part
from brokerless.log import storage

_COLUMN = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_KNOWN = ("topic", "partition", "date")
_EXPORTED = re.compile(r"partition-([0-9]{1,10})-([0-9]{20})\.parquet")


@dataclass(frozen=True, slots=True)
class Source:
    """Files that are read as one, by offset; nearly always one, and then ``name`` is its path. ``starts``: the first
    offset of each, if there are several. ``topic`` and ``partition`` are what the path says. ``size``: their bytes,
    None if they were not listed."""

    name: str
    files: tuple[str, ...]
    starts: tuple[int, ...] = ()
    topic: str | None = None
    partition: int | None = None
    size: int | None = None
    part: Part | None = None


def find_sources(path: str, suffixes: tuple[str, ...]) -> list[Source]:
    """What there is to read in a directory, by topic, partition and offset.

    Raises :class:`UsageError` for directories in it that are no columns of a record, and :class:`UnreadableError` if
    there are no files.
    """
    found = [each for each in _find(path, suffixes, Source(path, ())) if each.files]
    if not found:
        raise UnreadableError(f"{path}: no file in it ends with {', '.join(suffixes)}")
    return list(_put_together(found))


def merge(starts: Iterable[int], opens: Iterable[Callable[[], Iterator[pa.RecordBatch]]]) -> Iterator[pa.RecordBatch]:
    """The rows of several inputs with a column ``offset`` that rises, as one in which it rises; an input is opened when
    its first offset is due."""
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


def with_path(batch: pa.RecordBatch, source: Source) -> pa.RecordBatch:
    """With what the path says, where the file itself does not say it."""
    if source.topic is not None and "topic" not in batch.schema.names:
        indices = column_of_numbers(pa.int32(), np.zeros(batch.num_rows, np.int32))
        names = pa.DictionaryArray.from_arrays(indices, column_of_values([source.topic], pa.string()))
        batch = batch.append_column("topic", cast(Any, names))
    if source.partition is not None and "partition" not in batch.schema.names:
        column = column_of_numbers(pa.int32(), np.full(batch.num_rows, source.partition, np.int32))
        batch = batch.append_column("partition", column)
    return batch


def _find(path: str, suffixes: tuple[str, ...], parent: Source, columns: tuple[str, ...] = ()) -> Iterator[Source]:
    entries = [each for each in storage.list_directory(path) if not each.name.startswith(("_", "."))]
    for each in entries:
        if not each.is_directory:
            if each.name.endswith(suffixes):
                yield Source(each.path, (each.path,), (), parent.topic, parent.partition, each.size)
            continue
        column = _COLUMN.fullmatch(each.name)
        if column is None or column[1] not in _KNOWN:
            raise UsageError(f"{path} has directories in it ({each.name}); give those that are to be loaded, or files")
        if column[1] in columns:  # a link may lead back, and two of them to more places than anybody can visit
            raise UsageError(f"{each.path}: the column {column[1]} comes twice on this path")
        topic, partition = parent.topic, parent.partition
        if column[1] == "topic":
            topic = unquote(column[2])
        elif column[1] == "partition":
            if re.fullmatch(r"[0-9]{1,9}", column[2]) is None:
                raise UsageError(f"{each.path}: {column[2]!r} is no number of a partition")
            partition = int(column[2])
        yield from _find(each.path, suffixes, Source(each.path, (), (), topic, partition), (*columns, column[1]))


def _put_together(found: list[Source]) -> Iterator[Source]:
    """The files of an exported partition as one; others as they are."""

    def place(source: Source) -> tuple[str, int, int]:
        match = _EXPORTED.fullmatch(source.files[0].rpartition("/")[2])
        return (source.topic or "", int(match[1]), int(match[2])) if match else (source.topic or "", -1, 0)

    for (topic, partition), group in groupby(sorted(found, key=place), key=lambda each: place(each)[:2]):
        own = list(group)
        if partition < 0 or len(own) == 1:
            yield from own
            continue
        files = tuple(each.files[0] for each in own)
        starts = tuple(place(each)[2] for each in own)
        name = f"{files[0]} and {len(files) - 1} more files of {topic}-{partition}"
        size = sum(each.size or 0 for each in own)
        yield Source(name, files, starts, own[0].topic, own[0].partition, size)


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
