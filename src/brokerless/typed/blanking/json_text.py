"""Finds the fields of JSON in its text, so that all other bytes can stay."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from brokerless.typed.blanking.edits import Edit
from brokerless.typed.blanking.paths import FieldTarget, NamedFields, Presence, beyond, is_end, named

Route = tuple[str | int, ...]
"""Names of members and numbers of elements, from the outermost value."""
_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"
_STRING, _COLON = re.compile(r'"((?:[^"\\]|\\.)*)"'), re.compile(r"[ \t\n\r]*:")


@dataclass(frozen=True, slots=True)
class JsonSpan:
    """A value within JSON."""

    start: int
    """Where it begins (characters)."""
    end: int
    """Where it ends (characters)."""
    route: Route
    """How one comes to the value."""
    targets: Sequence[FieldTarget]
    """The named fields that the value is."""


def find_spans(text: str, fields: NamedFields) -> list[JsonSpan]:
    """Return where the values of fields are, in order; none is within another one. Raises ValueError for what is no
    JSON."""
    json.loads(text)
    return list(_find(text, _skip(text, 0), fields, targets=fields.targets, route=()))


def edits_of(text: str, spans: Iterable[JsonSpan], values: Iterable[str], fields: NamedFields) -> list[Edit]:
    """Return the edits of the text's bytes in UTF-8: other values in place of those of spans that are others."""
    edits: list[Edit] = []
    at = position = 0
    for span, value in zip(spans, values, strict=True):
        old = text[span.start : span.end]
        position += len(text[at : span.start].encode())
        start, position, at = position, position + len(old.encode()), span.end
        fields.add(span.targets, Presence.EMPTY if old == value else Presence.HELD)
        if old != value:
            edits.append(
                Edit(start, position, value.encode(), contents=tuple(_contents(old, start)), more=tuple(_texts(old)))
            )
    return edits


def json_edits(data: bytes, fields: NamedFields) -> list[Edit]:
    """Return the edits that put null in place of the fields. Raises ValueError for what is no JSON."""
    text = data.decode()
    spans = find_spans(text, fields)
    return edits_of(text, spans, ["null"] * len(spans), fields)


def _contents(text: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield where the strings of a value are (between their quotes, without names of members), if its first byte is at
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


def _find(text: str, at: int, fields: NamedFields, targets: Sequence[FieldTarget], route: Route) -> Iterator[JsonSpan]:
    """Yield where the values of some fields are, within the value that begins at a place of valid JSON."""
    if text[at] == "[":
        at, number = _skip(text, at + 1), 0
        if text[at] == "]":
            fields.add(targets, Presence.EMPTY)
        while text[at] != "]":
            yield from _find(text, at, fields, targets=targets, route=(*route, number))
            at, number = _after(text, _DECODER.raw_decode(text, at)[1], "]"), number + 1
    elif text[at] == "{":
        yield from _find_in_object(text, _skip(text, at + 1), fields, targets=targets, route=route)
    else:
        fields.add(targets, Presence.EMPTY if text[at] == "n" else Presence.LACKING)


def _find_in_object(
    text: str, at: int, fields: NamedFields, targets: Sequence[FieldTarget], route: Route
) -> Iterator[JsonSpan]:
    names: set[str] = set()
    while text[at] != "}":
        name, after = scanstring(text, at + 1)
        names.add(name)
        start = _skip(text, _skip(text, after) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        own = named(targets, (name,))
        if is_end(own):
            yield JsonSpan(start, end, (*route, name), own)
        elif own:
            yield from _find(text, start, fields, targets=beyond(own), route=(*route, name))
        at = _after(text, end, "}")
    if names:
        fields.add_missing((each for each in targets if each.path[0] not in names), route)
    else:
        fields.add(targets, Presence.EMPTY)


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


def _after(text: str, at: int, close: str) -> int:
    """Return where the next element begins after one that ends here, or where ``close`` is."""
    at = _skip(text, at)
    return at if text[at] == close else _skip(text, at + 1)
