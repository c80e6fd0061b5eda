"""Oracle: Kafka's own ``UnifiedLog`` does the same to a directory of its own, and the files are compared.

What is done is drawn at random, from a fixed seed: appending (several formats and leader epochs, gaps, transactions),
rolling, cutting off either end, retention, closing and opening again, being killed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kafka.jars import HELPERS_OF_4, check, run
from tests.log.whole_batches import batch, batches, marker

from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import offset_checkpoint, read_checkpoints
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig
from brokerless.log.storage.directory_lock import NO_BROKER
from brokerless.log.write.log_writer import LogWriter

SCRIPTS = 50
NOW = 1_600_000_000_000


@dataclass
class Script:
    """What is done to a log: on our side at once, and in words for Kafka."""

    directory: Path
    chance: random.Random
    config: LogConfig
    words: list[str] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    """The log start and log end offset after each command."""
    time: int = NOW
    open_transactions: set[int] = field(default_factory=set)
    log: LogWriter | None = None
    recovery_point: int = 0
    log_start_offset: int = 0
    clean: bool = True
    epoch: int = 0

    @property
    def settings(self) -> str:
        pairs = {
            "internal.segment.bytes": self.config.segment_bytes,
            "segment.ms": self.config.segment_ms,
            "segment.index.bytes": self.config.segment_index_bytes,
            "index.interval.bytes": self.config.index_interval_bytes,
            "retention.ms": self.config.retention_ms,
            "retention.bytes": self.config.retention_bytes,
        }
        return " ".join(f"{name}={value}" for name, value in pairs.items())

    def say(self, *words: object) -> None:
        assert self.log is not None
        self.words.append(" ".join(map(str, words)))
        self.offsets.append(f"{self.log.log_start_offset} {self.log.log_end_offset}")

    def open(self) -> None:
        # Kafka is told what a log directory's checkpoints say; ours are read.
        if self.words:
            for name, offset in (
                (names.RECOVERY_POINT_CHECKPOINT, self.recovery_point),
                (names.LOG_START_OFFSET_CHECKPOINT, self.log_start_offset),
            ):
                (self.directory / name).write_bytes(offset_checkpoint({("orders", 0): offset}))
            mark = self.directory / names.CLEAN_SHUTDOWN
            mark.write_bytes(NO_BROKER) if self.clean else mark.unlink(missing_ok=True)
        self.log = open_log(self.directory, "orders", 0, self.config, at_ms=NOW)
        partition = self.directory.parents[1] / "kafka" / self.directory.name / "orders-0"
        known = (self.clean, self.log_start_offset, self.recovery_point, NOW)
        self.say("open", partition, *(str(each).lower() for each in known), self.settings)

    def append(self) -> None:
        assert self.log is not None
        made: list[NDArray[np.uint8]] = []
        offset = self.log.log_end_offset
        for _ in range(self.chance.randint(1, 6)):
            offset += self.chance.choice([0, 0, 0, 0, 1, 5])
            made.append(self.batch(offset))
            header = made[-1][: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)
            offset += int(header["last_offset_delta"][0]) + 1
        path = self.directory / f"{len(self.words)}.appended"
        path.write_bytes(batches(*made).tobytes())
        self.log.append(batches(*made))
        self.say("append", path)

    def batch(self, offset: int) -> NDArray[np.uint8]:
        chance = self.chance
        self.time += chance.randint(-20, 30)
        self.epoch += chance.random() < 0.1
        if self.open_transactions and chance.random() < 0.3:
            producer = chance.choice(sorted(self.open_transactions))
            self.open_transactions.discard(producer)
            return marker(offset, (producer, 0), commit=chance.random() < 0.5, timestamp=self.time)
        count, value = chance.randint(1, 4), bytes(chance.randint(0, 50))
        kind = chance.random()
        if kind < 0.3:
            producer = chance.randint(1, 3)
            self.open_transactions.add(producer)
            return batch(
                offset, count, self.time, value,
                epoch=self.epoch, producer=(producer, 0, offset), attributes=layouts.TRANSACTIONAL_BIT,
            )  # fmt: skip
        producing = (chance.randint(4, 6), 0, offset) if kind < 0.6 else (-1, -1, -1)
        return batch(
            offset, count, self.time, value, epoch=self.epoch, producer=producing, step=chance.choice([1, 1, 2])
        )

    def roll(self) -> None:
        assert self.log is not None
        self.log.roll()
        self.say("roll")

    def flush(self) -> None:
        assert self.log is not None
        self.log.flush()
        self.say("flush")

    def truncate(self) -> None:
        assert self.log is not None
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = self.chance.randint(max(0, start - 5), end + 2)
        self.log.truncate_to(offset)
        self.forget_transactions()
        self.say("truncate", offset)

    def restart(self) -> None:
        assert self.log is not None
        offset = self.chance.randint(0, self.log.log_end_offset + 20)
        self.log.truncate_fully_and_start_at(offset)
        self.forget_transactions()
        self.say("restart", offset)

    def start(self) -> None:
        assert self.log is not None
        offset = self.chance.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.log.delete_records_before(offset)
        self.log.apply_retention(-(2**62))
        self.say("start", offset)

    def retain(self) -> None:
        assert self.log is not None
        now = self.time + self.chance.randint(-50, self.config.retention_ms)
        self.log.apply_retention(now)
        self.say("retain", now)

    def close(self) -> None:
        assert self.log is not None
        self.log.close()
        self.remember(self.log)
        self.clean = True
        self.say("close")

    def kill(self) -> None:
        assert self.log is not None
        self.log.abandon()
        self.remember(self.log)
        self.recovery_point = self.chance.randint(0, self.recovery_point)
        self.clean = False
        self.say("kill")

    def remember(self, log: LogWriter) -> None:
        self.recovery_point, self.log_start_offset = log.recovery_point, log.log_start_offset

    def forget_transactions(self) -> None:
        """Those that are open in the log as it is now."""
        assert self.log is not None
        producers = self.log.producers.producers
        self.open_transactions = {key for key, each in producers.items() if each.txn_first_offset >= 0}

    def run(self) -> None:
        self.directory.mkdir(parents=True)
        for last in (False, False, True):
            self.open()
            self.forget_transactions()
            acts: list[Callable[[], None]] = [self.append] * 8
            acts += [self.roll, self.flush, self.truncate, self.truncate, self.start, self.retain]
            acts += [self.restart] if self.chance.random() < 0.3 else []
            for _ in range(self.chance.randint(2, 12)):
                self.chance.choice(acts)()
            self.close() if last or self.chance.random() < 0.5 else self.kill()


def scripts(directory: Path) -> Iterator[Script]:
    for seed in range(SCRIPTS):
        chance = random.Random(seed)
        config = LogConfig(
            segment_bytes=chance.choice([300, 600, 2000]),
            segment_ms=chance.choice([40, 10_000]),
            segment_index_bytes=chance.choice([500, 2000]),
            index_interval_bytes=chance.choice([0, 100, 500]),
            retention_ms=200,
            retention_bytes=chance.choice([-1, 700, 3000]),
        )
        yield Script(directory / "ours" / str(seed), chance, config)


@pytest.mark.usefixtures("kafka_jars")
def test_whatever_is_done_to_a_log_leaves_the_files_that_kafka_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerless.clock.now", lambda: 0)
    done = list(scripts(tmp_path))
    for script in done:
        script.run()
    words = "".join(f"{word}\n" for script in done for word in script.words)
    answers = iter(
        check(run("WriteLog", stdin=words.encode(), helper=True, sources=HELPERS_OF_4)).decode().splitlines()
    )
    for script in done:
        told = [(word, next(answers)) for word in script.words]
        assert told == list(zip(script.words, script.offsets, strict=True))
        kafka = contents(tmp_path / "kafka" / script.directory.name / "orders-0")
        ours = contents(script.directory / "orders-0")
        assert {name for name in ours if ours.get(name) != kafka.get(name)} == set(), script.words
        assert ours.keys() == kafka.keys()


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("clean", [True, False])
def test_kafka_opens_a_bulk_output_and_changes_nothing(tmp_path: Path, clean: bool) -> None:
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    with PartitionWriter(NewPartition(tmp_path, "orders", 0, config), start_offset=100) as output:
        for offset in range(100, 3100, 10):
            epoch, time = offset // 1000, NOW + offset
            bits = layouts.TRANSACTIONAL_BIT
            data = batch(offset, 3, time, bytes(offset % 90), producer=(1, 0, offset), attributes=bits, epoch=epoch)
            other = batch(offset + 3, 2, time - 50, producer=(offset % 7, 0, offset), epoch=epoch)
            end = marker(offset + 5, (1, 0), commit=offset % 3 == 0, timestamp=time, epoch=epoch)
            output.append(batches(data, other, end) if offset % 7 != 1 else batches(data, end))
        output.commit()
    partition = tmp_path / "orders-0"
    before = contents(partition)
    assert len(list(partition.glob("*.log"))) > 3
    checkpoints = read_checkpoints(tmp_path, "orders", 0)
    known = (clean, 100, checkpoints.recovery_point, NOW)
    settings = "internal.segment.bytes=20000 index.interval.bytes=500"
    words = f"open {partition} {' '.join(str(each).lower() for each in known)} {settings}\nclose\n"
    answers = check(run("WriteLog", stdin=words.encode(), helper=True, sources=HELPERS_OF_4)).decode().splitlines()
    assert answers == ["100 3096", "100 3096"]
    assert contents(partition) == before


def contents(directory: Path) -> dict[str, bytes | list[bytes]]:
    """The files of a partition. An index that Kafka had no reason to touch is not there, and otherwise empty; the order
    of producers in a snapshot is that of a hash table."""
    found: dict[str, bytes | list[bytes]] = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        if path.suffix == ".snapshot":
            size = layouts.PRODUCER_SNAPSHOT_ENTRY.itemsize
            entries = data[layouts.PRODUCER_SNAPSHOT_HEADER.itemsize :]
            found[path.name] = sorted(entries[at : at + size] for at in range(0, len(entries), size))
        elif path.name != names.PARTITION_METADATA and (data or path.suffix == ".log"):
            found[path.name] = data
    return found
