"""A backup of brokers that work meanwhile is of one moment, and whole.

``python -m tests.jobs.backup.simulated.seeds FIRST COUNT`` does the same by any number of seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples import some_quick, usual_part
from tests.jobs.backup.disks import DEMO, rows_of
from tests.jobs.backup.simulated.brokers import COMPLETE, PREPARED, Brokers
from tests.jobs.backup.simulated.oracle import check, working
from tests.lock_holder import held_by_another

import brokerless
from brokerless.errors import OutOfFilesError
from brokerless.jobs.backup import closing


@pytest.mark.parametrize("seed", some_quick(range(usual_part(32))))
def test_a_snapshot_is_what_the_brokers_had_at_one_moment(seed: int, tmp_path: Path) -> None:
    """Each partition is its log at a time within the cut; transactions are decided in all of their partitions, or in
    none, or listed; no position of a group is past an end; each partition is there, or named."""
    assert not list(check(tmp_path, seed, runs=1 + seed % 2))


def test_brokers_that_run_are_known_by_their_lock(tmp_path: Path) -> None:
    disk, place = tmp_path / "disk", tmp_path / "backup"
    brokerless.merge(DEMO, disk)
    (disk / ".lock").touch()
    with held_by_another(disk):
        result = brokerless.backup(disk, place)
    assert result.is_complete, result.findings
    assert result.snapshot.cut is not None
    assert result.snapshot.cut.began <= result.snapshot.cut.ended
    assert rows_of(place) == rows_of(disk)
    assert brokerless.backup(disk, place).snapshot.cut is None


def test_a_transaction_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "_PAUSE_S", 0)
    brokers = Brokers(tmp_path / "disks", 3)
    while not any(each.prepared is not None and not each.is_complete for each in brokers.transactions):
        brokers.step()
    (own,) = [each for each in brokers.transactions if each.prepared is not None and not each.is_complete]
    monkeypatch.setattr("tests.jobs.backup.simulated.oracle.STEPS", -1)
    with working(brokers, 3):
        result = brokerless.backup(brokers.disks, tmp_path / "backup")
    assert result.snapshot.cut is not None
    (found,) = result.snapshot.cut.open
    assert (found.transactional_id, found.producer_id) == (own.name, own.producer)
    assert found.partitions == tuple(sorted(f"{topic}-{number}" for topic, number in own.places))
    (finding,) = [each for each in result.findings if each.severity != "info"]
    assert finding.kind == "transaction-cut-open"
    assert repr(own.name) in finding.message
    assert not result.is_complete


def test_a_transaction_that_only_a_log_has_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its coordinator has completed it, and the log has no marker: whatever made it so, the copy is not whole."""
    brokers = Brokers(tmp_path / "disks", 3)
    while not any(each.data and each.prepared is None for each in brokers.transactions):
        brokers.step()
    (own,) = [each for each in brokers.transactions if each.data and each.prepared is None]
    for status in (PREPARED, COMPLETE):
        brokers._decide(own, status)
    monkeypatch.setattr("tests.jobs.backup.simulated.oracle.STEPS", -1)
    with working(brokers, 3):
        result = brokerless.backup(brokers.disks, tmp_path / "backup")
    assert result.snapshot.cut is not None
    assert own.producer in {each.producer_id for each in result.snapshot.cut.open}
    assert not result.is_complete


def test_more_files_than_may_be_open_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(tmp_path / "disks", 1)
    brokers.run(100)

    def refuse(*_: object) -> None:
        raise OutOfFilesError("table-0", "this process has as many files open as it may")

    monkeypatch.setattr("brokerless.jobs.recovered.open_files.open_listed", refuse)
    with working(brokers, 1), pytest.raises(OutOfFilesError, match="as many files open"):
        brokerless.backup(brokers.disks, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
