"""Output that is longer than a terminal, on a pseudo-terminal: what a pager gets, and what the terminal."""

from __future__ import annotations

import re
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.terminal import Session, on_terminal
from tests.golden import broker_data, golden

from brokerless.cli.commands import GROUPS
from brokerless.cli.pager import WORKING, is_for_reading

TXN = broker_data("clean") / "segments-0"
DAMAGED = golden() / "damaged" / "all-crcs-wrong"
READING: list[list[str]] = [
    ["ls", "--segments", str(broker_data("clean"))],
    ["cat", str(TXN)],
    ["cat", "--json", str(TXN)],
    ["batches", str(TXN)],
    ["verify", str(broker_data("clean"))],
    ["audit", "--all", str(broker_data("clean"))],
    ["restart", str(broker_data("clean"))],
    ["explain", str(next(TXN.glob("*.log")))],
    ["sql", "SELECT value FROM records", str(TXN)],
    ["completion", "bash"],
    ["help", "verify"],
    ["help", "--man", "verify"],
    ["help", "segment-overlap"],
]


def at_terminal(
    *arguments: object, pager: str = "", lines: int = 12, variable: str = "PAGER", stdout_too: bool = True
) -> Session:
    environment = {"PAGER": "", variable: pager, "NO_COLOR": "1"}
    return on_terminal(
        *arguments,
        stdout_too=stdout_too,
        typed=lambda _: "",
        lines=lines,
        waits=False,
        delay=600,
        environment=environment,
    )


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.fixture
def to_file(tmp_path: Path) -> tuple[str, Path]:
    """A pager that keeps what it gets, and where."""
    return f"sh -c 'cat > {tmp_path}/paged'", tmp_path / "paged"


@pytest.mark.parametrize("command", READING, ids=lambda each: " ".join(each[:2]) if each[0] == "help" else each[0])
def test_all_of_a_long_output_goes_to_the_pager(command: list[str], to_file: tuple[str, Path]) -> None:
    pager, paged = to_file
    whole = at_terminal(*command, lines=60_000)
    found = at_terminal(*command, pager=pager, lines=1)
    assert found.screen == []
    assert lines_of(paged.read_text()) == lines_of("\n".join(whole.screen))
    assert found.exit_code == whole.exit_code


@pytest.mark.parametrize("variable", ["PAGER", "BROKERLESS_PAGER"])
@pytest.mark.parametrize("pager", ["no-such-pager", "$NO_SUCH_PAGER -R", "/etc/passwd"])
def test_a_pager_that_cannot_be_run_is_named(pager: str, variable: str) -> None:
    found = at_terminal("cat", TXN, pager=pager, variable=variable)
    assert f"brokerless: {variable}={pager!r} cannot be run; --no-pager shows all without one" in found.screen


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
@pytest.mark.parametrize("command", [["ls", TXN], ["help", "segment-overlap"]], ids=["ls", "help"])
def test_less_prints_an_output_that_fits_and_ends(command: list[str]) -> None:
    printed = at_terminal(*command, pager="less", lines=60).sent
    assert "(END)" not in printed
    assert all(line in printed for line in at_terminal(*command, lines=60).screen)


def test_of_two_variables_ours_counts(to_file: tuple[str, Path]) -> None:
    pager, paged = to_file
    at_terminal("cat", TXN, pager=pager, variable="BROKERLESS_PAGER")
    assert paged.exists()


@pytest.mark.parametrize("command", [["--no-pager", "cat"], ["cat", "--no-pager"], ["--no-pager", "help", "cat"]])
def test_no_pager_where_none_is_wanted(command: list[str], to_file: tuple[str, Path]) -> None:
    pager, paged = to_file
    session = at_terminal(*command, *([] if "help" in command else [TXN]), pager=pager)
    assert len(session.screen) > 12
    assert not paged.exists()


@pytest.mark.parametrize("pager", ["", "cat"])
def test_no_pager_where_there_is_none(pager: str) -> None:
    session = at_terminal("cat", TXN, pager=pager)
    assert session.exit_code == 0
    assert len(session.screen) > 12


