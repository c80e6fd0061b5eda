"""Pushes filters down: finds the partitions, and the ranges of offsets and timestamps, in which a filter may hold.

A filter is an Arrow expression, whose parts Arrow's Python interface does not show. So it is not taken apart: Arrow
itself says whether it can hold where something is known of the rows (``offset`` is from 0 to 999, ``topic`` is
``orders``), as it does for the files of a partitioned data set. What is left out this way has no row for which the
filter is true; what is left may have none either, so the filter is still applied to the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs as fs

from brokerless.bounds import MAX_INT64, MIN_INT64
from brokerless.errors import UsageError

Expression = Any
"""A ``pyarrow.compute.Expression``, of which the published stubs know little."""
Interval = tuple[int, int]
"""Both ends are within."""

_PARTS = 16
_MOST_RANGES = 64
"""From here on, ranges are not made narrower."""
_MOST_MS = MAX_INT64 // 10**6
_FIRST = ((MIN_INT64, -_MOST_MS - 1), (-_MOST_MS, _MOST_MS), (_MOST_MS + 1, MAX_INT64))
"""All int64; those in the middle are in ns as well, where they are ms."""
_MOST_VALUES = 16
"""Of a column of bytes; with more, to look for them takes longer than to read everything."""
_BYTES = re.compile(r"(?<![0-9A-Za-z_])(?:[0-9A-F]{2})+(?![0-9A-Za-z_])")
"""How Arrow writes bytes in an expression; numbers look the same."""
_BY_POSITION = "FieldPath("
"""How Arrow writes a field that is named by its position."""


def possible(filter: Expression, schema: pa.Schema, known: Sequence[Expression]) -> list[int]:
    """Return the indexes of those of ``known`` with which the filter can be true of a row. Raises Arrow's errors for a
    filter that does not fit the schema."""
    form, system = _form()
    fragments = [form.make_fragment(str(i), system, each) for i, each in enumerate(known)]
    found = ds.FileSystemDataset(fragments, schema, form, system).get_fragments(filter)
    return sorted(int(each.path) for each in found)


@lru_cache(maxsize=1)
def _form() -> tuple[Any, Any]:
    return ds.IpcFileFormat(), fs.LocalFileSystem()


def known_values(values: Mapping[str, Any], schema: pa.Schema) -> Expression:
    """Return what is known of rows whose columns have these values; None is null."""
    parts = [
        ds.field(name).is_null() if value is None else ds.field(name) == pa.scalar(value, schema.field(name).type)
        for name, value in values.items()
    ]
    known = parts[0]
    for each in parts[1:]:
        known &= each
    return known


def known_interval(name: str, interval: Interval, schema: pa.Schema) -> Expression:
    """Return what is known of rows whose column ``name`` (of integers, or timestamps in their unit) is in an
    interval."""
    type_, field = schema.field(name).type, ds.field(name)
    return (field >= pa.scalar(interval[0], type_)) & (field <= pa.scalar(interval[1], type_))


def possible_ranges(filter: Expression, schema: pa.Schema, name: str, also: Expression | None = None) -> list[Interval]:
    """Return where the column ``name`` (int64, or timestamps in ms) can be for the filter to be true: intervals in
    order, no two of which touch, of all int64. ``also``: what else is known of the rows.

    All int64 are divided by 16, then those intervals that may hold something again, as far as they are ends of a run of
    such; 16 times.
    """

    def known(interval: Interval) -> Expression:
        own = known_interval(name, interval, schema)
        return own if also is None else own & also

    def are_possible(intervals: list[Interval]) -> list[Interval]:
        try:
            return [intervals[i] for i in possible(filter, schema, [known(each) for each in intervals])]
        except pa.ArrowInvalid:  # times that are too large for the unit of the filter
            return [each for each in intervals if _is_possible(filter, schema, known(each))]

    found = are_possible(list(_FIRST))
    while len(runs := joined(found)) <= _MOST_RANGES:
        divided = _divide_ends(found, are_possible)
        if divided == found:
            break
        found = divided
    return runs


def required_values(filter: Expression, schema: pa.Schema, name: str) -> list[bytes] | None:
    """Return the values that the column ``name`` (bytes) has in all rows for which the filter is true, at most 16, in
    order; None where it may have others.

    The values are taken from the filter's text, and Arrow says whether it can hold between any two of them.
    """
    found = sorted({bytes.fromhex(each) for each in _BYTES.findall(str(filter))})
    if not 0 < len(found) <= _MOST_VALUES:
        return None
    field = ds.field(name)
    others = [field < found[0], *((field > one) & (field < two) for one, two in pairwise(found)), field > found[-1]]
    if possible(filter, schema, [field.is_null(), *others]):
        return None
    return [found[i] for i in possible(filter, schema, [field == each for each in found])]


def _is_possible(filter: Expression, schema: pa.Schema, known: Expression) -> bool:
    try:
        return bool(possible(filter, schema, [known]))
    except pa.ArrowInvalid:
        return True


def _divide_ends(cells: list[Interval], are_possible: Callable[[list[Interval]], list[Interval]]) -> list[Interval]:
    """Return the intervals with the first and the last of each run of cells divided, of which those stay that may hold
    something; what lies between them stays as one."""
    known: list[Interval] = []
    asked: list[Interval] = []
    for start, end in runs_of(cells):
        run = cells[start:end]
        asked += _divide(run[0])
        if len(run) > 1:
            asked += _divide(run[-1])
        if len(run) > 2:
            known.append((run[1][0], run[-2][1]))
    return sorted(known + are_possible(asked))


def _divide(cell: Interval) -> list[Interval]:
    first, last = cell
    step = max(1, -(-(last - first + 1) // _PARTS))
    return [(start, min(start + step - 1, last)) for start in range(first, last + 1, step)]


def runs_of(cells: list[Interval]) -> list[tuple[int, int]]:
    """Return where runs of cells that touch start and end."""
    borders = [0, *(i for i, (one, two) in enumerate(pairwise(cells), 1) if one[1] + 1 < two[0]), len(cells)]
    return list(pairwise(borders)) if cells else []


def joined(cells: list[Interval]) -> list[Interval]:
    """Intervals in order, those that touch as one."""
    return [(cells[start][0], cells[end - 1][1]) for start, end in runs_of(cells)]


def columns_of(expressions: Sequence[Expression], schema: pa.Schema) -> list[str]:
    """Return the columns that some expressions need, in the order of the schema; all where one is named by its
    position.

    Raises Arrow's errors for an expression that does not fit the schema.
    """
    if any(_BY_POSITION in str(each) for each in expressions):
        return list(schema.names)
    needed: list[str] = []
    for each in expressions:
        _bind(each, schema)
    for index, field in enumerate(schema):
        without = schema.set(index, field.with_name(f"\0{field.name}"))
        if not all(_fits(each, without) for each in expressions):
            needed.append(field.name)
    return needed


def _fits(expression: Expression, schema: pa.Schema) -> bool:
    try:
        _bind(expression, schema)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return False
    return True


def _bind(expression: Expression, schema: pa.Schema) -> None:
    ds.InMemoryDataset(pa.Table.from_batches([], schema)).scanner(columns={"any": expression}).projected_schema  # noqa: B018


def both(one: Expression | None, other: Expression | None) -> Expression | None:
    """Return a filter for which both hold; None is no filter. Raises :class:`UsageError` for what is no Arrow
    expression."""
    for each in (one, other):
        if each is not None and not isinstance(each, ds.Expression):
            text = f"filter: {each!r} is no expression of Arrow; write one such as ds.field('offset') == 7"
            raise UsageError(f"{text}, or ask log.sql(...)")
    if one is None or other is None:
        return other if one is None else one
    return one & other
