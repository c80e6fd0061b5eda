"""Positions past the end of what is left, set in a rebuilt disk; brokers and clients judge it in
``tests/kafka/test_revived_groups.py``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless import UsageError

DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The demo's disk without the partition in which its group has a position, of 500."""
    return Path(shutil.copytree(DEMO, tmp_path / "disk", ignore=shutil.ignore_patterns("orders-2")))


def offsets(path: Path) -> list[tuple[str, int, int]]:
    rows = brokerless.cluster(path).table("offsets").to_pylist()
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_a_position_past_the_end_is_lost_unless_it_is_reset(disk: Path, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", apply=True)
    assert rebuilt.lost == ("group 'shipping' is at offset 500 of orders-2, which ends at 0",)
    assert [each.row()["endOffset"] for each in rebuilt.positions] == [0]
    assert offsets(tmp_path / "to" / "node-1") == [("orders", 2, 500)]
    assert {each.kind: each.severity for each in rebuilt.findings} == {
        "partition-missing": "error", "position-past-end": "warning",
    }  # fmt: skip


@pytest.mark.parametrize("data", ["copy", "link"])
@pytest.mark.parametrize("reset_to", ["end", "start"])
def test_a_position_is_reset_in_the_rebuilt_logs_alone(disk: Path, tmp_path: Path, data: Any, reset_to: Any) -> None:
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", data=data, reset_positions=reset_to, apply=True)
    node = tmp_path / "to" / "node-1"
    assert offsets(node) == [("orders", 2, 0)]
    assert not rebuilt.lost
    assert {each.kind: each.severity for each in rebuilt.findings}["position-past-end"] == "info"
    assert not [each for each in brokerless.open(node).verify() if each.severity == "error"]
    assert (node / ".kafka_cleanshutdown").exists()
    assert {path: path.read_bytes() for path in before} == before


def test_what_was_cut_by_a_recovery_counts_as_lost(tmp_path: Path) -> None:
    disk = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    for each in disk.glob(".kafka_cleanshutdown"):
        each.unlink()
    (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    log = disk / "orders-2" / f"{452:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    (lost,) = brokerless.rebuild(disk, tmp_path / "to").positions
    assert lost.end_offset < 500
    brokerless.rebuild(disk, tmp_path / "to", reset_positions="end", apply=True)
    assert offsets(tmp_path / "to" / "node-1") == [("orders", 2, lost.end_offset)]
    assert brokerless.open(tmp_path / "to" / "node-1").partition("orders", 2).end_offset == lost.end_offset


def test_in_place_no_log_is_changed(disk: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give data=copy or link"):
        brokerless.rebuild(disk, tmp_path / "to", data="in-place", reset_positions="end")
