"""What every writing command makes of a stopped broker's whole directory: a broker starts on it, serves the same
records, knows how far groups have read, and goes on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from brokerless.cli import main
from brokerless.log import names
from tests.kafka.broker import KafkaBroker
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, Record, consume, produce_confluent
from tests.kafka.test_directory_restart import SNAPSHOTS

pytestmark = pytest.mark.xdist_group("rewritten")

PLACES = (("plain", 0), ("plain", 1), ("moved", 0), ("transactions", 0))
GROUP = "readers"


@dataclass
class Source:
    """A stopped broker's directory, what it served, and how far a group had read."""

    log_dir: Path
    served: dict[tuple[str, int], list[Consumed]]
    committed: int = 7


@pytest.fixture(scope="module")
def source(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Source:
    broker = KafkaBroker(tmp_path_factory.mktemp("source"), SNAPSHOTS)
    with broker:
        broker.create_topic("plain", 2, retention_ms=-1, internal_segment_bytes=8192)
        for topic in ("moved", "transactions"):
            broker.create_topic(topic, 1, retention_ms=-1)
        produce_confluent(broker, "plain", some_records(1, 150, partitions=2, largest=600), "lz4", batch_size=2000)
        produce_confluent(broker, "moved", some_records(2, 60))
        for seed, transaction in enumerate(("commit", "abort", "commit")):
            produce_confluent(broker, "transactions", some_records(seed, 20), transaction=transaction)  # type: ignore[arg-type]
        committing = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "enable.auto.commit": False})
        committing.commit(offsets=[TopicPartition("plain", 0, 7)], asynchronous=False)
        committing.close()
        served = {place: consume(broker, *place, "read_committed") for place in PLACES}
    assert all(served.values())
    assert list((broker.log_dir / "__cluster_metadata-0").glob("*.checkpoint"))
    return Source(broker.log_dir, served)


def run(*arguments: object, exit_code: int = 0) -> None:
    assert main(list(map(str, arguments))) == exit_code


def convert(source: Path, work: Path) -> Path:
    """With another broker's directory, each into one of its own name."""
    other = Path(shutil.copytree(source, work / "other"))
    run("convert", source, other, "--to", work / "to", "--codec", "zstd", "--batch-size", "64KiB")
    return work / "to" / source.name


def compact(source: Path, work: Path) -> Path:
    """Kafka's own topics; the others are copied."""
    run("compact", source, "--to", work / "to", "--from-start", "--delete-retention-ms", 0)
    assert (work / "to" / names.CLEANER_CHECKPOINT).exists()
    return work / "to"


def convert_a_killed_ones(source: Path, work: Path) -> Path:
    """Its last segments' indexes are as large as a broker makes them beforehand."""
    killed = Path(shutil.copytree(source, work / "killed"))
    (killed / names.CLEAN_SHUTDOWN).unlink()
    for index in killed.glob(f"__consumer_offsets-0/{0:020}.*index"):
        index.write_bytes(bytes(1 << 20))
    run("convert", killed, "--to", work / "to", "--segment-bytes", "20000")
    return work / "to"


def salvage(source: Path, work: Path) -> Path:
    """With another broker's directory, of which half of a log is lost."""
    other = Path(shutil.copytree(source, work / "other"))
    log = other / "plain-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    run("salvage", source, other, "--to", work / "to", exit_code=1)
    return work / "to" / source.name


def merge(source: Path, work: Path) -> Path:
    """Of two copies of the directory, one has lost half of a log."""
    other = Path(shutil.copytree(source, work / "other"))
    log = other / "plain-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    run("merge", source, other, "--to", work / "to")
    return work / "to"


def load(source: Path, work: Path, *options: object) -> Path:
    """All topics but Kafka's own are exported, removed, and loaded into the directory again."""
    to = Path(shutil.copytree(source, work / "to"))
    run("export", to, "--to", work / "exported", "--isolation", "read_committed")
    assert sorted(path.name for path in (work / "exported").iterdir() if path.is_dir()) == [
        f"topic={topic}" for topic in ("moved", "plain", "transactions")
    ]
    for topic, partition in PLACES:
        shutil.rmtree(to / names.partition_directory(topic, partition))
    run("load", work / "exported", "--to", to, *options)
    return to


def carve(source: Path, work: Path) -> Path:
    """A partition is lost but for its bytes; what is carved out of them takes its place."""
    to = Path(shutil.copytree(source, work / "to"))
    lost = to / "moved-0"
    run("carve", lost / f"{0:020}.log", "--to", work / "carved")
    metadata = (lost / names.PARTITION_METADATA).read_bytes()
    shutil.rmtree(lost)
    (carved,) = (path for path in (work / "carved").iterdir() if path.is_dir())
    shutil.copytree(carved, lost)
    (lost / names.PARTITION_METADATA).write_bytes(metadata)
    return to


WAYS: dict[str, Callable[[Path, Path], Path]] = {
    each.__name__: each for each in (convert, compact, convert_a_killed_ones, salvage, merge, load, carve)
}


@pytest.mark.parametrize("way", WAYS)
def test_a_broker_starts_on_what_a_command_made_of_a_whole_directory(source: Source, tmp_path: Path, way: str) -> None:
    before = {path.name: path.read_bytes() for path in (source.log_dir / "__cluster_metadata-0").iterdir()}
    written = WAYS[way](source.log_dir, tmp_path)
    kept = {path.name: path.read_bytes() for path in (written / "__cluster_metadata-0").iterdir()}
    assert {name: kept[name] for name in before if re.search("log|checkpoint|metadata|state", name)} == {
        name: data for name, data in before.items() if re.search("log|checkpoint|metadata|state", name)
    }
    run("restart", written)
    broker = KafkaBroker(tmp_path / "broker")
    written.rename(broker.log_dir)
    broker.format = lambda: None  # type: ignore[method-assign] - it would make up for what is missing
    with broker:
        for place in PLACES:
            assert consume(broker, *place, "read_committed") == source.served[place], place
            ends = produce_confluent(broker, place[0], [Record(b"k", b"afterwards", (), None, place[1])])
            assert ends[0] > source.served[place][-1].offset
        assert broker.committed(GROUP, [("plain", 0)]) == {("plain", 0): source.committed}
        assert not [path.name for path in broker.log_dir.iterdir() if path.name.endswith("-stray")]
