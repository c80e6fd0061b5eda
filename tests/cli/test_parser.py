"""Mistakes in a command line: one line that says what to do, one that names the help, exit code 2."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

import brokerless
from brokerless.cli.commands import COMMANDS
from brokerless.cli.parser import Parser
from brokerless.errors import UsageError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat --limt 5 x", "there is no option --limt; did you mean --limit?"),
        ("cat --lim 5 x", "there is no option --lim; did you mean --limit?"),
        ("cat --Limit=5 x", "there is no option --Limit; did you mean --limit?"),
        ("cat -limit 5 x", "there is no option -limit; did you mean --limit?"),
        ("load x --to y --max 1", "there is no option --max; did you mean --max-line-bytes?"),
        ("convert --part 1 x", "there is no option --part; did you mean --partition or --partitions?"),
        ("ls --quux", "there is no option --quux"),
        ("ls -x", "there is no option -x"),
        ("ls -lead", "there is no option -lead; write a path that begins with a dash as ./-lead"),
        ("ls", "missing PATH"),
        ("salvage x", "missing --to"),
        ("convert --to", "--to needs a value"),
        ("ls --json=yes x", "--json takes no value"),
        ("ls --topics --segments x", "--segments and --topics exclude each other; use one of them"),
        ("ls -p one x", "-p/--partition: 'one' is not a whole number"),
        ("ls -p -1 x", "-p/--partition: -1 is negative; use 0 or more"),
        ("convert x --codec zst", "--codec: 'zst' is not one of none, gzip, snappy, lz4, zstd; did you mean zstd?"),
        ("cat --max-batch-bytes 1XB x", "--max-batch-bytes: '1XB' is not a number of bytes; use one such as 1000000, "
         "500MB or 1GiB"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_what_to_do(run: Run, line: str, expected: str) -> None:
    command, *arguments = line.split()
    if command == "convert" and "--part" in arguments:
        command = "load"
    result = run(command, *arguments)
    assert (result.exit_code, result.out) == (2, b"")
    assert result.err == (
        f"brokerless {command}: {expected}\nbrokerless {command} --help lists all options, with examples\n"
    )


def test_no_option_can_be_abbreviated(run: Run) -> None:
    for name in COMMANDS:
        parser = Parser(prog=name)
        parser.add_command(import_module(f"brokerless.cli.commands.{name}"))
        for action in parser._actions:
            for option in action.option_strings:
                if not option.startswith("--"):
                    continue
                result = run(name, f"{option[:-1]}")
                assert (result.exit_code, result.err.count("\n")) == (2, 2)
                assert (
                    f"there is no option {option[:-1]};" in result.err or option[:-1] in parser._option_string_actions
                )


def test_a_mistake_cannot_write_to_the_terminal(run: Run) -> None:
    result = run("ls", "--\x1b[31m")
    assert result.exit_code == 2
    assert "\x1b" not in result.err


def test_paths_may_begin_with_a_dash_after_two(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(broker_data("clean") / "edges-0", tmp_path / "-lead" / "edges-0")
    monkeypatch.chdir(tmp_path)
    for arguments in (["--json", "--", "-lead"], ["--json", "--", "-lead/edges-0"], ["--json", "./-lead"]):
        result = run("ls", *arguments)
        assert (result.exit_code, [line["topic"] for line in result.json]) == (0, ["edges"])
    assert run("ls", "-lead").exit_code == 2


@pytest.mark.parametrize("command", ["ls", "cat", "audit", "explain", "cluster"])
def test_an_empty_path_is_not_the_working_directory(run: Run, command: str) -> None:
    done = run(command, "")
    assert (done.exit_code, done.out) == (2, b"")
    assert "a path is empty; give one" in done.err


def test_an_empty_path_is_refused_in_python_as_well() -> None:
    for read in (brokerless.open, brokerless.cluster):
        with pytest.raises(UsageError, match="a path is empty"):
            read("")
