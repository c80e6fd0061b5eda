"""Finds the type of a topic's keys and values before its rows are read: by the schemas that its records name."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.log.directory import PartitionPath
from brokerless.log.ranges import Range
from brokerless.log.seek import end_offset
from brokerless.progress import ignore
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import ReadOptions
from brokerless.typed import framing, plain
from brokerless.typed.framing import CONFLUENT, NULL, UNFRAMED
from brokerless.typed.json.columns import not_of_type
from brokerless.typed.merge import merge, without_conflicts, without_nulls
from brokerless.typed.registry import DEFAULT_CONTEXT, Registry, Schema, age
from brokerless.typed.schema_types import newest_of, type_of_schemas
from brokerless.typed.topic_type import (
    DEPRECATED,
    OF_SCHEMAS,
    SCHEMA,
    UNFRAMED_VALUES,
    WINDOWS,
    Decoding,
    KnownColumn,
    SideType,
    TopicType,
    UsedSchema,
)
from brokerless.values import RepeatedNameError

_FIRST = 64
"""Rows of a batch that are decoded one by one, which nearly always have all there is of a type."""
WHOLE_BYTES = 64 << 20
"""Bytes of a topic that ``scan="auto"`` reads as a whole."""
_OF_SEGMENT = 1000
"""Records at the beginning of a segment, and at the end of a partition, that it looks at in a larger one."""

QUIETLY = ReadOptions(on_damage=ignore)
"""For rows that are read again, and reported then."""


def resolve_topic(
    topic: str | None,
    partitions: Sequence[PartitionPath],
    decoding: Decoding,
    registry: Registry,
    *,
    batches: Iterable[pa.RecordBatch] | None = None,
    reading: ReadOptions = QUIETLY,
    known: Mapping[str, KnownColumn] | None = None,
) -> TopicType:
    """Return the types of one topic, by ``decoding``. ``partitions``: all of the topic that will be read. ``batches``:
    what is read in place of them to find schemas, with the columns ``key``, ``value`` and ``headers``. ``reading``: how
    partitions are read; damage need not be reported where the rows are read as well. ``known``: the columns that
    ``key`` and ``value`` have already; JSON that is none of their types (an array among objects) adds nothing to them,
    and a field of Avro that they have under another name has that name."""
    sides = {
        name: SideScan(name, format_, registry, topic=topic, known=None if known is None else known[name])
        for name, format_ in _formats(decoding)
    }
    needs = [each for each in sides.values() if each.needs_scan(decoding)]
    if needs:
        names = [*(each.name for each in needs), "headers"]
        is_large = decoding.scan == "auto" and sum(each.size for each in partitions) > WHOLE_BYTES
        if is_large and all(each.has_hint() for each in needs):
            batches = _read_beginnings(partitions, replace(reading, columns=names))
            for side in needs:
                side.is_partial = True
        for batch in read_records(partitions, replace(reading, columns=names)) if batches is None else batches:
            for side in needs:
                side.add(batch)
    return TopicType(topic, sides["key"].result(), sides["value"].result())


def _formats(decoding: Decoding) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("key", decoding.key_format), ("value", decoding.value_format)


def _read_beginnings(partitions: Sequence[PartitionPath], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The first records of each segment, and the last ones of each partition."""
    for partition in partitions:
        starts = [each.base_offset for each in partition.segments]
        end = end_offset(partition)
        if end is not None:
            starts.append(max(end - _OF_SEGMENT, 0))
        for start in starts:
            yield from read_records([partition], replace(options, range=Range(start), limit=_OF_SEGMENT))


