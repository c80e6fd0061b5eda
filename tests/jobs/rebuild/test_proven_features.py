"""Features that records of Kafka's own topics prove; ``tests/kafka/test_rebuilt.py`` starts brokers with them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.log.whole_batches import batch, batches

import brokerless
from brokerless.errors import UsageError
from brokerless.internals.metadata.versions import features_of, parse_level

DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.mark.parametrize(("type_id", "feature"), [(3, "group.version"), (11, "share.version"), (17, "streams.version")])
def test_a_record_of_a_newer_coordinator_proves_its_feature(type_id: int, feature: str, tmp_path: Path) -> None:
    """Keys of these types are written by coordinators with the feature only (``CoordinatorRecordType``, 4.4.0)."""
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    (log,) = (disk / "__consumer_offsets-0").glob("*.log")
    key = type_id.to_bytes(2, "big") + b"\0\1g"
    log.write_bytes(log.read_bytes() + batches(batch(5, 1, key=key)).tobytes())
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", without_metadata=True)
    assert rebuilt.cluster.features[feature] >= 1
    assert rebuilt.level >= parse_level("4.0-IV0")
    with pytest.raises(UsageError, match=f"records on these disks are of {feature} 1, which metadata version 3.9"):
        brokerless.rebuild(disk, tmp_path / "to", without_metadata=True, metadata_version="3.9")


def test_without_proof_kafka_3_9_starts_as_well_and_a_version_has_its_features(tmp_path: Path) -> None:
    plain = brokerless.rebuild(DEMO, tmp_path / "a", without_metadata=True)
    assert plain.cluster.features == {"metadata.version": parse_level("3.9")}
    newest = brokerless.rebuild(DEMO, tmp_path / "b", without_metadata=True, metadata_version="4.4")
    # What kafka-storage 4.4.0 sets for --release-version 4.4, and the default that comes with eligible leader replicas.
    assert newest.cluster.features == {
        "metadata.version": 33, "eligible.leader.replicas.version": 1, "group.version": 1, "share.version": 2,
        "streams.version": 1, "transaction.version": 2,
    }  # fmt: skip
    assert newest.cluster.configs[4, ""] == {"min.insync.replicas": "1"}
    assert features_of(parse_level("3.9")) == {}
