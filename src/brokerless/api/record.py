"""A record as a Python object: a view of one row of an Arrow record batch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from brokerless.errors import UsageError
from brokerless.schemas import TIMESTAMP_TYPES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 40
"""Bytes or characters of a key or value in a ``repr``."""


class Record:
    """A row of the records table; a field whose column was not read raises ``KeyError``."""

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: pa.RecordBatch, row: int) -> None:
        self._batch = batch
        self._row = row

    def _field(self, name: str) -> Any:
        return self._batch.column(name)[self._row]

    @property
    def topic(self) -> str | None:
        return self._field("topic").as_py()

    @property
    def partition(self) -> int | None:
        return self._field("partition").as_py()

    @property
    def offset(self) -> int:
        return self._field("offset").as_py()

    @property
    def timestamp(self) -> int:
        """In ms since the epoch; -1 where the format has none (v0)."""
        return self._field("timestamp").value

    @property
    def time(self) -> datetime | None:
        """The timestamp as a datetime in UTC; None where there is none, or none that a datetime can hold."""
        try:
            return _EPOCH + timedelta(milliseconds=self.timestamp) if self.timestamp >= 0 else None
        except OverflowError:
            return None

    @property
    def timestamp_type(self) -> str:
        """``CreateTime``, ``LogAppendTime`` or ``NoTimestampType``."""
        return TIMESTAMP_TYPES[self._field("timestampType").as_py()]

    @property
    def key(self) -> bytes | None:
        return self._field("key").as_py()

    @property
    def value(self) -> bytes | None:
        return self._field("value").as_py()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In order, duplicates kept."""
        return [(header["key"], header["value"]) for header in self._field("headers").as_py()]

    @property
    def is_control(self) -> bool:
        return self._field("isControl").as_py()

    def __repr__(self) -> str:
        """Return what of it was read, on one line; of long keys and values, the beginning."""
        read = set(self._batch.schema.names)
        place = f"{self.topic}-{self.partition} " if {"topic", "partition"} <= read and self.topic is not None else ""
        place += f"@{self.offset}" if "offset" in read else ""
        sides = [f"{name}={_shortened(self._field(name).as_py())}" for name in ("key", "value") if name in read]
        return f"Record({', '.join([place.strip(), *sides]).removeprefix(', ')})"


def _shortened(content: Any) -> str:
    """Also of what was decoded, of any type."""
    if isinstance(content, bytes | str) and len(content) > _SHOWN:
        return f"{content[:_SHOWN]!r}..."
    shown = repr(content)
    return shown if len(shown) <= 4 * _SHOWN else f"{shown[:_SHOWN]}..."


def record_views(batch: pa.RecordBatch) -> Iterator[Record]:
    """Return a view of each row of a batch of the records table.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Of :meth:`Log.records`, with any of its columns.

    Returns
    -------
    iterator of Record
        Views, with what the columns have as attributes.

    Examples
    --------
    >>> import brokerless
    >>> batch = brokerless.open("demo/data").topic("orders").records(limit=2).read_next_batch()
    >>> [each.key for each in brokerless.record_views(batch)]
    [b'o-101230', b'o-101230']
    """
    if not isinstance(batch, pa.RecordBatch):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"batch: {batch!r} is not a pyarrow.RecordBatch")
    return (Record(batch, row) for row in range(batch.num_rows))
