"""Checks the rules of a JSON Schema on columns, where all of them are of a kind that can be: no row is parsed for them.

A column has a null where a document has a null, or no such member, so that a row in which that makes a difference is
not accepted here: whoever checks rows one by one says of it what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerless import arrow
from brokerless.format.arrays import Bools

Resolve = Callable[[str], Any]
"""The schema that a reference of the main document leads to. Raises ValueError for one that leads nowhere."""

_TYPES = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_EXACT = 1 << 53
"""Below it, a whole number is the same as a float."""
_BOUNDS = {
    "minimum": "greater_equal", "maximum": "less_equal", "exclusiveMinimum": "greater", "exclusiveMaximum": "less",
    "minLength": "greater_equal", "maxLength": "less_equal", "minItems": "greater_equal", "maxItems": "less_equal",
}  # fmt: skip
_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "enum", "const"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "boolean": (),
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "minItems", "maxItems"),
}
_MAX_DEPTH = 32


class NotByColumnsError(ValueError):
    """A schema with a rule that is checked row by row."""


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What a schema says of a column."""

    kind: str
    is_nullable: bool = False
    members: Mapping[str, tuple[ColumnRule, bool]] = field(default_factory=dict[str, "tuple[ColumnRule, bool]"])
    """Of an object: by name, and whether it is required."""
    items: ColumnRule | None = None
    bounds: tuple[tuple[str, float], ...] = ()
    """Arrow's comparison, and with what: of a number, or of a length."""
    pattern: str | None = None
    values: tuple[Any, ...] | None = None

    def accepts(self, column: Any, may_be_null: Bools) -> Bools:
        """Return which rows of a column, as Arrow reads it, are valid beyond doubt. ``may_be_null``: whether a document
        has ``null`` anywhere, else what is null is absent."""
        return ~self._refused(column, may_be_null) & arrow.is_valid(column)

    def _refused(self, column: Any, may_be_null: Bools) -> Bools:
        """Null is not refused here: that is for whoever knows whether it may be absent."""
        valid = arrow.is_valid(column)
        refused = np.zeros(len(column), np.bool_)
        for name, (rule, is_required) in self.members.items():
            member = column.field(column.type.get_field_index(name))
            lacking = ~arrow.is_valid(member)
            if is_required:
                refused |= lacking
            elif not rule.is_nullable:
                refused |= lacking & may_be_null
            refused |= rule._refused(member, may_be_null)
        if self.items is not None:
            refused |= self._refused_items(self.items, column, may_be_null)
        if self.bounds:
            sizes = self._sizes(column)
            for comparison, bound in self.bounds:
                refused |= ~_true(pc.call_function(comparison, [sizes, pa.scalar(bound, sizes.type)]))
        if self.pattern is not None:
            options = pc.MatchSubstringOptions(self.pattern)
            refused |= ~_true(pc.call_function("match_substring_regex", [column], options))
        if self.values is not None:
            options = pc.SetLookupOptions(pa.array(self.values, column.type))
            refused |= ~_true(pc.call_function("is_in", [column], options))
        return refused & valid

    def _sizes(self, column: Any) -> Any:
        own = {"string": "utf8_length", "array": "list_value_length"}.get(self.kind)
        sizes = column if own is None else pc.call_function(own, [column])
        return sizes if own is None else sizes.cast(pa.int64())

    def _refused_items(self, rule: ColumnRule, column: Any, may_be_null: Bools) -> Bools:
        ends = np.asarray(column.offsets).astype(np.int64)
        first, values = int(ends[0]), column.values.slice(int(ends[0]), int(ends[-1] - ends[0]))
        refused = rule._refused(values, np.repeat(may_be_null, np.diff(ends)))
        if not rule.is_nullable:
            refused |= ~arrow.is_valid(values)
        before = np.concatenate([[0], np.cumsum(refused)])
        return before[ends[1:] - first] > before[ends[:-1] - first]


def _true(found: Any) -> Bools:
    return np.asarray(found.fill_null(False))


