"""Positions of groups past the ends that partitions have after a start, in dry runs on the demo's disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.cli import main
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.job import plan_restart
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[2] / "demo" / "data"
COMMITTED_AT = 2
"""The offset of the first record in which the demo's group has its position."""


def copied(target: Path) -> Path:
    return Path(shutil.copytree(DEMO, target))


def test_a_position_in_a_partition_that_begins_empty_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = copied(tmp_path / "disk")
    shutil.rmtree(disk / "orders-2")
    assert main(["restart", str(disk)]) == 1
    text = capsys.readouterr().out
    assert "lost: group 'shipping' is at offset 500 of orders-2, which ends at 0" in text
    assert "rebuild --reset-positions" in text
    main(["restart", str(disk), "--json"])
    row = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(each["group"], each["offset"], each["endOffset"]) for each in row["lostPositions"]] == [
        ("shipping", 500, 0)
    ]


def test_a_position_that_was_past_the_end_before_is_listed_and_no_loss_by_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    disk = copied(tmp_path / "disk")
    for each in (disk / "orders-2").glob("0*"):
        if int(each.name[:20]) >= 452:
            each.unlink()
    assert main(["restart", str(disk)]) == 0
    assert "past the end already: group 'shipping' is at offset 500" in capsys.readouterr().out


def test_a_position_after_what_a_recovery_cuts_is_lost_and_one_before_it_is_not(tmp_path: Path) -> None:
    disk = copied(tmp_path / "disk")
    (whole,) = plan_directories([resolve(Location(str(disk)))])
    assert not whole.lost_positions
    assert whole.is_harmless
    (disk / ".kafka_cleanshutdown").unlink()
    (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (unclean,) = plan_directories([resolve(Location(str(disk)))])
    assert not unclean.lost_positions
    log = disk / "orders-2" / f"{452:020}.log"
    data = bytearray(log.read_bytes())
    data[9] ^= 1
    log.write_bytes(data)
    (cut,) = plan_directories([resolve(Location(str(disk)))])
    (lost,) = cut.lost_positions
    assert lost.end_offset < lost.position.offset == 500
    assert not cut.is_harmless


def test_a_position_that_a_recovery_cuts_off_is_none_any_more(tmp_path: Path) -> None:
    """Of the group's own log, what is left decides; what a broker then has is in tests/kafka/test_revived_groups.py."""
    disk = copied(tmp_path / "disk")
    shutil.rmtree(disk / "orders-2")
    (disk / ".kafka_cleanshutdown").unlink()
    (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    def groups() -> list[list[str]]:
        (restart,) = plan_directories([resolve(Location(str(disk)))])
        rebuilt = brokerless.rebuild(disk, tmp_path / "to")
        found = brokerless.cluster(disk).findings
        described = [each.message for each in found if each.kind == "position-past-end"]
        return [[str(each) for each in restart.lost_positions], [str(each) for each in rebuilt.positions], described]

    assert [len(each) for each in groups()] == [1, 1, 1]
    (log,) = disk.glob("__consumer_offsets-*/*.log")
    rows = brokerless.open(log).batches(["position", "lastOffset"]).read_all().to_pylist()
    at = next(row["position"] for row in rows if row["lastOffset"] >= COMMITTED_AT)
    data = bytearray(log.read_bytes())
    data[at + 70] ^= 1
    log.write_bytes(data)
    assert groups() == [[], [], []]


def test_a_position_at_the_recovery_point_is_lost_by_damage_in_its_segment(tmp_path: Path) -> None:
    """A broker reads the whole segment that the recovery point is in."""
    disk = copied(tmp_path / "disk")
    (disk / ".kafka_cleanshutdown").unlink()
    for each in (disk / "orders-2").glob("0*"):
        if int(each.name[:20]) >= 682:
            each.unlink()
    (disk / "recovery-point-offset-checkpoint").write_text("0\n1\norders 2 682\n")
    (unclean,) = plan_directories([resolve(Location(str(disk)))])
    assert not unclean.lost_positions
    log = disk / "orders-2" / f"{452:020}.log"
    data = bytearray(log.read_bytes())
    data[900] ^= 1
    log.write_bytes(data)
    (cut,) = plan_directories([resolve(Location(str(disk)))])
    (partition,) = (each for each in resolve(Location(str(disk))).partitions if each.path.endswith("orders-2"))
    end = plan_restart(partition, {"recovery-point-offset-checkpoint": ("", 682)}, clean=False).log_end_offset
    assert end < 500
    assert [(each.end_offset, each.was_past_end) for each in cut.lost_positions] == [(end, False)]


@pytest.mark.parametrize("content", [b"", b"garbage\n"], ids=["empty", "garbage"])
def test_a_partition_whose_metadata_cannot_be_parsed_is_neither_stray_nor_begun_empty(
    tmp_path: Path, content: bytes
) -> None:
    disk = copied(tmp_path / "disk")
    (disk / "orders-2" / "partition.metadata").write_bytes(content)
    (found,) = plan_directories([resolve(Location(str(disk)))])
    assert not found.stray
    assert not found.lost_positions
    assert [each.kind for each in found.refused] == ["partition-metadata-corrupt"] * (not content)
    assert {each.kind for each in brokerless.cluster(disk).findings} == {"partition-metadata-corrupt"}
