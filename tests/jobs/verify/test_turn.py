"""Runs with a budget take turns over all segments, and find together what one run without a budget finds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.golden import broker_data

import brokerless
from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.ledger import Checked, Ledger
from brokerless.jobs.verify.turn import begin_turn
from brokerless.log.storage.location import Location

BUDGET = 20_000


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory with several segments a partition, and damage in one of them."""
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "logs" / "segments-0")
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "logs" / "copy-1")
    return tmp_path / "logs"


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that goes on by one with each look."""
    passed = [1_000_000]

    def now() -> int:
        passed[0] += 1
        return passed[0]

    monkeypatch.setattr(clock, "now", now)
    return passed


def all_logs(logs: Path) -> dict[str, int]:
    return {str(each): each.stat().st_size for each in logs.rglob("*.log")}


def load_state(state: Path) -> dict[str, Checked]:
    """Return what is known of each segment."""
    ledger = Ledger(Location(str(state)))
    ledger.load()
    return {path: each for (kind, path), each in ledger.entries.items() if kind == "segment"}


def verify(logs: Path, state: Path, budget: int = BUDGET) -> tuple[list[str], set[str]]:
    """Return the kinds that one run finds, and which segments it has verified."""
    before = load_state(state)
    found = [f"{each.kind} {each.file}" for each in brokerless.open(logs).verify(budget=budget, state=state)]
    after = load_state(state)
    return found, {path for path, each in after.items() if before.get(path) != each}


def test_each_run_goes_on_where_the_last_one_stopped_and_all_are_verified_once_a_round(
    logs: Path, tmp_path: Path, times: list[int]
) -> None:
    state, sizes = tmp_path / "state", all_logs(logs)
    assert len(sizes) > 6
    rounds: list[str] = []
    runs = 0
    while len({*rounds}) < len(sizes):
        _, verified = verify(logs, state)
        assert sum(sizes[each] for each in verified) <= BUDGET or len(verified) == 1
        assert not {*rounds} & verified
        rounds += verified
        runs += 1
    assert runs > 2
    first = begin_turn(list(brokerless.open(logs).paths), BUDGET, str(state))
    assert first is not None
    assert first.oldest is not None
    assert {*rounds[: len(first.chosen)]} == first.chosen


def test_a_round_finds_what_one_run_without_a_budget_finds(logs: Path, tmp_path: Path, times: list[int]) -> None:
    damaged = sorted(logs.rglob("*.log"))[1]
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    expected = {f"{each.kind} {each.file}" for each in brokerless.open(logs).verify()}
    assert any(str(damaged) in each for each in expected)
    found: set[str] = set()
    seen: set[str] = set()
    for _ in range(50):
        kinds, verified = verify(logs, tmp_path / "state")
        found |= {*kinds}
        seen |= verified
        if len(seen) == len(all_logs(logs)):
            break
    assert found == expected
    again, verified = verify(logs, tmp_path / "state", budget=1)
    assert verified == {str(damaged)}  # what is damaged is verified, and reported, in each run
    assert [each for each in again if str(damaged) in each]


def test_what_has_changed_is_verified_before_what_has_not(logs: Path, tmp_path: Path, times: list[int]) -> None:
    state = tmp_path / "state"
    verify(logs, state, 1 << 40)
    changed = sorted((logs / "segments-0").glob("*.log"))[1]
    os.utime(changed, (5, 5))
    turn = begin_turn(list(brokerless.open(logs).paths), 1, str(state))
    assert turn is not None
    assert (turn.chosen, turn.oldest) == ({str(changed)}, None)
    assert turn.verified_bytes == turn.total - changed.stat().st_size
    turn.end()
    assert verify(logs, state, 1)[1] == {str(changed)}


def test_a_run_that_is_stopped_has_done_what_it_recorded(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (logs / "copy-1" / sorted(each.name for each in (logs / "copy-1").glob("*.log"))[2]).write_bytes(b"x" * 100)
    findings = brokerless.open(logs).verify(budget=1 << 40, state=state)
    next(findings)
    findings.close()
    done = load_state(state)
    assert 0 < len(done) < len(all_logs(logs))
    turn = begin_turn(list(brokerless.open(logs).paths), 1, str(state))
    assert turn is not None
    assert not turn.chosen & {path for path, each in done.items() if not each.has_errors}
    assert turn.bytes == 0 < turn.verified_bytes < turn.total


def test_the_state_forgets_segments_that_are_gone_and_keeps_those_of_other_logs(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    verify(logs, state, 1 << 40)
    removed = sorted((logs / "segments-0").glob("*.log"))[0]
    removed.unlink()
    list(brokerless.open(logs / "segments-0").verify(budget=1, state=state))
    known = load_state(state)
    assert str(removed) not in known
    assert Counter(Path(each).parent.name for each in known)["copy-1"] == len(list((logs / "copy-1").glob("*.log")))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"{}", bytes(100)])
def test_a_file_of_the_state_that_says_nothing_is_refused_with_what_to_do(
    logs: Path, tmp_path: Path, data: bytes, run: Run
) -> None:
    state = tmp_path / "state"
    verify(logs, state)
    (own,) = state.iterdir()
    own.write_bytes(data)
    with pytest.raises(UnreadableError, match="does not say what was verified; remove it"):
        list(brokerless.open(logs).verify(budget=1, state=state))
    done = run("verify", logs, "--budget", "1MB", "--state", state)
    assert (done.exit_code, own.read_bytes()) == (2, data)


def test_what_else_is_in_the_directory_stays(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "notes.txt").write_text("mine")
    verify(logs, tmp_path / "state")
    verify(logs, tmp_path / "state")
    assert (tmp_path / "state" / "notes.txt").read_text() == "mine"
    assert len(list((tmp_path / "state").iterdir())) == 2


def test_a_file_in_the_place_of_the_state_is_refused_and_stays(logs: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "state").write_text("{}")
    with pytest.raises(UsageError, match="this is a file, and the state is a directory"):
        list(brokerless.open(logs).verify(budget=1, state=tmp_path / "state"))
    assert run("verify", logs, "--budget", "1MB", "--state", tmp_path / "state").exit_code == 2
    assert (tmp_path / "state").read_text() == "{}"


@pytest.mark.parametrize("place", ["verify", "segments-0/verify"])
def test_the_state_is_never_in_a_log_directory(logs: Path, place: str) -> None:
    with pytest.raises(UsageError, match="name one elsewhere"):
        list(brokerless.open(logs).verify(budget=1, state=logs / place))
    assert not (logs / place).exists()


@pytest.mark.parametrize("options", [{"budget": 5}, {"state": "x"}, {"budget": 0, "state": "x"}])
def test_a_budget_and_a_state_go_together(logs: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="budget"):
        list(brokerless.open(logs).verify(**options))


def test_the_command_line_says_how_far_it_has_come(logs: Path, tmp_path: Path, run: Run) -> None:
    options = ("--budget", "20kB", "--state", tmp_path / "state")
    (line,) = run("verify", logs, "--json", *options).json
    total = sum(all_logs(logs).values())
    assert (line["totalBytes"], line["verifiedSince"]) == (total, None)
    assert 0 < line["runBytes"] == line["verifiedBytes"] <= 20_000
    done = run("verify", logs, *options)
    assert done.exit_code == 0
    assert done.lines[-1].startswith("verified ")
    assert done.lines[-1].endswith("and the rest in the next")
    done = run("verify", logs, "--budget", "1TB", "--state", tmp_path / "state")
    assert "all was verified since 2" in done.lines[-1]
    (own,) = (tmp_path / "state").glob("*.parquet")
    rows = pq.read_table(own).to_pylist()
    assert {each["kind"] for each in rows} == {"segment"}
    assert {each["path"] for each in rows} == {*all_logs(logs)}


def test_two_runs_at_once_share_one_state(logs: Path, tmp_path: Path, run: Run) -> None:
    """What either has done is known afterwards, whichever ends first, and of one segment what was seen last."""
    state = tmp_path / "state"
    damaged = logs / "copy-1" / sorted(each.name for each in (logs / "copy-1").glob("*.log"))[2]
    verify(logs, state)  # whose file the second takes away while the first one runs
    with closing(brokerless.open(logs).verify(budget=1 << 40, state=state)) as first:
        intact = damaged.read_bytes()
        damaged.write_bytes(b"x" * 100)
        next(first)
        assert run("verify", logs, "--budget", "1TB", "--state", state).exit_code == 1
        assert load_state(state).keys() == all_logs(logs).keys()
        list(first)
    assert load_state(state).keys() == all_logs(logs).keys()
    assert load_state(state)[str(damaged)].has_errors
    damaged.write_bytes(intact)
    assert run("verify", logs, "--budget", "1TB", "--state", state).exit_code == 0
    assert not load_state(state)[str(damaged)].has_errors
    assert len(list(state.glob("*.parquet"))) == 1


def test_a_clock_that_was_wrong_makes_nothing_wait(logs: Path, tmp_path: Path, times: list[int]) -> None:
    state, one = tmp_path / "state", sorted(all_logs(logs))[0]
    times[0] = 1 << 40
    list(brokerless.open(one).verify(budget=1, state=state))
    times[0] = 2_000_000
    assert verify(logs, state, 1 << 40)[1] == {*all_logs(logs)}
    assert all(each.verified < 1 << 30 for each in load_state(state).values())


def test_a_killed_run_locks_nothing(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    code = (
        "import os, sys, brokerless\n"
        "from brokerless.jobs.verify.turn import begin_turn\n"
        "turn = begin_turn(list(brokerless.open(sys.argv[1]).paths), 1, sys.argv[2])\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(logs), str(state)], check=False).returncode == -9
    assert list(brokerless.open(logs).verify(budget=1 << 40, state=state)) == []
    assert {*load_state(state)} == {*all_logs(logs)}


def test_a_state_that_cannot_be_written_is_refused_at_once(logs: Path, tmp_path: Path, run: Run) -> None:
    done = run("verify", logs, "--budget", "20kB", "--state", tmp_path / "nowhere" / "state")
    assert (done.exit_code, done.out) == (2, b"")
    assert "nowhere" in done.err
    assert not (tmp_path / "nowhere").exists()
