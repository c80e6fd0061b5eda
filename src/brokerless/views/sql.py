"""Formats the results of queries as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from brokerless.interchange.result_text import text_of
from brokerless.text import show
from brokerless.views.table import table

WIDEST_CELL = 80


def table_lines(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Lines for people: cells of at most 80 characters, numbers on the right."""
    right = [field.name for field in schema if _is_number(field.type)]
    cells = [[_short(text_of(value)) for value in row] for row in rows]
    names = [_short(name) for name in schema.names]
    return table(names, cells, [_short(name) for name in right])


def row_lines(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> Iterator[str]:
    """Lines for people: of each row a line for each column, values in full, between empty lines."""
    names = [show(name) for name in schema.names]
    width = max(map(len, names), default=0)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for name, value in zip(names, row, strict=True):
            yield f"{name.rjust(width)} = {show(text_of(value))}"


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def _short(text: str) -> str:
    text = show(text[: 4 * WIDEST_CELL])
    return text if len(text) <= WIDEST_CELL else text[: WIDEST_CELL - 1] + "\u2026"
