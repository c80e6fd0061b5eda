"""What is written into a broker's log directory: the same records at the same offsets, the cluster's ID, leader epochs
that its metadata allows; and what is refused. The oracle of a start is ``restart``; with real brokers: tests/kafka."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data

import brokerless
from brokerless.jobs.restore.disks.job import DiskRestore, plan_disks
from brokerless.jobs.restore.disks.targets import load_target
from brokerless.jobs.restore.source import SelectedPartitions
from brokerless.log.checkpoint.leader_epochs import epochs_of, load_leader_epochs
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.location import Location
from brokerless.requests.recovery import RestoreRequest


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "broker" / "data"
    shutil.copytree(broker_data("clean"), path)
    return path


def restored(
    source: Path, target: Path, *topics: str, findings: list[Any] | None = None, **settings: Any
) -> DiskRestore:
    everything = brokerless.open(source).directory.partitions
    chosen = [each for each in everything if each.topic in topics]
    report = (lambda _: None) if findings is None else findings.append
    selected = SelectedPartitions([str(source)], chosen, everything, topics)
    request = RestoreRequest([source], to=[target], on_damage=report, **settings)
    return plan_disks(selected, request).apply(lambda _: None)


def rows(path: Path, topic: str, partition: int = 0) -> list[dict[str, Any]]:
    columns = ["offset", "timestamp", "key", "value", "headers"]
    return brokerless.open(path).partition(topic, partition).records(columns, control=True).read_all().to_pylist()


def test_records_keep_their_offsets_and_a_start_changes_nothing(target: Path) -> None:
    source = broker_data("clean")
    result = restored(source, target, "txn", "epochs", "segments", replace=True)
    assert {each.topic for each in result.partitions} == {"txn", "epochs", "segments"}
    for each in result.partitions:
        assert rows(target, each.topic, each.partition) == rows(source, each.topic, each.partition)
        assert Path(each.aside[0]).is_dir()
    restart = brokerless.open(target).restart()
    own = [each for each in restart.partitions if each.topic in ("txn", "epochs", "segments")]
    assert len(own) == 4
    assert all(each.is_harmless and not each.rebuilt for each in own)
    assert restart.directory is not None
    assert restart.directory.stray == {}


def test_leader_epochs_are_at_most_those_of_the_metadata(tmp_path: Path, target: Path) -> None:
    """Of a source whose last epoch is later than the target's."""
    cluster = load_target([str(target)]).cluster
    topic_id = next(known for known, name in cluster.topics.items() if name == "epochs")
    expected = cluster.partitions[topic_id][0]["leaderEpoch"]
    source = tmp_path / "source"
    shutil.copytree(broker_data("clean") / "epochs-0", source / "epochs-0")
    shutil.copytree(broker_data("clean") / "__cluster_metadata-0", source / "__cluster_metadata-0")
    (log,) = (source / "epochs-0").glob("*.log")
    content = bytearray(log.read_bytes())
    positions = brokerless.open(log).batches(["position"]).read_all().column("position").to_pylist()
    for position in positions:
        content[position + 12 : position + 16] = (expected + 7).to_bytes(4, "big")
    log.write_bytes(content)
    (source / "epochs-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n{expected + 7} 0\n")
    restored(source, target, "epochs", replace=True)
    batches = brokerless.open(target / "epochs-0").batches(["partitionLeaderEpoch", "isValid"]).read_all().to_pylist()
    assert {(each["partitionLeaderEpoch"], each["isValid"]) for each in batches} == {(expected, True)}
    checkpoint = load_leader_epochs(Location(str(target / "epochs-0" / "leader-epoch-checkpoint")))
    assert epochs_of(checkpoint) == ((expected, 0),)


