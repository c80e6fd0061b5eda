"""What is known of the cluster after a start; ``tests/kafka/test_metadata_start.py`` starts brokers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.golden import broker_data

from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import DirectoryRestart, Restart
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

# ruff: noqa: F811 - a fixture of another directory
KRAFT = "__cluster_metadata-0"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A stopped broker's, which was the only voter."""
    return Path(shutil.copytree(broker_data("clean"), tmp_path / "data"))


def plan(directory: Path) -> DirectoryRestart:
    (planned,) = plan_directories([resolve(Location(str(directory)))])
    return planned


def plan_metadata(directory: Path) -> Restart:
    (partition,) = resolve(Location(str(directory / KRAFT))).partitions
    return plan_restart(partition, {}, clean=True)


def remove_logs(directory: Path) -> None:
    for path in (directory / KRAFT).glob("0*"):
        path.unlink()


def vote(directory: Path, *voters: int) -> None:
    path = directory / KRAFT / "quorum-state"
    state = json.loads(path.read_text())
    state["currentVoters"] = [{"voterId": each} for each in voters]
    path.chmod(0o644)
    path.write_text(json.dumps(state))


@pytest.fixture
def formatted(directory: Path, tmp_path: Path) -> Path:
    """What ``kafka-storage format`` of 4.4 writes: ``meta.properties``, and as a snapshot at offset 0 what is in
    ``bootstrap.checkpoint`` of older ones."""
    found = tmp_path / "formatted"
    (found / KRAFT).mkdir(parents=True)
    shutil.copy(directory / "meta.properties", found)
    shutil.copy(directory / "bootstrap.checkpoint", found / KRAFT / f"{0:020}-{0:010}.checkpoint")
    return found


def test_a_directory_that_was_only_formatted_is_of_the_kafkas_that_know_its_features(formatted: Path, run: Run) -> None:
    assert run("restart", formatted).exit_code == 0
    older = run("restart", "--kafka", "3.9.1", formatted)
    assert older.exit_code == 1
    assert "Kafka 3.9.1 does not know the cluster's metadata.version, and ends" in older.out.decode()


def test_a_directory_that_was_only_formatted_has_an_empty_log_and_no_unclean_stop(formatted: Path, run: Run) -> None:
    audited = run("audit", formatted)
    assert audited.lines[0] == "ok"
    assert b"clean-shutdown" not in audited.out
    described = run("cluster", formatted).out.decode()
    assert "__cluster_metadata-0, whose log is empty" in described
    assert " -1" not in described


def test_the_only_voter_begins_a_new_cluster(directory: Path, run: Run) -> None:
    remove_logs(directory)
    node = plan(directory)
    assert node.restarts_cluster
    assert {Path(path).name for path in node.stray} == {
        each.name for each in directory.iterdir() if each.is_dir() and each.name != KRAFT
    }
    done = run("restart", directory)
    assert done.exit_code == 1
    assert "it begins a new cluster, to which none of these partitions belongs" in "\n".join(done.lines)


@pytest.mark.parametrize(
    ("voters", "reason"),
    [
        ((1, 2, 3), "unless one of the controllers 2, 3 has it, all partitions become stray"),
        ((), "if this node is the only controller, all partitions become stray"),
    ],
)
def test_what_is_not_known_is_not_harmless(directory: Path, run: Run, voters: tuple[int, ...], reason: str) -> None:
    remove_logs(directory)
    vote(directory, *voters)
    node = plan(directory)
    assert (node.stray, node.is_harmless) == ({}, False)
    assert reason in (node.unknown or "")
    done = run("restart", directory)
    assert done.exit_code == 1
    assert any(reason in line for line in done.lines)


def test_a_directory_without_metadata_is_not_known(directory: Path) -> None:
    shutil.rmtree(directory / KRAFT)
    assert "there is no __cluster_metadata here" in (plan(directory).unknown or "")


def test_the_log_is_emptied_where_the_newest_snapshot_is_after_its_end(directory: Path) -> None:
    before = plan_metadata(directory)
    end = before.log_end_offset
    newest = max((directory / KRAFT).glob("*.checkpoint"))
    later = newest.rename(newest.with_name(f"{end + 7:020}-{1:010}.checkpoint"))
    assert plan_metadata(directory).log_end_offset == end  # its epoch is before that of the log's end
    later = later.rename(later.with_name(f"{end + 7:020}-{9:010}.checkpoint"))
    after = plan_metadata(directory)
    assert (after.log_start_offset, after.log_end_offset) == (end + 7, end + 7)
    assert [Path(file).name for file, _ in after.deleted] == [each.name for each in (directory / KRAFT).glob("*.log")]
    assert after.lost_bytes == sum(size for _, size in after.deleted)
    remove_logs_but(directory, later)
    assert (plan_metadata(directory).log_end_offset, plan_metadata(directory).deleted) == (end + 7, ())


def remove_logs_but(directory: Path, kept: Path) -> None:
    for path in (directory / KRAFT).glob("0*"):
        if path != kept:
            path.unlink()
