"""Formats records as text, one line a record."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from brokerless import arrow, clock
from brokerless.interchange.jsonl_writer import dumps
from brokerless.text import show

NULL = "null"
NONE = "-"
_ROWS = 1024
_LARGE = 8 << 20
_SLICE = 1 << 18


def records(
    batch: pa.RecordBatch, controls: Sequence[Any] | None = None, zone: tzinfo | None = None
) -> Iterator[bytes]:
    """Lines of ``topic-partition`` (if known), offset, time, key, value and headers (if any), separated by tabs.

    Bytes that are no UTF-8, and characters that do not show, are escaped. ``controls``: for each row what is written in
    place of the key and value of a control record (see ``controls.py``).
    """
    for start in range(0, batch.num_rows, _ROWS):
        part = batch.slice(start, _ROWS)
        columns = [part.column(name) for name in ("offset", "key", "value", "headers")]
        times, places = format_times(arrow.integers(part.column("timestamp")), zone=zone), _places(part)
        shown = [None] * part.num_rows if controls is None else controls[start : start + _ROWS]
        large = part.nbytes > _LARGE
        lines: list[str] = []
        for row in range(part.num_rows) if large else ():
            head = f"{places[row]}{columns[0][row].as_py()}\t{times[row]}"
            yield from _large_line(head, [column[row] for column in columns[1:]], shown[row])
        if not large:
            rows = zip(places, *(arrow.values(column) for column in columns), times, shown, strict=True)
            for place, offset, key, value, headers, time, control in rows:
                content = f"{escape(key)}\t{escape(value)}" if control is None else dumps(control)
                lines.append(f"{place}{offset}\t{time}\t{content}{_headers(headers)}\n")
            yield "".join(lines).encode()


def escape(value: bytes | None) -> str:
    """Text on one line; null is ``null``."""
    return NULL if value is None else show(value.decode(errors="backslashreplace"))


def format_times(times: Sequence[int | None], unit: Literal["s", "ms"] = "ms", zone: tzinfo | None = None) -> list[str]:
    """Milliseconds as ISO 8601, in UTC or in ``zone``; ``-`` for null and for Kafka's -1, which means that there is
    none."""
    known = np.array([-1 if time is None else time for time in times], np.int64)
    texts: list[str] = np.datetime_as_string(known.astype("datetime64[ms]"), unit=unit, casting="unsafe").tolist()
    found = [NONE if time is None or time == -1 else f"{text}Z" for time, text in zip(times, texts, strict=True)]
    if zone is None or zone is UTC:
        return found
    spec = "seconds" if unit == "s" else "milliseconds"
    return [
        text if time is None or time == -1 else clock.in_zone(time, zone, spec) or text
        for time, text in zip(times, found, strict=True)
    ]


def _places(batch: pa.RecordBatch) -> list[str]:
    topics, partitions = arrow.values(batch.column("topic")), arrow.values(batch.column("partition"))
    shown = {topic: show(topic) for topic in {*topics} if topic is not None}
    return ["" if topic is None else f"{shown[topic]}-{at}\t" for topic, at in zip(topics, partitions, strict=True)]


def _headers(headers: Sequence[Any]) -> str:
    texts = (f"{show(header['key'])}={escape(header['value'])}" for header in headers)
    return "\t" + ",".join(texts) if headers else ""


def _large_line(head: str, content: Sequence[Any], control: Any) -> Iterator[bytes]:
    """A line in slices, so that a large value is never in memory as text."""
    key, value, headers = content
    yield f"{head}\t".encode()
    if control is None:
        yield from _line_parts(key)
        yield b"\t"
        yield from _line_parts(value)
    else:
        yield dumps(control).encode()
    for index, header in enumerate(headers):
        yield ("\t" if index == 0 else ",").encode() + show(header["key"].as_py()).encode() + b"="
        yield from _line_parts(header["value"])
    yield b"\n"


def _line_parts(scalar: Any) -> Iterator[bytes]:
    buffer = scalar.as_buffer() if scalar.is_valid else None
    if buffer is None:
        yield NULL.encode()
    else:
        yield from escaped(memoryview(buffer))


def escaped(data: bytes | memoryview) -> Iterator[bytes]:
    """Text as :func:`escape` gives it, in pieces of limited size."""
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for start in range(0, len(data), _SLICE):
        end = min(start + _SLICE, len(data))
        yield show(decoder.decode(data[start:end], end == len(data))).encode()
