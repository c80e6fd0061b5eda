"""A broker is killed, its partitions are damaged, each in its own way, and then it is started: it does to each what the
dry run said.

Each partition has segments that were flushed at a clean stop, and then some that were not.
"""

from __future__ import annotations

import itertools
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

import brokerless
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import LostRecords, Restart
from brokerless.jobs.salvage.job import Salvage, SalvageResult, plan, salvage
from brokerless.log import names
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import Record, produce_confluent
from tests.log import odd_logs
from tests.random_damage import damage_at_random
from tests.sources import sources_of

pytestmark = pytest.mark.xdist_group("restart")

TOPIC = "damaged"
SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot")


@dataclass
class Files:
    """A partition's directory to be damaged: base offsets of its segments, all and those that were not flushed."""

    directory: Path
    flushed_up_to: int
    chance: random.Random

    @property
    def segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    @property
    def flushed(self) -> list[int]:
        """Base offsets of segments that end before the recovery point; the second is taken for damage."""
        bases = self.segments
        return [base for base, end in itertools.pairwise(bases) if end <= self.flushed_up_to]

    @property
    def unflushed(self) -> list[int]:
        return [base for base in self.segments if base not in self.flushed]

    def path(self, base: int, suffix: str = "log") -> Path:
        return self.directory / f"{base:020}.{suffix}"

    def batches(self, base: int) -> list[tuple[int, int]]:
        """Positions and sizes of a segment's batches."""
        data, at, found = self.path(base).read_bytes(), 0, []
        while at + 12 < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            found.append((at, size))
            at += size
        return found

    def batch(self, base: int) -> tuple[int, int]:
        """One in the middle."""
        found = self.batches(base)
        return self.chance.choice(found[1:-1] or found)

    def patch(self, base: int, position: int, data: bytes) -> None:
        with self.path(base).open("r+b") as file:
            file.seek(position)
            file.write(data)

    def cut(self, base: int) -> None:
        position, size = self.batch(base)
        with self.path(base).open("r+b") as file:
            file.truncate(position + self.chance.randrange(1, size))

    def flip(self, base: int) -> None:
        position, size = self.batch(base)
        at = position + self.chance.randrange(21, size)
        self.patch(base, at, bytes([self.path(base).read_bytes()[at] ^ 1 << self.chance.randrange(8)]))

    def append(self, base: int, data: bytes) -> None:
        with self.path(base).open("ab") as file:
            file.write(data)


Damage = Callable[[Files], object]


def zero_page(files: Files) -> None:
    data = files.path(files.segments[-1]).stat().st_size
    files.patch(files.segments[-1], max(0, data - 700), bytes(min(data, 700)))


def lower_offset(files: Files) -> None:
    """Base offsets have no checksum."""
    base = files.unflushed[0]
    for position, _ in files.batches(base)[2:]:
        files.patch(base, position, (base + 1).to_bytes(8, "big"))


def epoch_in_header(files: Files) -> None:
    base = files.unflushed[0]
    files.patch(base, files.batch(base)[0] + 12, (7).to_bytes(4, "big"))


def finished_compaction(files: Files) -> None:
    """The first two segments were compacted into one, and the broker died before it had taken their place."""
    first, second = files.segments[:2]
    files.path(first, "log.swap").write_bytes(files.path(first).read_bytes() + files.path(second).read_bytes())
    for kind in ("index.swap", "timeindex.swap"):
        files.path(first, kind).write_bytes(b"")


def damaged_compaction(files: Files, base: int) -> None:
    """A segment was compacted, and one bit is wrong in the log that is to replace it, which has no indexes."""
    data = bytearray(files.path(base).read_bytes())
    data[files.batch(base)[0] + 30] ^= 1
    files.path(base, "log.swap").write_bytes(data)


def leftovers(files: Files) -> None:
    for name in ("log.deleted", "index.deleted", "log.cleaned", "timeindex.cleaned"):
        files.path(files.segments[1], name).write_bytes(b"left over")


def index_of_nothing(files: Files) -> None:
    files.path(10_000_000, "index").write_bytes(bytes(80))


def size_field(size: int) -> Damage:
    return lambda files: files.patch(
        files.unflushed[0], files.batch(files.unflushed[0])[0] + 8, size.to_bytes(4, "big", signed=True)
    )