def rule_of(node: Any, target: Any, keywords: Collection[str], resolve: Resolve, depth: int = 0) -> ColumnRule:
    """Return the rule of a schema for a column of a type. ``keywords``: all that the schema's dialect checks; others
    say nothing. Raises :class:`NotByColumnsError`."""
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        raise NotByColumnsError
    found = {name: value for name, value in cast("dict[str, Any]", node).items() if name in keywords}
    inner = (keywords, resolve, depth + 1)
    if isinstance(found.get("$ref"), str) and len(found) == 1:
        return rule_of(resolve(found["$ref"]), target, *inner)
    for keyword in ("oneOf", "anyOf"):
        if keyword in found and len(found) == 1:
            return _or_null(found[keyword], target, *inner)
    kind = found.pop("type", None)
    is_nullable = isinstance(kind, list) and "null" in kind and len(cast("list[Any]", kind)) == 2
    if is_nullable:
        kind = next(each for each in cast("list[Any]", kind) if each != "null")
    if not isinstance(kind, str) or not set(found) <= set(_OF_TYPE.get(kind, ())) or kind not in _OF_TYPE:
        raise NotByColumnsError
    bounds = tuple((_BOUNDS[name], _bound(kind, value)) for name, value in found.items() if name in _BOUNDS)
    if kind == "object":
        return ColumnRule(kind, is_nullable, _members(found, target, *inner))
    if kind == "array":
        if not pa.types.is_list(target) or "items" not in found:
            raise NotByColumnsError
        return ColumnRule(kind, is_nullable, items=rule_of(found["items"], target.value_type, *inner), bounds=bounds)
    if target != _TYPES[kind]:
        raise NotByColumnsError
    return ColumnRule(
        kind, is_nullable, bounds=bounds, pattern=_pattern(found), values=_values(kind, found, is_nullable)
    )


def _or_null(branches: Any, target: Any, keywords: Collection[str], resolve: Resolve, depth: int) -> ColumnRule:
    others = [each for each in cast("list[Any]", branches) if each != {"type": "null"}]
    if len(others) != 1 or len(branches) != 2:
        raise NotByColumnsError
    found = rule_of(others[0], target, keywords, resolve=resolve, depth=depth)
    if found.is_nullable:
        raise NotByColumnsError  # of ``oneOf``, two would hold
    return ColumnRule(
        found.kind,
        True,
        found.members,
        items=found.items,
        bounds=found.bounds,
        pattern=found.pattern,
        values=found.values,
    )


def _members(
    found: Mapping[str, Any], target: Any, keywords: Collection[str], resolve: Resolve, depth: int
) -> dict[str, tuple[ColumnRule, bool]]:
    properties, required = found.get("properties"), found.get("required", [])
    others = found.get("additionalProperties", True)
    if not isinstance(properties, dict) or not isinstance(required, list) or not isinstance(others, bool):
        raise NotByColumnsError
    names = set(cast("dict[str, Any]", properties))
    own: set[str] = {each.name for each in target} if pa.types.is_struct(target) else set()
    if not names <= own or not set(cast("list[str]", required)) <= names or (not others and own != names):
        raise NotByColumnsError
    return {
        name: (rule_of(each, target.field(name).type, keywords, resolve=resolve, depth=depth), name in required)
        for name, each in cast("dict[str, Any]", properties).items()
    }


def _bound(kind: str, value: Any) -> float:
    is_whole = kind != "number"
    if isinstance(value, bool) or not isinstance(value, int if is_whole else (int, float)) or abs(value) >= _EXACT:
        raise NotByColumnsError
    return value


def _pattern(found: Mapping[str, Any]) -> str | None:
    """Return a schema's pattern; None also for one that RE2 does not know, which is not checked anywhere."""
    pattern = found.get("pattern")
    if pattern is None:
        return None
    try:
        pc.call_function("match_substring_regex", [pa.scalar("")], pc.MatchSubstringOptions(pattern))
    except pa.ArrowInvalid:
        return None
    return pattern


def _values(kind: str, found: Mapping[str, Any], is_nullable: bool) -> tuple[Any, ...] | None:
    if "enum" not in found and "const" not in found:
        return None
    values = found.get("enum", [found.get("const")])
    own = str if kind == "string" else int
    if len(found.keys() & {"enum", "const"}) > 1 or is_nullable or not isinstance(values, list):
        raise NotByColumnsError
    listed = cast("list[Any]", values)
    if not all(isinstance(each, own) and not isinstance(each, bool) for each in listed):
        raise NotByColumnsError
    if own is int and any(not -(1 << 63) <= each < 1 << 63 for each in listed):
        raise NotByColumnsError
    return tuple(listed)
