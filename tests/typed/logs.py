"""Log directories with typed topics and a registry's topic, written by our own loader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import brokerless

Record = tuple[bytes | None, bytes | None]
START_MS = 1_700_000_000_000


def write_log(directory: Path, topics: Mapping[str, Sequence[Record]]) -> Path:
    """A log directory with one partition of each topic."""
    for topic, records in topics.items():
        rows = len(records)
        columns = {
            "topic": pa.array([topic] * rows),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array(range(START_MS, START_MS + rows), pa.int64()).cast(pa.timestamp("ms", "UTC")),
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
        }
        brokerless.load([pa.RecordBatch.from_pydict(columns)], str(directory))
    return directory
