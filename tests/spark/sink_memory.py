"""A task of the sink, and the driver's commit that puts it behind others, with more rows than memory should be taken:
``sink_memory.py DIRECTORY``. Prints the peaks of resident memory (MiB) before, after the task, and after the commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from brokerless.spark.sink import Writer
from brokerless.spark.sink_options import parse_sink_options

BATCHES, ROWS, PARTITIONS = 50, 10_000, 40


def batches(count: int) -> Iterator[pa.RecordBatch]:
    """10 MB each, of all partitions."""
    for number in range(count):
        values = np.full((ROWS, 1000), number, np.uint8)
        columns = {
            "value": pa.FixedSizeBinaryArray.from_buffers(pa.binary(1000), ROWS, [None, pa.py_buffer(values)]),
            "partition": pa.array(np.arange(ROWS, dtype=np.int32) % PARTITIONS),
        }
        yield pa.RecordBatch.from_pydict(columns)


def peak() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


if __name__ == "__main__":
    options = parse_sink_options({"path": sys.argv[1], "topic": "t"})
    writer = Writer(options, StructType().add("value", "binary").add("partition", "integer"))
    writer.commit([writer.write(batches(1))])
    peaks = [peak()]
    written = [writer.write(batches(BATCHES)), writer.write(batches(1))]
    peaks.append(peak())
    writer.commit(written)
    print(*peaks, peak())
