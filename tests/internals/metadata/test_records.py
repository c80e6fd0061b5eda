"""Metadata records that real brokers wrote are written again byte for byte, and versions express what Kafka's do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.golden import golden
from tests.internals.written import write_partition

import brokerless
from brokerless import UsageError
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.internals.metadata.records import cluster_records, encode_record
from brokerless.internals.metadata.snapshot import snapshot_batches
from brokerless.internals.metadata.versions import first_level_of, level_name, parse_level, record_version
from brokerless.internals.records import decode_record
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

LOGS = sorted(each.parent for each in golden().glob("brokers/*/data/__cluster_metadata-0/*.log"))


def test_every_metadata_record_of_the_golden_brokers_is_written_byte_for_byte() -> None:
    written: Counter[str] = Counter()
    for directory in LOGS:
        for file in (*directory.glob("*.log"), *directory.glob("*.checkpoint")):
            for rows in brokerless.open(file).records(["value"], on_damage=lambda _: None):
                for value in rows.column("value").to_pylist():
                    record = decode_record("__cluster_metadata", None, value)
                    assert record.payload is not None
                    assert encode_record(str(record.type), record.payload["version"], record.payload["data"]) == value
                    written[str(record.type)] += 1
    assert len(written) > 10
    assert written.total() > 100


@pytest.mark.parametrize("directory", LOGS, ids=lambda each: each.parent.parent.name)
def test_the_state_of_a_snapshot_is_the_state_that_it_was_written_of(directory: Path, tmp_path: Path) -> None:
    (log,) = resolve(Location(str(directory))).partitions
    cluster = read_cluster(log, lambda _: None)
    level = cluster.features["metadata.version"]
    batches = snapshot_batches(cluster_records(cluster, level), epoch=3, timestamp_ms=5)
    path = write_partition(tmp_path, "__cluster_metadata") / f"{90:020}-{3:010}.checkpoint"
    path.write_bytes(b"".join(batches))
    (path.parent / f"{0:020}.log").unlink()
    (again,) = resolve(Location(str(path.parent))).partitions
    assert read_cluster(again, pytest.fail) == cluster


def test_a_version_that_cannot_express_something_is_refused_by_name() -> None:
    user = {"name": "alice", "mechanism": 1, "salt": "", "storedKey": "", "serverKey": "", "iterations": 4096}
    with pytest.raises(UsageError, match=r"\(10\) cannot express SCRAM users; give metadata_version=3\.5-IV2"):
        list(cluster_records(Cluster(users={("alice", 1): user}), 10))
    assert list(cluster_records(Cluster(users={("alice", 1): user}), 11))
    token = Cluster(tokens={"t": {}})
    with pytest.raises(UsageError, match="delegation tokens"):
        list(cluster_records(token, 13))
    with pytest.raises(UsageError, match="several log directories"):
        list(cluster_records(Cluster(brokers={1: {"logDirs": ["a", "b"]}}), 16))
    with pytest.raises(UsageError, match="eligible leader replicas"):
        list(cluster_records(Cluster(features={"eligible.leader.replicas.version": 1}), 22))


def test_levels_have_the_names_of_kafkas_releases() -> None:
    """As ``MetadataVersion`` of 4.4.0 prints them."""
    levels = {"3.3": 7, "3.5-IV2": 11, "3.6": 14, "3.7-IV2": 17, "3.8": 20, "3.9": 21, "4.0": 25, "4.1": 27, "4.4": 33}
    assert {name: parse_level(name) for name in levels} == levels
    assert (level_name(21), level_name(33), level_name(99), parse_level("30")) == ("3.9-IV0", "4.4-IV2", "99", 30)
    for text in ("3.2", "4.9", "6", "34", "four", "²"):
        with pytest.raises(UsageError, match="no metadata version"):
            parse_level(text)
    versions = {7: (1, 0), 8: (2, 0), 16: (2, 0), 17: (3, 1), 22: (3, 1), 23: (3, 2), 30: (4, 2), 33: (4, 2)}
    records = ("REGISTER_BROKER_RECORD", "PARTITION_RECORD")
    assert {level: tuple(record_version(each, level) for each in records) for level in versions} == versions
    assert (first_level_of("group.version", 1), first_level_of("group.version", 0)) == (22, 7)
    assert first_level_of("of.tomorrow", 1) is None
