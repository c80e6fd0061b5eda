"""A broker that starts deletes the old segments that the dry run said, and no others."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import brokerless
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.job import known_settings, plan_restart
from brokerless.clusters.start.results import Restart
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("retention")

HOUR, DAY = 3_600_000, 86_400_000
TOPICS: dict[str, dict[str, object]] = {
    "own": {"retention_ms": HOUR},
    "mixed": {"retention_ms": HOUR},
    "kept": {"retention_ms": -1},
    "large": {"retention_ms": -1, "retention_bytes": 15_000},
    "default": {},
    "zeroed": {},
    "zeros-after": {},
}
DAMAGED = ("zeroed", "zeros-after")
"""Their records are young, and their time indexes were damaged beside the mark of a clean stop."""


def records(topic: str) -> list[Record]:
    """Thirty days old, but for the last ones of a topic."""
    now = int(time.time() * 1000)
    is_old = [topic not in ("large", *DAMAGED) and (topic != "mixed" or number < 60) for number in range(120)]
    return [
        Record(b"key", b"v" * 400, (), now - 30 * DAY if old else now, 0)
        for number, old in enumerate(is_old)
    ]  # fmt: skip


def dry_run(broker: KafkaBroker) -> dict[str, Restart]:
    directory = resolve(Location(str(broker.log_dir)))
    (whole,) = plan_directories([directory])
    notes = load_directory_state(directory)
    return {
        each.topic: plan_restart(
            each, notes.of(each), clean=notes.was_clean, directory=whole, settings=known_settings(whole, each)
        )
        for each in directory.partitions
        if each.topic in TOPICS
    }


def damage_time_indexes(broker: KafkaBroker) -> None:
    for topic in DAMAGED:
        for path in (broker.log_dir / f"{topic}-0").glob("*.timeindex"):
            path.write_bytes(bytes(24) if topic == "zeroed" else path.read_bytes() + bytes(12))


def bases(broker: KafkaBroker, topic: str) -> list[int]:
    return [int(path.stem) for path in broker.logs(topic)]


def test_retention_deletes_what_the_dry_run_said(kafka_jars: Path, tmp_path: Path) -> None:
    # Retention is looked at 30 seconds after a start otherwise, which may be before everything is written.
    broker = KafkaBroker(tmp_path / "broker", {"log.initial.task.delay.ms": "600000"})
    with broker:
        for topic, settings in TOPICS.items():
            broker.create_topic(topic, internal_segment_bytes=6000, **settings)
            produce_confluent(broker, topic, records(topic), batch_size=1500)
    before = {topic: bases(broker, topic) for topic in TOPICS}
    assert all(len(each) > 5 for each in before.values())
    with broker.properties.open("a") as properties:
        soon = "log.retention.check.interval.ms=500\nlog.initial.task.delay.ms=500\n"
        properties.write(f"log.retention.ms={7 * DAY}\n{soon}")
    damage_time_indexes(broker)
    said = dry_run(broker)
    assert {topic for topic, each in said.items() if not each.is_harmless} == set(DAMAGED)
    for topic in DAMAGED:
        retention = said[topic].retention
        assert retention is not None
        assert len(retention.misread) == len(retention.segments) > 5
    expected = dict(before)
    for topic, restart in said.items():
        if restart.retention is not None:
            gone = {int(Path(file).stem) for file, _ in restart.retention.segments}
            sizes = {int(path.stem): path.stat().st_size for path in broker.logs(topic)}
            assert restart.retention.size == sum(sizes[base] for base in gone)
            expected[topic] = [base for base in before[topic] if base not in gone] or [restart.log_end_offset]
            assert restart.retention.log_start_offset == expected[topic][0]
    copy = shutil.copytree(broker.log_dir, tmp_path / "copy")
    with broker:
        give_up = time.monotonic() + 60
        while {topic: bases(broker, topic) for topic in TOPICS} != expected:
            assert time.monotonic() < give_up, ({topic: bases(broker, topic) for topic in TOPICS}, expected)
            time.sleep(0.2)
        time.sleep(2)
        assert {topic: bases(broker, topic) for topic in TOPICS} == expected
    assert [topic for topic in TOPICS if expected[topic] == before[topic]] == ["kept"]
    assert [topic for topic in TOPICS if len(expected[topic]) == 1] == ["own", "default", *DAMAGED]
    found = {topic: restart.retention.defaults for topic, restart in said.items() if restart.retention is not None}
    assert {topic for topic, names in found.items() if "retention.ms" in names} == {"default", *DAMAGED}
    compared = {each.topic: each for each in brokerless.diff(copy, broker.log_dir).partitions}
    assert all(each.is_same for each in compared.values())
    assert {topic for topic in TOPICS if compared[topic].causes == {}} == {"kept"}
    assert {cause for each in compared.values() for cause in each.causes or {}} == {"retention"}
    assert compared["own"].causes == {"retention": 120}
