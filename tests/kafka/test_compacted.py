"""A broker goes on with what ``compact`` made of its log: it recovers nothing, serves the last values, and appends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import brokerless
from brokerless.cli import main
from brokerless.internals.topic_settings import read_topic_setting
from brokerless.jobs.compact.settings import CompactOptions
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent

KEYS, ROUNDS = 40, 12
DEFAULTS = {"log.cleaner.delete.retention.ms": "7000000", "log.cleaner.min.compaction.lag.ms": "1"}
"""Of this broker."""
SETTINGS = ("delete.retention.ms", "min.compaction.lag.ms", "cleanup.policy")
CLEANED_WITHIN = 60.0


@pytest.mark.usefixtures("kafka_jars")
def test_a_broker_serves_the_last_values_and_goes_on(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "first")
    with broker:
        settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 1, "internal_segment_bytes": 9000}
        broker.create_topic("users", 1, **settings)
        for number in range(ROUNDS):
            records = [
                Record(b"user-%d" % each, None if each // 2 % 6 == number % 6 else b"value" * 9, (), None, 0)
                for each in range(number % 3, KEYS, 2)
            ]
            transaction = ("commit", "abort", "none")[number % 3]
            produce_confluent(broker, "users", records, "lz4", transaction=transaction, batch_size=1000)  # type: ignore[arg-type]
        served = consume(broker, "users", 0, "read_committed")
        told = broker_defaults(broker)
    (partition,) = brokerless.open(broker.log_dir).topic("users").paths
    read = {name: read_topic_setting(partition.location, "users", name) for name in SETTINGS}
    assert read == told
    assert CompactOptions().settings_of(partition).delete_retention_ms == 7_000_000
    last = {each.key: each.offset for each in served}
    expected = [each for each in served if last[each.key] == each.offset]
    assert len(expected) < len(served) / 2
    assert any(each.value is None for each in expected)

    before = {path.name: path.read_bytes() for path in (broker.log_dir / "users-0").iterdir()}
    to = tmp_path / "to"
    assert main(["compact", str(broker.log_dir), "--to", str(to)]) == 0
    assert {path.name: path.read_bytes() for path in (broker.log_dir / "users-0").iterdir()} == before
    assert main(["restart", str(to)]) == 0
    assert main(["audit", str(to)]) == 0
    again = KafkaBroker(tmp_path / "again", {"log.cleaner.backoff.ms": "100"})
    again.log_dir.parent.mkdir(parents=True, exist_ok=True)
    to.rename(again.log_dir)
    again.format = lambda: None  # type: ignore[method-assign] - it would make up for what is missing
    with again:
        for isolation in ("read_committed", "read_uncommitted"):
            assert consume(again, "users", 0, isolation) == expected  # type: ignore[arg-type]
        (offset,) = produce_confluent(again, "users", [Record(b"user-1", b"afterwards", (), None, 0)])
        assert offset > served[-1].offset
        assert consume(again, "users", 0, "read_committed")[-1].value == b"afterwards"
        assert names.CLEANER_CHECKPOINT in {path.name for path in again.log_dir.iterdir()}
        before = cleaned_until(again)
        set_configs(again, ConfigResource.Type.TOPIC, "users", {"min.cleanable.dirty.ratio": "0"})
        for number in range(6):
            records = [Record(b"user-%d" % each, b"%d" % number * 99, (), None, 0) for each in range(number, KEYS)]
            transaction = ("commit", "abort")[number % 2]
            produce_confluent(again, "users", records, transaction=transaction, batch_size=1000)  # type: ignore[arg-type]
        give_up = time.monotonic() + CLEANED_WITHIN
        while cleaned_until(again) < before + KEYS:
            assert time.monotonic() < give_up, again.tail()
            time.sleep(0.2)
        found = {each.key: each.value for each in consume(again, "users", 0, "read_committed")}
        assert {found[b"user-%d" % each] for each in range(4, KEYS)} == {b"4" * 99}


def cleaned_until(broker: KafkaBroker) -> int:
    """Where the broker's own cleaner has come to."""
    return recorded_offset(Location(str(broker.log_dir / "users-0")), "users", 0, names.CLEANER_CHECKPOINT) or 0


def broker_defaults(broker: KafkaBroker) -> dict[str, str]:
    """Sets defaults, and gives the topic's settings as the broker tells them."""
    admin = broker.admin()
    set_configs(broker, ConfigResource.Type.BROKER, "1", DEFAULTS)
    give_up, told = time.monotonic() + CLEANED_WITHIN, dict[str, str]()
    while told.get("delete.retention.ms") != DEFAULTS["log.cleaner.delete.retention.ms"]:  # it takes them in time
        assert time.monotonic() < give_up, told
        (described,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, "users")]).values()
        told = {name: each.value for name, each in described.result(30).items() if name in SETTINGS}
    return told


def set_configs(broker: KafkaBroker, kind: ConfigResource.Type, name: str, settings: dict[str, str]) -> None:
    entries = [ConfigEntry(key, each, incremental_operation=AlterConfigOpType.SET) for key, each in settings.items()]
    admin = broker.admin()  # kept alive until its futures are done
    for done in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        done.result(30)
