"""The files that both sides of a benchmark read: a web shop's event log, written by Kafka's own builder."""

from __future__ import annotations

import hashlib
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
