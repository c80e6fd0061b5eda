"""Names the columns of Avro's fields by the aliases of all versions of a schema, in their order.

Java's reader renames a writer's fields by the aliases of its own schema before anything else
(``org.apache.avro.Schema.applyAliases``). So does each version here with the fields of those before it: what one
version calls by another name stays the same field, also once a later version does not list the alias any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyarrow as pa

from brokerless.typed.avro.schema import AvroType, parse_schema
from brokerless.typed.registry import AvroColumns, Schema, age

_Versions = list[tuple[Schema, AvroType]]
_MAX_TRIES = 8
"""Schemas by which the columns of a table may have been named first, where its state does not say it."""


def with_columns(
    schemas: Sequence[Schema], named_by: Sequence[int], known: pa.DataType | None
) -> tuple[list[Schema], tuple[int, ...]]:
    """Return the schemas with the columns of their fields, and by which of them columns are named now.

    ``schemas``: all versions, the oldest first. ``named_by``: the ages of those that were the newest when columns of a
    table were named, which stay. ``known``: the type that the table has; without ``named_by``, as of a table that an
    earlier version of brokerless made, it says by which schema it was named. Two fields are never in one column: the
    newest has its name, or one with a number (``a_2``) where a table has that for another field.
    """
    if not any(_has_aliases(each) for each in schemas):
        return list(schemas), tuple(named_by)
    versions: _Versions = []
    for each in schemas:
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            versions.append((each, parse_schema(each)))
    named = tuple(named_by)
    if known is not None and not named:
        named = _first_names(versions, known)
    named = tuple(sorted({*named, *(age(each) for each, _ in versions[-1:])}))
    columns = {(each.subject, each.version): own for each, own in _replayed(versions, named)[0]}
    return [replace(each, columns=columns.get((each.subject, each.version), ())) for each in schemas], named


def of_same_records(schemas: Sequence[Schema], others: Sequence[Schema]) -> list[Schema]:
    """Return those of others that have the name, or an alias, of a record that one of the schemas is of, be it through
    a third one."""
    names = set[str]().union(*map(_root_names, schemas))
    rest = [(each, own) for each in others if each.type == "AVRO" and (own := _root_names(each))]
    found: list[Schema] = []
    while joined := [each for each in rest if not names.isdisjoint(each[1])]:
        rest = [each for each in rest if names.isdisjoint(each[1])]
        found += [schema for schema, _ in joined]
        names = names.union(*(own for _, own in joined))
    return found


def _root_names(schema: Schema) -> frozenset[str]:
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        root = parse_schema(schema)
        branches = root.branches if root.kind == "union" else (root,)
        return frozenset(name for each in branches if each.name for name in (each.name, *each.aliases))
    return frozenset()


def _has_aliases(schema: Schema) -> bool:
    return '"aliases"' in schema.text or any(_has_aliases(each) for _, each in schema.imports)


def _first_names(versions: _Versions, known: Any) -> tuple[int, ...]:
    """Return by which schemas the columns of a table were named whose state does not say it: from the first on that
    explains all of its columns. None for a table of no record."""
    columns = {each.name for each in known} if pa.types.is_struct(known) else set[str]()
    first: tuple[int, ...] = ()
    tries = 0
    for start in range(len(versions)):
        named, explained = _names_from(versions, start, columns)
        first = first or named
        if columns and columns <= explained:
            return named
        tries += bool(named)
        if tries == _MAX_TRIES:
            break
    return first


def _names_from(versions: _Versions, start: int, columns: set[str]) -> tuple[tuple[int, ...], set[str]]:
    """Return the schemas from one on that name no column which a table lacks, and the columns that they name."""
    named, explained = (), set[str]()
    for at in range(start, len(versions)):
        schema, type_ = versions[at]
        root = next(_records(type_), None)
        if root is None:
            break
        own = _replayed(versions[: at + 1], (*named, age(schema)))[1][root.name].values()
        found = {each.column for each in own}
        if not found <= columns:
            break
        named, explained = (*named, age(schema)), explained | found
    return named, explained


@dataclass(eq=False, slots=True)
class _FieldVersions:
    """A field of a record through its versions."""

    name: str
    """The last name of the field."""
    seen: int
    """The last version that has the field."""
    later: _FieldVersions | None = None
    """The field of other versions that this one is by an alias."""
    column: str = ""
    """Empty until the column is named."""

    @property
    def root(self) -> _FieldVersions:
        found = self
        while found.later is not None:
            found = found.later
        return found


@dataclass(eq=False, slots=True)
class _RecordVersions:
    """A record through its versions."""

    names: dict[str, _FieldVersions] = field(default_factory=dict[str, _FieldVersions])
    """The fields by their present names."""
    fields: list[_FieldVersions] = field(default_factory=list[_FieldVersions])
    versions: list[dict[str, _FieldVersions]] = field(default_factory=list[dict[str, _FieldVersions]])
    """The fields of each version, by the names that they have in it."""
    unreadable: list[dict[str, _FieldVersions]] = field(default_factory=list[dict[str, _FieldVersions]])
    """The versions of which a later one calls two fields by one name."""
    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The aliases of the last version, which a next version that lists them again does not apply again."""

    def add(self, record: AvroType, version: int) -> dict[str, _FieldVersions]:
        """Rename the fields so far by the aliases of a version; return its own, by their names."""
        known = self.aliases
        new = [
            (alias, each) for each in record.fields for alias in each.aliases if alias not in known.get(each.name, ())
        ]
        renamed = {alias: each.name for alias, each in new}
        self.aliases = {each.name: each.aliases for each in record.fields}
        before, claims = self.names, dict[str, list[_FieldVersions]]()
        for name, each in before.items():
            claims.setdefault(renamed.get(name, name), []).append(each)
        self.names = {name: self._joined(name, fields) for name, fields in claims.items()}
        for name, each in before.items():
            if each.later is None and each not in self.names.values():
                self.names.setdefault(name, each)
        own: dict[str, _FieldVersions] = {}
        for each in record.fields:
            if each.name not in self.names:
                self.names[each.name] = new = _FieldVersions(each.name, version)
                self.fields.append(new)
            own[each.name] = found = self.names[each.name]
            found.name, found.seen = each.name, version
        self.versions.append(own)
        return own

    def _joined(self, name: str, fields: list[_FieldVersions]) -> _FieldVersions:
        """Return the field that has a name from now on, among those that aliases call so: first one that a version has
        without the others, which Java can read by these aliases. The others are the same field in the versions without
        it; in those that have both, which Java can read no more, the alias is not theirs."""
        having = [(version, {each.root for each in version.values()} & set(fields)) for version in self.versions]
        self.unreadable += [version for version, own in having if len(own) > 1]
        alone = {each for version, own in having if len(own) == 1 and self._is_readable(version) for each in own}
        first, *others = sorted(fields, key=lambda each: (each in alone, each.seen, each.name == name), reverse=True)
        for other in others:
            self._join(other, first)
        return first

    def _is_readable(self, version: dict[str, _FieldVersions]) -> bool:
        return not any(each is version for each in self.unreadable)

    def _join(self, other: _FieldVersions, first: _FieldVersions) -> None:
        """Let a field be another one; where versions have both, only in those that do not."""
        having = [(version, {each.root for each in version.values()}) for version in self.versions]
        if not any({first, other} <= roots for _, roots in having):
            other.later = first
            return
        split: dict[_FieldVersions, _FieldVersions] = {}
        for version, roots in having:
            if first not in roots and self._is_readable(version):
                for name, each in version.items():
                    if each.root is other:
                        version[name] = split.setdefault(each, replace(each, later=first))
        self.fields += split.values()

    def name_columns(self) -> None:
        """Give each field without a column one: that of the same field, its name, or that with a number."""
        taken = {each.column for each in self.fields}
        current = {each: name for name, each in self.names.items()}
        groups = self.groups()
        for root in sorted(groups, key=lambda each: each not in current):
            named = [each for each in groups[root] if each.column]
            column = max(named, key=lambda each: each.seen).column if named else ""
            if not column:
                name = current.get(root, root.name)
                others = taken | (self.names.keys() - {name} if root in current else self.names.keys())
                column = name if name not in others else next(
                    numbered for number in count(2) if (numbered := f"{name}_{number}") not in others
                )  # fmt: skip
                taken.add(column)
            for each in groups[root]:
                each.column = each.column or column

    def groups(self) -> dict[_FieldVersions, list[_FieldVersions]]:
        """Return the fields that are the same, by the one that has the name."""
        found: dict[_FieldVersions, list[_FieldVersions]] = {}
        for each in self.fields:
            found.setdefault(each.root, []).append(each)
        return found