def _other_text(column: Column, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of some rows may not be text."""
    try:
        column.take(arrow.column_of_numbers(pa.int64(), rows)).cast(pa.string())
    except pa.ArrowInvalid:
        return np.arange(len(rows))
    bounds, data = arrow.ends(column).astype(np.int64), arrow.data(column)
    starts, ends = bounds[:-1][rows], bounds[1:][rows]
    begins_with_zero = (
        (ends > starts) & (data[np.minimum(starts, max(len(data) - 1, 0))] == 0) if len(data) else rows < 0
    )
    return np.flatnonzero(begins_with_zero)


_SPACES = b" \t\r\n"
"""Which JSON may begin with."""


@dataclass(slots=True)
class SideScan:
    """What the keys or the values of a topic look like, as far as they were read."""

    name: str
    format: str
    registry: Registry
    topic: str | None
    known: KnownColumn | None = None
    ids: Counter[tuple[str, int | str]] = field(default_factory=Counter[tuple[str, "int | str"]])
    counts: Counter[str] = field(default_factory=Counter[str])
    messages: dict[tuple[str, int | str], set[tuple[int, ...]]] = field(
        default_factory=dict[tuple[str, "int | str"], set[tuple[int, ...]]]
    )
    type: pa.DataType | None = None
    """Of JSON, so far."""
    is_json: bool = True
    is_text: bool = True
    is_connect: bool = True
    is_partial: bool = False
    exceptional: int = 0
    """Values that decide nothing where most are objects (see :func:`_is_exceptional`)."""

    @property
    def wants_schema(self) -> bool:
        return self.format == "auto" or self.format in OF_SCHEMAS

    def subject(self) -> tuple[str, list[Any]]:
        """Return the context and the versions of the subject that has the topic's name."""
        return (DEFAULT_CONTEXT, []) if self.topic is None else self.registry.of_topic(self.topic, self.name)

    def has_hint(self) -> bool:
        """Return whether a few records do: those of a subject of the topic's name have its schemas, as a rule."""
        return self.wants_schema and bool(self.subject()[1])

    def needs_scan(self, decoding: Decoding) -> bool:
        if not self.wants_schema:
            return plain.parser(_inner(self.format)[1])[1] is None
        return decoding.scan != "never"

    def _find(self, framing_: str, id_: int | str) -> Schema | None:
        """The schema that records name."""
        is_own = framing_ == CONFLUENT or not self.registry.is_topic
        subject = "" if self.topic is None else f"{self.topic}-{self.name}"
        return self.registry.find(id_, self.subject()[0], subject) if is_own else None

    def add(self, batch: pa.RecordBatch) -> None:
        column = batch.column(self.name)
        if self.wants_schema:
            headers = batch.column("headers") if "headers" in batch.schema.names else None
            frames = framing.find_frames(column, self.name, headers)
            codes, counts = np.unique(frames.codes, return_counts=True)
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                if code in (NULL, UNFRAMED):
                    self.counts["null" if code == NULL else "unframed"] += count
                else:
                    self.ids[framing.registry_of(frames.known[code].framing), frames.known[code].id] += count
                    self.counts["framed"] += count
                    self._add_messages(frames, code)
            if self.format == "auto":
                self._look(column, frames.codes)
        else:
            self._infer(column)

    def _add_messages(self, frames: framing.Frames, code: int) -> None:
        """Add which messages of a Protobuf schema records are; most are the first one, whose index is one zero byte."""
        frame = frames.known[code]
        schema = self._find(frame.framing, frame.id) if frame.framing == CONFLUENT else None
        if schema is None or schema.type != "PROTOBUF":
            return
        from brokerless.typed.protobuf.files import message_types
        from brokerless.typed.protobuf.indexes import MessageFinder

        rows = np.flatnonzero(frames.codes == code)
        starts = frames.starts[rows]
        is_first = (frames.ends[rows] > starts) & (frames.data[np.minimum(starts, len(frames.data) - 1)] == 0)
        found = self.messages.setdefault((frame.framing, frame.id), set())
        try:
            finder = MessageFinder(message_types(schema), is_unsigned=self.format == DEPRECATED)
        except ValueError:  # a schema that cannot be compiled, which is reported where it is used
            return
        if frame.message:
            found.update(finder.used([frame.message]))
            return
        if is_first.any():
            found.add((0,))
        found.update(finder.used({each[:64] for each in framing.payloads(frames, rows[~is_first])}))

    def _look(self, column: Column, codes: Any) -> None:
        """Find out whether what has no schema is JSON objects, or text."""
        if not self.is_text:
            return
        rows = np.flatnonzero(codes == UNFRAMED)
        self._look_at(column, rows[:_FIRST])
        rest = rows[_FIRST:]
        if self.is_json and not self.is_connect:
            rest = rest[self._other_json(column, rest)]
        self._look_at(column, rest if self.is_json else rest[_other_text(column, rest)])

    def _other_json(self, column: Column, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of some rows may not be JSON of the type so far."""
        if self.type is None or not len(rows):
            return np.arange(len(rows))
        bounds = arrow.ends(column).astype(np.int64)
        return not_of_type(self.type, arrow.data(column), bounds[:-1][rows], bounds[1:][rows])

    def _look_at(self, column: Column, rows: NDArray[np.int64]) -> None:
        for value in arrow.values(column.take(arrow.column_of_numbers(pa.int64(), rows))):
            if self.is_json:
                self._add_json(value)
            if not self.is_json:
                try:
                    value.decode()
                    self.is_text = value[:1] != b"\0"  # with which a number begins, but no text
                except UnicodeDecodeError:
                    self.is_text = False
                if not self.is_text:
                    return

    def _add_json(self, value: bytes) -> None:
        try:
            if value.lstrip(_SPACES)[:1] not in (b"{", b"["):
                raise ValueError
            found = plain.parse_json(value)
            self.is_connect = self.is_connect and plain.is_connect(found)
            own = plain.connect_type(found["schema"]) if self.is_connect else plain.infer(found)
        except (ValueError, RecursionError, LookupError, TypeError):
            self.is_json = _is_exceptional(value)
            self.exceptional += self.is_json
            return
        self.type = _joined(self.type, own)

    def _infer(self, column: Column) -> None:
        """The type of JSON, where that was requested; what is none is reported when it is decoded."""
        prefix, name = _inner(self.format)
        tail = {"": 0, WINDOWS[0]: 8, WINDOWS[1]: 16}[prefix]
        known: Any = None if self.known is None else self.known.type
        if prefix and known is not None:
            known = known.field("key").type if pa.types.is_struct(known) and known.get_field_index("key") >= 0 else None
        if self.type is not None and name == "json" and not tail:
            there = np.flatnonzero(arrow.is_valid(column))
            column = column.take(arrow.column_of_numbers(pa.int64(), there[self._other_json(column, there)]))
        for value in arrow.values(column):
            if value is None:
                continue
            try:
                found = plain.parse_json(value[: len(value) - tail])
                own = plain.connect_type(found["schema"]) if name == "connect-json" else plain.infer(found)
            except (ValueError, RecursionError, LookupError, TypeError):
                continue
            if known is not None:
                own = without_conflicts(own, known)
            self.type = _joined(self.type, own)

    def result(self) -> SideType:
        """Return the type, by all that was read."""
        if not self.wants_schema:
            return self._plain(self.format)
        versions = self.subject()[1]
        used = [self._used(framing_, id_, count) for (framing_, id_), count in self.ids.most_common()]
        seen = {each.schema.id for each in used if each.schema is not None}
        used += [
            UsedSchema(each.id, CONFLUENT, 0, self.registry.complete(each)) for each in versions if each.id not in seen
        ]
        bare = self.counts["unframed"] or not self.counts["framed"]
        if self.format not in ("auto", SCHEMA) and bare and len(versions) == 1:
            whole = self.registry.complete(versions[0])
            used.append(UsedSchema("", UNFRAMED_VALUES, self.counts["unframed"], whole))
        is_known = any(each.schema is not None for each in used)
        if self.format != "auto" or (is_known and (self.counts["framed"] or not self.counts["unframed"])):
            return self._typed(used)
        return self._unframed(used)

    def _used(self, framing_: str, id_: int | str, count: int) -> UsedSchema:
        schema = self._find(framing_, id_)
        others = [] if schema is None else self.registry.others(schema)
        named = tuple(sorted(f"{each.subject} {each.version}" for each in others))
        messages = tuple(sorted(self.messages.get((framing_, id_), ())))
        return UsedSchema(id_, framing_, count, schema=schema, messages=messages, others=named)

    def _typed(self, used: list[UsedSchema]) -> SideType:
        used, named_by = self._with_columns(used)
        type_, kept = type_of_schemas(used)
        counts = tuple(sorted(self.counts.items()))
        return SideType(
            SCHEMA, type_, tuple(kept), counts=counts, is_partial=self.is_partial, named_by=named_by,
            has_unsigned_indexes=self.format == DEPRECATED,
        )  # fmt: skip

    def _with_columns(self, used: list[UsedSchema]) -> tuple[list[UsedSchema], tuple[int, ...]]:
        """Schemas with the columns that aliases give their fields."""
        known = KnownColumn(pa.null()) if self.known is None else self.known
        newest = newest_of(used)
        if newest is None or newest.type != "AVRO":
            return used, known.named_by
        from brokerless.typed.avro.column_names import with_columns

        own = [each.schema for each in used if each.schema is not None and each.schema.type == "AVRO"]
        history = sorted(self._history(own, newest), key=lambda each: (age(each), each.subject, each.version))
        named, named_by = with_columns(history, known.named_by, None if self.known is None else known.type)
        columns = {(each.subject, each.version): each.columns for each in named if each.columns}

        def with_own(schema: Schema | None) -> Schema | None:
            found = None if schema is None else columns.get((schema.subject, schema.version))
            return schema if schema is None or found is None else replace(schema, columns=found)

        return [replace(each, schema=with_own(each.schema)) for each in used], named_by

    def _history(self, own: list[Schema], newest: Schema) -> list[Schema]:
        """Schemas of Avro, and older ones of the same records: all versions of their subjects, and of files those whose
        records have their names."""
        if self.registry.is_topic:
            subjects = {each.subject for each in own}
            others = [each for subject in sorted(subjects) for each in self.registry.of_subject(subject)]
        else:
            from brokerless.typed.avro.column_names import of_same_records

            others = of_same_records(own, [*self.registry.versions.values()])
        found = {(each.subject, each.version): self.registry.complete(each) for each in [*others, *self.subject()[1]]}
        found |= {(each.subject, each.version): each for each in own}
        return [each for each in found.values() if each.type == "AVRO" and age(each) <= age(newest)]

    def _unframed(self, used: list[UsedSchema]) -> SideType:
        counts = tuple(sorted(self.counts.items()))
        unknown = tuple(each for each in used if each.records)
        if self.counts["framed"] or not self.counts["unframed"]:
            return SideType("bytes", pa.binary(), unknown, counts)
        is_json = self.is_json and self.counts["unframed"] > 2 * self.exceptional
        if is_json and self.type is not None and not pa.types.is_null(self.type):
            name = "connect-json" if self.is_connect else "json"
            return SideType(name, without_nulls(self.type), unknown, counts, inferred=self.type)
        name = "string" if self.is_text else "bytes"
        return SideType(name, pa.string() if self.is_text else pa.binary(), unknown, counts)

    def _plain(self, format_: str) -> SideType:
        prefix, name = _inner(format_)
        inferred = plain.parser(name)[1] or self.type or pa.string()
        types = [plain.windowed(prefix, each) if prefix else each for each in (without_nulls(inferred), inferred)]
        return SideType(format_, types[0], inferred=types[1])


def _is_exceptional(value: bytes) -> bool:
    """Return whether a value is no object of JSON, but what producers of objects write now and then: nothing, ``null``,
    an object after a byte order mark, or one with a name twice. It alone keeps its bytes."""
    text = value.strip(_SPACES)
    if text in (b"", b"null"):
        return True
    try:
        plain.parse_json(text.removeprefix(codecs.BOM_UTF8))
    except RepeatedNameError:
        return True
    except (ValueError, RecursionError):
        return False
    return text.startswith(codecs.BOM_UTF8)


def _joined(type_: pa.DataType | None, own: pa.DataType) -> pa.DataType:
    """A type of JSON with that of one more value. Where some values are objects, others add nothing: they alone keep
    their bytes, and not all become text."""
    t = pa.types
    if type_ is not None and t.is_struct(type_) != t.is_struct(own):
        return type_ if t.is_struct(type_) else own
    return own if type_ is None else merge(type_, own)


def _inner(format_: str) -> tuple[str, str]:
    """The window that a format begins with, if any, and the format of the key in it."""
    for prefix in WINDOWS:
        if format_.startswith(prefix):
            return prefix, format_.removeprefix(prefix)
    return "", format_
