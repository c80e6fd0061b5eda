"""Compares decoded tables with the bytes of a log: these are decoded as ``export`` does it for the table, and of the
values of both sides there are hashes in place of bytes.

A key or value that could not be decoded is compared by its bytes, which the table keeps, whatever it decodes to now:
its schema may be known now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.jobs.diff.exported.offset_file import OffsetFile, RecordedOffsets
from brokerless.jobs.diff.exported.value_hashes import HASH_BYTES, ValueHasher
from brokerless.jobs.export.tables import into_table
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore
from brokerless.table_formats.column_types import convert, plain_type
from brokerless.table_formats.export_state import ExportState
from brokerless.tables.read_options import ReadOptions
from brokerless.tables.record_batches import contents_batch
from brokerless.typed.decode import decoder_of
from brokerless.typed.registry import Registry
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.topic_type import Decoding, KnownColumn, SideType, TopicType

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]
Form = Any

SIDES = ("key", "value")
_SLACK = 64


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """What a table has of decoded keys and values."""

    form: Form
    types: tuple[pa.DataType, pa.DataType]
    """The types of both columns."""
    formats: tuple[str | None, str | None]
    """How both columns were decoded; None where the table does not say it."""
    named_by: tuple[tuple[int, ...], tuple[int, ...]]
    """What :class:`KnownColumn` has as ``named_by``, for both columns."""

    @classmethod
    def of(cls, form: Form, schema: pa.Schema, state: ExportState) -> DecodedColumns:
        """Return those of a table with these columns. Raises KeyError where one is not there."""
        key, value = (_plain(schema.field(name).type) for name in SIDES)
        formats, named_by = (state.key_format, state.value_format), (state.keys_named_by, state.values_named_by)
        return cls(form, (key, value), formats, named_by)


@dataclass(frozen=True, slots=True)
class TableDecoding:
    """How the bytes of a log are decoded to be compared with a table."""

    topic_type: TopicType
    columns: DecodedColumns


def resolve_decoding(
    topic: str, columns: DecodedColumns, log: Sequence[PartitionPath], asked: Decoding, registry: Registry
) -> TableDecoding:
    """Return how the records of a topic's log are decoded for its table. ``asked``: the formats that the request names,
    for what the table does not say.

    Raises :class:`UsageError` where it cannot be decoded to the table's columns, as schemas are not known."""
    key, value = (
        own or given for own, given in zip(columns.formats, (asked.key_format, asked.value_format), strict=True)
    )
    known = {
        name: KnownColumn(type_, named_by)
        for name, type_, named_by in zip(SIDES, columns.types, columns.named_by, strict=True)
    }
    found = resolve_topic(
        topic, log, replace(asked, key_format=key, value_format=value), registry,
        reading=ReadOptions(on_damage=ignore), known=known,
    ).with_nulls()  # fmt: skip
    for name, side, type_ in zip(SIDES, (found.key, found.value), columns.types, strict=True):
        if _lacks_schemas(side, type_):
            what = f"the table of {topic} has decoded {name}s of the type {str(type_)[:60]}..., and the schemas by"
            text = f"{what} which they were decoded are not known here: say where they are with --schemas"
            raise UsageError(
                f"{text}, and of Parquet files their format, if export was given one, with --{name}-format"
            )
    if columns.form == "parquet":
        types = columns.types
        found = replace(found, key=replace(found.key, type=types[0]), value=replace(found.value, type=types[1]))
    else:
        schema = pa.schema([pa.field(name, type_) for name, type_ in zip(SIDES, columns.types, strict=True)])
        found = into_table(found, schema, columns.form)
    return TableDecoding(found, columns)


def _lacks_schemas(side: SideType, type_: Any) -> bool:
    """Return whether values of a table cannot have come from what is known of a side."""
    t = pa.types
    if any(each.schema is not None for each in side.schemas):
        return False
    return bool(side.schemas and t.is_nested(type_)) or (t.is_nested(type_) and not t.is_nested(side.type))


