"""After a trim, a broker starts without recovery, and all is as if ``DeleteRecords`` had been asked."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import brokerless
from brokerless.cli import main
from brokerless.log import names
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, consume, produce_confluent

pytestmark = pytest.mark.xdist_group("trim")
DAY = 86_400_000
PLAIN, EXPIRED, COMPACTED, GROUP, COMMITTED = "trim-plain", "trim-expired", "trim-compacted", "readers", 70
SOON = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "200"}
FULL = re.compile("No space left on device|InternalError: a fault occurred")  # the latter in a mapped index
SETTINGS = {"log.retention.check.interval.ms": "600000", "log.initial.task.delay.ms": "600000"}


def records(first: int, count: int, age_days: int = 0) -> list[Record]:
    start = int(time.time() * 1000) - age_days * DAY
    return [Record(b"%d" % (at % 7), b"v" * 500, timestamp=start + at) for at in range(first, first + count)]


@pytest.fixture(scope="module")
def stopped(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> KafkaBroker:
    """A broker that has stopped, and was started twice before, so that there are two leader epochs."""
    broker = KafkaBroker(tmp_path_factory.mktemp("trim") / "broker", SETTINGS)
    with broker:
        broker.create_topic(PLAIN, internal_segment_bytes=16_384)
        broker.create_topic(EXPIRED, internal_segment_bytes=16_384, retention_ms=30 * DAY)
        broker.create_topic(COMPACTED, internal_segment_bytes=16_384, cleanup_policy="compact")
        for first in range(0, 120, 20):
            produce_confluent(broker, PLAIN, records(first, 20), "none")
        produce_confluent(broker, EXPIRED, records(0, 60, 60), "none", batch_num_messages=10)
        produce_confluent(broker, EXPIRED, records(60, 60), "none", batch_num_messages=10)
        produce_confluent(broker, COMPACTED, records(0, 120), "none", batch_num_messages=10)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 3})
        consumer.commit(offsets=[TopicPartition(PLAIN, 0, COMMITTED)], asynchronous=False)
        consumer.close()
    with broker:
        for first in range(120, 240, 20):
            produce_confluent(broker, PLAIN, records(first, 20), "none")
    return broker


@pytest.fixture
def broker(stopped: KafkaBroker, tmp_path: Path) -> Iterator[KafkaBroker]:
    """One on a copy of the directory, which is not started yet."""
    again = KafkaBroker(tmp_path / "broker", SETTINGS)
    stopped.copy_log_dir(again.log_dir)
    yield again
    if again.process is not None:
        again.kill()


def files_of(log_dir: Path, topic: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (log_dir / f"{topic}-0").iterdir() if path.suffix == ".log"}


def line_of(log_dir: Path, checkpoint: str) -> list[str]:
    return [line for line in (log_dir / checkpoint).read_text().splitlines() if line.startswith(PLAIN)]


def test_a_broker_begins_where_the_plan_said(broker: KafkaBroker) -> None:
    log = brokerless.open(broker.log_dir)
    before = log.partition(PLAIN, 0).records(["offset", "timestamp", "key", "value"]).read_all()
    planned = log.trim(free=100_000)
    assert {COMPACTED, "__consumer_offsets"} <= planned.retained.keys()
    assert [each.topic for each in planned.partitions] == [EXPIRED, PLAIN]
    expired, plain = planned.partitions
    assert expired.segments[0].reason == "retention"
    assert plain.segments[0].reason == "oldest"
    assert plain.unread == {GROUP: plain.log_start_offset - COMMITTED}
    assert main(["trim", str(broker.log_dir), "--free", "100000", "--apply"]) == 0
    assert main(["audit", str(broker.log_dir), "--min-severity", "warning"]) == 0
    broker.start()
    for each in planned.partitions:
        assert broker.watermarks(each.topic)[0][0] == each.log_start_offset
    found = consume(broker, PLAIN)
    kept = before.slice(plain.log_start_offset)
    assert [each.offset for each in found] == kept["offset"].to_pylist()
    assert [each.value for each in found] == kept["value"].to_pylist()
    assert broker.committed(GROUP, [(PLAIN, 0)]) == {(PLAIN, 0): COMMITTED}
    assert produce_confluent(broker, PLAIN, records(240, 1)) == [240]
    broker.stop()
    lines = [line for line in broker.output.read_text().splitlines() if "__cluster_metadata-0" not in line]
    assert [line for line in lines if "Recovering unflushed segment" in line or "orphaned" in line] == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_all_is_as_delete_records_leaves_it(
    is_killed: bool, broker: KafkaBroker, stopped: KafkaBroker, tmp_path: Path
) -> None:
    """Of a broker that stopped, and of one that was killed, whose next start recovers what is left."""
    other = KafkaBroker(tmp_path / "other", SOON | {"log.segment.delete.delay.ms": "0"})
    stopped.copy_log_dir(other.log_dir)
    for each in (broker, other) if is_killed else ():
        (each.log_dir / names.CLEAN_SHUTDOWN).unlink()
    (plain,) = brokerless.open(broker.log_dir).trim(free=60_000, topics=[PLAIN], apply=True).partitions
    with other:
        place = TopicPartition(PLAIN, 0, plain.log_start_offset)
        admin = other.admin()  # kept alive until its futures are done
        for done in admin.delete_records([place]).values():
            done.result(30)
        give_up = time.monotonic() + 30
        kept = len(files_of(broker.log_dir, PLAIN))
        # Names alone: a running broker renames files between a look at the directory and a read.
        while len(list((other.log_dir / f"{PLAIN}-0").glob("*.log"))) > kept:
            assert time.monotonic() < give_up, "old segments are deleted when retention is checked"
            time.sleep(0.2)
    assert files_of(broker.log_dir, PLAIN) == files_of(other.log_dir, PLAIN)
    with broker:
        assert broker.watermarks(PLAIN)[0][0] == plain.log_start_offset
    for name in (names.LOG_START_OFFSET_CHECKPOINT, names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT):
        assert line_of(broker.log_dir, name) == line_of(other.log_dir, name)
    epochs = f"{PLAIN}-0/{names.LEADER_EPOCH_CHECKPOINT}"
    ours, theirs = ((each.log_dir / epochs).read_text().splitlines()[2:] for each in (broker, other))
    # A start adds an epoch of its own.
    assert ours[: len(theirs)] == theirs[: len(ours)]


def test_retention_takes_what_the_broker_itself_deletes(
    broker: KafkaBroker, stopped: KafkaBroker, tmp_path: Path
) -> None:
    other = KafkaBroker(tmp_path / "other", SOON)
    stopped.copy_log_dir(other.log_dir)
    trim = brokerless.open(broker.log_dir).trim(retention=True, apply=True)
    assert [each.topic for each in trim.partitions] == [EXPIRED]
    with other:
        give_up = time.monotonic() + 30
        while other.watermarks(EXPIRED)[0][0] < trim.partitions[0].log_start_offset:
            assert time.monotonic() < give_up
            time.sleep(0.2)
        time.sleep(1)
        assert other.watermarks(EXPIRED)[0][0] == trim.partitions[0].log_start_offset
        assert other.watermarks(PLAIN)[0][0] == 0
    assert files_of(broker.log_dir, EXPIRED) == files_of(other.log_dir, EXPIRED)


def test_a_broker_on_a_full_disk_starts_after_a_trim(stopped: KafkaBroker, tmp_path: Path) -> None:
    settings = {"log.index.size.max.bytes": "65536", "replica.high.watermark.checkpoint.interval.ms": "200"}
    broker = KafkaBroker(tmp_path / "broker", SETTINGS | settings)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own, to be filled, takes root's rights to mount it")
    try:
        stopped.copy_log_dir(disk / "data")
        broker.log_dir.symlink_to(disk / "data")
        (broker.log_dir / names.CLEAN_SHUTDOWN).unlink()  # the disk was full, and the broker ended
        for index in disk.rglob("*index"):  # as a broker makes them: mostly a hole
            size, data = index.stat().st_size, index.read_bytes().rstrip(b"\0")
            index.write_bytes(data)
            os.truncate(index, size)
        start_until_full(broker, disk)
        assert FULL.search(broker.output.read_text())
        assert main(["trim", str(broker.log_dir), "-t", PLAIN, "--free", "100000", "--apply"]) == 0
        start = brokerless.open(broker.log_dir).partition(PLAIN, 0).start_offset
        with broker:
            assert broker.watermarks(PLAIN)[0] == (start, 240)
    finally:
        subprocess.run(["umount", "-l", str(disk)], capture_output=True, check=False)


def start_until_full(broker: KafkaBroker, disk: Path) -> None:
    """It ends at the first file that it cannot write: while it starts, or soon after, as recovery frees a few pages."""
    fill(disk)
    with contextlib.suppress(RuntimeError), broker:
        fill(disk)
        assert broker.process is not None
        broker.process.wait(60)


def fill(directory: Path) -> None:
    """Not a byte is left."""
    with (directory / "filling").open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                pass


def test_an_empty_policy_keeps_all_until_a_trim_that_says_how_much(kafka_jars: Path, tmp_path: Path) -> None:
    """Possible since 4.2 (KIP-1161); a broker retains all, whatever the other settings say."""
    broker = KafkaBroker(tmp_path / "broker", SOON)
    with broker:
        broker.create_topic(PLAIN, internal_segment_bytes=16_384, cleanup_policy="", retention_ms=DAY)
        for first in range(0, 120, 20):
            produce_confluent(broker, PLAIN, records(first, 20, 60), "none")
        time.sleep(1)  # several checks of retention
        assert broker.watermarks(PLAIN)[0] == (0, 120)
    log = brokerless.open(broker.log_dir)
    assert not log.trim(retention=True).partitions
    freed = log.trim(free=20_000)
    assert [each.topic for each in freed.partitions] == [PLAIN]
