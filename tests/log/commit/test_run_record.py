"""Runs that were killed between their commit and their end; kills are in ``tests/jobs/test_killed_commands.py``."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest
from tests.lock_holder import held_by_another

from brokerless import UnreadableError, UsageError
from brokerless.cli import main
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.commit import run_record
from brokerless.log.commit.types import StagedPartition
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"


class Killed(BaseException):
    """As no handler of errors takes it."""


def salvage(source: Path, to: Path) -> int:
    return main(["salvage", str(source), "--to", str(to), "-t", "users"])


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The source and the target of a run that ended after its commit."""
    source, to = Path(shutil.copytree(DEMO, tmp_path / "source")), tmp_path / "to"

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("brokerless.jobs.rewrite.run.complete", die)
        with pytest.raises(Killed):
            salvage(source, to)
    assert (to / "users-0").is_dir()
    assert (to / names.RUN_RECORD).exists()
    return source, to


def test_the_same_command_ends_as_it_would_have(killed: tuple[Path, Path], tmp_path: Path) -> None:
    source, to = killed
    code = salvage(source, tmp_path / "whole")
    assert salvage(source, to) == code
    found, expected = ({path.name for path in each.rglob("*")} for each in (to, tmp_path / "whole"))
    assert found == expected
    assert salvage(source, to) == 2  # it has ended, and what is there stays


def test_what_was_changed_since_or_is_of_another_source_stays(
    killed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, to = killed
    other = Path(shutil.copytree(source, tmp_path / "other"))
    assert salvage(other, to) == 2
    assert "exists already" in capsys.readouterr().err
    log = max((to / "users-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"appended")
    assert salvage(source, to) == 2
    assert "it was changed since" in capsys.readouterr().err
    assert log.read_bytes().endswith(b"appended")


def test_nothing_is_removed_while_another_process_writes(
    killed: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    source, to = killed
    with held_by_another(to):
        assert salvage(source, to) == 2
    assert "exists already" not in capsys.readouterr().err
    assert (to / "users-0").is_dir()


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"version":0}', b'{"version":1,"run":"a","partitions":[{"name":"../a-0","files":[]}]}',
     b'{"version":1,"run":"a","partitions":[{"name":"a-0","files":[1]}]}', b'{"version":1,"partitions":[]}'],
)  # fmt: skip
def test_a_record_that_is_not_ours_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / names.RUN_RECORD).write_bytes(text)
    with pytest.raises(UnreadableError, match="not a record of a run"):
        run_record.refuse_written(Destination(Location(str(tmp_path))), ["a-0"], "a")


def test_a_commit_that_is_refused_leaves_no_record(tmp_path: Path) -> None:
    staged = StagedPartition("gone", "users", 0, 0, 0, PartitionOffsets(), ())
    (tmp_path / "users-0").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        run_record.commit_run(Destination(Location(str(tmp_path))), [staged], "a")
    assert not (tmp_path / names.RUN_RECORD).exists()


@pytest.mark.parametrize("step", [0, 1, 4])
def test_an_error_within_a_commit_leaves_what_a_kill_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Those that come after the decision: the partitions are there when the next run has completed the commit."""
    to, whole, renamed, done = tmp_path / "to", tmp_path / "whole", Path.rename, 0

    def failing(path: Path, target: str | Path) -> Path:
        nonlocal done
        if Path(target).parent == to and names.parse_partition_directory(Path(target).name) is not None:
            done += 1
            if done == step + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
        return renamed(path, target)

    def replacing(path: Path, target: str | Path) -> Path:
        return failing(path, target) if path.is_dir() else replaced(path, target)

    replaced = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", failing)
        patched.setattr(Path, "replace", replacing)
        assert main(["convert", str(DEMO), "--codec", "zstd", "--to", str(to)]) == 2
        assert done == step + 1
    assert main(["convert", str(DEMO), "--codec", "zstd", "--to", str(whole)]) == 0
    assert main(["convert", str(DEMO), "--codec", "zstd", "--to", str(to)]) == 0
    found, expected = ({path.name for path in each.rglob("*")} for each in (to, whole))
    assert found == expected
