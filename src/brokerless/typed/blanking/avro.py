"""Finds what to change of an Avro payload, so that its writer's schema decodes it without some fields' values.

A field becomes null where its schema permits null, else the empty or zero value of its type: 0, false, an empty string,
array or map, zero bytes, the first symbol of an enum, a record of such fields. Of a union without null, the branch
stays. All other bytes are unchanged, but for the sizes of blocks in which something changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

from brokerless.format.plain_varint import encode_zigzag
from brokerless.typed.avro.kernels import SPARE_ITEMS
from brokerless.typed.avro.rows import MAX_DEPTH, AvroReader
from brokerless.typed.avro.schema import MAX_NODES, AvroType, reader_branch
from brokerless.typed.blanking.edits import Edit
from brokerless.typed.blanking.paths import FieldTarget, NamedFields, Presence, beyond, is_end, named

_ZEROS = {"null": b"", "boolean": b"\0", "int": b"\0", "long": b"\0", "float": bytes(4), "double": bytes(8),
          "bytes": b"\0", "string": b"\0", "enum": b"\0", "array": b"\0", "map": b"\0"}  # fmt: skip
_TEXT = AvroType("string")
_ZERO_UUID = b"00000000-0000-0000-0000-000000000000"


def avro_edits(data: bytes, type_: AvroType, others: Sequence[AvroType], fields: NamedFields) -> list[Edit]:
    """Return the edits of a payload. ``type_``: its writer's schema; ``others``: those of the same topic, by whose
    names of fields and aliases its own are known as well. Raises ValueError for bytes that are not as the schema
    says."""
    walker = _AvroWalker(data, fields)
    walker.walk(type_, [each for each in others if each is not type_], fields.targets, 0)
    if walker.source.at != len(data):
        raise ValueError("bytes are left after the value")
    return walker.edits


@lru_cache(maxsize=1024)
def names_of_fields(type_: AvroType, others: tuple[AvroType, ...]) -> dict[str, set[str]]:
    """Return all names of each field of a record: its own, and those that aliases join with it, in this record or in
    one of the ``others``, be it through a third name. A name that another field of a record has itself is no alias in
    it; what one of the ``others`` calls a field by its aliases, it is, whatever the record's own fields are called, as
    Java renames a writer's fields by them first."""
    own = {each.name for each in type_.fields}
    groups: list[set[str]] = []
    for record in (type_, *others):
        there = {each.name for each in record.fields}
        groups += [{each.name, *(set(each.aliases) - there)} for each in record.fields if each.aliases]
    later = [{alias: each.name for each in record.fields for alias in each.aliases} for record in others]
    found: dict[str, set[str]] = {}
    for each in type_.fields:
        called = {each.name, *(names[each.name] for names in later if each.name in names)}
        names, rest = called, groups
        while joined := [group for group in rest if not names.isdisjoint(group)]:
            rest = [group for group in rest if names.isdisjoint(group)]
            names = called | (names.union(*joined) - own)
        found[each.name] = names
    return found


