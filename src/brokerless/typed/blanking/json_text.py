"""Finds the fields of JSON in its text, so that all other bytes can stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from brokerless.typed.blanking.edits import Edit, Path

Route = tuple[str | int, ...]
"""Names of members and numbers of elements, from the outermost value."""
_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"
_STRING, _COLON = re.compile(r'"((?:[^"\\]|\\.)*)"'), re.compile(r"[ \t\n\r]*:")


@dataclass(frozen=True, slots=True)
class Span:
    """A value within JSON, from ``start`` to ``end`` (characters), and how one comes to it."""

    start: int
    end: int
    route: Route


def find_spans(text: str, paths: Sequence[Path]) -> list[Span]:
    """Where the values of fields are, in order, without those within another one. Raises ValueError for what is no
    JSON."""
    json.loads(text)
    spans: list[Span] = []
    for each in sorted(_find(text, _skip(text, 0), paths, ()), key=lambda each: (each.start, each.end)):
        if not spans or each.start >= spans[-1].end:
            spans.append(each)
    return spans


def edits_of(text: str, spans: Iterable[Span], values: Iterable[str]) -> list[Edit]:
    """Edits of the text's bytes in UTF-8: other values in place of those of spans that are others."""
    edits: list[Edit] = []
    at = position = 0
    for span, value in zip(spans, values, strict=True):
        old = text[span.start : span.end]
        position += len(text[at : span.start].encode())
        start, position, at = position, position + len(old.encode()), span.end
        if old != value:
            edits.append(Edit(start, position, value.encode(), tuple(_contents(old, start)), tuple(_texts(old))))
    return edits


def json_edits(data: bytes, paths: Sequence[Path]) -> list[Edit]:
    """Null in place of the fields. Raises ValueError for what is no JSON."""
    text = data.decode()
    spans = find_spans(text, paths)
    return edits_of(text, spans, ["null"] * len(spans))


def _contents(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Where the strings of a value are (between their quotes, without names of members), if its first byte is at
    ``start``; else the whole value."""
    if text[0] not in '"[{':
        yield start, start + len(text)
        return
    at, position = 0, start
    for each in _STRING.finditer(text):
        first = position + len(text[at : each.start(1)].encode())
        position, at = first + len(each[1].encode()), each.end(1)
        if not _COLON.match(text, each.end()):
            yield first, position


def _texts(text: str) -> Iterator[bytes]:
    """An array or object as a whole, and each string without its escapes."""
    if text[0] in "[{":
        yield text.encode()
    for each in dict.fromkeys(_strings(json.loads(text))):
        yield each.encode("utf-8", "surrogatepass")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inner: Iterable[Any] = value.values() if isinstance(value, dict) else value  # pyright: ignore
        for each in inner:
            yield from _strings(each)


def _find(text: str, at: int, paths: Sequence[Path], route: Route) -> Iterator[Span]:
    """Where the values of some paths are, within the value that begins at a place of valid JSON."""
    if text[at] == "[":
        at, number = _skip(text, at + 1), 0
        while text[at] != "]":
            yield from _find(text, at, paths, (*route, number))
            at, number = _after(text, _DECODER.raw_decode(text, at)[1], "]"), number + 1
    elif text[at] == "{":
        at = _skip(text, at + 1)
        while text[at] != "}":
            name, after = scanstring(text, at + 1)
            start = _skip(text, _skip(text, after) + 1)
            end = _DECODER.raw_decode(text, start)[1]
            if (name,) in paths:
                yield Span(start, end, (*route, name))
            else:
                inner = [path[1:] for path in paths if len(path) > 1 and path[0] == name]
                if inner:
                    yield from _find(text, start, inner, (*route, name))
            at = _after(text, end, "}")


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _after(text: str, at: int, close: str) -> int:
    """Where the next element begins after one that ends here, or where ``close`` is."""
    at = _skip(text, at)
    return at if text[at] == close else _skip(text, at + 1)
