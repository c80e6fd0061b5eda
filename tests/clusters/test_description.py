"""Disks that real brokers wrote, damaged or mixed up; ``tests/kafka/test_cluster_described.py`` has a whole cluster."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from aiokafka.record.util import calc_crc32c
from tests.golden import broker_data

import brokerless
from brokerless import UsageError
from brokerless.clusters.description import SCHEMAS

DEMO = Path(__file__).parents[2] / "demo" / "data"
METADATA = "__cluster_metadata-0"


def disk(target: Path, broker: str = "clean", *partitions: str) -> Path:
    """A copy of some partitions of a broker's disk, with its own files."""
    source = broker_data(broker)
    target.mkdir(parents=True)
    for each in source.iterdir():
        if each.is_file():
            shutil.copy(each, target)
    for name in partitions or (METADATA,):
        shutil.copytree(source / name, target / name)
    return target


def metadata_log(path: Path) -> Path:
    return max((path / METADATA).glob("*.log"))


def kinds(paths: list[Path]) -> list[str]:
    return sorted({each.kind for each in brokerless.cluster(paths).findings})


def without_id(path: Path) -> Path:
    """A disk whose directory ID is not that of another one."""
    lines = (path / "meta.properties").read_text().splitlines()
    (path / "meta.properties").write_text("".join(f"{x}\n" for x in lines if not x.startswith("directory.id")))
    return path


def test_each_table_is_one_of_arrow() -> None:
    found = brokerless.cluster(broker_data("clean"))
    for name, schema in SCHEMAS.items():
        assert found.table(name).schema == schema
        assert found.table(name).num_rows == len(found.rows[name])
    assert found.table("topics").num_rows > 5
    with pytest.raises(UsageError, match="no table"):
        found.table("nothing")


def test_the_longest_valid_metadata_is_read(tmp_path: Path) -> None:
    whole, cut = disk(tmp_path / "whole"), without_id(disk(tmp_path / "cut"))
    log = metadata_log(cut)
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    found = brokerless.cluster([cut, whole])
    assert found.metadata is not None
    assert found.metadata.paths.path == str(whole / METADATA)
    ends = [row["metadataEndOffset"] for row in found.rows["disks"]]
    assert ends[0] < ends[1]
    assert brokerless.cluster(cut).rows["cluster"][0]["endOffset"] == ends[0]


