"""What brokers write to ``leader-epoch-checkpoint`` is never reported: after elections without records, deleted
records, compaction and kills; after unclean elections, by ``test_merged``, which has a cluster with some."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

import brokerless
from brokerless.findings import Kind
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("leader_epochs")
KINDS = {Kind.LEADER_EPOCH_MISMATCH, Kind.LEADER_EPOCH_BEYOND_END, Kind.LEADER_EPOCH_ORDER}
SETTINGS = {"log.flush.start.offset.checkpoint.interval.ms": "200", "log.cleaner.backoff.ms": "100"}


def entries_of(log_dir: Path, topic: str) -> list[tuple[int, int]]:
    lines = (log_dir / f"{topic}-0" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]


def records(seed: int) -> list[Record]:
    now = int(time.time() * 1000)
    return [Record(b"key-%d" % (at % 40), b"%d-%d" % (seed, at) * 20, timestamp=now + at) for at in range(200)]


def check_epochs(log_dir: Path) -> None:
    log = brokerless.open(log_dir)
    found = [*log.verify(), *(each for one in log.audit().partitions for each in one.findings)]
    assert [each for each in found if each.kind in KINDS] == []


@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_starts_of_one_broker(kafka_jars: Path, tmp_path: Path, version: str) -> None:
    broker = KafkaBroker(tmp_path / "broker", SETTINGS, version)
    small = {"segment_bytes": 1 << 20} if version == OLD_FORMATS else {"internal_segment_bytes": 8192}
    for number in range(5):
        with broker:
            if not number:
                broker.create_topic("plain", **small)
                broker.create_topic("idle")
                broker.create_topic(
                    "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms=200, **small
                )
            if number != 2:  # an election without records
                produce_confluent(broker, "plain", records(number), batch_size=2000)
                produce_confluent(broker, "compacted", records(number), batch_size=2000)
            if number == 3:
                start, end = broker.watermarks("plain")[0]
                admin = broker.admin()  # kept alive until its future is done
                (deleted,) = admin.delete_records([TopicPartition("plain", 0, (start + end) // 2 + 3)]).values()
                deleted.result(30)
            time.sleep(1)
            check_epochs(broker.copy_log_dir(tmp_path / f"running-{number}"))
            if number % 2:
                broker.kill()
        check_epochs(broker.log_dir)
    assert len(entries_of(broker.log_dir, "plain")) >= 2
    assert entries_of(broker.log_dir, "plain")[0][1] > 0
    (idle,) = entries_of(broker.log_dir, "idle")
    assert idle[0] > 0
    assert idle[1] == 0
