"""Staged partitions get their names in several log directories, all or none, whatever is killed or forged."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from brokerless.errors import UsageError
from brokerless.jobs.restore.disks.swap import JOURNAL, Move, Swap, aside_of, settle
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets
from brokerless.log.commit.partition_writer import unfinished_name

ROOT = Path(__file__).parents[4]
UNIQUE = "0" * 32


@pytest.mark.slow(reason="a process for each step")
def test_a_restore_that_is_killed_at_any_change_is_completed_or_begun_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.jobs.restore.disks.killed_restore", str(tmp_path), "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    *wrong, seen = [line for line in done.stdout.splitlines() if line]
    assert wrong == [], done.stderr
    assert sum(ast.literal_eval(seen).values()) > 3


def journal(paths: list[Path], **change: Any) -> bytes:
    move = {
        "topic": "t", "partition": 0, "staged": unfinished_name("t", 0), "aside": f"t-0.{UNIQUE}", "discarded": None,
        "recoveryPoint": 5, "logStartOffset": None, "highWatermark": 5, "cleaner": None, **change,
    }  # fmt: skip
    return json.dumps({"restore": 1, "paths": [str(path) for path in paths], "moves": [[move] for _ in paths]}).encode()


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("one", "two")]
    for path in found:
        path.mkdir()
    return found


def test_a_journal_that_the_first_directory_never_got_is_undone(directories: list[Path]) -> None:
    one, two = directories
    data = journal(directories)
    (staged,) = {each["staged"] for moves in json.loads(data)["moves"] for each in moves}
    (two / JOURNAL).write_bytes(data)
    (two / staged).mkdir()
    (two / "t-0").mkdir()
    assert not settle(directories)
    assert sorted(each.name for each in two.iterdir()) == ["t-0"]
    assert list(one.iterdir()) == []


def test_one_that_it_has_is_completed_in_all(directories: list[Path]) -> None:
    data = journal(directories)
    (staged,) = {each["staged"] for moves in json.loads(data)["moves"] for each in moves}
    for path in directories:
        (path / JOURNAL).write_bytes(data)
        (path / staged).mkdir()
        (path / staged / "new").touch()
        (path / "t-0").mkdir()
    assert settle(directories)
    for path in directories:
        assert [each.name for each in (path / "t-0").iterdir()] == ["new"]
        assert not (path / JOURNAL).exists()
        assert (path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 5\n"
        assert [each.name for each in aside_of(path).iterdir()] == [f"t-0.{UNIQUE}"]


def test_the_other_directories_have_to_be_given(directories: list[Path]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories))
    with pytest.raises(UsageError, match=f"changes {directories[1]}, too"):
        settle(directories[:1])


def test_what_a_broker_deleted_meanwhile_is_said(directories: list[Path]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories[:1]))
    with pytest.raises(UsageError, match="was a broker started on it meanwhile"):
        settle(directories[:1])


@pytest.mark.parametrize(
    "change",
    [
        {"staged": "../../etc"}, {"staged": "t-0"}, {"staged": unfinished_name("t", 1)}, {"aside": "../t-0"},
        {"aside": "t-0./../../x"}, {"discarded": "t-0"}, {"topic": "../t"}, {"topic": "t/.."}, {"partition": -1},
        {"recoveryPoint": -5}, {"highWatermark": "5"},
    ],
)  # fmt: skip
def test_a_forged_journal_moves_nothing(directories: list[Path], change: dict[str, Any]) -> None:
    (directories[0] / JOURNAL).write_bytes(journal(directories[:1], **change))
    (directories[0] / "t-0").mkdir()
    with pytest.raises(UsageError, match="no journal of a restore"):
        settle(directories[:1])
    assert (directories[0] / "t-0").is_dir()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"restore": 2, "paths": [], "moves": []}', b"[" * 10_000])
def test_what_is_no_journal_is_said(directories: list[Path], data: bytes) -> None:
    (directories[0] / JOURNAL).write_bytes(data)
    with pytest.raises(UsageError, match="no journal of a restore"):
        settle(directories[:1])


def test_a_link_in_a_partitions_place_is_not_followed(directories: list[Path], tmp_path: Path) -> None:
    data = journal(directories[:1])
    staged = json.loads(data)["moves"][0][0]["staged"]
    (tmp_path / "elsewhere").mkdir()
    (directories[0] / JOURNAL).write_bytes(data)
    (directories[0] / staged).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="gone"):
        settle(directories[:1])


def test_a_swap_says_which_directory_decides() -> None:
    move = Move("t", 0, unfinished_name("t", 0), None, None, *[None] * 4)
    assert move.offsets == PartitionOffsets()
    assert Swap((Path("/a"),), {Path("/a"): (move,)}).moves[Path("/a")][0].name == "t-0"
