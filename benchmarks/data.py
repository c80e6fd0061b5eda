"""The files that both sides of a benchmark read: a web shop's event log, written by Kafka's own builder."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from pathlib import Path

from tests.kafka.jars import NEWEST, check
from tests.once import made_once

from benchmarks.jvm import SOURCES, command

CODECS = ("none", "lz4", "snappy", "zstd", "gzip")
RECORDS = 4_000_000
CACHE = Path(__file__).parents[1] / ".cache" / "bench"


def events(records: int = RECORDS) -> Path:
    """A log directory with one partition for each codec (``events-lz4-0``), all of the same ``records``.

    It is written once, by ``java/WriteEvents.java``, and again if that or the version of Kafka changes.
    """
    program = (SOURCES / "WriteEvents.java").read_bytes()
    digest = hashlib.sha256(NEWEST.encode() + program).hexdigest()[:8]

    def write(target: Path) -> None:
        line = command("WriteEvents", str(target), str(records), *CODECS)
        check(subprocess.run(line, capture_output=True, check=False))

    return made_once(CACHE / f"events-{records}-{digest}", write)


def segment(codec: str, records: int = RECORDS) -> Path:
    """The one segment file of a codec's partition."""
    return events(records) / f"events-{codec}-0" / "00000000000000000000.log"


def tables(records: int = RECORDS) -> Path:
    """A directory with the same records as ``events.arrow`` (Arrow IPC) and ``events.parquet`` (Arrow's defaults); made
    once."""

    def write(target: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        import brokerless

        batches = iter(brokerless.open(str(segment("none", records))).records(["timestamp", "key", "value"]))
        first = next(batches)
        with (
            pq.ParquetWriter(target / "events.parquet", first.schema) as parquet,
            pa.ipc.new_file(str(target / "events.arrow"), first.schema) as arrow,
        ):
            for batch in itertools.chain([first], batches):
                parquet.write_batch(batch)
                arrow.write_batch(batch)

    return made_once(CACHE / f"tables-{events(records).name}", write)