DAMAGES: dict[str, Damage] = {
    "nothing": lambda files: None,
    "last-cut": lambda files: files.cut(files.segments[-1]),
    "last-flipped": lambda files: files.flip(files.segments[-1]),
    "last-emptied": lambda files: files.path(files.segments[-1]).write_bytes(b""),
    "last-lost": lambda files: files.path(files.segments[-1]).unlink(),
    "last-zeroed": zero_page,
    "last-with-garbage": lambda files: files.append(files.segments[-1], files.chance.randbytes(500)),
    "last-with-zeros": lambda files: files.append(files.segments[-1], bytes(5000)),
    "last-index-of-odd-size": lambda files: files.path(files.segments[-1], "index").write_bytes(bytes(13)),
    "unflushed-cut": lambda files: files.cut(files.unflushed[0]),
    "unflushed-flipped": lambda files: files.flip(files.unflushed[0]),
    "unflushed-lost": lambda files: files.path(files.unflushed[0]).unlink(),
    "unflushed-size-too-small": size_field(3),
    "unflushed-size-negative": size_field(-5),
    "unflushed-size-too-large": size_field(1 << 30),
    "unflushed-offsets-fall": lower_offset,
    "unflushed-epoch-in-header": epoch_in_header,
    "flushed-time-index-lost": lambda files: files.path(files.flushed[1], "timeindex").unlink(),
    "unflushed-time-index-lost": lambda files: files.path(files.unflushed[0], "timeindex").unlink(),
    "unflushed-snapshot-garbage": lambda files: files.path(files.unflushed[1], "snapshot").write_bytes(b"garbage"),
    "flushed-cut": lambda files: files.cut(files.flushed[1]),
    "flushed-flipped": lambda files: files.flip(files.flushed[1]),
    "flushed-lost": lambda files: files.path(files.flushed[1]).unlink(),
    "flushed-index-lost": lambda files: files.path(files.flushed[1], "index").unlink(),
    "flushed-index-garbage": lambda files: files.path(files.flushed[1], "index").write_bytes(b"garbage!" * 9),
    "flushed-index-lost-and-flipped": lambda files: (
        files.flip(files.flushed[1]), files.path(files.flushed[1], "index").unlink()
    ),
    "flushed-transaction-index-garbage": lambda files: files.path(files.flushed[1], "txnindex").write_bytes(
        bytes(2) + files.chance.randbytes(32)
    ),
    "first-lost": lambda files: files.path(files.segments[0]).unlink(),
    "all-lost": lambda files: [path.unlink() for path in files.directory.glob("000*")],
    "finished-compaction": finished_compaction,
    "leftovers": leftovers,
    "index-of-nothing": index_of_nothing,
    "several": lambda files: (files.cut(files.segments[-1]), files.flip(files.unflushed[0]), leftovers(files)),
}  # fmt: skip


RANDOM: dict[str, Damage] = {
    f"random-{number:03}": lambda files: damage_at_random(files.directory, files.chance) for number in range(80)
}
DAMAGES |= RANDOM


def tear_at_lower_offset(files: Files) -> None:
    """The beginning of a batch whose offset is before its segment: nobody was about to append that."""
    position, _ = files.batches(files.segments[0])[0]
    batch = files.path(files.segments[0]).read_bytes()[position : position + 70]
    files.append(files.segments[-1], batch)


DAMAGES |= {
    "last-torn-at-lower-offset": tear_at_lower_offset,
    "last-with-text": lambda files: files.append(files.segments[-1], b"no batch begins so\n" * 9),
    "unflushed-compaction-flipped": lambda files: damaged_compaction(files, files.unflushed[0]),
    "flushed-compaction-flipped": lambda files: damaged_compaction(files, files.flushed[1]),
}
PARTITIONS = {name: number for number, name in enumerate(DAMAGES)}