class DecodedHashes:
    """Hashes of decoded columns as bytes: 16 of a value, and 17 of the bytes of what could not be decoded."""

    def __init__(self, columns: DecodedColumns, hasher: ValueHasher) -> None:
        self._columns, self._hasher = columns, hasher

    def column(self, name: str, typed: Any, raw: Any) -> Any:
        """Return a column of hashes. ``typed``: the decoded one; ``raw``: the bytes of what could not be decoded."""
        return self._cells(name, typed, raw, arrow.is_valid(raw)).column()

    def _cells(self, name: str, typed: Any, raw: Any, is_raw: Bools) -> _Cells:
        hashes = self._hasher.hash(_fitted(typed, self._columns.types[SIDES.index(name)]))
        null = ~arrow.is_valid(typed) & ~is_raw
        if is_raw.any():
            hashes = np.where(is_raw[:, None], self._hasher.hash_raw(raw), hashes)
        return _Cells(np.ascontiguousarray(hashes), is_raw, null)

    def in_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of a table with hashes for keys and values."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in SIDES:
            columns[name] = self.column(name, columns[name], columns[f"{name}Raw"])
        chosen = [name for name in columns if not name.endswith(("Raw", "Error"))]
        return pa.RecordBatch.from_arrays([columns[name] for name in chosen], chosen)

    def in_log(
        self, decoding: TableDecoding, undecoded: Mapping[str, RecordedOffsets]
    ) -> Callable[[RecordColumns], RecordColumns]:
        """Return what puts hashes in place of a log's keys and values. ``undecoded``: the offsets of keys and of values
        that the table has as bytes."""

        def recoded(columns: RecordColumns) -> RecordColumns:
            if not columns.rows:
                return columns
            batch = contents_batch(columns)
            decoded = decoder_of(decoding.topic_type)(batch)[0]
            offsets, changed = columns.offset[: columns.rows], dict[str, Any]()
            used = columns.used.copy()
            for number, name in enumerate(SIDES):
                own, raw = batch.column(name), decoded.column(f"{name}Raw")
                is_raw = arrow.is_valid(raw)
                is_kept = _are_in(offsets, undecoded.get(name)) & arrow.is_valid(own)
                cells = self._cells(name, decoded.column(name), own, is_raw | is_kept)
                ends, data = cells.bytes()
                changed |= {f"{name}_ends": ends, f"{name}_null": cells.null.astype(np.uint8), f"{name}_data": data}
                used[1 + number] = ends[-1]
            return replace(columns, **changed, used=used)

        return recoded


@dataclass(frozen=True, slots=True)
class _Cells:
    """Hashes of a column (shape ``(n, 2)``), with which of them are of bytes, and which rows are null."""

    hashes: NDArray[np.uint64]
    is_raw: Bools
    null: Bools

    def bytes(self) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return where each row ends (int32, shape ``(n + 1,)``), and the bytes of all."""
        lengths = np.where(self.null, 0, HASH_BYTES + self.is_raw)
        cells = np.ones((len(lengths), HASH_BYTES + 1), np.uint8)
        cells[:, :HASH_BYTES] = self.hashes.view(np.uint8).reshape(-1, HASH_BYTES)
        data = cells[np.arange(HASH_BYTES + 1) < lengths[:, None]]
        return np.append(0, np.cumsum(lengths)).astype(np.int32), np.append(data, np.zeros(_SLACK, np.uint8))

    def column(self) -> Any:
        ends, data = self.bytes()
        valid = arrow.bits(~self.null) if self.null.any() else None
        return arrow.column_of(pa.binary(), len(self.null), [valid, ends, data])


def note_undecoded(batch: pa.RecordBatch, files: Mapping[str, OffsetFile]) -> None:
    """Record the offsets of rows, which come in their order, of which a table has the bytes of keys or values."""
    offsets = arrow.numbers(batch.column("offset"), np.int64)
    for name, file in files.items():
        rows = np.diff(arrow.ends(batch.column(name))) > HASH_BYTES
        if rows.any():
            file.add(offsets[rows])


def _plain(type_: Any) -> pa.DataType:
    return plain_type(type_.value_type if pa.types.is_dictionary(type_) else type_)


def _are_in(offsets: Int64s, known: RecordedOffsets | None) -> Bools:
    if known is None or not len(known):
        return np.zeros(len(offsets), np.bool_)
    return np.isin(offsets, known.between(int(offsets.min()), int(offsets.max()) + 1))


def _fitted(column: Any, type_: Any) -> Any:
    """A column in the type of the table's, if it can have it: whole numbers are the same as others there."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == type_:
        return column
    try:
        plain = _plain(column.type)
        return convert(column if column.type == plain else column.cast(plain), type_)
    except (pa.ArrowException, AttributeError, TypeError, ValueError):
        return column
