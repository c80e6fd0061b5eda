"""What brokers write to ``leader-epoch-checkpoint`` is never reported: after elections without records, deleted
records, compaction and kills; after unclean elections, by ``test_merged``, which has a cluster with some."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

import brokerless
from brokerless.findings import Kind
from tests.kafka import recorded_starts
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("leader_epochs")
KINDS = {Kind.LEADER_EPOCH_MISMATCH, Kind.LEADER_EPOCH_BEYOND_END, Kind.LEADER_EPOCH_ORDER}
SETTINGS = {
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.index.size.max.bytes": "65536",  # as large is a running broker's index
}


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


VERSIONS = (NEWEST, OLD_FORMATS)


def recorded(version: str) -> str:
    return f"epochs-{version}"


def write_epochs(directory: Path, version: str) -> None:
    """Fill ``directory`` with the log directory of one broker, while it runs and after it has stopped or crashed, of
    each of its starts."""
    broker = KafkaBroker(directory.with_name("broker"), SETTINGS, version)
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
            broker.copy_log_dir(directory / f"{number}-running")
            if number % 2:
                crash(broker)
        broker.copy_log_dir(directory / f"{number}-ended")


def record_starts() -> None:
    for version in VERSIONS:
        recorded_starts.record_base(recorded(version), partial(write_epochs, version=version))


@pytest.mark.parametrize("version", VERSIONS)
def test_starts_of_one_broker(kafka_jars: Path, tmp_path: Path, version: str) -> None:
    make = partial(write_epochs, version=version)
    log_dirs = sorted(recorded_starts.base(recorded(version), make, tmp_path / "written").iterdir())
    assert len(log_dirs) == 10
    for log_dir in log_dirs:
        check_epochs(log_dir)
    last = log_dirs[-2]
    assert last.name == "4-ended"
    assert len(entries_of(last, "plain")) >= 2
    assert entries_of(last, "plain")[0][1] > 0
    (idle,) = entries_of(last, "idle")
    assert idle[0] > 0
    assert idle[1] == 0
