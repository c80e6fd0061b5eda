"""The sum of a start is what the dry run of each partition and directory comes to."""

from __future__ import annotations

import json
import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest
from tests.golden import broker_data
from tests.internals.remote.metadata import broker_directory

import brokerless
from brokerless import clock
from brokerless.cli import main
from brokerless.clusters.start.start import StartOutcome, foresee_start
from brokerless.log.checkpoint.commit_journal import Journal, Renaming, write_journal
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def outcome(path: Path) -> StartOutcome | None:
    return foresee_start([resolve(Location(str(path)))]).get(str(path))


def test_a_clean_directory_loses_nothing(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    found = outcome(tmp_path / "disk")
    assert found is not None
    assert (found.refused, found.lost_bytes, found.offline) == (0, 0, False)


def test_what_recovery_cuts_is_summed_up(tmp_path: Path) -> None:
    shutil.copytree(broker_data("unclean"), tmp_path / "disk")
    log = max((tmp_path / "disk" / "busy-gzip-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    expected = brokerless.open(tmp_path / "disk").restart()
    found = outcome(tmp_path / "disk")
    assert found is not None
    assert found.lost_bytes == sum(each.lost_bytes for each in expected.partitions) > 0
    assert found.lost_records == sum(each.lost.records for each in expected.partitions)


def test_what_retention_deletes_by_a_wrong_index_is_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a clean stop, a broker takes the zeros at the end of a time index for the age of its segment."""
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    log = brokerless.open(tmp_path / "disk" / "txn-0")
    newest = max(max(rows["timestamp"].cast("int64").to_pylist()) for rows in log.records(["timestamp"]))
    monkeypatch.setattr(clock, "now", lambda: newest)
    for index in sorted((tmp_path / "disk" / "txn-0").glob("*.timeindex"))[:-1]:
        os.truncate(index, 10_485_756)
    restarts = brokerless.open(tmp_path / "disk").restart().partitions
    sizes = [each.retention.size for each in restarts if each.retention is not None and each.retention.misread]
    found = outcome(tmp_path / "disk")
    assert found is not None
    assert found.misread_bytes == sum(sizes) > 0


def test_a_name_at_which_a_broker_ends_refuses_the_directory(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    (tmp_path / "disk" / "lost+found").mkdir()
    found = outcome(tmp_path / "disk")
    assert found is not None
    assert found.refused == 1
    assert "lost+found" in str(found.first_refusal)


def test_partitions_whose_commit_was_cut_short_are_counted(tmp_path: Path) -> None:
    disk, new = tmp_path / "disk", unfinished_name("txn", 7)
    shutil.copytree(broker_data("clean"), disk)
    shutil.copytree(disk / "txn-0", disk / new)
    write_journal(disk, Journal.begun().decide([Renaming(new, "txn-7")]))
    found = outcome(disk)
    assert found is not None
    assert found.uncommitted == 1
    of_disk = brokerless.open(disk).restart().directory
    assert of_disk is not None
    assert [Path(path).name for path, _ in of_disk.deleted] == [new]
    assert [(each.kind, each.severity) for each in of_disk.warnings] == [("uncommitted", "warning")]


def test_a_directory_that_cannot_be_loaded_ends_a_broker_that_has_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = broker_directory("plain", tmp_path / "data")
    (directory / "trimmed-0" / "leader-epoch-checkpoint").write_bytes(b"garbage")
    found = outcome(directory)
    assert found is not None
    assert (found.refused, found.offline, found.not_served) == (0, True, 1)
    main(["audit", str(directory)])
    text = " ".join(capsys.readouterr().out.split())
    assert "start a broker ends, or goes on without this directory where it has another: " in text
    assert "1 partition not served" in text


def test_nothing_is_foreseen_of_a_copy_of_partitions(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    assert outcome(tmp_path) is None


def test_remote_segments_that_the_start_deletes_are_named(tmp_path: Path) -> None:
    directory = broker_directory("plain", tmp_path / "data")
    before = outcome(directory)
    shutil.rmtree(directory / "trimmed-0")
    after = outcome(directory)
    assert before is not None
    assert after is not None
    assert [each.topic for each in {*after.remote_deletions} - {*before.remote_deletions}] == ["trimmed"]


def test_a_directory_that_only_an_older_kafka_takes_is_one_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kafka 4.4 refuses the segment.bytes of its topics."""
    with tarfile.open("tests/internals/remote/tiered.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    found = outcome(tmp_path / "data")
    assert found is not None
    assert (found.refused, found.version) == (0, "4.0.2")
    assert found.newest is not None
    assert found.newest.refused == 1
    main(["audit", str(tmp_path / "data")])
    text = " ".join(capsys.readouterr().out.split())
    assert "start Kafka 4.0.2 starts, and cuts nothing off; Kafka 4.4.0 does not start: " in text
    main(["audit", "--kafka", "3.9", str(tmp_path / "data")])
    assert "start Kafka 3.9.1 starts, and cuts nothing off" in " ".join(capsys.readouterr().out.split())
    of_demo = outcome(Path("demo/data"))
    assert of_demo is not None
    assert (of_demo.version, of_demo.newest) == (None, None)


@pytest.mark.parametrize("content", ["nothing", "no directory", "no meta.properties"])
def test_a_directory_without_meta_properties_refuses_the_start_of_all_that_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    """As where a disk is not mounted."""
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    other = tmp_path / "other"
    if content != "no directory":
        other.mkdir()
    if content == "no meta.properties":
        (tmp_path / "disk" / "txn-0").rename(other / "txn-0")
    for command in ("audit", "restart"):
        code = main([command, str(tmp_path / "disk"), str(other)])
        said = capsys.readouterr()
        text = " ".join(said.out.split())
        assert code == (1 if content == "no meta.properties" else 2), said.err
        assert f"{other}/meta.properties: " in text or "meta.properties: there is n" in text
        assert "does not start" in text
        assert "begun empty" not in text
    capsys.readouterr()
    main(["audit", "--json", str(tmp_path / "disk"), str(other)])
    rows = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [(each["kind"], each["file"]) for each in rows if each["kind"].startswith("meta-properties")] == [
        ("meta-properties-missing", f"{other}/meta.properties")
    ]
    assert not [each for each in rows if each["kind"] == "partition-missing" and "checkpoint" in each["file"]]
    log = brokerless.open(tmp_path / "disk")
    restart = log.restart(log_dirs=[other]).directory
    assert restart is not None
    assert not restart.created
    audited = [each for each in log.audit(log_dirs=[other]).findings if each.kind == "partition-missing"]
    assert not [each for each in audited if "checkpoint" in each.file]


def test_other_log_directories_are_given_in_python(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean"), tmp_path / "disk")
    (tmp_path / "other").mkdir()
    properties = (tmp_path / "disk" / "meta.properties").read_text()
    own = re.sub("directory.id=.*", f"directory.id={'B' * 22}", properties)
    (tmp_path / "other" / "meta.properties").write_text(own)
    (tmp_path / "disk" / "txn-0").rename(tmp_path / "other" / "txn-0")
    log = brokerless.open(tmp_path / "disk")
    alone, both = log.restart().directory, log.restart(log_dirs=[tmp_path / "other"]).directory
    assert alone is not None
    assert both is not None
    assert ("txn", 0) in alone.created
    assert ("txn", 0) not in both.created
