"""``kill -9`` at any moment loses nothing that was flushed, and no reader ever sees half a batch.

Oracle: what the killed process had said to be flushed; and at the end Kafka's own reader, and its check of indexes.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kafka.oracle import dump, read_logs
from tests.log.killed_writer import everything

import brokerless

KILLS = 30
ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("kafka_jars")
def test_a_log_survives_being_killed_over_and_over(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.log.killed_writer", str(tmp_path), "20261121", str(KILLS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    numbers = {name: int(number) for name, number in re.findall(r"(\S+) (\d+)", seen)}
    assert numbers["opened"] + numbers["while-opening"] == KILLS
    assert numbers["opened"] > KILLS / 2
    assert numbers["reads"]
    assert numbers["end"] >= numbers["flushed"] > 0

    partition = brokerless.open(tmp_path).partition("orders", 0)
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    assert b"".join(log.read_bytes() for log in logs) == b"".join(
        piece.tobytes() for _, piece in everything(numbers["end"])
    )
    assert not [finding for finding in partition.verify() if finding.severity != "info"]
    for path, lines in read_logs(logs).items():
        assert [line for line in lines if line["type"] in ("error", "disagreement")] == []
        assert lines[-1]["trailingBytes"] == 0, path
    indexes = [path for path in sorted((tmp_path / "orders-0").iterdir()) if path.suffix in (".index", ".timeindex")]
    text = dump(indexes, "--verify-index-only")
    assert not re.search("Mismatch|Non-consecutive|not monoton|Found timestamp|not indexed", text, re.IGNORECASE), text
    assert text.count("Dumping") == len(indexes)
