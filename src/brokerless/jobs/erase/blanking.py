"""Blanks values: a record's value becomes null, or some fields of its JSON do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.format.write.column_slices import replace_values

_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


@dataclass(frozen=True, slots=True)
class Blanking:
    """What becomes null of selected records, which stay: the whole value, or ``fields`` of its JSON (dotted paths of
    object members; arrays on the way stand for all their elements). Raises :class:`UsageError` for an empty path."""

    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in self.fields:
            if not all(each.split(".")):
                raise UsageError(f"{each!r} is not the path of a field; write a, or a.b")

    @property
    def paths(self) -> list[tuple[str, ...]]:
        return [tuple(each.split(".")) for each in self.fields]


def blank_values(columns: RecordColumns, chosen: NDArray[np.bool_], blanking: Blanking) -> RecordColumns | str:
    """The same records, with the values of ``chosen`` (bool) blanked; or why that is not possible."""
    paths = blanking.paths
    if not paths:
        return replace_values(columns, chosen)
    values: list[bytes | None] = []
    for row in np.flatnonzero(chosen).tolist():
        value = columns.value_data[columns.value_ends[row] : columns.value_ends[row + 1]].tobytes()
        try:
            values.append(None if columns.value_null[row] else blank_json(value, paths))
        except (ValueError, RecursionError):
            text = f"the value of offset {columns.offset[row]} is not JSON, so its fields cannot be blanked"
            return f"{text}; blank the whole value (--blank value), or erase without --blank-fields"
    return replace_values(columns, chosen, values)


def blank_json(value: bytes, paths: list[tuple[str, ...]]) -> bytes:
    """JSON with null in place of the fields; all other bytes are unchanged. Raises ValueError for what is no JSON."""
    text, spans = _spans(value, paths)
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += [text[at:start], "null"]
        at = end
    return "".join([*pieces, text[at:]]).encode()


def blanked_parts(value: bytes, paths: list[tuple[str, ...]]) -> list[bytes]:
    """What :func:`blank_json` takes away, as it is in the bytes: of a string what is between its quotes, and of arrays
    and objects also each string in them. Raises ValueError for what is no JSON."""
    text, spans = _spans(value, paths)
    parts: list[str] = []
    for start, end in spans:
        part = text[start:end]
        if part.startswith('"'):
            parts.append(part[1:-1])
        elif part != "null":
            parts += [part, *_strings(json.loads(part))]
    return [each.encode("utf-8", "surrogatepass") for each in dict.fromkeys(parts)]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value  # pyright: ignore
        for each in inner:
            yield from _strings(each)


def _spans(value: bytes, paths: list[tuple[str, ...]]) -> tuple[str, list[tuple[int, int]]]:
    """JSON as text, and where the fields' values are in it, in order, without those within another one."""
    text = value.decode()
    json.loads(text)
    spans: list[tuple[int, int]] = []
    for start, end in sorted(_find(text, _skip(text, 0), paths)):
        if not spans or start >= spans[-1][1]:
            spans.append((start, end))
    return text, spans


def _find(text: str, at: int, paths: list[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """Where the values of some paths are, within the value that begins at a place of valid JSON."""
    if text[at] == "[":
        at = _skip(text, at + 1)
        while text[at] != "]":
            yield from _find(text, at, paths)
            at = _after(text, _DECODER.raw_decode(text, at)[1], "]")
    elif text[at] == "{":
        at = _skip(text, at + 1)
        while text[at] != "}":
            name, after = scanstring(text, at + 1)
            start = _skip(text, _skip(text, after) + 1)
            end = _DECODER.raw_decode(text, start)[1]
            if (name,) in paths:
                yield start, end
            else:
                inner = [path[1:] for path in paths if len(path) > 1 and path[0] == name]
                if inner:
                    yield from _find(text, start, inner)
            at = _after(text, end, "}")


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _after(text: str, at: int, close: str) -> int:
    """Where the next element begins after one that ends here, or where ``close`` is."""
    at = _skip(text, at)
    return at if text[at] == close else _skip(text, at + 1)
