"""The recorded logs without the marker of an aborted transaction, and what a broker's consumers got of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import brokerless
from brokerless.findings import Finding

RECORDED = Path(__file__).parent / "gone_markers"
TOPICS = ("followed", "last", "rolled", "segment")
INDEXED = {"followed": 0, "last": 0, "rolled": 3}
"""Base offsets of the segments whose transaction index has the entry; ``segment`` has lost the log of its own."""
CONSUMED: dict[str, Any] = json.loads((RECORDED / "consumed.json").read_text())


def log_directory(target: Path, *, was_clean: bool = True, topics: tuple[str, ...] = TOPICS) -> Path:
    """Copy the logs into a log directory, with or without the mark of a clean stop."""
    for topic in topics:
        shutil.copytree(RECORDED / f"{topic}-0", target / f"{topic}-0")
    ends = {topic: CONSUMED["clean"][topic]["end"] for topic in topics}
    lines = "".join(f"{topic} 0 {end if was_clean else 0}\n" for topic, end in ends.items())
    (target / "recovery-point-offset-checkpoint").write_text(f"0\n{len(ends)}\n{lines}")
    lines = "".join(f"{topic} 0 {end}\n" for topic, end in ends.items())
    (target / "cleaner-offset-checkpoint").write_text(f"0\n{len(ends)}\n{lines}")
    if was_clean:
        (target / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    return target


def index_of(directory: Path, topic: str) -> Path:
    return directory / f"{topic}-0" / f"{INDEXED[topic]:020}.txnindex"


def committed(directory: Path, topic: str) -> tuple[list[int], list[Finding]]:
    """Return the offsets that read_committed gives, and what it reports."""
    found: list[Finding] = []
    partition = brokerless.open(directory).partition(topic, 0)
    batches = partition.records(["offset"], isolation="read_committed", on_damage=found.append)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()], found


def consumed(topic: str) -> list[int]:
    """Return the offsets that Kafka's consumer gets after a clean stop, from the beginning or from the marker on."""
    known = CONSUMED["clean"][topic]
    return sorted({*known["kafka"], *known["kafka_after_marker"]})
