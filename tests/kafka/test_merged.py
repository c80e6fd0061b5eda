"""Three brokers whose copies diverged: what a merge makes of their disks is what the cluster makes of them.

The disks are taken before the brokers start again. Then the last leader starts, the others follow it and cut off what
it does not have.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.cli import main
from brokerless.findings import Finding
from brokerless.jobs.merge.job import Merge, MergeResult, merge, plan
from tests.kafka.cluster import Cluster
from tests.kafka.diverged import LAST, REPLICAS, TOPIC, diverge
from tests.kafka.oracle import read_logs
from tests.kafka.producers import Record, consume, produce_confluent
from tests.kafka.test_leader_epochs import check_epochs
from tests.sources import sources_of

pytestmark = pytest.mark.xdist_group("merged")
PARTITIONS = range(len(REPLICAS))
MENDING = re.compile(
    r"recovering (un)?flushed|rebuilding (the )?index|corrupt|found invalid|truncat|sanity|no checkpoint|unclean",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Diverged:
    cluster: Cluster
    before: list[Path]
    """The disks as the killed brokers left them."""
    in_sync: list[Path]
    """The disks when all were in sync again, while they ran."""
    after: list[Path]
    """The same when they had stopped."""
    truncated: dict[tuple[int, int], list[int]]
    """The offsets to which a broker said that it cut off a partition."""


@pytest.fixture(scope="module")
def diverged(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Diverged]:
    directory = tmp_path_factory.mktemp("diverged")
    with Cluster(directory / "cluster") as cluster:
        diverge(cluster)
        before = cluster.disks(directory / "before")
        for broker in cluster.brokers.values():
            broker.output.write_bytes(b"")
        cluster.start(LAST)
        cluster.wait_for_leaders(TOPIC, [LAST, LAST])
        cluster.start(1, 2)
        cluster.wait_for_replicas(TOPIC, 3)
        in_sync = cluster.disks(directory / "in-sync")
        cluster.stop(1, 2, LAST)
        after = cluster.disks(directory / "after")
        yield Diverged(cluster, before, in_sync, after, dict(truncations(cluster)))


def truncations(cluster: Cluster) -> Iterator[tuple[tuple[int, int], list[int]]]:
    for number, broker in cluster.brokers.items():
        for partition in PARTITIONS:
            pattern = rf"partition={TOPIC}-{partition}, .*Truncating to offset (\d+)"
            yield (number, partition), [int(offset) for offset in re.findall(pattern, broker.output.read_text())]


def run(disks: list[Path], to: Path, how: Merge | None = None) -> tuple[list[MergeResult], list[Finding]]:
    findings: list[Finding] = []
    tasks = plan(sources_of(*disks, topic=TOPIC), to, how or Merge())
    return list(merge(tasks, findings.append)), findings


def records(path: Path) -> list[dict[str, Any]]:
    (partition,) = brokerless.open(path).partitions
    columns = ["offset", "key", "value", "timestamp", "headers"]
    return [row for batch in partition.records(columns) for row in batch.to_pylist()]


def log_bytes(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_the_merged_log_is_that_of_all_brokers_in_the_end(diverged: Diverged, tmp_path: Path) -> None:
    results, findings = run(diverged.before, tmp_path)
    assert [result.task.name for result in results] == [f"{TOPIC}-{partition}" for partition in PARTITIONS]
    assert not findings
    for result in results:
        name = result.task.name
        assert result.task.paths[result.leading] == str(diverged.before[LAST - 1] / name)
        assert not result.losses
        assert result.records == 270
        for disk in diverged.after:
            assert records(tmp_path / name) == records(disk / name)
            assert log_bytes(tmp_path / name) == log_bytes(disk / name)
        noted = (diverged.after[0] / name / "leader-epoch-checkpoint").read_text()
        assert (tmp_path / name / "leader-epoch-checkpoint").read_text() == noted


def test_leader_epochs_of_unclean_elections_are_not_reported(diverged: Diverged) -> None:
    for disk in (*diverged.before, *diverged.in_sync, *diverged.after):
        check_epochs(disk)


def test_what_is_reported_to_diverge_is_what_the_brokers_cut_off(diverged: Diverged, tmp_path: Path) -> None:
    results, _ = run(diverged.before, tmp_path, Merge(dry_run=True))
    for result in results:
        told = {each.replica + 1: each for each in result.divergences}
        assert {number: each.offset for number, each in told.items()} == {1: 120, 2: 220}
        for number, each in told.items():
            cut = diverged.truncated[number, result.task.partition]
            assert each.offset in cut
            assert min(cut) == each.offset
            had = records(diverged.before[number - 1] / result.task.name)
            assert each.records == sum(row["offset"] >= each.offset for row in had)
            assert each.last_offset == had[-1]["offset"]
        assert diverged.truncated[LAST, result.task.partition] == []
        # What 2 took when it was alone was committed; the unclean election of 3 made that void.
        assert (told[1].committed, told[2].committed) == (0, 80)
        assert (result.committed, result.reach) == (270, 270)


@pytest.mark.parametrize("command", [("convert", "--codec", "zstd"), ("salvage",)])
def test_without_a_merge_each_broker_keeps_its_own_replica(
    diverged: Diverged, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Kafka reads the same records of each directory, whether or not other brokers have others at these offsets."""
    arguments = [*command, *map(str, diverged.before), "-t", TOPIC, "--to", str(tmp_path / "to")]
    assert main(arguments) == 0
    before = [log for disk in diverged.before for log in sorted(disk.glob(f"{TOPIC}-*/*.log"))]
    after = [tmp_path / "to" / log.relative_to(log.parents[2]) for log in before]
    assert sorted((tmp_path / "to").rglob("*.log")) == sorted(after)
    read = read_logs([*before, *after])
    histories: set[str] = set()
    for source, target in zip(before, after, strict=True):
        ours, theirs = (
            [
                {name: value for name, value in line.items() if name not in ("file", "batchPosition")}
                for line in read[path]
                if line["type"] == "record"
            ]
            for path in (source, target)
        )
        assert ours == theirs
        assert ours
        histories.add(json.dumps(ours))
    assert len(histories) > len(PARTITIONS)


