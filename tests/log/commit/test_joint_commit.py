"""A commit of several log directories happens in all of them, or in none, whatever is killed or forged."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brokerless.errors import BrokerlessError, UnreadableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import Renaming, committing
from brokerless.log.commit.commit import aside_of, recover_commit
from brokerless.log.commit.joint_commit import commit_together, recover_together
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.storage.destination import Destination

ROOT = Path(__file__).parents[3]
JOURNAL = names.COMMIT_JOURNAL
STAGED = unfinished_name("t", 0)
ASIDE = f"t-0.{'0' * 32}"


def recovered(directories: Sequence[Path]) -> bool:
    with ExitStack() as stack:
        locks = {path: stack.enter_context(Destination.of(path).hold()) for path in directories}
        for path in directories:
            stack.enter_context(committing(path))
        return recover_together(locks)


def journal(paths: Sequence[Path], *, is_decided: bool, **change: Any) -> bytes:
    new = {"staged": STAGED, "name": "t-0", "aside": ASIDE, "discarded": None, "offsets": [5, None, 5, None], **change}
    return json.dumps(
        {
            "version": 2,
            "growing": [],
            "new": [[*new.values()]],
            "query": None,
            "is_decided": is_decided,
            "together": [str(path) for path in paths],
        }
    ).encode()


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    """Two log directories with an old partition and a new one that is staged."""
    found = [tmp_path / name for name in ("one", "two")]
    for path in found:
        (path / STAGED).mkdir(parents=True)
        (path / STAGED / "new").touch()
        (path / "t-0").mkdir()
        (path / "t-0" / "old").touch()
    return found


def contents(path: Path) -> list[str]:
    locks = {names.LOCK, names.COMMIT_LOCK}
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.name not in locks)


def is_new(path: Path) -> None:
    assert [each.name for each in (path / "t-0").iterdir()] == ["new"]
    assert not (path / JOURNAL).exists()
    assert (path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
    assert [each.name for each in aside_of(path).iterdir()] == [ASIDE]
    assert not (path / STAGED).exists()


def is_old(path: Path) -> None:
    assert [each.name for each in (path / "t-0").iterdir()] == ["old"]
    assert not (path / JOURNAL).exists()
    assert not aside_of(path).exists()


def test_all_partitions_get_their_names(directories: list[Path]) -> None:
    new = Renaming(STAGED, "t-0", ASIDE, None, (5, None, 5, None))
    with ExitStack() as stack:
        for path in directories:
            stack.enter_context(committing(path))
        commit_together({path: [new] for path in directories})
    for path in directories:
        is_new(path)


def test_what_the_first_directory_did_not_decide_is_undone(directories: list[Path]) -> None:
    _, two = directories
    (two / JOURNAL).write_bytes(journal(directories, is_decided=False))
    assert not recovered(directories)
    for path in directories:
        is_old(path)
    assert not (two / STAGED).exists()


def test_what_it_has_decided_is_completed_in_all(directories: list[Path]) -> None:
    one, two = directories
    (one / JOURNAL).write_bytes(journal(directories, is_decided=True))
    (two / JOURNAL).write_bytes(journal(directories, is_decided=False))
    assert recovered(directories)
    for path in directories:
        is_new(path)
    assert not recovered(directories)


def test_where_another_directory_cannot_be_completed_the_first_one_still_decides(directories: list[Path]) -> None:
    one, two = directories
    (one / JOURNAL).write_bytes(journal(directories, is_decided=True))
    (two / JOURNAL).write_bytes(journal(directories, is_decided=False, aside=None))
    with pytest.raises(UsageError, match="t-0: this partition came meanwhile"):
        recovered(directories)
    assert (one / JOURNAL).exists()
    (two / "t-0" / "old").unlink()
    (two / "t-0").rmdir()
    assert recovered(directories)
    is_new(one)
    assert [each.name for each in (two / "t-0").iterdir()] == ["new"]


@pytest.mark.slow(reason="a process for each step")
def test_a_kill_at_any_step_leaves_all_of_a_commit_or_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.log.killed_joint_commit", str(tmp_path), "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    assert not done.stderr
    is_over, _, counts = seen.partition(" ")
    assert is_over == "after"
    assert min(ast.literal_eval(counts).values()) > 2


def test_an_empty_partition_in_its_place_is_removed(directories: list[Path]) -> None:
    discarded = unfinished_name("t", 0)
    (directories[0] / JOURNAL).write_bytes(journal(directories[:1], is_decided=True, aside=None, discarded=discarded))
    assert recovered(directories[:1])
    assert [each.name for each in (directories[0] / "t-0").iterdir()] == ["new"]
    assert not (directories[0] / discarded).exists()


def test_the_other_directories_have_to_be_given(directories: list[Path]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories, is_decided=True))
    with pytest.raises(UsageError, match=f"changes {directories[1]}, too"):
        recovered(directories[:1])


def test_other_writers_leave_it_to_the_next_restore(directories: list[Path]) -> None:
    for is_decided in (True, False):
        (directories[0] / JOURNAL).write_bytes(journal(directories, is_decided=is_decided))
        with pytest.raises(UsageError, match=r"a restore was cut short that changes .*: run it again with apply="):
            recover_commit(directories[0])
    assert [each.name for each in (directories[0] / "t-0").iterdir()] == ["old"]


def test_the_journal_of_a_directory_that_was_moved_is_refused(directories: list[Path], tmp_path: Path) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories, is_decided=True))
    moved = directories[0].rename(tmp_path / "moved")
    with pytest.raises(
        UsageError, match=r"this is of a commit that was cut short in .*; have them there again, or move"
    ):
        recovered([moved, directories[1]])


def test_a_moved_directory_that_lacks_a_partition_says_where_it_is(directories: list[Path], tmp_path: Path) -> None:
    one = directories[0]
    (one / JOURNAL).write_bytes(journal(directories, is_decided=True))
    (one / "t-0" / "old").unlink()
    (one / "t-0").rmdir()
    moved = one.rename(tmp_path / "moved")
    with pytest.raises(UsageError, match=rf"Else rename .*\({STAGED} becomes t-0\) before .* is in {moved}.replaced"):
        recovered([moved, directories[1]])


def test_what_a_broker_deleted_meanwhile_is_said(directories: list[Path]) -> None:
    one, two = directories
    for each in (two / STAGED, two / "t-0"):
        for file in each.iterdir():
            file.unlink()
        each.rmdir()
    (one / JOURNAL).write_bytes(journal(directories, is_decided=True))
    (two / JOURNAL).write_bytes(journal(directories, is_decided=False))
    with pytest.raises(UsageError, match=r"what t-0 should become was deleted since, by a broker"):
        recovered(directories)
    is_new(one)
    assert not recovered(directories)


@pytest.mark.parametrize(
    "change",
    [
        {"staged": "../../etc"}, {"staged": "t-0"}, {"staged": unfinished_name("t", 1)}, {"aside": "../t-0"},
        {"aside": "t-0./../../x"}, {"discarded": "t-0"}, {"name": "../t-0"}, {"name": "t/..-0"}, {"name": "t--1"},
        {"offsets": [-5, None, None, None]}, {"offsets": ["5", None, None, None]}, {"offsets": [5]}, {"more": 1},
        {"discarded": STAGED},
    ],
)  # fmt: skip
def test_a_forged_journal_moves_nothing(directories: list[Path], tmp_path: Path, change: dict[str, Any]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories[:1], is_decided=True, **change))
    before = contents(tmp_path)
    with pytest.raises(UnreadableError, match="this is not a journal of brokerless's commits"):
        recovered(directories[:1])
    assert contents(tmp_path) == before


def test_a_commit_of_one_directory_replaces_nothing(directories: list[Path]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal([], is_decided=True))
    with pytest.raises(UnreadableError, match="new replaces something"):
        recovered(directories[:1])


def test_a_link_in_a_partitions_place_is_not_followed(directories: list[Path], tmp_path: Path) -> None:
    (directories[0] / STAGED).rename(tmp_path / "elsewhere")
    (directories[0] / STAGED).symlink_to(tmp_path / "elsewhere")
    (directories[0] / "t-0").rename(tmp_path / "away")
    (directories[0] / JOURNAL).write_bytes(journal(directories[:1], is_decided=True))
    with pytest.raises(BrokerlessError, match="deleted since"):
        recovered(directories[:1])
    assert not (directories[0] / "t-0").exists()
    assert (tmp_path / "elsewhere" / "new").exists()