def test_no_pager_in_a_pipe(to_file: tuple[str, Path], run: Run) -> None:
    pager, paged = to_file
    session = at_terminal("cat", "--json", TXN, pager=pager, stdout_too=False)
    assert session.out == run("cat", "--json", TXN).out
    assert not paged.exists()


def test_no_pager_where_nobody_types(to_file: tuple[str, Path]) -> None:
    pager, paged = to_file
    on_terminal("cat", TXN, stdout_too=True, lines=5, environment={"PAGER": pager})
    assert not paged.exists()


def test_a_log_from_stdin_is_paged(to_file: tuple[str, Path]) -> None:
    pager, paged = to_file
    with next(TXN.glob("*.log")).open("rb") as log:
        on_terminal("cat", "-", stdout_too=True, stdin=log.fileno(), lines=5, waits=False, environment={"PAGER": pager})
    assert paged.exists()


@pytest.mark.parametrize("command", ["cat", "verify"])
def test_the_exit_code_stays(command: str, to_file: tuple[str, Path]) -> None:
    """Damage is 1, whether all is read or the pager is quit at once."""
    pager, paged = to_file
    assert at_terminal(command, golden() / "damaged" / "codec-gzip-5", pager=pager, lines=1).exit_code == 1
    assert "codec" in paged.read_text()


def test_findings_stand_among_records(to_file: tuple[str, Path]) -> None:
    """A pager has the whole terminal, so that it gets stderr as well."""
    pager, paged = to_file
    whole = at_terminal("cat", golden() / "damaged" / "codec-gzip-5", lines=1000)
    session = at_terminal("cat", golden() / "damaged" / "codec-gzip-5", pager=pager, lines=4)
    assert session.screen == []
    assert lines_of(paged.read_text()) == lines_of("\n".join(whole.screen))


@pytest.mark.parametrize("command", ["cat", "verify"])
def test_quitting_the_pager_is_no_error(command: str, tmp_path: Path) -> None:
    """What a command has to do besides is done: a file for metrics is written."""
    metrics = tmp_path / "verify.prom"
    more = ["--metrics", metrics] if command == "verify" else []
    session = at_terminal(command, broker_data("clean"), *more, pager="head -c 1", lines=1)
    assert (session.exit_code, len(session.sent)) == (0, 1)
    assert metrics.exists() is bool(more)


def test_verify_has_its_exit_code_also_where_the_pager_is_quit() -> None:
    assert at_terminal("verify", "--all", DAMAGED, pager="true", lines=1).exit_code == 1


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
@pytest.mark.parametrize("keys", ["q", "\x03q"], ids=["q", "Ctrl-C, q"])
def test_less_shows_a_page_until_it_is_quit(keys: str) -> None:
    left = [*keys]

    def type_at_prompt(sent: str) -> str:
        if len(sent.splitlines()) < 12 or not re.search(r":|END", sent.rpartition("\n")[2]):
            return ""
        return left.pop(0) if left else "q"  # less may lose a key that comes right after Ctrl-C

    session = on_terminal(
        "ls", "--segments", broker_data("clean"), stdout_too=True, lines=12, waits=False, delay=600,
        typed=type_at_prompt, is_impatient=True, environment={"PAGER": "less", "LESS": "X"},
    )  # fmt: skip
    assert left == []
    assert session.exit_code in (0, 130)  # with Ctrl-C, by whether all was written by then
    assert "file  " in session.sent
    assert len(session.sent.splitlines()) < 40


def test_commands_that_write_go_on_without_a_reader() -> None:
    assert sorted(WORKING) == sorted([*GROUPS["repair"], *GROUPS["write"], "erase", *GROUPS["serve"], "backup"])
    assert is_for_reading("verify", Namespace())
    assert is_for_reading("convert", Namespace(dry_run=True))
    assert is_for_reading("rebuild", Namespace(dry_run=False, apply=False))
    assert not is_for_reading("rebuild", Namespace(dry_run=False, apply=True))
    assert not is_for_reading("convert", Namespace(dry_run=False))
    assert not is_for_reading("serve", Namespace())
    assert not is_for_reading("sql", Namespace(query=None, file=None))