def test_a_broker_serves_what_was_merged_of_damaged_disks(diverged: Diverged, tmp_path: Path) -> None:
    """Of a segment that all had, each copy lost some, and the last leader most."""
    chance = random.Random(1)
    for number, (disk, lost) in enumerate(zip(diverged.before, ((2, 4), (0, 1), (0, 3)), strict=True)):
        for partition in PARTITIONS:
            name = f"{TOPIC}-{partition}"
            directory = Path(shutil.copytree(disk / name, tmp_path / str(number) / name))
            log = directory / f"{0:020}.log"
            data = bytearray(log.read_bytes())
            start, end = (each * len(data) // 4 for each in lost)
            data[start:end] = chance.randbytes(end - start)
            log.write_bytes(data)
        for path in disk.iterdir():
            if path.is_file():
                shutil.copy(path, tmp_path / str(number))
    results, _ = run([tmp_path / str(number) for number in range(3)], tmp_path / "to")
    broker = diverged.cluster.brokers[LAST]
    for result in results:
        assert not result.losses
        assert {piece.replica for piece in result.contributions} == {0, 1, 2}
        name = result.task.name
        assert log_bytes(tmp_path / "to" / name) == log_bytes(diverged.after[0] / name)
        shutil.rmtree(broker.log_dir / name)
        shutil.copytree(tmp_path / "to" / name, broker.log_dir / name)
    logs = sorted((tmp_path / "to").rglob("*.log"))
    read = read_logs(logs)
    assert not [line for lines in read.values() for line in lines if line["type"] == "error"]
    assert sum(line["type"] == "record" for lines in read.values() for line in lines) == 270 * len(PARTITIONS)
    broker.output.write_bytes(b"")
    diverged.cluster.start(LAST)
    diverged.cluster.wait_for_leaders(TOPIC, [LAST, LAST])
    for partition in PARTITIONS:
        expected = records(diverged.after[0] / f"{TOPIC}-{partition}")
        consumed = consume(broker, TOPIC, partition)
        assert [(each.offset, each.key, each.value) for each in consumed] == [
            (row["offset"], row["key"], row["value"]) for row in expected
        ]
        assert produce_confluent(broker, TOPIC, [Record(b"k", b"more", (), None, partition)]) == [270]
    said = [line for line in broker.output.read_text().splitlines() if f"{TOPIC}-" in line]
    assert said
    assert [line for line in said if MENDING.search(line)] == []