CLOSED: dict[str, Damage] = {
    "nothing": lambda files: None,
    "last-cut": lambda files: files.cut(files.segments[-1]),
    "last-flipped": lambda files: files.flip(files.segments[-1]),
    "last-emptied": lambda files: files.path(files.segments[-1]).write_bytes(b""),
    "last-with-zeros": lambda files: files.append(files.segments[-1], bytes(10)),
    "last-with-garbage": lambda files: files.append(files.segments[-1], bytes(8) + bytes([0, 0, 9, 9]) + bytes(99)),
    "unflushed-cut": lambda files: last_index(files, 1, 1 << 30),
    "unflushed-flipped": lambda files: last_index(files, 1, -5),
    "unflushed-lost": lambda files: files.path(files.segments[-1], "index").write_bytes(b""),
    "flushed-flipped": lambda files: files.flip(files.segments[0]),
    "last-torn-at-lower-offset": tear_at_lower_offset,
    "last-with-text": DAMAGES["last-with-text"],
}
"""What is done after a clean stop, by the partition to which it is done."""
UNCLOSED = {
    "last-cut", "last-with-zeros", "last-with-garbage", "unflushed-cut", "unflushed-flipped",
    "last-torn-at-lower-offset", "last-with-text",
}  # fmt: skip
HIDDEN = {"unflushed-cut"}
FAR_OFFSET = 3 << 31
REFUSED = PARTITIONS[max(RANDOM)]
FAR = PARTITIONS[min(RANDOM)]


def last_index(files: Files, offset: int, position: int) -> None:
    """One entry in the index of the last segment."""
    entry = offset.to_bytes(4, "big") + position.to_bytes(4, "big", signed=True)
    files.path(files.segments[-1], "index").write_bytes(entry)


def go_far(files: Files) -> None:
    """Adds a batch to the first segment that is too far for its indexes, and which a broker then splits."""
    first = files.segments[0]
    files.append(first, odd_logs.batch(FAR_OFFSET, [(b"k", b"v")]))
    files.path(first, "index").unlink()


@dataclass
class Restarted:
    """Logs by partition: what the dry run said, and the sizes of log files before and after; what clients see then."""

    said: dict[str, Restart]
    whole: dict[str, dict[str, bytes]]
    """The files before they were damaged."""
    before: dict[str, dict[str, bytes]]
    after: dict[str, dict[str, bytes]]
    offsets: dict[str, tuple[int, int]]
    closed: Restarted | None = None
    """The same again, after a clean stop."""
    refused: Restart | None = None
    """What the dry run said of a partition on which the broker did not start afterwards."""
    complaint: str = ""
    unsplit: Restart | None = None
    complaint_unsplit: str = ""
    far: tuple[int, int] = (0, 0)
    """Where a log ends of which a closed segment goes on far after the last one: by the dry run, and by the broker."""
    saved: Saved | None = None
    """What salvage made of it."""


@dataclass
class Saved:
    """What salvage took from damaged partitions: all records by partition and offset, as we read them, and as clients
    of a broker get them that serves what was salvaged; and what was there before the damage, and its batches."""

    results: dict[str, SalvageResult]
    written: dict[str, dict[int, Content]]
    whole: dict[str, dict[int, Content]]
    batches: dict[str, list[tuple[bytes, int, int]]]
    """Bytes, first and last offset."""
    served: dict[str, dict[int, Content]]


Content = tuple[bytes | None, bytes | None, int]
"""Key, value and timestamp of a record."""


def records(directory: Path) -> dict[str, dict[int, Content]]:
    """Of all partitions, committed or not, by the name of their damage."""
    names_of = {number: name for name, number in PARTITIONS.items()}
    found: dict[str, dict[int, Content]] = {}
    for partition in brokerless.open(directory).topic(TOPIC).partitions:
        assert partition.topic_partition is not None
        _, number = partition.topic_partition
        own = found[names_of[number]] = {}
        for batch in partition.records(["offset", "key", "value", "timestamp"]):
            times = batch.column("timestamp").cast(pa.int64()).to_pylist()
            for row, timestamp in zip(batch.to_pylist(), times, strict=True):
                assert row["offset"] not in own
                own[row["offset"]] = row["key"], row["value"], timestamp
    return found


def batches(directory: Path) -> dict[str, list[tuple[bytes, int, int]]]:
    """Bytes, first and last offset of all batches, by the name of their damage."""
    found: dict[str, list[tuple[bytes, int, int]]] = {}
    log = brokerless.open(directory)
    for name, number in PARTITIONS.items():
        partition = log.partition(TOPIC, number)
        rows = [row for batch in partition.batches() for row in batch.to_pylist()]
        data = {path: Path(path).read_bytes() for path in {row["file"] for row in rows}}
        found[name] = [
            (data[row["file"]][row["position"] :][: row["sizeInBytes"]], row["baseOffset"], row["lastOffset"])
            for row in rows
        ]
    return found


