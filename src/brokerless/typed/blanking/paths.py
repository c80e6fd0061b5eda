"""Named fields of values: their paths as text and as names, and what a value has of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import NamedTuple

from brokerless.errors import UsageError

FieldPath = tuple[str, ...]
"""Names of fields, from the outermost one."""
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_path(text: str) -> FieldPath:
    """Return the names in a path with dots between them. A dot, comma or backslash that is part of a name has a
    backslash before it; a space that begins or ends one may have it. Raises :class:`UsageError` for an empty name, and
    for a backslash before anything else."""
    parts = _split(text, ".")
    if not all(parts):
        raise UsageError(f"{text!r} is not the path of a field; write a, or a.b")
    if not set("".join(_ESCAPED.findall(text))) <= {".", ",", "\\", " "} or _ESCAPED.sub("", text).endswith("\\"):
        advice = r"it only comes before a dot, a comma or a backslash that is part of a name, as in tags.home\.phone"
        raise UsageError(f"{text!r} is not the path of a field, for its backslash: {advice}")
    return tuple(_ESCAPED.sub(r"\1", part) for part in parts)


def split_fields(text: str) -> list[str]:
    """Split several paths with commas between them, each still with its escapes; spaces around one are no part of it,
    unless with a backslash."""
    return [re.sub(r"^ +|(?<!\\) +$", "", each) for each in _split(text, ",")]


def path_text(path: Iterable[str]) -> str:
    """Return a path as :func:`parse_path` takes it."""
    return ".".join(re.sub(r"([.,\\]|^ | $)", r"\\\1", name) for name in path)


def _split(text: str, separator: str) -> list[str]:
    parts, is_escaped = [""], False
    for each in text:
        if each == separator and not is_escaped:
            parts.append("")
        else:
            parts[-1] += each
        is_escaped = each == "\\" and not is_escaped
    return parts


class Presence(IntFlag):
    """What a value has of a named field, in all places that its path leads to: ``HELD`` (something that was there),
    ``EMPTY`` (it is null or empty already, or its schema permits that it is left out), ``LACKING`` (an object, record
    or element has no field of this name)."""

    HELD = 1
    EMPTY = 2
    LACKING = 4


class FieldTarget(NamedTuple):
    """A named field, as it is seen from within a value: the names that are left, and its number among all."""

    path: FieldPath
    number: int


@dataclass(slots=True)
class NamedFields:
    """The fields that are named, and their presence in one value, which walkers add to."""

    targets: Sequence[FieldTarget]
    presence: list[Presence]
    declares: Callable[[tuple[str | int, ...], str], bool] | None = field(default=None)
    """Returns whether a schema permits that a member is left out of an object; names and numbers lead to that."""

    @classmethod
    def of(cls, paths: Sequence[FieldPath]) -> NamedFields:
        return cls([FieldTarget(path, number) for number, path in enumerate(paths)], [Presence(0)] * len(paths))

    def add(self, targets: Iterable[FieldTarget], presence: Presence) -> None:
        for each in targets:
            self.presence[each.number] |= presence

    def add_missing(self, targets: Iterable[FieldTarget], route: tuple[str | int, ...]) -> None:
        """The fields whose first names an object of JSON has not, which ``route`` leads to."""
        for each in targets:
            is_optional = self.declares is not None and self.declares(route, each.path[0])
            self.presence[each.number] |= Presence.EMPTY if is_optional else Presence.LACKING


def named(targets: Iterable[FieldTarget], names: Collection[str]) -> list[FieldTarget]:
    """Return those that go through, or end at, what has one of these names."""
    return [each for each in targets if each.path[0] in names]


def is_end(targets: Iterable[FieldTarget]) -> bool:
    """Return whether the path of one of these ends at the next name."""
    return any(len(each.path) == 1 for each in targets)


def beyond(targets: Iterable[FieldTarget]) -> list[FieldTarget]:
    """Return the targets after the next name."""
    return [FieldTarget(each.path[1:], each.number) for each in targets]
