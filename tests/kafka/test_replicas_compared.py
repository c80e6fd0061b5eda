"""Three replicas that real brokers wrote, after elections and kills, are the same below the least high watermark; what
is changed in one of them is found."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import brokerless
from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("replicas-compared")
SETTINGS = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
}
TOPICS = {
    "deleted": {"internal_segment_bytes": 8192},
    "compacted": {
        "internal_segment_bytes": 4096, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01,
        "delete_retention_ms": 100, "segment_ms": 1000,
    },
}  # fmt: skip
ALLOWED = {"compaction", "regrouped", "recompressed", "restamped", "retention", "control"}
ROUNDS = 6


@pytest.fixture(scope="module")
def disks(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[Path]]]:
    """Copies of the disks while the brokers run and one is down, and when all were stopped."""
    directory = tmp_path_factory.mktemp("replicas-compared")
    chance = random.Random(1)
    with Cluster(directory / "cluster", SETTINGS) as cluster:
        for topic, settings in TOPICS.items():
            cluster.create_topic(topic, [[1, 2, 3], [2, 3, 1]], **settings)
        found: list[list[Path]] = []
        for number in range(ROUNDS):
            victim = 1 + number % 3
            for topic in TOPICS:
                produce_confluent(
                    cluster.alive, topic, records(chance), chance.choice(["none", "lz4"]), acks=-1, batch_size=1500
                )
            cluster.kill(victim)
            cluster.wait_for_replicas("deleted", 2)
            cluster.wait_for_replicas("compacted", 2)
            for topic in TOPICS:
                produce_confluent(cluster.alive, topic, records(chance), "none", acks=-1, batch_size=1500)
            if number == 2:
                found.append(cluster.disks(directory / "running"))
            cluster.start(victim)
            for topic in TOPICS:
                cluster.wait_for_replicas(topic, 3)
        for node in cluster.brokers.values():
            checkpoint = node.log_dir / "cleaner-offset-checkpoint"
            wait_for(lambda file=checkpoint: "compacted 0 " in file.read_text(), checkpoint.read_text)
        cluster.stop(*cluster.brokers)
        found.append(cluster.disks(directory / "stopped"))
        yield found


def records(chance: random.Random) -> list[Record]:
    return [
        Record(b"k%d" % chance.randrange(25), chance.choice([None, b"v" * chance.randrange(80)]), partition=partition)
        for _ in range(150)
        for partition in (0, 1)
    ]


def test_replicas_are_the_same_after_kills_and_elections(disks: list[list[Path]]) -> None:
    for copies in disks:
        found = brokerless.diff_replicas(copies)
        assert found.is_same, list(found.lines())
        of_topics = [each for each in found.partitions if each.topic in TOPICS]
        assert len(of_topics) == 8
        assert {cause for each in of_topics for cause in each.causes or ()} <= ALLOWED
        assert min(each.records for each in of_topics if each.topic == "deleted") > 0
    ends = [each.left.end_offset for each in of_topics if each.topic == "deleted" and each.left is not None]
    assert ends == [2 * ROUNDS * 150] * 4, "all that was acknowledged"


def test_replicas_were_cleaned_each_for_itself(disks: list[list[Path]]) -> None:
    copies = [
        [each.name for each in sorted((disk / "compacted-0").glob("*.log"))] + [
            sum(each.stat().st_size for each in (disk / "compacted-0").glob("*.log"))
        ]
        for disk in disks[-1]
    ]  # fmt: skip
    found = brokerless.diff_replicas(disks[-1], topics=["compacted"])
    assert found.is_same
    rows = brokerless.open(disks[-1][0]).partition("compacted", 0).records(["offset"]).read_all().num_rows
    assert rows < 2 * ROUNDS * 150, copies


@pytest.mark.parametrize("topic", TOPICS)
def test_a_lost_and_a_changed_batch_are_found(topic: str, disks: list[list[Path]], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(each, tmp_path / each.name)) for each in disks[-1]]
    own = copies[1] / f"{topic}-1"
    batches = brokerless.open(own).batches(["file", "position", "sizeInBytes", "baseOffset", "count"]).read_all()
    last = batches.to_pylist()[-1]
    path = Path(last["file"])
    path.write_bytes(path.read_bytes()[: last["position"]])
    found = brokerless.diff_replicas(copies)
    differing = [each for each in found.partitions if not each.is_same]
    assert {(each.topic, each.partition) for each in differing} == {(topic, 1)}
    assert sum(each.missing + each.extra for each in differing) >= last["count"]


def test_metadata_of_the_brokers_is_compared_as_far_as_their_leader_epochs_agree(
    disks: list[list[Path]], tmp_path: Path
) -> None:
    for copies in disks:
        found = brokerless.diff_replicas(copies, topics=["__cluster_metadata"])
        assert found.is_same, list(found.lines())
        assert len(found.partitions) == len(copies) - 1
        assert min(each.same for each in found.partitions) > 20
    copies = [Path(shutil.copytree(each, tmp_path / each.name)) for each in disks[-1]]
    batches = brokerless.open(copies[1] / "__cluster_metadata-0").batches().read_all().to_pylist()
    lost = next(each for each in batches[len(batches) // 3 :] if not each["isControl"])
    path = Path(lost["file"])
    data = path.read_bytes()
    path.write_bytes(data[: lost["position"]] + data[lost["position"] + lost["sizeInBytes"] :])
    differing = [one for one in brokerless.diff_replicas(copies).partitions if not one.is_same]
    assert {each.topic for each in differing} == {"__cluster_metadata"}
    for each in differing:
        assert each.missing + each.extra == lost["count"]
        assert each.differences[0].first_offset == lost["baseOffset"]
