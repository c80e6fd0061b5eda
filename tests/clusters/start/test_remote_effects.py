"""What a start does to remote storage, by a golden broker's directory and bucket."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import golden

from brokerless import UnreadableError
from brokerless.cli import main
from brokerless.clusters.start.directories import plan_directories
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def test_objects_of_a_bucket_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The directory and the bucket have some of the broker's partitions; those that are gone here are deleted there."""
    bucket = golden() / "plain" / "bucket"
    directory = broker_directory("plain", tmp_path / "data")
    (before,) = plan_directories([resolve(Location(str(directory)))], bucket=str(bucket))
    here = {each.name for each in directory.iterdir()}
    assert before.remote_log_starts == ()
    assert not {f"{each.topic}-{each.partition}" for each in before.remote_deletions} & here
    shutil.rmtree(directory / "trimmed-0")
    (planned,) = plan_directories([resolve(Location(str(directory)))], bucket=str(bucket))
    (found,) = {*planned.remote_deletions} - {*before.remote_deletions}
    count = sum(len(list(each.glob("0/*"))) for each in bucket.glob("trimmed-*"))
    assert (found.topic, found.objects, found.segments) == ("trimmed", count, count // 3)
    assert count > 0
    total = sum(each.objects or 0 for each in planned.remote_deletions)
    assert main(["restart", str(directory), "--remote", str(bucket)]) == 1
    assert f"remote segments ({total} objects) of tiered topics" in capsys.readouterr().out


def test_a_bucket_that_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = broker_directory("plain", tmp_path / "data")
    with pytest.raises(UnreadableError):
        plan_directories([resolve(Location(str(directory)))], bucket=str(tmp_path / "none"))
    assert main(["restart", str(directory), "--remote", str(tmp_path / "none")]) == 2
    assert "there is no such" in capsys.readouterr().err
