"""Decodes keys and values of record batches into a topic's types; what has none keeps its bytes."""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.typed import framing, plain
from brokerless.typed.framing import APICURIO_JSON, GLUE_ZLIB, NULL, UNFRAMED, Frame, Frames, registry_of
from brokerless.typed.json.columns import json_decoder
from brokerless.typed.payloads import PayloadDecoder, reason_of, rows_decoder, text_decoder
from brokerless.typed.reasons import Reason, Reasons
from brokerless.typed.schema_types import decoder_of_schema
from brokerless.typed.times import Moment, without_unreadable
from brokerless.typed.topic_type import SCHEMA, UNFRAMED_VALUES, WINDOWS, SideType, TopicType

_MAX_INFLATED = 128 << 20
"""Bytes that one of Glue's compressed values may inflate to."""


def decode_batch(topic_type: TopicType, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Records with ``key`` and ``value`` typed, of ``topic_type.schema(batch.schema)``.

    ``batch`` has columns of ``schemas.RECORDS``; ``headers`` are needed only where they name schemas. A row that cannot
    be decoded is null and has its bytes in ``keyRaw`` or ``valueRaw``, and why in ``keyError`` or ``valueError``. So
    has one of which a part is left out: a time that readers of tables have no value for, or a field without a column.
    Where bytes that are there decode to null, they are in ``valueRaw`` without a reason. Control records stay bytes.
    """
    return decoder_of(topic_type)(batch)[0]


@lru_cache(maxsize=32)
def decoder_of(topic_type: TopicType) -> TopicDecoder:
    """Return a decoder, whose compiled schemas are used for all batches."""
    return TopicDecoder(topic_type)


class TopicDecoder:
    """Decodes a topic's batches; keeps what it compiled of their schemas."""

    def __init__(self, topic_type: TopicType) -> None:
        self.topic_type = topic_type
        self._sides = {"key": SideDecoder(topic_type.key, "key"), "value": SideDecoder(topic_type.value, "value")}

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[str, Reasons]]:
        """A decoded batch, and why keys and values could not be decoded, by ``key`` and ``value``, and by row."""
        schema = self.topic_type.schema(batch.schema)
        headers = batch.column("headers") if "headers" in batch.schema.names else None
        is_control = arrow.flags(batch.column("isControl")) if "isControl" in batch.schema.names else None
        columns = {name: batch.column(name) for name in batch.schema.names}
        why: dict[str, Reasons] = {}
        for name, side in self._sides.items():
            if name in columns:
                typed, why[name] = side.decode(columns[name], headers, is_control)
                raw, error = _failures(columns[name], typed, why[name])
                columns |= {name: typed, f"{name}Raw": raw, f"{name}Error": error}
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema), why


class SideDecoder:
    """Decodes keys or values."""

    def __init__(self, side: SideType, name: str) -> None:
        self.side, self.name = side, name
        self._by_id = {(registry_of(each.framing), each.id): each for each in side.schemas}
        self._decoders: dict[Any, PayloadDecoder | str] = {}

    def decode(
        self, column: Column, headers: Column | None, is_control: NDArray[np.uint8] | None = None
    ) -> tuple[Column, Reasons]:
        """Return the typed column, and why rows of it have no value, or not all of it."""
        rows = len(column)
        is_framed = self.side.format == SCHEMA
        frames = framing.find_frames(column, self.name, headers) if is_framed else _unframed(column)
        codes = frames.codes
        if is_control is not None:
            codes = np.where((is_control != 0) & (codes != NULL), np.int32(-3), codes)
        reasons: Reasons = {}
        parts: list[Column] = []
        places = np.full(rows, -1, np.int64)
        at = 0
        for code in np.unique(codes).tolist():
            if code == NULL:
                continue
            chosen = np.flatnonzero(codes == code)
            if code == -3:
                reasons.update(dict.fromkeys(chosen.tolist(), Reason("a control record")))
                continue
            decoder = self._decoder(None if code == UNFRAMED else frames.known[code])
            if isinstance(decoder, str):
                reasons.update(dict.fromkeys(chosen.tolist(), Reason(decoder)))
                continue
            frame = Frame("", 0) if code == UNFRAMED else frames.known[code]
            typed, failed = decoder(frame, *self._payloads(frames, chosen, frame, reasons))
            failed = {int(chosen[row]): reason for row, reason in failed.items()}
            parts.append(typed)
            places[chosen] = np.arange(at, at + len(chosen))
            at += len(chosen)
            reasons = failed | reasons
        typed, unreadable = without_unreadable(self._assemble(parts, places, rows))
        return typed, unreadable | reasons

    def _payloads(self, frames: Frames, rows: NDArray[np.int64], frame: Frame, reasons: Reasons) -> Any:
        """The payloads of some rows as their decoder takes them: data, starts and ends."""
        if frame.framing == GLUE_ZLIB:
            return _inflated(frames, rows, reasons)
        used = self._by_id.get((registry_of(frame.framing), frame.id))
        if frame.framing != APICURIO_JSON or used is None or used.schema is None or used.schema.type != "AVRO":
            return frames.data, frames.starts[rows], frames.ends[rows]
        from brokerless.typed.avro.json_encoding import from_json
        from brokerless.typed.avro.schema import parse_schema

        type_, found = parse_schema(used.schema), list[bytes]()
        for row, payload in zip(rows.tolist(), framing.payloads(frames, rows), strict=True):
            try:
                found.append(from_json(type_, payload))
            except (ValueError, RecursionError, OverflowError) as error:
                found.append(b"")
                reasons[row] = reason_of(error)
        return _joined(found)

    def _assemble(self, parts: list[Column], places: NDArray[np.int64], rows: int) -> Column:
        if not parts:
            return pa.nulls(rows, self.side.type)
        whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if len(whole) == rows and bool((places == np.arange(rows)).all()):
            return whole
        return whole.take(arrow.column_of_numbers(pa.int64(), places, places < 0))

    def _decoder(self, frame: Frame | None) -> PayloadDecoder | str:
        key = None if frame is None else (registry_of(frame.framing), frame.id)
        if key not in self._decoders:
            self._decoders[key] = self._make(key)
        return self._decoders[key]

    def _make(self, key: tuple[str, int | str] | None) -> PayloadDecoder | str:
        if self.side.format != SCHEMA:
            return plain_decoder(self.side)
        used = self._by_id.get(key or (UNFRAMED_VALUES, ""))
        if used is None and key is None:
            return "no schema id: the bytes begin with none, and there is none in the headers"
        if used is not None and used.problem is not None:
            return used.problem
        if used is None and key is not None and self.side.is_partial:
            return f"no record that was read for the topic's type names the schema id {key[1]} ({key[0]})"
        if used is None or used.schema is None:
            return "unknown schema" if key is None else f"unknown schema id {key[1]} ({key[0]})"
        return decoder_of_schema(used, self.side)


