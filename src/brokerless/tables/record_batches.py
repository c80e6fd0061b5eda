"""Converts decoded columns and batch headers to Arrow record batches, and records back to columns.

Nothing is copied where Arrow can adopt an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import (
    Column,
    bits,
    column_of,
    column_of_flags,
    column_of_numbers,
    column_of_values,
    data,
    ends,
    is_valid,
    numbers,
    repeated,
    round_up,
    table_of,
)
from brokerless.bounds import check_arguments
from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.format.columns import HUGE, RecordColumns, empty_columns, release_memory
from brokerless.format.read.batch_headers import Batches
from brokerless.log.directory import SegmentPaths
from brokerless.log.segment import Chunk, report_damages
from brokerless.progress import Report
from brokerless.schemas import HEADERS, NAME, RECORDS, TIMESTAMP, TIMESTAMP_TYPES, TRANSACTIONS
from brokerless.text import java_text, readable

if TYPE_CHECKING:  # these import kernels, which the tables of headers do without
    from brokerless.format.read.decoder import DecodedRecords
    from brokerless.format.read.wrappers import WrapperContents
    from brokerless.log.partition import DecodedRows
    from brokerless.log.producer.transactions import Transactions
    from brokerless.tables.segment_summary import SegmentSummary

_BINARY = pa.binary()
_HEADER: pa.StructType = HEADERS.value_type
_BASE_TIMESTAMP_END = 35
_SHARED = 1 << 17
"""Rows for which what they have in common is made once, for all record batches."""
_NAME_BYTES = 8 << 20
"""Bytes that a name may take that is repeated for so many rows."""


@dataclass(frozen=True, slots=True)
class RowSource:
    """What the rows of one file have in common."""

    file: str
    topic: str | None
    partition: int | None


def project(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of some columns, in the requested order. Raises :class:`UsageError` for an unknown one."""
    if columns is None:
        return schema
    if isinstance(columns, str) or not isinstance(columns, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"columns: {columns!r} is no list of names, such as ['offset', 'value']")
    unknown = [name for name in columns if name not in schema.names]
    if unknown:
        raise UsageError(f"there is no column {unknown[0]!r}; there are {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns])


def records_batches(
    decoded: DecodedRecords, source: RowSource, schema: pa.Schema = RECORDS, rows: NDArray[np.bool_] | None = None
) -> Iterator[pa.RecordBatch]:
    """Decoded records as Arrow record batches, nearly always one; ``rows`` (bool) filters them."""
    columns, count = decoded.columns, decoded.columns.rows
    make: dict[str, Callable[[], Column]] = {
        "key": lambda: _binary(columns.key_ends, columns.key_data, columns.key_null, count),
        "value": lambda: _binary(columns.value_ends, columns.value_data, columns.value_null, count),
        "offset": lambda: column_of_numbers(pa.int64(), columns.offset[:count]),
        "timestamp": lambda: column_of_numbers(TIMESTAMP, columns.timestamp[:count]),
        "timestampType": lambda: column_of_numbers(pa.int32(), columns.timestamp_type[:count].astype(np.int32)),
        "headers": lambda: _headers(columns, count),
        "batchPosition": lambda: column_of_numbers(pa.int64(), np.repeat(decoded.positions, decoded.given)),
        "sequence": lambda: column_of_numbers(pa.int32(), columns.sequence[:count]),
        "isControl": lambda: column_of_flags(np.repeat(decoded.is_control, decoded.given)),
    }
    own = {name: make[name]() for name in schema.names if name in make}
    if rows is not None:
        count = int(np.count_nonzero(rows))
        if own:
            own = dict(zip(own, _record_batch(own).filter(column_of_flags(rows)).columns, strict=True))
    return _with_source(own, count, source, schema)


def contents_batch(columns: RecordColumns) -> pa.RecordBatch:
    """Return the columns ``key``, ``value`` and ``headers`` of records; their bytes are adopted."""
    rows = columns.rows
    contents: dict[str, Column] = {
        "key": _binary(columns.key_ends, columns.key_data, columns.key_null, rows),
        "value": _binary(columns.value_ends, columns.value_data, columns.value_null, rows),
        "headers": _headers(columns, rows),
    }
    return _record_batch(contents)


def _record_batch(columns: dict[str, Column]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _with_source(
    columns: dict[str, Column], count: int, source: RowSource, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Record batches of some columns and of what all rows of a source have in common. There are several where a name
    repeated for each row would fill the memory: rows may be many, of a few bytes each."""
    longest = max(len(source.file), len(source.topic or ""), 1)
    step = max(1, min(_SHARED, 1 << (_NAME_BYTES // longest).bit_length() - 1))
    for start in range(0, max(count, 1), step):
        rows = min(step, count - start)
        common: dict[str, Callable[[], Column]] = {
            "file": partial(_constant_name, source.file, rows),
            "topic": partial(_constant_name, source.topic, rows),
            "partition": partial(_constant_int32, source.partition, rows),
        }
        arrays = [columns[name].slice(start, rows) if name in columns else common[name]() for name in schema.names]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_batches(
    pieces: Iterator[DecodedRows], topic: str | None, partition: int | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Return what was read of one partition as Arrow record batches."""
    return map(itemgetter(0), prepared_batches(pieces, topic, partition, schema))


def prepared_batches(
    pieces: Iterator[DecodedRows], topic: str | None, partition: int | None, schema: pa.Schema
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Yield the batches, and for each what was made of it where it was decoded, if that was: ``prepared`` is such pairs
    then. Of one that is huge, nothing is held here when the next is decoded, and its memory is given back to the
    system."""
    for piece in pieces:
        prepared: list[tuple[pa.RecordBatch, Any]] | None = piece.prepared
        batches = iter(())
        if prepared is None:
            batches = records_batches(piece.decoded, RowSource(piece.path, topic, partition), schema, piece.rows)
        size = piece.decoded.columns.size
        del piece
        while (batch := next(batches, None) if prepared is None else prepared[0][0] if prepared else None) is not None:
            made = prepared.pop(0)[1] if prepared else None
            pair = [(batch, made)]
            del batch, made
            yield pair.pop()
        if size > HUGE:
            release_memory()


@check_arguments
def columns_of(batch: pa.RecordBatch) -> RecordColumns:
    """Return Arrow records as columns to write, without a copy where possible; the inverse of :func:`records_batches`.

    Parameters
    ----------
    batch
        ``offset``, ``timestamp`` and, optionally, ``key``, ``value``, ``headers`` and ``timestampType``, with the types
        of :data:`schemas.RECORDS`. Without these, keys and values are null, headers empty, and timestamps CreateTime.

    Returns
    -------
    RecordColumns
        The columns.
    """
    rows, names = batch.num_rows, batch.schema.names
    columns = empty_columns()
    columns.used[0] = rows
    if not rows:
        return columns

    def contents(name: str) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
        if name not in names:
            return np.zeros(rows + 1, np.int32), np.ones(rows, np.uint8), np.empty(0, np.uint8)
        return _contents(batch.column(name))

    columns.offset = numbers(batch.column("offset"), np.int64)
    columns.timestamp = numbers(batch.column("timestamp"), np.int64)
    columns.timestamp_type = np.zeros(rows, np.int8)
    if "timestampType" in names:
        columns.timestamp_type = numbers(batch.column("timestampType"), np.int32).astype(np.int8)
    columns.key_ends, columns.key_null, columns.key_data = contents("key")
    columns.value_ends, columns.value_null, columns.value_data = contents("value")
    columns.header_ends = np.zeros(rows + 1, np.int32)
    if "headers" in names:
        headers: Column = batch.column("headers")
        columns.header_ends, pairs = ends(headers), headers.values
        if len(pairs):
            columns.header_key_ends, _, columns.header_key_data = _contents(pairs.field("key"))
            values = _contents(pairs.field("value"))
            columns.header_value_ends, columns.header_value_null, columns.header_value_data = values
    return columns


def _contents(column: Column) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return where the values of a column of bytes or strings end, which are null, and their bytes."""
    null = (~is_valid(column)).view(np.uint8) if column.null_count else np.zeros(len(column), np.uint8)
    return ends(column), null, data(column)


def chunk_batches(
    chunk: Chunk,
    source: RowSource,
    schema: pa.Schema,
    is_valid: NDArray[np.bool_] | None,
    report: Report,
    max_batch_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a chunk's batch headers as Arrow record batches, nearly always one; wrapper messages are looked into where
    ``schema`` needs it, as far as they inflate to ``max_batch_bytes``; larger ones are reported, after the batches."""
    wrappers = None
    if "baseOffset" in schema.names and chunk.batches.is_wrapper.any():
        from brokerless.format.read.wrappers import inspect_wrappers

        wrappers = inspect_wrappers(chunk.buffer, chunk.batches, max_batch_bytes)
    yield from headers_batches(chunk.batches, source, chunk.base, schema=schema, wrappers=wrappers, is_valid=is_valid)
    if wrappers is not None:
        report_damages(wrappers.damages, source.file, chunk.base, report)


def headers_batches(
    batches: Batches,
    source: RowSource,
    base: int,
    schema: pa.Schema,
    wrappers: WrapperContents | None,
    is_valid: NDArray[np.bool_] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield batch headers as Arrow record batches, nearly always one.

    ``base``: the position in the file of the buffer's first byte. The column ``baseOffset`` needs ``wrappers`` if there
    are wrapper messages; ``isValid`` is ``is_valid``, whether checksums match (null without).
    """
    count = len(batches)
    legacy, cut = batches.is_legacy, batches.is_cut
    # Kafka's reader has none for an unknown magic, nor where the batch ends before it.
    no_base_timestamp = legacy | cut | (batches.magic > layouts.MAGIC_V2) | (batches.sizes < _BASE_TIMESTAMP_END)

    def known(values: NDArray[Any], type_: pa.DataType) -> Column:
        return column_of_numbers(type_, values, cut)

    make: dict[str, Callable[[], Column]] = {
        "position": lambda: column_of_numbers(pa.int64(), batches.positions + base),
        "sizeInBytes": lambda: column_of_numbers(pa.int64(), batches.sizes),
        "baseOffset": lambda: _base_offset(batches.entry_offset, wrappers),
        "lastOffset": lambda: known(batches.last_offset, pa.int64()),
        "magic": lambda: column_of_numbers(pa.int8(), batches.magic),
        "compression": lambda: _names(batches.codec, layouts.CODECS, cut),
        "timestampType": lambda: _names(batches.timestamp_type + 1, tuple(TIMESTAMP_TYPES.values()), cut),
        "baseTimestamp": lambda: column_of_numbers(TIMESTAMP, batches.base_timestamp, no_base_timestamp),
        "maxTimestamp": lambda: known(batches.max_timestamp, TIMESTAMP),
        "producerId": lambda: known(batches.producer_id, pa.int64()),
        "producerEpoch": lambda: known(batches.producer_epoch, pa.int16()),
        "baseSequence": lambda: known(batches.base_sequence, pa.int32()),
        "lastSequence": lambda: known(batches.last_sequence, pa.int32()),
        "partitionLeaderEpoch": lambda: known(batches.partition_leader_epoch, pa.int32()),
        "isTransactional": lambda: column_of_flags(batches.is_transactional, cut),
        "isControl": lambda: column_of_flags(batches.is_control, cut),
        "deleteHorizonMs": lambda: column_of_numbers(
            pa.int64(), batches.base_timestamp, ~batches.has_delete_horizon | cut
        ),
        "count": lambda: column_of_numbers(pa.int32(), batches.count, legacy | cut),
        "checksum": lambda: known(batches.checksum.astype(np.int64), pa.int64()),
        "isValid": lambda: pa.nulls(count, pa.bool_()) if is_valid is None else column_of_flags(is_valid),
    }
    return _with_source({name: make[name]() for name in schema.names if name in make}, count, source, schema)


def transactions_table(transactions: Transactions, source: RowSource) -> pa.Table:
    """Return the transactions of one partition (schema :data:`schemas.TRANSACTIONS`)."""
    rows = [
        {
            "topic": source.topic,
            "partition": source.partition,
            "producerId": each.producer_id,
            "producerEpoch": each.producer_epoch,
            "firstOffset": each.first_offset,
            "lastOffset": each.last_offset,
            "state": each.state,
            "batches": each.batches,
            "records": each.records,
            "firstTimestamp": each.first_timestamp,
            "lastTimestamp": each.last_timestamp,
            "coordinatorEpoch": each.coordinator_epoch,
        }
        for each in transactions.all
    ]
    return table_of(rows, TRANSACTIONS)


def segment_row(segment: SegmentPaths, source: RowSource, summary: SegmentSummary) -> dict[str, Any]:
    """Return one row of the segments table (schema :data:`schemas.SEGMENTS`)."""
    return {
        "topic": source.topic,
        "partition": source.partition,
        "file": source.file,
        "baseOffset": segment.base_offset,
        "firstOffset": summary.first_offset,
        "lastOffset": summary.last_offset,
        "sizeInBytes": summary.size,
        "validBytes": summary.valid_bytes,
        "batches": summary.batches,
        "records": summary.records,
        "minTimestamp": summary.min_timestamp,
        "maxTimestamp": summary.max_timestamp,
        "magics": sorted(summary.magics),
        "compressions": sorted(summary.compressions, key=layouts.CODECS.index),
        "hasOffsetIndex": segment.offset_index is not None,
        "hasTimeIndex": segment.time_index is not None,
        "hasTransactionIndex": segment.transaction_index is not None,
    }


def _binary(
    ends: NDArray[np.int32],
    data: NDArray[np.uint8],
    null: NDArray[np.uint8] | None,
    count: int,
    type_: pa.DataType = _BINARY,
) -> Column:
    """Adopts variable-length bytes."""
    null = None if null is None else null[:count]
    valid = None if null is None or not null.any() else bits(null == 0)
    return column_of(type_, count, [valid, ends[: count + 1], data[: ends[count]]])


def _headers(columns: RecordColumns, rows: int) -> Column:
    count = int(columns.header_ends[rows])
    keys = _header_keys(columns, count)
    values = _binary(columns.header_value_ends, columns.header_value_data, columns.header_value_null, count)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER.fields))
    return column_of(HEADERS, rows, [None, columns.header_ends[: rows + 1]], [pairs])


def _header_keys(columns: RecordColumns, count: int) -> Column:
    """Header keys are UTF-8; what is not is replaced, as Java's ``String`` does when Kafka's reader makes one."""
    ends, data = columns.header_key_ends, columns.header_key_data
    keys = _binary(ends, data, None, count=count, type_=pa.string())
    if count and bool((data[: ends[count]] >= 0x80).any()):
        try:
            keys.validate(full=True)
        except pa.ArrowInvalid:
            raw = arrow.values(_binary(ends, data, None, count))
            keys = column_of_values([java_text(key) for key in raw], pa.string())
    return keys


def _constant_name(name: str | None, count: int) -> Column:
    return pa.nulls(count, NAME) if name is None else repeated(readable(name), count)


def _constant_int32(value: int | None, count: int) -> Column:
    if value is None:
        return pa.nulls(count, pa.int32())
    return pa.Array.from_buffers(pa.int32(), count, [None, _repeated(value, count)])


def _names(codes: NDArray[np.int8], names: tuple[str, ...], null: NDArray[np.bool_]) -> Column:
    """Names by their index; null where there is none."""
    null = null | (codes >= len(names)) | (codes < 0)
    count = len(codes)
    if 0 < count <= _SHARED and not null.any() and (codes == codes[0]).all():
        return _constant_name(names[codes[0]], count)
    texts = [name.encode() for name in names] + [b""]
    codes = np.where(null, len(names), codes)
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(np.array([len(text) for text in texts], np.int32)[codes], out=ends[1:])
    longest = max(len(text) for text in texts)
    letters = np.frombuffer(b"".join(text.ljust(longest, b"\0") for text in texts), np.uint8).reshape(-1, longest)[
        codes
    ]
    return column_of(NAME, count, [bits(~null) if null.any() else None, ends, letters[letters != 0]])


def _base_offset(entry_offset: NDArray[np.int64], wrappers: WrapperContents | None) -> Column:
    if wrappers is None:
        return column_of_numbers(pa.int64(), entry_offset)
    return column_of_numbers(pa.int64(), wrappers.base_offset, ~wrappers.has_base_offset)


def _repeated(value: int, count: int) -> pa.Buffer:
    """At least ``count`` times ``value`` as int32; shared by all batches of usual size."""
    most = round_up(count)
    return _shared(value, most) if most <= _SHARED else pa.py_buffer(np.full(count, value, np.int32))


@lru_cache(maxsize=8)
def _shared(value: int, count: int) -> pa.Buffer:
    return pa.py_buffer(np.full(count, value, np.int32))
