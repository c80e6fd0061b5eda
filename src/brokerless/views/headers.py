"""Formats batch headers as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from brokerless import arrow
from brokerless.text import show
from brokerless.views.table import NOTHING
from brokerless.views.text import format_times

_WIDTHS = (-12, -9, 25, -7, 6, 6, 24, 20, -5, 0)


def lines(batch: pa.RecordBatch) -> Iterator[bytes]:
    """A line for each batch (schema :data:`schemas.BATCHES`), in columns of fixed width."""
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
    aligned = (
        cell.rjust(-width) if width < 0 else cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)
    )
    return "  ".join(aligned).rstrip().encode() + b"\n"


NAMES = _line(("position", "size", "offsets", "count", "format", "codec", "max timestamp", "producer", "epoch", ""))
"""The line above all others."""