class _AvroWalker:
    """A place in one payload, and the edits before it."""

    def __init__(self, data: bytes, fields: NamedFields) -> None:
        self.source = AvroReader(data, 0, len(data) + SPARE_ITEMS)
        self.edits: list[Edit] = []
        self._fields = fields

    def walk(self, type_: AvroType, others: Sequence[AvroType], targets: Sequence[FieldTarget], depth: int) -> None:
        """Passes over a value, and edits what some paths in it lead to."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        if not targets or type_.kind not in ("record", "array", "map", "union"):
            self._fields.add(targets, Presence.EMPTY if type_.kind == "null" else Presence.LACKING)
            self._skip(type_, [], depth)
        elif type_.kind == "union":
            branch = self._branch(type_)
            self.walk(branch, _branches(others, branch), targets, depth + 1)
        elif type_.kind == "record":
            self._walk_record(type_, _branches(others, type_), targets, depth)
        else:
            self._walk_items(type_, _branches(others, type_), targets, depth)

    def _walk_record(
        self, type_: AvroType, others: Sequence[AvroType], targets: Sequence[FieldTarget], depth: int
    ) -> None:
        all_names = names_of_fields(type_, tuple(others))
        for each in type_.fields:
            names = all_names[each.name]
            own = named(targets, names)
            if is_end(own):
                self._erase(each.type, own, depth + 1)
            else:
                inner = [other for record in others for other in _types_of(record, names)] if own else ()
                self.walk(each.type, inner, beyond(own), depth + 1)
        known = set[str]().union(*all_names.values())
        self._fields.add((each for each in targets if each.path[0] not in known), Presence.LACKING)

    def _walk_items(
        self, type_: AvroType, others: Sequence[AvroType], targets: Sequence[FieldTarget], depth: int
    ) -> None:
        assert type_.items is not None
        inner = [each.items for each in others if each.items is not None]
        keys: set[str] = set()
        count = 0
        for _ in self._items():
            count += 1
            if type_.kind == "array":
                self.walk(type_.items, inner, targets, depth + 1)
                continue
            key = self.source.take(self.source.varint()).decode()
            keys.add(key)
            own = named(targets, (key,))
            if is_end(own):
                self._erase(type_.items, own, depth + 1)
            else:
                self.walk(type_.items, inner, beyond(own), depth + 1)
        if not count:
            self._fields.add(targets, Presence.EMPTY)
        elif type_.kind == "map":
            self._fields.add((each for each in targets if each.path[0] not in keys), Presence.LACKING)

    def _erase(self, type_: AvroType, targets: Sequence[FieldTarget], depth: int) -> None:
        start, contents = self.source.at, list[tuple[int, int]]()
        self._skip(type_, contents, depth)
        old, end = self.source.data[start : self.source.at], self.source.at
        new = _Zeros().of(type_, old)
        self._fields.add(targets, Presence.EMPTY if new == old else Presence.HELD)
        if new != old:
            self.edits.append(Edit(start, end, new, tuple(each for each in contents if each[0] < each[1])))

    def _skip(self, type_: AvroType, contents: list[tuple[int, int]], depth: int) -> None:
        """Passes over a value, checks it, and adds where what is in it is."""
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        source, kind, start = self.source, type_.kind, self.source.at
        if kind == "union":
            return self._skip(self._branch(type_), contents, depth + 1)
        if kind == "record":
            for each in type_.fields:
                self._skip(each.type, contents, depth + 1)
            return None
        if kind in ("array", "map"):
            assert type_.items is not None
            for _ in self._items():
                if kind == "map":
                    self._skip(_TEXT, [], depth + 1)  # a key is a name, as a member's of JSON
                self._skip(type_.items, contents, depth + 1)
            return None
        if kind in ("bytes", "string", "fixed"):
            data = source.take(type_.size if kind == "fixed" else source.varint())
            if kind == "string":
                data.decode()
            start = source.at - len(data)
        elif kind in ("float", "double"):
            source.take(len(_ZEROS[kind]))
        elif kind == "boolean":
            if source.take(1)[0] > 1:
                raise ValueError("a boolean that is neither 0 nor 1")
        elif kind == "enum":
            if not 0 <= source.varint() < len(type_.symbols):
                raise ValueError("an enum has no such symbol")
        elif kind != "null" and not -(1 << 31) <= source.varint() < 1 << 31 and kind == "int":
            raise ValueError("an int of more than 32 bits")
        contents.append((start, source.at))
        return None

    def _branch(self, type_: AvroType) -> AvroType:
        index = self.source.varint()
        if not 0 <= index < len(type_.branches):
            raise ValueError("a union has no such branch")
        return type_.branches[index]

    def _items(self) -> Iterator[None]:
        """Yields once for each item of an array or a map; the size of a block grows by what its items do."""
        source = self.source
        while count := source.varint():
            size_at, body, size, first = source.at, source.at, -1, len(self.edits)
            if count < 0:
                count, size = -count, source.varint()
                body = source.at
            source.budget -= count
            if source.budget < 0:
                raise ValueError("more items than its bytes can hold")
            for _ in range(count):
                yield
            if size >= 0 and source.at - body != size:
                raise ValueError("a block of another size than it says")
            growth = sum(each.growth for each in self.edits[first:])
            if size >= 0 and growth:
                self.edits.insert(first, Edit(size_at, body, encode_zigzag(size + growth)))


def _branches(others: Sequence[AvroType], type_: AvroType) -> list[AvroType]:
    """Return what other schemas have in the place of a type."""
    return [found for each in others if (found := reader_branch(each, type_)) is not None]


def _types_of(record: AvroType, names: set[str]) -> list[AvroType]:
    """The types of a record's fields that have one of these names."""
    return [each.type for each in record.fields if each.name in names or not names.isdisjoint(each.aliases)]


class _Zeros:
    """The null of types or, without one, their empty values; a schema may make that long, or impossible."""

    def __init__(self) -> None:
        self._left = MAX_NODES

    def of(self, type_: AvroType, old: bytes = b"", above: tuple[AvroType, ...] = ()) -> bytes:
        """Return the null or empty value of a type. ``old``: the value that was there, whose branch of a union stays;
        empty for none. ``above``: records that it is in. Raises ValueError for a type that has no finite value."""
        self._left -= 1
        if type_ in above or len(above) > MAX_DEPTH or self._left < 0:
            raise ValueError("its type has no empty value")
        if type_.kind == "union":
            return self._of_union(type_, old, above)
        if type_.kind == "record":
            return b"".join(self.of(each.type, above=(*above, type_)) for each in type_.fields)
        if type_.kind == "fixed":
            return bytes(type_.size)
        if type_.kind == "string" and type_.logical == "uuid":
            return encode_zigzag(len(_ZERO_UUID)) + _ZERO_UUID
        if type_.kind == "bytes" and type_.declared == "decimal":
            return b"\x02\0"  # of one byte: Java's BigInteger has none of no bytes
        if type_.kind == "bytes" and type_.declared == "big-decimal":
            return b"\x06\x02\0\0"
        return _ZEROS[type_.kind]

    def _of_union(self, type_: AvroType, old: bytes, above: tuple[AvroType, ...]) -> bytes:
        branches = type_.branches
        order = list(range(len(branches)))
        if old:
            own = AvroReader(old).varint()
            order = [own, *(each for each in order if each != own)]
        order.sort(key=lambda each: branches[each].kind != "null")
        for index in order:
            with suppress(ValueError):
                return encode_zigzag(index) + self.of(branches[index], above=above)
        raise ValueError("its type has no empty value")
