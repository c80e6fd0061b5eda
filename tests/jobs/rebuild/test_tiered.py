"""Leader epochs of tiered partitions that are damaged: written again from the remote segments too, or an error."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import golden

import brokerless
from brokerless.jobs.rebuild.plan import Rebuild

PLACE, BUCKET = "epochs-0", golden() / "plain" / "bucket"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return broker_directory("plain", tmp_path / "disk")


def kinds(rebuilt: Rebuild) -> set[tuple[str, str]]:
    names = ("remote-segments-deleted", "remote-epochs-lost", "checkpoint-corrupt")
    return {(each.kind, each.severity) for each in rebuilt.findings if each.kind in names}


@pytest.mark.parametrize("content", ["garbage\n", "0\n3\n0 0\n2 14", "0\n0\n", None])
def test_epochs_of_remote_segments_are_written_again(disk: Path, tmp_path: Path, content: str | None) -> None:
    file = disk / PLACE / "leader-epoch-checkpoint"
    right = file.read_text()
    before = kinds(brokerless.rebuild(disk, tmp_path / "to"))
    file.unlink()
    if content is not None:
        file.write_text(content)
    rebuilt = brokerless.rebuild(disk, tmp_path / "to", apply=True)
    node = tmp_path / "to" / "node-1"
    assert (node / PLACE / "leader-epoch-checkpoint").read_text() == right
    assert kinds(rebuilt) - before <= {("checkpoint-corrupt", "warning")}
    start = brokerless.open(node).restart(remote=BUCKET).directory
    assert start is not None
    assert "epochs" not in {each.topic for each in start.remote_deletions}


def test_without_the_metadata_of_remote_segments_it_is_an_error(disk: Path, tmp_path: Path) -> None:
    for each in disk.glob("__remote_log_metadata-*"):
        shutil.rmtree(each)
    (disk / PLACE / "leader-epoch-checkpoint").write_text("garbage\n")
    planned = brokerless.rebuild(disk, tmp_path / "to")
    assert ("remote-epochs-lost", "error") in kinds(planned)
    in_place = brokerless.rebuild(disk, tmp_path / "to", data="in-place")
    (found,) = [each for each in in_place.findings if each.kind == "checkpoint-corrupt"]
    assert found.severity == "error"
    assert "remove it" not in found.message