def plain_decoder(side: SideType) -> PayloadDecoder:
    """Return the decoder of a format without schemas."""
    name, prefix = side.format, ""
    for each in WINDOWS:
        if name.startswith(each):
            name, prefix = name.removeprefix(each), each
    parse = plain.parser(name)[0]
    tail = {"": 0, WINDOWS[0]: 8, WINDOWS[1]: 16}[prefix]

    def parse_window(data: bytes) -> Any:
        if len(data) < tail:
            raise ValueError(f"{len(data)} bytes are too few for a windowed key")
        times = [int.from_bytes(data[at : at + 8], "big", signed=True) for at in range(len(data) - tail, len(data), 8)]
        found = {"key": parse(data[: len(data) - tail]), "start": Moment(times[-1], plain.TIMESTAMP_MS)}
        return found if tail == 8 else {**found, "end": Moment(times[0], plain.TIMESTAMP_MS)}

    if name == "json" and not tail:
        return json_decoder(side.type)
    by_rows = rows_decoder(parse_window if tail else parse, side.type)
    is_whole = not tail and (name, side.type) in (("string", pa.string()), ("bytes", pa.binary()))
    return text_decoder(side.type, by_rows) if is_whole else by_rows


def _unframed(column: Column) -> Frames:
    bounds = arrow.ends(column).astype(np.int64) if len(column) else np.zeros(1, np.int64)
    codes = (
        np.where(arrow.is_valid(column), np.int32(UNFRAMED), np.int32(NULL)) if len(column) else np.empty(0, np.int32)
    )
    return Frames([], codes, arrow.data(column), starts=bounds[:-1], ends=bounds[1:])


def _joined(payloads: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    ends = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    return np.frombuffer(b"".join(payloads), np.uint8), ends[:-1], ends[1:]


def _inflated(frames: Frames, rows: NDArray[np.int64], reasons: Reasons) -> Any:
    """The payloads of some rows that Glue's serializer compressed."""
    found: list[bytes] = []
    left = _MAX_INFLATED
    for row, payload in zip(rows.tolist(), framing.payloads(frames, rows), strict=True):
        inflate = zlib.decompressobj()
        data = b""
        try:
            data = inflate.decompress(payload, max(left, 1))
        except zlib.error as error:
            reasons[row] = Reason(f"zlib data that is damaged: {error}")
        if not inflate.eof:
            data = b""
            text = "zlib data that is cut off, or a batch of them that inflates to more than 128 MiB"
            reasons.setdefault(row, Reason(text))
        found.append(data)
        left -= len(data)
    return _joined(found)


def _failures(column: Column, typed: Column, reasons: Reasons) -> tuple[Column, Column]:
    """The bytes and the reasons of what could not be decoded."""
    rows = len(column)
    lost = np.zeros(rows, np.bool_)
    if typed.null_count and rows:
        lost = ~arrow.is_valid(typed) & arrow.is_valid(column)
    if reasons:
        lost[list(reasons)] = True
    if not lost.any():
        return pa.nulls(rows, pa.binary()), pa.nulls(rows, pa.string())
    at = np.where(lost, np.arange(rows), -1)
    raw = column.take(arrow.column_of_numbers(pa.int64(), at, at < 0))
    return raw, arrow.column_of_values(
        [str(reasons[row]) if row in reasons else None for row in range(rows)], pa.string()
    )
