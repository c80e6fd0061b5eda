"""A real broker serves what we wrote into its stopped directory, by offset and by time, and appends to it: what
``brokerless load`` made of files, and partitions that had been lost, written again by each command that can."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

import brokerless
from brokerless.cli import main
from brokerless.clusters.start.results import DirectoryRestart
from brokerless.log.checkpoint.commit_journal import committing
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.commit import commit
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker
from tests.kafka.cluster import wait_for
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, Record, consume, produce_confluent, produce_java
from tests.log.killed_commit import write

pytestmark = pytest.mark.xdist_group("loaded")

COUNT, PARTITIONS, START = 20_000, 3, 1_767_225_600_000
LOST, BY_LOAD, OTHERS, CUT = "lost", 3, "others", "cut"
OTHER_ID = "GGfzE_HvRoGT7m9N-0_chw"


@dataclass
class Loading:
    """A broker that was started on what we wrote, and what it had served of the lost partitions before."""

    broker: KafkaBroker
    before: dict[int, list[Consumed]] = field(default_factory=dict)
    committed: dict[int, list[Consumed]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    """Of the partition ``BY_LOAD`` before it was lost, by their names."""
    foreseen: DirectoryRestart | None = None
    """The dry run of the start on a commit that was cut short."""


@pytest.fixture(scope="module")
def loading(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loading]:
    """Each step writes into topics of its own before the broker is stopped, and into its directory afterwards."""
    settings = {"log.segment.delete.delay.ms": "500"}
    done = Loading(KafkaBroker(tmp_path_factory.mktemp("loading") / "broker", settings))
    with done.broker as broker:
        broker.create_topic("loaded", PARTITIONS, retention_ms=-1)
        produce_what_is_lost(done)
        broker.create_topic(OTHERS, 2)
        broker.create_topic(CUT, 1, retention_ms=-1)
        produce_confluent(broker, CUT, [Record(b"k", b"before", (), START)] * 5)
        produce_confluent(broker, OTHERS, some_records(2, 20, partitions=2))
    load_files(done.broker)
    write_what_is_lost_again(done)
    write_partition_of_another_topic(done.broker)
    cut_a_commit_short(done)
    with done.broker:
        yield done


def key(number: int) -> bytes:
    return b"user-%d" % (number % 500)


def load_files(broker: KafkaBroker) -> None:
    columns = {
        "key": [key(number) for number in range(COUNT)],
        "value": [b"value %d" % number for number in range(COUNT)],
        "timestamp": [START + number for number in range(COUNT)],
        "headers": [[{"key": "number", "value": b"%d" % number}] for number in range(COUNT)],
    }
    pq.write_table(pa.table(columns), broker.directory / "records.parquet")
    metadata = load_partition_metadata(Location(str(broker.log_dir / "loaded-0" / "partition.metadata")))
    for partition in range(PARTITIONS):
        shutil.rmtree(broker.log_dir / f"loaded-{partition}")
    arguments = ["load", str(broker.directory / "records.parquet"), "--to", str(broker.log_dir), "--topic", "loaded"]
    arguments += ["--topic-id", str(metadata.topic_id), "--partitions", str(PARTITIONS)]
    assert main([*arguments, "--codec", "lz4", "--segment-bytes", "100000"]) == 0


def test_a_broker_serves_what_was_loaded(loading: Loading) -> None:
    broker = loading.broker
    broker.wait_for_leaders("loaded", PARTITIONS)
    found = {partition: consume(broker, "loaded", partition) for partition in range(PARTITIONS)}
    values = sorted(int(each.value[6:]) for records in found.values() for each in records if each.value)
    assert values == list(range(COUNT))
    for partition, records in found.items():
        assert [each.offset for each in records] == list(range(len(records)))
        for each in records:
            number = int((each.value or b"")[6:])
            assert (each.key, each.timestamp) == (key(number), START + number)
            assert each.headers == (("number", b"%d" % number),)
        assert len(broker.logs("loaded", partition)) > 1
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "times"})
    for partition, records in found.items():
        middle = records[len(records) // 2]
        (at,) = consumer.offsets_for_times([TopicPartition("loaded", partition, middle.timestamp)], timeout=30)
        assert at.offset == middle.offset
    consumer.close()
    more = [Record(b"k", b"behind what was loaded", (), START)]
    assert produce_confluent(broker, "loaded", more) == [len(found[0])]


def produce_what_is_lost(done: Loading) -> None:
    """With transactions, but for the partition that is to be loaded: there each record has a batch of its own. (Of less
    than 20 bytes, a second one would fit into the batch, as Kafka's producer has room for the largest of varints.)"""
    done.broker.create_topic(LOST, BY_LOAD + 1, retention_ms=-1, internal_segment_bytes=8192, index_interval_bytes=0)
    for seed, transaction in enumerate(("commit", "abort", "none")):
        records = some_records(seed, 150, partitions=BY_LOAD, largest=400)
        produce_confluent(done.broker, LOST, records, "lz4", transaction)  # type: ignore[arg-type]
    rising = [Record(b"%d" % each, b"x" * (50 + each % 40), (), START + each, BY_LOAD) for each in range(200)]
    produce_java(done.broker, LOST, rising, batch_size=0)
    for partition in range(BY_LOAD + 1):
        done.before[partition] = consume(done.broker, LOST, partition)
        done.committed[partition] = consume(done.broker, LOST, partition, "read_committed")


def write_what_is_lost_again(done: Loading) -> None:
    """All partitions but the first are lost. That has the topic's ID, as has the backup that is salvaged."""
    broker, backup = done.broker, done.broker.directory / "backup"
    lost = {number: backup / f"{LOST}-{number}" for number in range(1, BY_LOAD + 1)}
    for path in lost.values():
        shutil.copytree(broker.log_dir / path.name, path)
        shutil.rmtree(broker.log_dir / path.name)
    done.files = {path.name: path.read_bytes() for path in lost[BY_LOAD].iterdir()}
    to = ["--to", str(broker.log_dir), "--segment-bytes", "8192"]
    (lost[1] / "partition.metadata").unlink()
    assert main(["convert", str(lost[1]), *to, "--codec", "zstd", "--batch-size", "0"]) == 0
    assert main(["salvage", str(lost[2]), *to]) == 0
    table = pa.Table.from_batches(brokerless.open(lost[BY_LOAD]).records())
    pq.write_table(table, backup / "records.parquet")
    settings = ["--batch-size", "0", "--index-interval-bytes", "0"]
    assert main(["load", str(backup / "records.parquet"), *to, *settings]) == 0


def test_a_broker_serves_lost_partitions_that_were_written_again(loading: Loading) -> None:
    broker = loading.broker
    broker.wait_for_leaders(LOST, BY_LOAD + 1)
    assert [len(each) > 100 for each in loading.before.values()] == [True] * (BY_LOAD + 1)
    for partition, records in loading.before.items():
        assert consume(broker, LOST, partition) == records
        assert consume(broker, LOST, partition, "read_committed") == loading.committed[partition]
        if partition in (1, BY_LOAD):
            (log,) = brokerless.open(broker.log_dir / f"{LOST}-{partition}").partitions
            assert {count for each in log.batches(["count"]) for count in each["count"].to_pylist()} == {1}


def test_settings_of_zero_bytes_make_the_files_that_kafka_makes(loading: Loading) -> None:
    """Its logs differ in what only a broker knows, and so not in their sizes."""
    again = {path.name: path.read_bytes() for path in (loading.broker.log_dir / f"{LOST}-{BY_LOAD}").iterdir()}
    sizes, sizes_again = (
        {name: len(data) for name, data in files.items() if name.endswith(".log")} for files in (loading.files, again)
    )
    assert sizes_again == sizes
    assert len(sizes) > 2
    active = max(sizes).removesuffix(".log")
    indexes = {name for name in loading.files if name.endswith("index") and not name.startswith(active)}
    assert len(indexes) >= 2 * (len(sizes) - 1)
    assert {name: again[name] for name in indexes} == {name: loading.files[name] for name in indexes}


def write_partition_of_another_topic(broker: KafkaBroker) -> None:
    """Of the same name, but with another ID: no command writes it, so it is written elsewhere and moved."""
    lost, backup = broker.log_dir / f"{OTHERS}-1", broker.directory / f"{OTHERS}-1"
    shutil.copytree(lost, backup)
    shutil.rmtree(lost)
    (backup / "partition.metadata").write_text(f"version: 0\ntopic_id: {OTHER_ID}")
    command = ["convert", str(backup), "--codec", "gzip", "--to"]
    there = sorted(broker.log_dir.iterdir())
    assert main([*command, str(broker.log_dir)]) == 2
    assert sorted(broker.log_dir.iterdir()) == there
    assert main([*command, str(broker.directory / "elsewhere")]) == 0
    (broker.directory / "elsewhere" / lost.name).rename(lost)


def test_a_broker_takes_a_partition_with_another_id_for_a_stray_and_begins_it_again(loading: Loading) -> None:
    """Which is why it is refused."""
    broker = loading.broker
    broker.wait_for_leaders(OTHERS, 2)
    assert [len(consume(broker, OTHERS, partition)) > 0 for partition in range(2)] == [True, False]
    (stray,) = broker.log_dir.glob(f"{OTHERS}-1.*-stray")
    assert load_partition_metadata(Location(str(stray / "partition.metadata"))).topic_id == OTHER_ID
    produce_confluent(broker, OTHERS, [Record(b"k", b"anew", (), START, 1)])
    assert [each.offset for each in consume(broker, OTHERS, 1)] == [0]


def cut_a_commit_short(done: Loading) -> None:
    """To a partition that is there and a new one, after it was decided."""

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    log_dir = done.broker.log_dir
    staged = [write(log_dir, f"{CUT}-{number}", 0, 5, has_offsets=False) for number in range(2)]
    with pytest.MonkeyPatch.context() as patch, lock_directory(log_dir, exclusive=False) as held, committing(log_dir):
        patch.setattr(commit, "complete", die)
        with pytest.raises(RuntimeError, match="killed"):
            commit.commit_locked(log_dir, held, staged[1:], {(CUT, 0): staged[:1]})
    done.foreseen = brokerless.open(log_dir).restart().directory


def test_a_broker_serves_and_deletes_what_a_commit_was_cut_short_of_as_the_dry_run_said(loading: Loading) -> None:
    broker = loading.broker
    foreseen = loading.foreseen
    assert foreseen is not None
    (deleted,) = [Path(path) for path, _ in foreseen.deleted]
    served, left = sorted(
        (each for each in foreseen.warnings if each.kind == "uncommitted"), key=lambda each: each.file
    )
    assert (Path(served.file).name, served.offset) == (f"{CUT}-0", 5)
    assert left.file == str(deleted)
    assert not foreseen.is_harmless
    assert broker.watermarks(CUT) == {0: (0, 10)}
    wait_for(lambda: not deleted.exists(), broker.tail)
    assert not (broker.log_dir / f"{CUT}-1").exists()
