"""Formats batch headers as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from brokerless import arrow
from brokerless.text import show
from brokerless.views import screen
from brokerless.views.table import NOTHING
from brokerless.views.text import format_times

_NAMES = ("position", "size", "offsets", "count", "format", "codec", "max timestamp", "producer", "epoch", "")
_WIDTHS = (-12, -9, 25, -7, 6, 6, 24, 20, -5, 21)
_NARROW_OFFSETS = 14
_SPARE = ("epoch", "producer", "max timestamp", "format", "size", "codec")
"""Columns that a narrow terminal does without, in this order."""


def names() -> bytes:
    """Return the line above all others."""
    return _line(_NAMES)


def left_out() -> list[str]:
    """Return the columns for which the screen is too narrow."""
    return [name for name in _SPARE if name not in _widths()]


def _widths() -> dict[str, int]:
    """The columns that fit the screen, and how wide each is, a negative number where it is flush right."""
    width = screen.width()
    found: dict[str, int] = dict(zip(_NAMES, _WIDTHS, strict=True))

    def excess() -> int:
        return 0 if width is None else sum(map(abs, found.values())) + 2 * (len(found) - 1) - width

    if excess() > 0:
        found["offsets"] = _NARROW_OFFSETS
    for name in _SPARE:
        if excess() > 0:
            del found[name]
    return found


def lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield a line for each batch (schema :data:`schemas.BATCHES`), in columns of fixed width."""
    columns = {name: arrow.values(batch.column(name)) for name in batch.schema.names}
    times = format_times(columns["maxTimestamp"])
    for row, time in enumerate(times):
        yield _line(_cells({name: column[row] for name, column in columns.items()}, time))


def _cells(row: dict[str, Any], time: str) -> tuple[str, ...]:
    producer = NOTHING
    if row["producerId"] is not None and row["producerId"] >= 0:
        producer = f"{row['producerId']}/{row['producerEpoch']}"
        producer += f" {row['baseSequence']}..{row['lastSequence']}" if row["baseSequence"] >= 0 else ""
    flags = [flag for name, flag in (("isTransactional", "transactional"), ("isControl", "control")) if row[name]]
    flags += ["LogAppendTime"] if row["timestampType"] == "LogAppendTime" else []
    flags += ["CHECKSUM WRONG"] if row["isValid"] is False else []
    return (
        str(row["position"]),
        str(row["sizeInBytes"]),
        f"{_text(row['baseOffset'])}..{_text(row['lastOffset'])}",
        _text(row["count"]),
        f"v{row['magic']}",
        _text(row["compression"]),
        time,
        producer,
        NOTHING if row["partitionLeaderEpoch"] == -1 else _text(row["partitionLeaderEpoch"]),
        " ".join(flags),
    )


def _text(value: Any) -> str:
    return NOTHING if value is None else show(str(value))


def _line(cells: tuple[str, ...]) -> bytes:
    widths = _widths()
    own: dict[str, str] = dict(zip(_NAMES, cells, strict=True))
    aligned = (own[name].rjust(-width) if width < 0 else own[name].ljust(width) for name, width in widths.items())
    return "  ".join(aligned).rstrip().encode() + b"\n"