def served(broker: KafkaBroker) -> dict[str, dict[int, Content]]:
    """All records of all partitions, as librdkafka gets them."""
    consumer = Consumer({
        "bootstrap.servers": broker.bootstrap, "group.id": "all", "enable.auto.commit": False,
        "enable.partition.eof": True, "isolation.level": "read_uncommitted", "auto.offset.reset": "error",
    })  # fmt: skip
    names_of = {number: name for name, number in PARTITIONS.items()}
    found: dict[str, dict[int, Content]] = {name: {} for name in PARTITIONS}
    left = set(PARTITIONS.values())
    try:
        consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in PARTITIONS.values()])
        give_up = time.monotonic() + 120
        while left:
            assert time.monotonic() < give_up, f"a consumer does not come to the end of {left}"
            for message in consumer.consume(10_000, 1):
                if (error := message.error()) is None:
                    content = message.key(), message.value(), message.timestamp()[1]
                    found[names_of[message.partition()]][message.offset()] = content
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return found


def salvaged(broker: KafkaBroker, damaged: Path, to: Path) -> list[SalvageResult]:
    tasks = plan(sources_of(damaged, topic=TOPIC), to, Salvage())
    return list(salvage(tasks, lambda _: None))


def contents(broker: KafkaBroker, partition: int) -> dict[str, bytes]:
    directory = broker.log_dir / names.partition_directory(TOPIC, partition)
    return {path.name: path.read_bytes() for path in sorted(directory.glob("000*"))}


def dry_run(broker: KafkaBroker) -> dict[int, Restart]:
    directory = resolve(Location(str(broker.log_dir)))
    notes = load_directory_state(directory)
    return {
        each.partition or 0: plan_restart(each, notes.of(each), clean=notes.was_clean)
        for each in directory.partitions
        if each.topic == TOPIC
    }


def is_refused(broker: KafkaBroker, partition: int) -> bool:
    """Whether a killed broker would not start at all, by the dry run."""
    directory = resolve(Location(str(broker.log_dir / names.partition_directory(TOPIC, partition))))
    (only,) = directory.partitions
    return plan_restart(only, load_directory_state(directory).of(only), clean=False).refused is not None


def fill(broker: KafkaBroker, seed: int) -> None:
    """Some segments' worth for each partition, in batches of a few kilobytes; a transaction is aborted in each."""
    values = some_records(seed, 160, largest=3000)
    records = [
        Record(each.key, each.value, each.headers, each.timestamp, partition)
        for partition in PARTITIONS.values()
        for each in values
    ]
    few = [Record(b"key", b"of a transaction", (), None, partition) for partition in PARTITIONS.values()]
    produce_confluent(broker, TOPIC, few, transaction="abort")
    produce_confluent(broker, TOPIC, few, transaction="commit")
    # By the end of this, the coordinator is done with the transactions.
    produce_confluent(broker, TOPIC, records, enable_idempotence=True, batch_size=1500)