@pytest.mark.parametrize("timestamp", [253_402_300_800_000, 2**63 - 1, -(2**62)])
def test_times_that_python_has_no_value_for_are_times_as_all_others(timestamp: int, tmp_path: Path) -> None:
    """A broker of 4.4.0 starts on metadata with such a batch; the checksum is right."""
    path = disk(tmp_path / "times")
    log = metadata_log(path)
    data = bytearray(log.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[35:43] = timestamp.to_bytes(8, "big", signed=True)
    data[17:21] = calc_crc32c(bytes(data[21:size])).to_bytes(4, "big")
    log.write_bytes(data)
    found = brokerless.cluster(path)
    assert found.metadata is not None
    assert found.metadata.batches[0].timestamp == timestamp
    assert (
        found.rows["cluster"][0]["endOffset"]
        == brokerless.cluster(broker_data("clean")).rows["cluster"][0]["endOffset"]
    )
    plan = brokerless.rebuild(path, to=tmp_path / "to")
    assert plan.findings is not None


def test_metadata_counts_up_to_its_first_damage(tmp_path: Path) -> None:
    damaged = disk(tmp_path / "damaged")
    log = metadata_log(damaged)
    intact = brokerless.cluster(damaged).rows["cluster"][0]["endOffset"]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    found = brokerless.cluster(damaged)
    assert 0 < found.rows["cluster"][0]["endOffset"] < intact
    assert found.rows["disks"][0]["isMetadataIntact"] is False
    assert "checksum-mismatch" in {each.kind for each in found.findings}


def test_a_snapshot_that_is_not_whole_is_reported_and_the_log_is_read(tmp_path: Path) -> None:
    whole = disk(tmp_path / "whole")
    topics = brokerless.cluster(whole).rows["topics"]
    (whole / METADATA / "00000000000000099999-0000000001.checkpoint").write_bytes(b"no snapshot" * 20)
    found = brokerless.cluster(whole)
    assert "snapshot-not-whole" in {each.kind for each in found.findings}
    assert found.rows["topics"] == topics


def test_metadata_that_differs_is_reported(tmp_path: Path) -> None:
    one, other = disk(tmp_path / "one"), without_id(disk(tmp_path / "other"))
    log = metadata_log(other)
    data = bytearray(log.read_bytes())
    at = 0
    for _ in range(10):  # batches of another leader, from the eleventh on
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    while at < len(data):
        data[at + 12 : at + 16] = (9).to_bytes(4, "big")
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    log.write_bytes(data)
    found = brokerless.cluster([one, other])
    (finding,) = [each for each in found.findings if each.kind == "metadata-differs"]
    assert (finding.expected, finding.found) != (None, None)
    assert found.metadata is not None
    assert found.metadata.epoch == 9


def test_disks_of_two_clusters_are_reported(tmp_path: Path) -> None:
    other = shutil.copytree(DEMO, tmp_path / "other")
    assert "cluster-id-differs" in kinds([disk(tmp_path / "one"), other])


def test_a_copy_of_a_disk_is_reported(tmp_path: Path) -> None:
    assert "directory-id-repeated" in kinds([disk(tmp_path / "one"), disk(tmp_path / "other")])


def test_without_metadata_topics_are_known_by_their_directories() -> None:
    found = brokerless.cluster(broker_data("old-formats"))
    assert [each.kind for each in found.findings] == ["metadata-missing"]
    topics = {row["topic"]: row["topicId"] for row in found.rows["topics"]}
    assert topics["v0-none"] == "x3NKhj3ZTXS2KMPjUqyqBA"
    assert not any(row["isInMetadata"] for row in found.rows["topics"])


def test_without_identity_a_disk_is_described_all_the_same(tmp_path: Path) -> None:
    bare = disk(tmp_path / "bare", "clean", METADATA, "segments-0")
    (bare / "meta.properties").unlink()
    (bare / "segments-0" / "partition.metadata").unlink()
    found = brokerless.cluster(bare)
    assert {"meta-properties-missing", "partition-metadata-missing"} <= {each.kind for each in found.findings}
    assert found.cluster_id is None
    assert {row["topic"] for row in found.rows["topics"]} >= {"segments"}


@pytest.mark.parametrize("name", ["segments-0", f"{METADATA}/00000000000000000000.log"])
def test_only_log_directories_are_disks(name: str) -> None:
    with pytest.raises(UsageError, match="log directory"):
        brokerless.cluster(broker_data("clean") / name)


def test_no_disk_is_refused() -> None:
    with pytest.raises(UsageError, match="log directories"):
        brokerless.cluster([])


@pytest.mark.parametrize("is_beside_shorter", [False, True])
def test_a_replica_that_a_start_promotes_is_one_of_its_partition(tmp_path: Path, *, is_beside_shorter: bool) -> None:
    """A group is at offset 500 of it, where it ends."""
    path, other = tmp_path / "disk", tmp_path / "other"
    shutil.copytree(DEMO, path)
    future = (path / "orders-2").rename(path / f"orders-2.{'a' * 32}-future")
    if is_beside_shorter:  # the one that was being moved takes its place
        shutil.copytree(future, other / "orders-2")
        shutil.copy(path / "meta.properties", other)
        without_id(other)
        for each in (other / "orders-2").glob("0*"):
            if int(each.name[:20]) > 0:
                each.unlink()
    found = brokerless.cluster([path, other] if is_beside_shorter else [path])
    assert not [each for each in found.findings if each.kind == "position-past-end"]
    (row,) = [each for each in found.rows["partitions"] if (each["topic"], each["partition"]) == ("orders", 2)]
    whole = brokerless.open(DEMO).partition("orders", 2)
    assert (row["disks"], row["endOffset"]) == ([str(path)], whole.end_offset)
    shutil.rmtree(future)
    empty = brokerless.cluster([path]).findings
    assert [each for each in empty if each.kind == "position-past-end"]
