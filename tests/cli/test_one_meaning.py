"""One meaning an option: in all commands, and in Python where it has the same name."""

from __future__ import annotations

from argparse import Action
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.test_stdin import piped

from brokerless import ordered_threads
from brokerless.cli.commands import COMMANDS
from brokerless.cli.parser import Parser, load_command

DEMO = "demo/data"
LOG = f"{DEMO}/orders-0/00000000000000000000.log"
SEVERAL_LETTERS = {"-f"}
"""Letters with two options: kcat's template, and psql's file of statements."""


def actions() -> Iterator[tuple[str, Action]]:
    for name in COMMANDS:
        parser = Parser(prog=f"brokerless {name}")
        parser.add_command(load_command(name))
        for action in parser.actions:
            if action.option_strings:
                yield name, action


def test_a_letter_is_one_option_in_all_commands() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for _, action in actions():
        for letter in (each for each in action.option_strings if not each.startswith("--")):
            found[letter].add(next(each for each in action.option_strings if each.startswith("--")))
    assert {letter for letter, names in found.items() if len(names) > 1} == SEVERAL_LETTERS
    assert found["-o"] == {"--output"}
    assert found["-n"] == {"--limit"}


def test_an_option_has_one_kind_of_value_in_all_commands() -> None:
    """A file is no directory, a time no file, a key no file."""
    found: defaultdict[str, set[object]] = defaultdict(set)
    for _, action in actions():
        for option in action.option_strings:
            found[option].add(
                {"PAGE": "FILE", "DIR": "DIRECTORY", "TEXT": "KEY"}.get(str(action.metavar), action.metavar)
            )
    several = {option: values for option, values in found.items() if len(values) > 1}
    known = {"--offset": {"N", "N[:M]"}, "--kafka": {"VERSION", None}, "-f": {"FILE", "TEMPLATE"}}
    assert several == {
        **known,
        "--offsets": {"FILE", None},
        "--only": {"NAME", "PARTS"},
        "--public-key": {"FILE", "ID=FILE"},
        "--state": {"DIRECTORY", "FILE"},
    }


class TestEraseByKey:
    def test_it_erases_what_a_file_of_the_keys_does(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("u-0048\nu-0035\n")
        by_file = run("erase", DEMO, "-t", "users", "--keys", tmp_path / "keys", "--to", tmp_path / "a", "--json")
        by_key = run(
            "erase", DEMO, "-t", "users", "--key", "u-0048", "--key", "u-0035", "--to", tmp_path / "b", "--json"
        )
        assert by_file.exit_code == by_key.exit_code == 0
        logs = [sorted((tmp_path / each).rglob("*.log")) for each in ("a", "b")]
        assert [each.read_bytes() for each in logs[0]] == [each.read_bytes() for each in logs[1]]
        assert run("cat", tmp_path / "b", "--key", "u-0048").out == b""
        assert run("cat", DEMO, "--key", "u-0048").out != b""

    def test_keys_come_from_stdin(self, tmp_path: Path) -> None:
        erase = ("erase", DEMO, "-t", "users", "--keys", "-", "--to", str(tmp_path / "a"))
        assert piped(*erase, data=b"u-0048\n").returncode == 0
        prove = ("prove", str(tmp_path / "a.erasure.json"), "--keys", "-", "--source", DEMO, "--only", "users")
        assert b"the proof holds" in piped(*prove, data=b"u-0048\n").stdout
        assert b"these are not the keys" in piped(*prove, data=b"u-0035\n").stderr

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--key", ""], "--key is empty"),
            (["--key", "a", "--keys", "b"], "select the records by one of --key KEY, --keys FILE"),
            ([], "select the records by one of --key KEY, --keys FILE"),
        ],
    )
    def test_what_selects_nothing_or_twice_is_refused(
        self, run: Run, tmp_path: Path, options: list[str], expected: str
    ) -> None:
        result = run("erase", DEMO, "--to", tmp_path / "to", *options)
        assert (result.exit_code, result.out) == (2, b"")
        assert expected in result.err
        assert not (tmp_path / "to").exists()


PARALLEL = {name for name, action in actions() if "--jobs" in action.option_strings}


def test_what_reads_in_parallel_has_jobs() -> None:
    on_spark = {name for name, action in actions() if "--spark" in action.option_strings}
    assert on_spark < PARALLEL
    assert PARALLEL - on_spark == {"cat", "sql", "schema", "report"}


@pytest.mark.parametrize("command", [["verify"], ["audit"], ["size", "-t", "users"], ["schema"]])
def test_jobs_limit_processors_while_a_command_runs(
    run: Run, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int | None] = []
    limit = ordered_threads.limit_processors
    monkeypatch.setattr("brokerless.cli.limit_processors", lambda number: (seen.append(number), limit(number)))
    assert run(*command, DEMO, "--jobs", "3").out == run(*command, DEMO).out
    assert seen == [3, None]
    limit(3)
    assert ordered_threads.processors() == 3
    limit(None)


def test_jobs_and_spark_exclude_each_other(run: Run) -> None:
    result = run("verify", DEMO, "--jobs", "2", "--spark", "local")
    assert result.exit_code == 2
    assert "--spark and --jobs exclude each other; use one of them" in result.err


@pytest.mark.parametrize("command", [["size", "-t", "users"], ["compact", "--dry-run", "-t", "users", "--from-start"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_redact_shows_no_key_but_which_are_equal(run: Run, command: list[str], form: list[str]) -> None:
    plain, redacted = run(*command, DEMO, *form), run(*command, DEMO, *form, "--redact")
    assert plain.exit_code == redacted.exit_code == 0
    assert b"u-0" in plain.out
    assert b"u-0" not in redacted.out
    assert redacted.out.count(b"<6 bytes, ") == plain.out.count(b"u-0") > 1


def test_prove_shows_findings_of_a_severity_and_a_quiet_verdict(run: Run, tmp_path: Path) -> None:
    assert run("erase", DEMO, "-t", "users", "--key", "u-0048", "--to", tmp_path / "erased").exit_code == 0
    prove = ["prove", tmp_path / "erased.erasure.json", "--source", DEMO]
    everything, errors, quiet = (run(*prove, *how) for how in ([], ["--min-severity", "error"], ["-q"]))
    assert everything.exit_code == errors.exit_code == quiet.exit_code
    assert b"\nwarning " in b"\n" + everything.out
    assert b"warning " not in errors.out + quiet.out
    assert everything.lines[-1] == errors.lines[-1] == quiet.lines[-1]


@pytest.mark.parametrize("command", [["cluster"], ["rebuild", "--to", "nowhere"]])
def test_cluster_and_rebuild_show_findings_of_a_severity(run: Run, command: list[str]) -> None:
    path = "demo/replicas/broker-2"
    everything, errors = run(*command, path, "--json"), run(*command, path, "--json", "--min-severity", "error")
    assert everything.exit_code == errors.exit_code
    graded = [row["severity"] for row in everything.json if row["table"] == "findings"]
    assert {"warning", "error"} & {*graded}
    assert [row["severity"] for row in errors.json if row["table"] == "findings"] == [
        each for each in graded if each == "error"
    ]
