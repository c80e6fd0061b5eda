"""A tiered partition without its leader epochs is an error, as a start deletes its remote segments.

``tests/kafka/test_remote_start.py`` removes the file before brokers start: their buckets are empty then.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden import broker_data
from tests.internals.remote.metadata import broker_directory

import brokerless
from brokerless.cli import main
from brokerless.clusters.epoch_checks import LeaderEpochCheck, check_epochs, check_leader_epochs
from brokerless.clusters.start.directories import plan_directories
from brokerless.findings import Finding, Kind
from brokerless.internals.remote import unread_segments
from brokerless.internals.remote.leader_epochs import check_remote_epochs
from brokerless.internals.remote.segment_metadata import RemoteMetadata
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.progress import Report

PLACE = "epochs-0"
DELETES = "deletes its 2 remote segments from the bucket"


def partition(path: Path) -> PartitionPath:
    return resolve(Location(str(path))).partitions[0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return broker_directory("plain", tmp_path / "data")


def lost(data: Path) -> Finding:
    (finding,) = check_leader_epochs(partition(data / PLACE))
    assert (finding.severity, finding.kind) == ("error", "remote-epochs-lost")
    assert finding.file == str(data / PLACE / "leader-epoch-checkpoint")
    return finding


@pytest.mark.parametrize("content", [None, b"", b"0\n0\n", b"garbage\n"])
def test_all_remote_segments_go_without_epochs(data: Path, content: bytes | None) -> None:
    file = data / PLACE / "leader-epoch-checkpoint"
    assert not list(check_leader_epochs(partition(data / PLACE)))
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert DELETES in lost(data).message


def test_the_first_epoch_has_remote_segments_of_its_own(data: Path) -> None:
    """Of a checkpoint without it, a leader deletes those, and no others."""
    file = data / PLACE / "leader-epoch-checkpoint"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], str(len(lines) - 3), *lines[3:]]) + "\n")
    own = partition(data / PLACE)
    found = check_remote_epochs(own)
    assert found is not None
    assert found.found == f"epoch {lines[3].split()[0]} first"
    assert "1 of its 2 remote segments" in found.message
    check = LeaderEpochCheck()
    assert Kind.REMOTE_EPOCHS_LOST in [each.kind for each in check_epochs(own, check, 1 << 40, is_partition=True)]


def test_epochs_after_those_of_the_remote_segments_are_wrong(data: Path) -> None:
    file = data / PLACE / "leader-epoch-checkpoint"
    assert check_remote_epochs(partition(data / PLACE)) is None
    file.write_bytes(b"0\n1\n99 0\n")
    found = check_remote_epochs(partition(data / PLACE))
    assert found is not None
    assert (found.kind, found.expected, found.found) == (
        "remote-epochs-lost", "epoch 0 or before", "epoch 99 first",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lacking", "named"), [("__remote_log_metadata", "its remote"), ("__cluster_metadata", "its 2")]
)
def test_one_of_both_metadata_is_enough(data: Path, lacking: str, named: str) -> None:
    (data / PLACE / "leader-epoch-checkpoint").unlink()
    for each in data.glob(f"{lacking}-*"):
        shutil.rmtree(each)
    assert f"{named} " in lost(data).message


def test_other_topics_and_a_tiered_one_that_begins_are_not_named(data: Path, tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    shutil.copytree(broker_data("clean") / "segments-0", data / "segments-0")
    for each in (data / "segments-0", tmp_path / "disk" / "segments-0"):
        (each / "leader-epoch-checkpoint").write_bytes(b"garbage\n")
        assert [finding.kind for finding in check_leader_epochs(partition(each))] == ["checkpoint-corrupt"]
        (each / "leader-epoch-checkpoint").unlink()
        assert not list(check_leader_epochs(partition(each)))
    (data / "empty-0").mkdir(exist_ok=True)
    for file in (data / "empty-0").iterdir():
        file.unlink()
    (data / "empty-0" / f"{0:020}.log").touch()
    assert not list(check_leader_epochs(partition(data / "empty-0")))


@pytest.mark.parametrize("content", [None, b"", b"0\n1\n99 0\n", b"garbage\n"])
def test_audit_and_restart_warn_of_the_deletion_and_never_advise_it(
    data: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data / PLACE / "leader-epoch-checkpoint"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert main(["audit", str(data), "--topic", "epochs", "--all"]) == 1
    printed = capsys.readouterr().out
    assert DELETES in printed
    assert "-> start no broker before leader-epoch-checkpoint is right" in printed
    assert "delete the file while" not in printed
    assert "high watermarks" not in printed
    assert main(["restart", str(data)]) == 1
    printed = capsys.readouterr().out
    (planned,) = plan_directories([resolve(Location(str(data)))])
    assert ("epochs" in {each.topic for each in planned.remote_deletions}) == (content != b"garbage\n")
    if content == b"garbage\n":
        assert DELETES in printed
        assert "remedy: do not move the file away" in printed
    else:
        assert "or the leader epochs in them, are gone or wrong" in printed


@pytest.mark.parametrize("command", ["verify", "audit"])
def test_a_partition_by_itself_is_named_too(data: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (data / PLACE / "leader-epoch-checkpoint").unlink()
    assert main([command, str(data / PLACE)]) == 1
    assert DELETES in capsys.readouterr().out


def test_audit_names_what_a_start_deletes_for_a_lost_directory(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(data / PLACE)
    assert main(["audit", str(data)]) == 1
    (start,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("start ")]
    assert "it deletes " in start
    assert "1 partition begun empty" not in start


def test_the_metadata_is_read_once_for_all_partitions(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in [each for each in data.iterdir() if (each / "leader-epoch-checkpoint").exists()]:
        if not directory.name.startswith("__"):
            (directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n99 0\n")
    read: list[int] = []
    original = unread_segments.read_remote_metadata

    def counted(partitions: list[PartitionPath], on_damage: Report) -> RemoteMetadata:
        read.append(len(partitions))
        return original(partitions, on_damage)

    monkeypatch.setattr(unread_segments, "_loaded", {})
    monkeypatch.setattr(unread_segments, "read_remote_metadata", counted)
    found = [each for each in brokerless.open(data).verify() if each.kind == "remote-epochs-lost"]
    assert len(found) > 3
    assert len(read) == 1
    log = next(each for each in data.glob("__remote_log_metadata-*/*.log") if each.stat().st_size)
    log.write_bytes(log.read_bytes()[:-1])
    check_remote_epochs(partition(data / PLACE))
    assert len(read) == 2
