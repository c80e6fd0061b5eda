"""Progress on a real terminal (a pseudo-terminal), by what comes there and by what is left on its screen."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal
from tests.golden import broker_data, case
from tests.require import require

from brokerless.jobs.run.on_spark import what_is_missing

BAR = re.compile(r"[━╸╺]")
FACTS = re.compile(r"\d[\d.]* \w+ of \d[\d.]* \w+  \d[\d.]* \w+/s  (\d+:\d\d left|\d+:\d\d)")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs")
    for name in ("busy-0", "busy-1", "__consumer_offsets-0"):
        source = broker_data("unclean") / name
        if source.exists():
            shutil.copytree(source, directory / name)
    return directory


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.jsonl"
    path.write_text('{"value": "one"}\n{"value": "two"}\n')
    return path


COMMANDS = {
    "ls": ["ls", "LOGS"],
    "cat": ["cat", "LOGS"],
    "cat --tail": ["cat", "LOGS", "--tail", "3"],
    "batches": ["batches", "LOGS"],
    "verify": ["verify", "LOGS"],
    "audit": ["audit", "LOGS"],
    "restart": ["restart", "LOGS"],
    "salvage": ["salvage", "LOGS", "--to", "TO"],
    "salvage --dry-run": ["salvage", "LOGS", "--to", "TO", "--dry-run"],
    "carve": ["carve", "IMAGE", "--to", "TO"],
    "merge": ["merge", "LOGS", "--to", "TO"],
    "convert": ["convert", "LOGS", "--codec", "gzip", "--to", "TO"],
    "erase": ["erase", "LOGS", "--header", "no=such", "--to", "TO"],
    "size": ["size", "LOGS", "--codec", "lz4", "--format", "v2"],
    "export": ["export", "LOGS", "--to", "TO"],
    "load": ["load", "LINES", "--topic", "lines", "--to", "TO", "--timestamp", "1"],
    "internals": ["internals", "OFFSETS", "--history"],
}


def arguments_of(name: str, logs: Path, lines: Path, to: Path) -> list[str]:
    image = next((logs / "busy-0").glob("*.log"))
    offsets = next((broker_data("clean")).glob("__consumer_offsets-*"))
    paths = {"LOGS": logs, "LINES": lines, "IMAGE": image, "OFFSETS": offsets, "TO": to}
    return [str(paths.get(each, each)) for each in COMMANDS[name]]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bar_is_on_stderr_wherever_stdout_goes_and_no_trace_of_it_stays(
    run: Run, name: str, logs: Path, lines: Path, tmp_path: Path
) -> None:
    plain = run(*arguments_of(name, logs, lines, tmp_path / "plain"))
    shared = on_terminal(*arguments_of(name, logs, lines, tmp_path / "shared"), stdout_too=True, columns=600)
    apart = on_terminal(*arguments_of(name, logs, lines, tmp_path / "apart"), stdout_too=False)

    for session in (shared, apart):
        assert session.exit_code == plain.exit_code
        assert BAR.search(session.sent)
        assert FACTS.search(session.sent)
        assert "\x1b[?25l" not in session.sent  # the cursor is never hidden, so never lost
    assert apart.out.decode().replace("apart", "plain") == plain.out.decode()
    expected = (plain.out.decode() + plain.err).splitlines()
    assert sorted(line.replace("shared", "plain") for line in shared.screen if line) == sorted(filter(None, expected))
    assert [line.replace("apart", "plain") for line in apart.screen] == plain.err.splitlines()


@pytest.mark.parametrize("stdout_too", [False, True])
def test_no_color_leaves_the_bar_but_no_escape_codes(logs: Path, stdout_too: bool) -> None:
    coloured = on_terminal("verify", logs, stdout_too=stdout_too)
    plain = on_terminal("verify", logs, stdout_too=stdout_too, environment={"NO_COLOR": "1"})
    assert re.search(r"\x1b\[[\d;]*3\d", coloured.sent)
    assert BAR.search(plain.sent)
    assert "\x1b" not in plain.sent
    assert [line.rstrip() for line in plain.screen if line.strip()] == coloured.screen
    empty = on_terminal("verify", logs, stdout_too=stdout_too, environment={"NO_COLOR": ""})
    assert re.search(r"\x1b\[[\d;]*3\d", empty.sent)
    both = on_terminal("verify", logs, stdout_too=stdout_too, environment={"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert "\x1b" not in both.sent


def test_force_color_brings_colours_only_where_there_is_a_bar(
    run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced = on_terminal("verify", logs, stdout_too=False, environment={"FORCE_COLOR": "1"})
    assert re.search(r"\x1b\[[\d;]*3\d", forced.sent)
    monkeypatch.setenv("FORCE_COLOR", "1")
    piped = run("verify", logs)
    assert "\x1b" not in piped.out.decode() + piped.err


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor_gets_no_bar(logs: Path, term: str) -> None:
    session = on_terminal("verify", logs, stdout_too=False, environment={"TERM": term}, waits=False)
    assert session.sent == ""
    assert session.out


@pytest.mark.parametrize("columns", [10, 30, 60, 200])
def test_the_bar_is_never_wider_than_the_terminal(logs: Path, columns: int) -> None:
    session = on_terminal("verify", logs, stdout_too=False, columns=columns)
    drawn = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", session.sent)]
    assert 8 < max(map(len, drawn)) < columns


def test_a_command_that_takes_less_than_a_second_shows_nothing(lines: Path, tmp_path: Path) -> None:
    arguments = ("load", lines, "--topic", "lines", "--to", tmp_path / "to")
    assert on_terminal(*arguments, stdout_too=False, delay=60, waits=False).sent == ""


def test_data_that_ends_within_a_line_is_not_drawn_over(run: Run, logs: Path) -> None:
    plain = run("cat", logs / "busy-0", "--template", "%o ")
    session = on_terminal("cat", logs / "busy-0", "--template", "%o ", stdout_too=True, waits=False)
    (told,) = plain.err.splitlines()
    assert session.screen == [plain.out.decode() + told]


def test_damage_is_reported_above_the_bar(run: Run) -> None:
    damaged = case("damaged/all-crcs-wrong").log
    plain = run("cat", damaged)
    session = on_terminal("cat", damaged, stdout_too=False)
    assert session.exit_code == plain.exit_code == 1
    assert session.screen == plain.err.splitlines()


def test_what_comes_from_a_pipe_has_no_end_but_a_rate_and_ctrl_c_leaves_a_clean_terminal(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b'{"value": "one"}\n' * 3000)  # less than a pipe holds
    interrupted: list[int] = []

    def then(process: int, sent: str) -> None:
        if "B/s" in sent and not interrupted:
            interrupted.append(1)
            os.kill(process, signal.SIGINT)

    arguments = ("load", "-", "--topic", "lines", "--to", tmp_path / "to")
    session = on_terminal(*arguments, stdout_too=True, stdin=read, then=then, waits=False)
    os.close(read)
    os.close(write)
    assert session.exit_code == 130
    assert re.search(r"reading  \d[\d.]* KB  \d[\d.]* \w+/s  0:\d\d", session.sent)
    assert session.screen == []
    assert session.sent.endswith("\r\x1b[K")
    assert not (tmp_path / "to").exists() or not list((tmp_path / "to").glob("lines*"))


def test_the_first_compilation_says_what_it_does(logs: Path, tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    arguments = ("cat", logs / "busy-0", "--limit", 1)
    first = on_terminal(*arguments, stdout_too=False, environment=environment, waits=False, is_new=True)
    assert "compiling kernels for this machine, once" in first.sent
    assert first.screen == []
    second = on_terminal(*arguments, stdout_too=False, environment=environment, waits=False, is_new=True)
    assert "compiling" not in second.sent


def test_there_is_a_bar_with_spark_as_well(run: Run, logs: Path) -> None:
    missing = what_is_missing()
    require(missing is None, missing or "")
    plain = run("verify", logs)
    session = on_terminal("verify", logs, "--spark", "local[1]", stdout_too=False, waits=False, is_new=True)
    assert (session.exit_code, session.out, session.screen) == (plain.exit_code, plain.out, plain.err.splitlines())
    assert FACTS.search(session.sent)
