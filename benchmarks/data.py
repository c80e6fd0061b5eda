"""The files that both sides of a benchmark read: a web shop's event log, written by Kafka's own builder."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.kafka.jars import NEWEST, check

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
    target = CACHE / f"events-{records}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                written = Path(scratch) / "events"
                line = command("WriteEvents", str(written), str(records), *CODECS)
                check(subprocess.run(line, capture_output=True, check=False))
                written.rename(target)
    return target


def segment(codec: str, records: int = RECORDS) -> Path:
    """The one segment file of a codec's partition."""
    return events(records) / f"events-{codec}-0" / "00000000000000000000.log"
