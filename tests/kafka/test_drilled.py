"""A drill starts a real broker on what it rebuilt: a consumer gets what the snapshot has, and the broker is stopped."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.cli import main
from brokerless.jobs.drill import job
from brokerless.jobs.drill.broker import Kafka, RunningBroker
from brokerless.jobs.drill.served import Served
from tests.jobs.backup.disks import DEMO
from tests.kafka.jars import NEWEST

pytestmark = pytest.mark.slow(reason="brokers start")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly", segment_size=20_000)
    return f"{tmp_path / 'backup'}@nightly"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes of brokers that were started."""
    found: list[int] = []
    wait = RunningBroker.wait_until_ready

    def note(broker: RunningBroker, partitions: Sequence[tuple[str, int]]) -> None:
        found.append(broker.process.pid)
        wait(broker, partitions)

    monkeypatch.setattr(RunningBroker, "wait_until_ready", note)
    return found


def are_gone(processes: list[int]) -> bool:
    return not any(Path(f"/proc/{each}").exists() for each in processes)


def test_a_consumer_gets_what_the_snapshot_has(
    kafka_jars: Path, place: str, started: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {each: each.stat().st_mtime_ns for each in (tmp_path / "backup").rglob("*")}
    evidence = tmp_path / "drill.json"
    assert main(["drill", place, "--start", str(kafka_jars), "--evidence", str(evidence)]) == 0
    found = json.loads(evidence.read_text())
    assert (found["isClean"], found["kafka"]) == (True, NEWEST)
    broker = next(each for each in found["checks"] if each["check"] == "broker")
    rows = brokerless.open(place)
    own = [each for each in rows.partitions if not (each.topic_partition or ("__",))[0].startswith("__")]
    counts = {
        level: sum(batch.num_rows for each in own for batch in each.records(["offset"], isolation=level))
        for level in ("read_uncommitted", "read_committed")
    }
    assert (broker["partitions"], broker["records"]) == (len(own), counts["read_uncommitted"])
    assert broker["committed"] == counts["read_committed"] < broker["records"]
    text = capsys.readouterr().out
    assert f"the broker was Kafka {NEWEST}" in text
    assert "a start of a real broker" not in text
    assert len(started) == 1
    assert are_gone(started)
    assert not list((tmp_path / "tmp").iterdir())
    assert {each: each.stat().st_mtime_ns for each in (tmp_path / "backup").rglob("*")} == before


def test_what_it_serves_otherwise_is_named(
    kafka_jars: Path, place: str, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = job.running

    def start_with_less(kafka: Kafka, properties: Mapping[str, str], directory: Path) -> Any:
        for each in Path(properties["log.dirs"]).glob("orders-1/0*"):
            each.unlink()
        return start(kafka, properties, directory)

    monkeypatch.setattr(job, "running", start_with_less)
    result = brokerless.Backup(place).drill(start=kafka_jars, topics=["orders"])
    assert [each.name for each in result.checks if not each.is_clean] == ["broker"]
    lost = result.checks[-1].lost
    assert any(each.startswith("orders-1: served from offset") for each in lost)
    assert any(each.startswith("orders-1: a consumer with read_committed got 0 records") for each in lost)
    assert not [each for each in lost if not each.startswith("orders-1")]
    assert are_gone(started)


def test_it_is_stopped_when_somebody_interrupts(
    kafka_jars: Path, place: str, started: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> Served:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "compare_served", interrupt)
    with pytest.raises(KeyboardInterrupt):
        brokerless.Backup(place).drill(start=kafka_jars, topics=["users"])
    assert len(started) == 1
    assert are_gone(started)
    assert not list((tmp_path / "tmp").iterdir())


def test_a_broker_that_does_not_start_is_a_check_that_failed(
    kafka_jars: Path, place: str, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = job.Rebuild.server_properties
    monkeypatch.setattr(job.Rebuild, "server_properties", lambda own, node: settings(own, node) | {"node.id": "7"})
    result = brokerless.Backup(place).drill(start=kafka_jars, topics=["users"])
    (text,) = next(each for each in result.checks if each.name == "broker").lost
    assert text.startswith("the broker ended with code 1 while it started; it said last: ")
    assert are_gone(started)
