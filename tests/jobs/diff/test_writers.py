"""What our writers make of a log differs from it by what they are for, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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


def load(to: Path) -> Path:
    orders = brokerless.open(DEMO).topic("orders")
    brokerless.load(orders.records(["topic", "partition", "offset", "timestamp", "key", "value", "headers"]), to)
    return to


def backup(to: Path) -> str:
    brokerless.backup(DEMO, to)
    return f"{to}@latest"


def rebuild(source: object, to: Path) -> Path:
    brokerless.rebuild(source, to, apply=True)  # type: ignore[arg-type]
    (disk,) = (each.parent for each in to.rglob("meta.properties"))
    return disk


def written(writer: Callable[..., object], to: Path) -> Path:
    writer(to)
    return to


WRITERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "convert": (lambda to: written(brokerless.open(DEMO).convert, to), []),
    "load": (load, ["another-topic"]),
    "merge": (lambda to: written(partial(brokerless.merge, [DEMO]), to), []),
    "compact": (lambda to: written(brokerless.open(DEMO).compact, to), []),
    "salvage": (lambda to: written(brokerless.open(DEMO).salvage, to), []),
    "backup": (backup, []),
    "rebuild": (lambda to: rebuild(DEMO, to), []),
    "rebuild of a backup": (lambda to: rebuild(backup(to / "bucket"), to / "disks"), []),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_a_writer_wrote_is_the_same_log(writer: str, tmp_path: Path) -> None:
    write, allow = WRITERS[writer]
    to = write(tmp_path / "to")
    source = brokerless.open(DEMO).topic("orders") if writer == "load" else DEMO
    brokerless.assert_same_log(source, to, allow=allow)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("blank", [False, True])
def test_an_erasure_changes_the_records_of_its_keys_alone(blank: bool, tmp_path: Path) -> None:
    keys, manifest = ["u-0048", "o-101230"], tmp_path / "manifest.json"
    brokerless.open(DEMO).erase(tmp_path / "to", keys=keys, blank=blank, manifest=manifest)
    log, differing = brokerless.open(DEMO), 0
    for each in brokerless.diff(DEMO, tmp_path / "to", topics=TOPICS, erasure=manifest).partitions:
        partition = log.partition(each.topic or "", each.partition or 0)
        of_keys = partition.records(["key"]).read_all().column("key").to_pylist()
        count = sum(key is not None and key.decode() in keys for key in of_keys)
        assert each.is_same
        assert (each.causes or {}).get("erased", 0) == count
        assert each.same == each.records - count
        differing += count
    assert differing > 0
    without = by_name(DEMO, tmp_path / "to").values()
    others = sum(each.missing + each.changed + (each.causes or {}).get("compaction", 0) for each in without)
    assert others == differing


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


def test_a_compacted_log_has_lost_no_last_record(tmp_path: Path) -> None:
    brokerless.open(DEMO).compact(tmp_path / "to", topics=["users"])
    (partition,) = brokerless.diff(DEMO, tmp_path / "to", topics=["users"]).partitions
    assert partition.is_same
    assert {*(partition.causes or {})} <= {"compaction", "recompressed", "regrouped"}