@pytest.fixture(scope="module")
def restarted(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    broker = KafkaBroker(tmp_path_factory.mktemp("restart"))
    try:
        broker.start()
        broker.create_topic(
            TOPIC, len(PARTITIONS), internal_segment_bytes=6000, index_interval_bytes=4096, retention_ms=-1,
            segment_index_bytes=4096,
        )  # fmt: skip
        fill(broker, 1)
        broker.stop()
        notes = load_directory_state(resolve(Location(str(broker.log_dir))))
        flushed = {partition: offset for (topic, partition), offset in
                   notes.offsets[names.RECOVERY_POINT_CHECKPOINT].items() if topic == TOPIC}  # fmt: skip
        broker.start()
        fill(broker, 2)
        broker.kill()
        undamaged_copy = broker.copy_log_dir(broker.directory / "undamaged")
        undamaged = {name: contents(broker, number) for name, number in PARTITIONS.items()}
        for name, damage in DAMAGES.items():
            number = PARTITIONS[name]
            files = Files(broker.log_dir / f"{TOPIC}-{number}", flushed[number], random.Random(number))
            assert len(files.flushed) > 2
            assert len(files.unflushed) > 2
            damage(files)
            if name in RANDOM and is_refused(broker, number):
                for path in files.directory.glob("000*"):
                    path.unlink()
                for file, data in undamaged[name].items():
                    (files.directory / file).write_bytes(data)
        before = {name: contents(broker, number) for name, number in PARTITIONS.items()}
        said = dry_run(broker)
        results = salvaged(broker, broker.log_dir, broker.directory / "saved")
        assert {name: contents(broker, number) for name, number in PARTITIONS.items()} == before
        broker.start()
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
        after = {name: contents(broker, number) for name, number in PARTITIONS.items()}
        seen = broker.watermarks(TOPIC, PARTITIONS.values())
        offsets = {name: seen[number] for name, number in PARTITIONS.items()}
        broker.stop()
        for name, damage in CLOSED.items():
            number = PARTITIONS[name]
            damage(Files(broker.log_dir / f"{TOPIC}-{number}", flushed[number], random.Random(number)))
        before_closed = {name: contents(broker, PARTITIONS[name]) for name in CLOSED}
        said_closed = dry_run(broker)
        broker.start()
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
        seen = broker.watermarks(TOPIC, [PARTITIONS[name] for name in CLOSED])
        closed = Restarted(
            {name: said_closed[PARTITIONS[name]] for name in CLOSED},
            {},
            before_closed,
            {name: contents(broker, PARTITIONS[name]) for name in CLOSED},
            {name: seen[PARTITIONS[name]] for name in CLOSED},
        )
        broker.stop()
        files = Files(broker.log_dir / f"{TOPIC}-{REFUSED}", 0, random.Random(0))
        before_refused = files.path(files.segments[-1]).read_bytes()
        files.append(files.segments[-1], bytes(12) + b"garbage" * 9)
        refused = dry_run(broker)[REFUSED]
        broker.output.write_bytes(b"")
        with pytest.raises(RuntimeError, match="ended while it started"):
            broker.start()
        complaint = broker.output.read_text()
        last = files.path(files.segments[-1])
        last.write_bytes(before_refused + b"".join(odd_logs.batch(each, [(b"k", b"v")]) for each in (1 << 40, 10_000)))
        unsplit = dry_run(broker)[REFUSED]
        broker.output.write_bytes(b"")
        with pytest.raises(RuntimeError, match="ended while it started"):
            broker.start()
        complaint_unsplit = broker.output.read_text()
        said = {name: said[number] for name, number in PARTITIONS.items()}
        written = records(broker.directory / "saved")
        for number in PARTITIONS.values():
            target = broker.log_dir / names.partition_directory(TOPIC, number)
            shutil.rmtree(target)
            (broker.directory / "saved" / target.name).rename(target)
        broker.start()
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
        saved = Saved(
            {name: next(each for each in results if each.task.partition == number)
             for name, number in PARTITIONS.items()},
            written, records(undamaged_copy), batches(undamaged_copy), served(broker),
        )  # fmt: skip
        broker.stop()
        go_far(Files(broker.log_dir / f"{TOPIC}-{FAR}", 0, random.Random(0)))
        expected_end = dry_run(broker)[FAR].log_end_offset
        broker.start()
        broker.wait_for_leaders(TOPIC, len(PARTITIONS))
        far = expected_end, broker.watermarks(TOPIC, [FAR])[FAR][1]
        yield Restarted(
            said, undamaged, before, after, offsets, closed, refused, complaint, unsplit, complaint_unsplit, far, saved,
        )  # fmt: skip
    finally:
        broker.stop()


def logs(files: dict[str, bytes]) -> dict[str, int]:
    return {name: len(data) for name, data in files.items() if name.endswith(".log")}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_broker_does_what_the_dry_run_said(restarted: Restarted, name: str) -> None:
    said, before, after = restarted.said[name], restarted.before[name], restarted.after[name]
    assert said.refused is None
    expected = dict(before)
    for file in said.removed:
        del expected[file]
    for source, target in said.renamed:
        expected[target] = expected.pop(source)
    sizes = logs(expected)
    for file, size in said.deleted:
        assert sizes.pop(Path(file).name) == size
    renamed = dict(said.renamed)
    for cut in said.cut:
        file = Path(cut.file).name
        assert sizes[renamed.get(file, file)] == cut.size
        sizes[renamed.get(file, file)] = cut.kept
    assert logs(after) == (sizes or {f"{said.log_end_offset:020}.log": 0})
    assert restarted.offsets[name] == (said.log_start_offset, said.log_end_offset)
    assert not [file for file in after if file.endswith((".swap", ".cleaned"))]
    # Indexes of closed segments: those that are made anew, and no others, may be other than before.
    active = max(logs(after)).removesuffix(".log")
    rebuilt = {renamed.get(Path(file).name, Path(file).name) for file in said.rebuilt}
    emptied = {Path(file).name for file in said.emptied}
    assert not emptied & expected.keys()
    for file, data in after.items():
        if file.endswith(("index", "txnindex")) and not file.startswith(active):
            assert file in rebuilt or expected.get(file) == data or (file in emptied and not any(data)), file


def test_a_segment_without_an_offset_index_gets_all_indexes_again(restarted: Restarted) -> None:
    lost = restarted.whole["flushed-index-lost"].keys() - restarted.before["flushed-index-lost"].keys()
    assert [name.rpartition(".")[2] for name in lost] == ["index"]
    for name, data in restarted.whole["flushed-index-lost"].items():
        if name.startswith(min(lost).split(".")[0]):
            assert restarted.after["flushed-index-lost"][name] == data


def test_a_log_ends_where_a_segment_does_that_is_split_and_goes_on_after_the_last(restarted: Restarted) -> None:
    assert restarted.far == (FAR_OFFSET + 1, FAR_OFFSET + 1)


@pytest.mark.parametrize("name", CLOSED)
def test_after_a_clean_stop_the_broker_believes_what_is_there_as_the_dry_run_said(
    restarted: Restarted, name: str
) -> None:
    assert restarted.closed is not None
    said, before, after = restarted.closed.said[name], restarted.closed.before[name], restarted.closed.after[name]
    assert said.refused is None
    assert not said.lost_bytes
    assert logs(after) == logs(before)
    assert restarted.closed.offsets[name] == (said.log_start_offset, said.log_end_offset)
    assert bool(said.unclosed) == (name in UNCLOSED)
    if name in HIDDEN:
        assert said.lost.last_offset is not None
        assert said.lost.last_offset >= said.log_end_offset
    else:
        assert said.lost == LostRecords()


def test_the_broker_does_not_start_where_the_dry_run_said_so(restarted: Restarted) -> None:
    assert restarted.refused is not None
    assert "CorruptRecordException" in str(restarted.refused.refused)
    assert "CorruptRecordException" in restarted.complaint
    assert f"{TOPIC}-{REFUSED}" in restarted.complaint


def test_the_broker_ends_at_a_segment_that_it_cannot_split_as_the_dry_run_said(restarted: Restarted) -> None:
    assert restarted.unsplit is not None
    assert restarted.unsplit.is_fatal
    assert "a broker splits no such segment" in str(restarted.unsplit.refused)
    assert "Split operation is only permitted for segments with overflow" in restarted.complaint_unsplit


@pytest.mark.parametrize("name", DAMAGES)
def test_salvage_saves_every_intact_batch_makes_nothing_up_and_a_broker_serves_it(
    restarted: Restarted, name: str
) -> None:
    saved = restarted.saved
    assert saved is not None
    whole, written = saved.whole[name], saved.written[name]
    assert written.items() <= whole.items()
    assert saved.served[name] == written
    data = [content for file, content in restarted.before[name].items() if ".log" in file]
    intact = [(first, last) for batch, first, last in saved.batches[name] if any(batch in each for each in data)]
    wanted = {offset for first, last in intact for offset in range(first, last + 1)} & whole.keys()
    assert wanted <= written.keys()
    result = saved.results[name]
    missing = {offset for offset in whole.keys() - written.keys() if result.start_offset <= offset < result.end_offset}
    untold = [
        offset
        for offset in missing
        if not any(
            loss.first_offset <= offset and (loss.last_offset is None or offset <= loss.last_offset)
            for loss in result.losses
        )
    ]
    assert not untold
    assert result.end_offset <= max(whole) + 2  # behind the last record there may be a marker
