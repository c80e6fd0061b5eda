"""Building batches from records that are in memory, in one warm process on one core; nothing is written to disk."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.kafka.jars import NEWEST

from benchmarks.data import CODECS, segment
from benchmarks.jvm import command
from benchmarks.measure import Workload, python, warm_process

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.format.write.encoder import Encoder

BATCH_SIZE = 16 << 10


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        yield build(codec, records)


def build(codec: str, records: int) -> Workload:
    def source() -> str:
        return str(segment("none", records))

    return Workload(
        name=f"build-{codec}",
        unit="records/s",
        ours=lambda: warm_process(python(f"{__name__}:build_batches", codec, source())),
        anchor=f"kafka-java {NEWEST}",
        theirs=lambda: warm_process(command("BuildBatches", codec, source(), heap="2g")),
    )


def build_batches(codec: str, path: str) -> tuple[int, int]:
    """Cuts Arrow records into batches, and encodes them: how many records, and bytes of batches."""
    from brokerless.format.write.encoder import build_headers, cut_batches
    from brokerless.tables.record_batches import columns_of

    records, size = 0, 0
    for batch in records_of(path):
        columns = columns_of(batch)
        starts = cut_batches(columns, BATCH_SIZE)
        size += len(encoder(codec).encode(columns, starts, build_headers(columns, starts)))
        records += batch.num_rows
    return records, size


@functools.cache
def records_of(path: str) -> list[pa.RecordBatch]:
    """All records of a segment, in memory."""
    import brokerless

    return list(brokerless.open(path).records(["offset", "timestamp", "key", "value", "headers"]))


@functools.cache
def encoder(codec: str) -> Encoder:
    from brokerless.format.write.encoder import Encoder

    return Encoder(codec=codec)
