"""Runs with a budget take turns over all segments, and find together what one run without a budget finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.golden import broker_data

import brokerless
from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.verify.turn import begin_turn, load_state

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


def verify(logs: Path, state: Path, budget: int = BUDGET) -> tuple[list[str], set[str]]:
    """Return the kinds that one run finds, and which segments it has verified."""
    before = load_state(str(state))
    found = [f"{each.kind} {each.file}" for each in brokerless.open(logs).verify(budget=budget, state=state)]
    after = load_state(str(state))
    return found, {path for path, each in after.items() if before.get(path) != each}


def test_each_run_goes_on_where_the_last_one_stopped_and_all_are_verified_once_a_round(
    logs: Path, tmp_path: Path, times: list[int]
) -> None:
    state, sizes = tmp_path / "state.json", all_logs(logs)
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
        kinds, verified = verify(logs, tmp_path / "state.json")
        found |= {*kinds}
        seen |= verified
        if len(seen) == len(all_logs(logs)):
            break
    assert found == expected
    again, verified = verify(logs, tmp_path / "state.json", budget=1)
    assert verified == {str(damaged)}  # what is damaged is verified, and reported, in each run
    assert [each for each in again if str(damaged) in each]


def test_what_has_changed_is_verified_before_what_has_not(logs: Path, tmp_path: Path, times: list[int]) -> None:
    state = tmp_path / "state.json"
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
    state = tmp_path / "state.json"
    (logs / "copy-1" / sorted(each.name for each in (logs / "copy-1").glob("*.log"))[2]).write_bytes(b"x" * 100)
    findings = brokerless.open(logs).verify(budget=1 << 40, state=state)
    next(findings)
    findings.close()
    done = load_state(str(state))
    assert 0 < len(done) < len(all_logs(logs))
    turn = begin_turn(list(brokerless.open(logs).paths), 1, str(state))
    assert turn is not None
    assert not turn.chosen & {path for path, each in done.items() if not each.errors}
    assert turn.bytes == 0 < turn.verified_bytes < turn.total


def test_the_state_forgets_segments_that_are_gone_and_keeps_those_of_other_logs(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    verify(logs, state, 1 << 40)
    removed = sorted((logs / "segments-0").glob("*.log"))[0]
    removed.unlink()
    list(brokerless.open(logs / "segments-0").verify(budget=1, state=state))
    known = load_state(str(state))
    assert str(removed) not in known
    assert Counter(Path(each).parent.name for each in known)["copy-1"] == len(list((logs / "copy-1").glob("*.log")))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"verifyState": 2, "segments": {}}',
        '{"verifyState": 1, "segments": {"a": {"sizeInBytes": -1}}}',
    ],
)
def test_a_file_that_is_no_state_is_refused_and_stays(logs: Path, tmp_path: Path, text: str, run: Run) -> None:
    state = tmp_path / "state.json"
    state.write_text(text)
    with pytest.raises(UnreadableError, match="no state of verify"):
        list(brokerless.open(logs).verify(budget=1, state=state))
    done = run("verify", logs, "--budget", "1MB", "--state", state)
    assert (done.exit_code, state.read_text()) == (2, text)


@pytest.mark.parametrize("place", ["verify.json", "segments-0/verify.json"])
def test_the_state_is_never_in_a_log_directory(logs: Path, place: str) -> None:
    with pytest.raises(UsageError, match="name a file elsewhere"):
        list(brokerless.open(logs).verify(budget=1, state=logs / place))
    assert not (logs / place).exists()


@pytest.mark.parametrize("options", [{"budget": 5}, {"state": "x"}, {"budget": 0, "state": "x"}])
def test_a_budget_and_a_state_go_together(logs: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="budget"):
        list(brokerless.open(logs).verify(**options))


def test_the_command_line_says_how_far_it_has_come(logs: Path, tmp_path: Path, run: Run) -> None:
    options = ("--budget", "20kB", "--state", tmp_path / "state.json")
    (line,) = run("verify", logs, "--json", *options).json
    total = sum(all_logs(logs).values())
    assert (line["totalBytes"], line["verifiedSince"]) == (total, None)
    assert 0 < line["runBytes"] == line["verifiedBytes"] <= 20_000
    done = run("verify", logs, *options)
    assert done.exit_code == 0
    assert done.lines[-1].startswith("verified ")
    assert done.lines[-1].endswith("and the rest in the next")
    done = run("verify", logs, "--budget", "1TB", "--state", tmp_path / "state.json")
    assert "all was verified since 2" in done.lines[-1]
    assert json.loads((tmp_path / "state.json").read_text())["verifyState"] == 1


def test_two_runs_at_once_do_not_have_one_state(logs: Path, tmp_path: Path, run: Run) -> None:
    """The second is refused in one sentence, and the state is that of the first; another state is free."""
    state, options = tmp_path / "state.json", ("--budget", "20kB", "--state")
    with closing(brokerless.open(logs).verify(budget=1 << 40, state=state)) as first:
        (logs / "copy-1" / sorted(each.name for each in (logs / "copy-1").glob("*.log"))[2]).write_bytes(b"x" * 100)
        next(first)
        refused = run("verify", logs, *options, state)
        sentence = f"{state}: another run of verify has this state; wait for its end, or name another file"
        assert (refused.exit_code, refused.out, refused.err) == (2, b"", f"brokerless: {sentence}\n")
        with pytest.raises(UsageError, match="another run"):
            list(brokerless.open(logs).verify(budget=1, state=state))
        assert run("verify", logs, *options, tmp_path / "other.json").exit_code in (0, 1)
        list(first)
    assert {*load_state(str(state))} == {*all_logs(logs)}
    assert run("verify", logs, *options, state).exit_code == 1


def test_a_killed_run_locks_nothing(logs: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    code = (
        "import os, sys, brokerless\n"
        "from brokerless.jobs.verify.turn import begin_turn\n"
        "turn = begin_turn(list(brokerless.open(sys.argv[1]).paths), 1, sys.argv[2])\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(logs), str(state)], check=False).returncode == -9
    assert list(brokerless.open(logs).verify(budget=1 << 40, state=state)) == []
    assert {*load_state(str(state))} == {*all_logs(logs)}


def test_a_state_that_cannot_be_written_is_refused_at_once(logs: Path, tmp_path: Path, run: Run) -> None:
    done = run("verify", logs, "--budget", "20kB", "--state", tmp_path / "nowhere" / "state.json")
    assert (done.exit_code, done.out) == (2, b"")
    assert "nowhere" in done.err