def test_the_id_is_the_clusters_whatever_the_source_has(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(broker_data("clean") / "segments-0", source / "segments-0")
    before = load_partition_metadata(Location(str(target / "segments-0" / "partition.metadata"))).topic_id
    (source / "segments-0" / "partition.metadata").write_text("version: 0\ntopic_id: GGfzE_HvRoGT7m9N-0_chw")
    restored(source, target, "segments", replace=True)
    assert load_partition_metadata(Location(str(target / "segments-0" / "partition.metadata"))).topic_id == before


def test_a_point_in_time_cuts_a_batch_where_it_has_to(target: Path) -> None:
    source = broker_data("clean")
    before = rows(source, "codec-lz4")
    middle = before[len(before) // 2]
    until = int(middle["timestamp"].timestamp() * 1000)
    end = next(each["offset"] for each in before if each["timestamp"] >= middle["timestamp"])
    result = restored(source, target, "codec-lz4", replace=True, until=until)
    (first,) = [each for each in result.partitions if each.partition == 0]
    assert rows(target, "codec-lz4") == [each for each in before if each["offset"] < end]
    assert first.end_offset == end
    assert list(brokerless.open(target / "codec-lz4-0").verify()) == []


def test_a_transaction_that_the_point_in_time_cuts_is_reported(target: Path) -> None:
    source = broker_data("clean")
    partition = brokerless.open(source).partition("txn", 0)
    ended = [each for each in partition.transactions().to_pylist() if each["firstOffset"] is not None]
    times = partition.records(["offset", "timestamp"], control=True).read_all().to_pylist()
    known = dict(zip((each["offset"] for each in times), (each["timestamp"] for each in times), strict=True))
    cut = next(each for each in ended if known[each["lastOffset"]] > known[each["firstOffset"]])
    until = int(known[cut["lastOffset"]].timestamp() * 1000)
    everything = brokerless.open(source).directory.partitions
    chosen = [each for each in everything if each.topic == "txn"]
    found: dict[int | None, list[str]] = {}
    for limit in (until, None):
        selected = SelectedPartitions([str(source)], chosen, everything, ["txn"])
        request = RestoreRequest([source], to=[target], replace=True, until=limit, on_damage=lambda _: None)
        plan = plan_disks(selected, request).plan
        found[limit] = [each.message for each in plan.findings if each.kind == "transaction-open"]
    assert any(each.endswith(f"--start-offset {cut['firstOffset']}") for each in found[until])
    assert not [each for each in found[None] if each.endswith(f"--start-offset {cut['firstOffset']}")]


def test_damage_is_reported_and_all_else_restored(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(broker_data("clean") / "segments-0", source / "segments-0")
    log = min((source / "segments-0").glob("*.log"))
    gone = brokerless.open(log).batches(["position", "baseOffset", "lastOffset"]).read_all().to_pylist()[1]
    content = bytearray(log.read_bytes())
    content[gone["position"] + 70] ^= 1
    log.write_bytes(content)
    findings: list[Any] = []
    result = restored(source, target, "segments", replace=True, findings=findings)
    assert [each.kind for each in findings if each.severity == "error"]
    assert result.partitions[0].lost == gone["lastOffset"] + 1 - gone["baseOffset"]
    expected = [
        each for each in rows(broker_data("clean"), "segments")
        if not gone["baseOffset"] <= each["offset"] <= gone["lastOffset"]
    ]  # fmt: skip
    assert rows(target, "segments") == expected


def test_partitions_with_records_are_refused_without_replace_and_empty_ones_are_not(target: Path) -> None:
    source = broker_data("clean")
    with pytest.raises(brokerless.UsageError, match="give replace="):
        restored(source, target, "txn")
    for log in (target / "segments-0").glob("*.log"):
        log.write_bytes(b"")
    restored(source, target, "segments")
    assert rows(target, "segments") == rows(source, "segments")
    assert not target.with_name("data.replaced").exists()
    assert [each.name for each in target.iterdir() if each.name.endswith("-delete")] == []


def test_a_topic_that_the_cluster_does_not_know_is_refused_with_what_to_do(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(broker_data("clean") / "segments-0", source / "other-0")
    with pytest.raises(brokerless.UsageError, match="kafka-topics --create --topic other --partitions 1"):
        restored(source, target, "other")
    shutil.copytree(broker_data("clean") / "segments-0", source / "segments-5")
    with pytest.raises(brokerless.UsageError, match="kafka-topics --alter --topic segments --partitions 6"):
        restored(source, target, "segments")


def test_replicas_that_are_not_given_are_refused(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from brokerless.clusters import metadata_replicas

    real = metadata_replicas.read_cluster

    def with_another(*arguments: Any) -> Any:
        cluster = real(*arguments)
        for partitions in cluster.partitions.values():
            for row in partitions.values():
                row["replicas"] = [1, 2]
        return cluster

    monkeypatch.setattr(metadata_replicas, "read_cluster", with_another)
    with pytest.raises(brokerless.UsageError, match="replicas on the nodes 2, too"):
        restored(broker_data("clean"), target, "segments", replace=True)


def test_what_is_no_stopped_brokers_directory_is_refused(tmp_path: Path, target: Path) -> None:
    source = broker_data("clean")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(brokerless.BrokerlessError):
        restored(source, tmp_path / "nothing", "segments")
    with pytest.raises(brokerless.UsageError, match="is within"):
        restored(target, target, "segments")
    (target / "meta.properties").unlink()
    with pytest.raises(brokerless.UsageError, match=r"no meta\.properties"):
        restored(source, target, "segments")


def test_the_clusters_own_log_is_never_restored(target: Path) -> None:
    with pytest.raises(brokerless.UsageError, match="Kafka's own topic"):
        restored(broker_data("clean"), target, "__cluster_metadata")


def test_python_restores_as_the_command_does(target: Path) -> None:
    source = broker_data("clean")
    plan = brokerless.restore(source, to=[target], topics=["segments"])
    assert [each.kind for each in plan.findings if each.severity == "error"] == ["partition-exists"]
    done = brokerless.restore(source, to=[target], topics=["segments"], replace=True, apply=True)
    assert done.is_applied
    assert rows(target, "segments") == rows(source, "segments")
    with pytest.raises(brokerless.UsageError, match="either bootstrap_servers or to"):
        brokerless.restore(source)


def test_a_directory_that_is_held_is_left_alone(target: Path) -> None:
    with lock_directory(target, exclusive=False):
        result = restored(broker_data("clean"), target, "segments", replace=True)  # our own lock
    assert replace(result).is_applied
