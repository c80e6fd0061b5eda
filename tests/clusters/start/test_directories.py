"""The dry run for the log directories of one broker, as a list of effects; brokers start in ``tests/kafka``."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.effects import Effect, directory_effects, partition_effects
from brokerless.clusters.start.job import plan_partition
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"


def effects(path: Path) -> list[Effect]:
    directory = resolve(Location(str(path)))
    (planned,) = plan_directories([directory])
    state = load_directory_state(directory)
    restarts = [plan_partition(each, state, planned) for each in directory.partitions]
    return [*directory_effects(planned), *(each for restart in restarts for each in partition_effects(restart))]


def harmful(path: Path) -> set[tuple[str, str, str]]:
    """Kind, the kind of the finding, and its severity."""
    found = ((each.kind, each.finding) for each in effects(path))
    return {(kind, finding.kind, finding.severity) for kind, finding in found if finding is not None}


def disk(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "disk"))


def test_a_start_that_loses_nothing_has_no_finding(tmp_path: Path) -> None:
    assert harmful(disk(tmp_path)) == set()


def test_each_effect_names_its_place_and_its_finding(tmp_path: Path) -> None:
    path = disk(tmp_path)
    (path / "users-0" / "partition.metadata").unlink()
    shutil.rmtree(path / "payments-0")
    assert harmful(path) >= {
        ("stray", "partition-metadata-missing", "error"),
        ("begun-empty", "partition-missing", "error"),
    }
    missing, users = (each for each in effects(path) if each.kind == "begun-empty")
    assert users.place == ("users", 0)  # as its directory becomes stray
    assert missing.row() == {
        "kind": "begun-empty",
        "place": ["payments", 0],
        "path": str(path),
        "bytes": None,
        "offsets": None,
        "finding": "partition-missing",
        "file": str(path),
        "severity": "error",
    }


def test_what_is_cut_without_a_record_in_it_is_a_warning_and_else_an_error(tmp_path: Path) -> None:
    path = disk(tmp_path)
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = next((path / "orders-0").glob("*.log"))
    with log.open("ab") as file:
        file.write(b"\0" * 61)
    assert ("cut", "recovery-cuts", "warning") in harmful(path)


def two_disks(tmp_path: Path) -> tuple[Path, Path]:
    """The log directories of one broker, of which the first has the cluster's metadata."""
    first, second = disk(tmp_path), tmp_path / "disk2"
    second.mkdir()
    for name in ("orders-0", "users-0"):
        shutil.move(first / name, second)
    properties = (first / "meta.properties").read_text()
    (second / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={'B' * 22}", properties))
    return first, second


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("meta.properties", "meta-properties-corrupt"),
        ("cleaner-offset-checkpoint", "checkpoint-corrupt"),
        ("replication-offset-checkpoint", "checkpoint-corrupt"),
        ("orders-0/leader-epoch-checkpoint", "checkpoint-corrupt"),
        ("orders-0/partition.metadata", "partition-metadata-corrupt"),
    ],
)
def test_what_cannot_be_read_takes_a_directory_offline_unless_it_has_the_metadata(
    name: str, kind: str, tmp_path: Path
) -> None:
    first, second = two_disks(tmp_path)
    (second / name).write_bytes(b"garbage=\\u12")
    listed = [resolve(Location(str(path))) for path in (first, second)]
    planned, offline = plan_directories(listed)
    assert (planned.offline, planned.refused, offline.refused) == (None, (), ())
    assert offline.offline is not None
    assert offline.offline.kind == kind
    assert {Path(path).name for path in offline.unserved} == {"orders-0", "users-0"}
    restarts = [plan_partition(each, load_directory_state(listed[1]), offline) for each in listed[1].partitions]
    assert not any(each.is_fatal for each in restarts)
    assert all(each.unserved is not None for each in restarts)

    for each in ("orders-0", "users-0"):
        shutil.move(second / each, first)
    shutil.move(second, tmp_path / "other")
    (tmp_path / "other" / "meta.properties").write_text(
        re.sub("directory.id=.*", f"directory.id={'B' * 22}", (first / "meta.properties").read_text())
    )
    (first / name).write_bytes(b"garbage=\\u12")
    listed = [resolve(Location(str(path))) for path in (first, tmp_path / "other")]
    planned, _ = plan_directories(listed)
    restarts = [plan_partition(each, load_directory_state(listed[0]), planned) for each in listed[0].partitions]
    assert planned.offline is None
    assert planned.refused or any(each.is_fatal for each in restarts)


def test_a_file_name_ends_a_broker_in_each_directory(tmp_path: Path) -> None:
    first, second = two_disks(tmp_path)
    (second / "orders-0" / "copy.log").touch()
    listed = [resolve(Location(str(path))) for path in (first, second)]
    _, planned = plan_directories(listed)
    restarts = [plan_partition(each, load_directory_state(listed[1]), planned) for each in listed[1].partitions]
    assert planned.offline is None
    assert [each.is_fatal for each in restarts] == [True, False]
