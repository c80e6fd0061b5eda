"""What recovery cuts off the demo's logs as they are rebuilt. Oracle: the dry run of a start, before and after, which
``tests/kafka/test_directory_restart.py`` holds by real brokers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.golden import cases

import brokerless
from brokerless.cli import main
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import Restart
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"
LOG = Path("orders-2", f"{452:020}.log")


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def unclean(target: Path, recovery_point: int = 0) -> Path:
    """A copy of the demo's disk without the mark of a clean stop."""
    disk = Path(shutil.copytree(DEMO, target))
    (disk / ".kafka_cleanshutdown").unlink()
    (disk / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 2 {recovery_point}\n")
    return disk


def restart(disk: Path) -> Restart:
    (partition,) = (each for each in resolve(Location(str(disk))).partitions if each.path.endswith("orders-2"))
    lines = {"recovery-point-offset-checkpoint": ("", 0)}
    return plan_restart(partition, lines, clean=(disk / ".kafka_cleanshutdown").exists())


@pytest.mark.parametrize("apply", [False, True], ids=["planned", "applied"])
@pytest.mark.parametrize("data", ["copy", "link", "in-place"])
def test_what_recovery_cuts_is_lost_and_found(tmp_path: Path, data: Any, apply: bool) -> None:
    disk = unclean(tmp_path / "disk")
    flip(disk / LOG, 900)
    expected = restart(disk)
    assert 452 <= expected.log_end_offset < 682
    assert expected.lost.batches > 1
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", data=data, apply=apply)
    (found,) = (each for each in rebuilt.findings if each.kind == "recovery-cuts")
    assert (found.severity, found.file, found.position) == ("error", str(disk / LOG), expected.cut[0].kept)
    (lost,) = (each for each in rebuilt.lost if each.startswith("recovery cuts"))
    for each in (
        f"offsets {expected.log_end_offset}..1295 of orders-2 ({expected.lost_bytes:,} bytes)",
        f"{expected.lost.batches:,} intact batches with {expected.lost.records:,} records",
    ):
        assert each in lost
        assert each in found.message
    assert "salvage this partition first" in found.message


def test_salvage_keeps_as_many_records_as_it_says_and_what_it_writes_loses_nothing_more(tmp_path: Path) -> None:
    disk = unclean(tmp_path / "disk")
    flip(disk / LOG, 900)
    expected = restart(disk)
    brokerless.open(disk).partition("orders", 2).salvage(tmp_path / "salvaged")
    salvaged = brokerless.open(tmp_path / "salvaged").partition("orders", 2)
    offsets = [each for batch in salvaged.records(["offset"]) for each in batch.column("offset").to_pylist()]
    assert sum(1 for each in offsets if each >= expected.log_end_offset) == expected.lost.records
    shutil.rmtree(disk / "orders-2")
    shutil.copytree(tmp_path / "salvaged" / "orders-2", disk / "orders-2")
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", apply=True)
    assert not [each for each in rebuilt.findings if each.kind == "recovery-cuts"]
    assert not rebuilt.lost
    node = brokerless.open(tmp_path / "to" / "node-1").partition("orders", 2)
    assert [each for batch in node.records(["offset"]) for each in batch.column("offset").to_pylist()] == offsets


def test_the_copy_ends_where_it_was_said_and_its_checkpoints_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = unclean(tmp_path / "disk")
    flip(disk / LOG, 900)
    end = restart(disk).log_end_offset
    arguments = ["rebuild", str(disk), "--to", str(tmp_path / "to"), "--json"]
    assert main(arguments) == 1
    assert main([*arguments, "--apply"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len([row for row in rows if row["table"] == "lost" and row["what"].startswith("recovery cuts")]) == 2
    node = tmp_path / "to" / "node-1"
    after = restart(node)
    assert (after.log_end_offset, after.lost_bytes) == (end, 0)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert f"orders 2 {end}" in (node / name).read_text().splitlines()


@pytest.mark.parametrize("reset_to", ["end", "start"])
def test_a_position_up_to_the_recovery_point_is_lost_by_damage_before_it(tmp_path: Path, reset_to: Any) -> None:
    """A broker reads the whole segment that the recovery point is in."""
    disk = unclean(tmp_path / "disk", 682)
    for each in (disk / "orders-2").glob("0*"):
        if int(each.name[:20]) > 682 or (int(each.name[:20]) == 682 and each.suffix != ".snapshot"):
            each.unlink()
    assert not brokerless.rebuild(disk, tmp_path / "whole").positions
    flip(disk / LOG, 900)
    end = restart(disk).log_end_offset
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", reset_positions=reset_to, apply=True)
    assert [(each.position.offset, each.end_offset) for each in rebuilt.positions] == [(500, end)]
    described = [each for each in brokerless.cluster(disk).findings if each.kind == "position-past-end"]
    assert [each.expected for each in described] == [f"up to offset {end}"]
    node = tmp_path / "to" / "node-1"
    rows = brokerless.cluster(node).table("offsets").to_pylist()
    assert [row["offset"] for row in rows if row["partition"] == 2] == [end if reset_to == "end" else 0]
    assert not [each for each in brokerless.cluster(node).findings if each.kind == "position-past-end"]


def test_a_replica_that_recovery_cuts_is_not_in_sync_and_nothing_is_lost(tmp_path: Path) -> None:
    whole, cut = unclean(tmp_path / "whole"), unclean(tmp_path / "cut")
    properties = (cut / "meta.properties").read_text().replace("node.id=1", "node.id=2")
    (cut / "meta.properties").write_text(properties.replace("gYlZTYgeyTdMWWX1wXPymQ", "gYlZTYgeyTdMWWX1wXPymA"))
    both = brokerless.rebuild([whole, cut], tmp_path / "both", without_metadata=True)
    flip(cut / LOG, 900)
    rebuilt = brokerless.rebuild([whole, cut], tmp_path / "to", without_metadata=True)
    for each, expected in ((both, [1, 2]), (rebuilt, [1])):
        ids = {topic: topic_id for topic_id, topic in each.cluster.topics.items()}
        assert sorted(each.cluster.partitions[ids["orders"]][2]["isr"]) == expected
    (found,) = (each for each in rebuilt.findings if each.kind == "recovery-cuts")
    assert found.severity == "warning"
    assert "another replica has them" in found.message
    assert rebuilt.lost == both.lost
    assert not rebuilt.positions


@pytest.mark.parametrize("data", ["copy", "link", "in-place"])
def test_a_log_whose_end_is_damaged_after_a_clean_stop_is_an_error_of_the_plan(data: Any, tmp_path: Path) -> None:
    """A broker that starts on such a log ends: ``tests/kafka/test_restart.py``."""
    disk = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    (last,) = sorted((disk / "orders-2").glob("*.log"))[-1:]
    with last.open("ab") as file:
        file.write(bytes(12) + b"garbage" * 9)
    assert restart(disk).refused_by == "log-end-damaged"
    assert main(["rebuild", str(disk), "--data", data, "--to", str(tmp_path / "to")]) == 1
    planned = brokerless.rebuild(disk, tmp_path / "to", data=data)
    (found,) = (each for each in planned.findings if each.kind == "log-end-damaged")
    assert (found.severity, found.file) == ("error", str(disk / "orders-2"))
    assert "CorruptRecordException" in found.message


def test_a_log_whose_recovery_fails_is_an_error_of_the_plan(tmp_path: Path) -> None:
    """As Kafka's own recovery does for this file, which is of the golden archive."""
    disk = unclean(tmp_path / "disk")
    shutil.rmtree(disk / "orders-2")
    (disk / "orders-2").mkdir()
    shutil.copy(DEMO / "orders-2" / "partition.metadata", disk / "orders-2")
    for case in cases("damaged"):
        error = case.case_json().get("recovery", {}).get("error") if len(case.logs) == 1 else None
        if error is not None and "NullPointer" not in error["class"]:
            shutil.copy(case.log, disk / "orders-2" / f"{0:020}.log")
            planned = brokerless.rebuild(disk, tmp_path / "to")
            assert "log-refused" in {each.kind for each in planned.findings if each.severity == "error"}
            break
    else:
        pytest.fail("the archive has no such log")
