"""What our writers make of a log differs from it by what they are for, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

import brokerless
from brokerless.jobs.diff.partition_diff import PartitionDiff

ROOT = Path(__file__).parents[3]
DEMO, REPLICAS = ROOT / "demo" / "data", ROOT / "demo" / "replicas"
TOPICS = ["orders", "payments", "users"]


def by_name(left: object, right: object) -> dict[str, PartitionDiff]:
    found = brokerless.diff(left, right, topics=TOPICS)  # type: ignore[arg-type]
    assert len(found.partitions) == 5
    return {each.name: each for each in found.partitions}


@pytest.mark.parametrize(("options", "expected"), [
    ({"codec": "zstd"}, {"recompressed"}),
    ({"batch_size": 1000}, {"regrouped"}),
    ({"isolation": "read_committed"}, {"aborted"}),
])  # fmt: skip
def test_a_conversion_changes_batches_alone(options: dict[str, object], expected: set[str], tmp_path: Path) -> None:
    brokerless.open(DEMO).convert(tmp_path / "to", **options)  # type: ignore[arg-type]
    found = by_name(DEMO, tmp_path / "to").values()
    assert all(each.is_same for each in found)
    causes = {cause for each in found for cause in each.causes or {}}
    assert expected <= causes <= {"recompressed", "regrouped", *expected}


def test_an_erasure_takes_the_records_of_its_keys(tmp_path: Path) -> None:
    keys = ["u-0048", "o-101230"]
    erased = brokerless.open(DEMO).erase(tmp_path / "to", keys=keys)
    assert erased
    log = brokerless.open(DEMO)
    for name, each in by_name(DEMO, tmp_path / "to").items():
        partition = log.partition(each.topic or "", each.partition or 0)
        of_keys = partition.records(["offset", "key"]).read_all().to_pylist()
        expected = [row["offset"] for row in of_keys if row["key"] is not None and row["key"].decode() in keys]
        listed = [offset for one in each.differences for offset in range(one.first_offset, one.last_offset + 1)]
        missing_or_compacted = each.missing + (each.causes or {}).get("compaction", 0)
        assert missing_or_compacted == len(expected), name
        assert set(listed) <= set(expected)
        assert (each.extra, each.changed) == (0, 0)
        assert each.same == each.records - len(expected)


def test_blanking_changes_values_alone(tmp_path: Path) -> None:
    brokerless.open(DEMO).erase(tmp_path / "to", keys=["o-101230"], blank=True)
    found = by_name(DEMO, tmp_path / "to").values()
    assert sum(each.changed for each in found) > 0
    assert all((each.missing, each.extra) == (0, 0) for each in found)
    assert {one.cause for each in found for one in each.differences} == {"changed"}


def test_a_merge_has_the_records_of_the_replica_that_counts(tmp_path: Path) -> None:
    disks = [REPLICAS / f"broker-{number}" for number in (1, 2, 3)]
    (merged,) = brokerless.merge(disks, tmp_path / "to")
    (same,) = brokerless.diff(tmp_path / "to", disks[2]).partitions
    assert same.is_same
    assert same.causes == {}
    for divergence in merged.divergences:
        (other,) = brokerless.diff(tmp_path / "to", disks[divergence.replica]).partitions
        assert not other.is_same
        assert other.differences[0].first_offset == divergence.offset


def test_a_salvaged_log_has_all_that_is_intact(tmp_path: Path) -> None:
    brokerless.open(DEMO).salvage(tmp_path / "to")
    brokerless.assert_same_log(DEMO, tmp_path / "to")


def test_a_compacted_log_has_lost_no_last_record(tmp_path: Path) -> None:
    brokerless.open(DEMO).compact(tmp_path / "to", topics=["users"])
    (partition,) = brokerless.diff(DEMO, tmp_path / "to", topics=["users"]).partitions
    assert partition.is_same
    assert {*(partition.causes or {})} <= {"compaction", "recompressed", "regrouped"}