_Columns = list[tuple[Schema, tuple[AvroColumns, ...]]]


def _replayed(versions: _Versions, named_by: Sequence[int]) -> tuple[_Columns, dict[str, dict[str, _FieldVersions]]]:
    """Return the columns of all versions, and the fields of the last one's records, by their names."""
    records: dict[str, _RecordVersions] = {}
    own: list[tuple[Schema, list[tuple[str, _RecordVersions, dict[str, _FieldVersions]]]]] = []
    events = sorted(named_by)
    for number, (schema, type_) in enumerate(versions):
        while events and age(schema) > events[0]:
            _name_all(records)
            del events[0]
        found: list[tuple[str, _RecordVersions, dict[str, _FieldVersions]]] = []
        all_records = list(_records(type_))
        names = {each.name for each in all_records}
        for each in all_records:
            record = _record_of(each, records, names)
            found.append((each.name, record, record.add(each, number)))
        own.append((schema, found))
    _name_all(records)
    columns = [(schema, tuple(filter(None, (_columns_of(*each) for each in found)))) for schema, found in own]
    return columns, {name: fields for name, _, fields in own[-1][1]} if own else {}


def _name_all(records: dict[str, _RecordVersions]) -> None:
    for each in records.values():
        each.name_columns()


def _record_of(type_: AvroType, records: dict[str, _RecordVersions], names: set[str]) -> _RecordVersions:
    """Return the record of a name or, where a version calls another one so by an alias, that one."""
    if type_.name not in records:
        old = next((each for each in type_.aliases if each in records and each not in names), None)
        records[type_.name] = _RecordVersions() if old is None else records.pop(old)
    return records[type_.name]


def _columns_of(name: str, record: _RecordVersions, fields: dict[str, _FieldVersions]) -> AvroColumns | None:
    """Return the columns of one version's record; None where each field has its name, and no other column."""
    groups = record.groups()
    pairs = tuple((own, each.column) for own, each in fields.items() if own != each.column)
    others = {other.column for each in fields.values() for other in groups[each.root] if other.column != each.column}
    return AvroColumns(name, pairs, tuple(sorted(others))) if pairs or others else None


def _records(type_: AvroType) -> Iterator[AvroType]:
    """Yield the records of a schema, each once, the outermost first."""
    seen: set[int] = set()
    rest = [type_]
    while rest:
        each = rest.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if each.kind == "record":
            yield each
        rest += [*(inner.type for inner in each.fields), *each.branches, *([] if each.items is None else [each.items])]
