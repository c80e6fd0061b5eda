"""Selects decoded records by what is printed of them: the text of keys and values, and headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.tables.record_filter import RecordFilter, as_bytes, is_in, matches_regex
from brokerless.views.records import typed


@dataclass(frozen=True, slots=True)
class PrintedFilter:
    """The parts of a :class:`RecordFilter` that look at keys and values: a key, a regular expression, a text."""

    selection: RecordFilter

    def matches(self, decoded: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which records of a decoded batch are selected: bool, shape ``(rows,)``."""
        printed, own = typed.as_bytes(decoded), self.selection
        found = np.ones(printed.num_rows, np.bool_)
        if own.keys is not None:
            found &= is_in(printed.column("key"), own.keys)
        if own.key_regex is not None:
            found &= matches_regex(printed.column("key"), own.key_regex)
        if own.grep is not None:
            text = as_bytes(own.grep)
            found &= [
                _contains(text, *row) for row in zip(*(_values(printed, name) for name in _SEARCHED), strict=True)
            ]
        return found


_SEARCHED = ("key", "value", "headers")


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    return arrow.values(batch.column(name))


def _contains(text: bytes, key: bytes | None, value: bytes | None, headers: list[dict[str, Any]]) -> bool:
    if any(text in each for each in (key, value) if each is not None):
        return True
    pairs = ((as_bytes(each["key"]), each["value"]) for each in headers or ())
    return any(text in name or (value is not None and text in value) for name, value in pairs)
