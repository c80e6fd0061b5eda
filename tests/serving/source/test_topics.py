from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.format.twin import write_batch, write_record

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.log.checkpoint.topic_ids import is_topic_id
from brokerless.log.directory import LogDirectory, resolve
from brokerless.log.storage.location import Location
from brokerless.serving.source.topics import load_topics, made_topic_id

DEMO = Path(__file__).parents[3] / "demo" / "data"


def directory(path: Path) -> LogDirectory:
    return resolve(Location(str(path)))


def write(path: Path, count: int, epoch: int | None = None) -> None:
    path.mkdir(parents=True)
    data = b"".join(write_batch(write_record(b"k", b"v"), base_offset=each, count=1) for each in range(count))
    (path / f"{0:020}.log").write_bytes(data)
    if epoch is not None:
        (path / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")


def test_the_metadata_says_how_many_partitions_there_are(tmp_path: Path) -> None:
    for name in ("orders-1", "__cluster_metadata-0"):
        shutil.copytree(DEMO / name, tmp_path / name)
    topics = load_topics([directory(tmp_path)], pytest.fail)
    assert set(topics.by_name) == {"orders"}
    topics.load_cluster()
    orders = topics.by_name["orders"]
    assert (orders.count, set(orders.partitions), orders.topic_id) == (3, {1}, "hTkhp5wHQYqIlvaYUVGlzA")
    assert topics.by_id == {orders.topic_id: orders}
    assert orders.configs["retention.ms"] == "-1"
    assert orders.partitions[1].epoch == 1
    assert topics.partition("orders", 1) is orders.partitions[1]
    assert topics.has("orders", 2)
    assert not topics.has("orders", 3)


def test_the_demo_is_of_its_cluster() -> None:
    topics = load_topics([directory(DEMO)], pytest.fail)
    assert (topics.cluster_id, topics.node_id) == ("bdhh6u6GT8yYm_jDxKDkxQ", 1)
    assert topics.by_name["__consumer_offsets"].is_internal
    assert len(topics.partitions) == 7


def test_of_replicas_the_latest_epoch_leads_then_the_longest(tmp_path: Path) -> None:
    for number, (count, epoch) in enumerate([(3, 1), (2, 2), (1, 2)]):
        write(tmp_path / str(number) / "orders-0", count, epoch)
    write(tmp_path / "0" / "orders-1", 1)
    write(tmp_path / "1" / "orders-1", 2)
    topics = load_topics([directory(tmp_path / each) for each in "012"], pytest.fail)
    paths = [each.paths.path for each in topics.partitions]
    assert paths == [str(tmp_path / "1" / each) for each in ("orders-0", "orders-1")]


def test_of_two_topics_of_one_name_the_clusters_is_served(tmp_path: Path) -> None:
    for name in ("orders-1", "__cluster_metadata-0"):
        shutil.copytree(DEMO / name, tmp_path / name)
    shutil.copytree(DEMO / "orders-2", tmp_path / "orders-7")
    metadata = tmp_path / "orders-7" / "partition.metadata"
    metadata.write_text(f"version: 0\ntopic_id: {made_topic_id('orders')}\n")
    found: list[Finding] = []
    topics = load_topics([directory(tmp_path)], found.append)
    assert {name: set(each.partitions) for name, each in topics.by_name.items()} == {"orders": {1}}
    assert [(each.kind, each.file, each.severity) for each in found] == [(Kind.TOPIC_UNKNOWN, str(metadata), "info")]
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    with pytest.raises(UsageError, match="they are of two topics"):
        load_topics([directory(tmp_path)], pytest.fail)


def test_a_topic_without_an_id_gets_one_of_its_name() -> None:
    assert made_topic_id("orders") == made_topic_id("orders") != made_topic_id("order")
    assert is_topic_id(made_topic_id("orders"))


def test_what_cannot_be_served_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "orders-0", 1)
    log = directory(tmp_path / "orders-0" / f"{0:020}.log")
    with pytest.raises(UsageError, match="does not say which partition"):
        load_topics([log], pytest.fail)
    shutil.copytree(DEMO / "__cluster_metadata-0", tmp_path / "other" / "__cluster_metadata-0")
    with pytest.raises(UnreadableError, match="no partition to serve"):
        load_topics([directory(tmp_path / "other")], pytest.fail)
