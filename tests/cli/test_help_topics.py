"""``brokerless help WORD`` finds the page, part or option that a word is in."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

from brokerless.cli.commands import COMMANDS
from brokerless.cli.help_topics import PAGES, plain
from brokerless.cli.parser import SHARED, Parser, load_command

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("exit", "exit codes:\n  0  clean\n"),
        ("exit codes", "exit codes:\n  0  clean\n"),
        ("json", "--json of any command prints JSON Lines for programs."),
        ("offsets", "  internals   decode Kafka's own topics: committed offsets"),
        ("lag", "brokerless internals /var/lib/kafka --table lag"),
        ("runbook", "# Runbook: from a dead disk"),
        ("findings", "# Findings"),
        (
            "consumer lag",
            "questions:\n  the lag of each consumer group\n    brokerless internals /var/lib/kafka --table lag\n",
        ),
        ("a deleted topic", "questions:\n  a topic was deleted by accident: how long its files stay\n"),
        ("records between two times as csv", "questions:\n  the records of a time range and a key, as CSV\n"),
        ("checksum", "  checksum-mismatch: "),
        ("checksum-mismatch", "checksum-mismatch ("),
    ],
)
def test_a_word_that_is_no_command_is_found(run: Run, word: str, expected: str) -> None:
    found = run("help", *word.split())
    assert found.exit_code == 0
    assert expected in found.out.decode()


def test_only_the_question_that_has_the_words_is_shown(run: Run) -> None:
    lines = run("help", "lag of each group").lines
    assert [line for line in lines if line.startswith("    brokerless ")] == [
        "    brokerless internals /var/lib/kafka --table lag"
    ]


def test_a_word_that_is_nowhere_has_a_hint(run: Run) -> None:
    found = run("help", "runbok")
    assert (found.exit_code, "did you mean runbook?" in found.err) == (2, True)


def test_the_pages_are_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included == {f"docs/{name}.md": f"brokerless/pages/{name}.md" for name in PAGES}
    assert all((ROOT / each).is_file() for each in included)


def test_markdown_is_text() -> None:
    assert plain("See [the page](a.md#b).\n```console\n$ ls\n```\n") == "See the page.\n    $ ls\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_s_own_options_come_first_and_no_default_is_a_bare_bracket(name: str) -> None:
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    own, _, shared = parser.format_help().partition("\noptions of several commands:\n")
    options = re.findall(r"^  (?:-\w, )?(--[\w-]+)", own, re.MULTILINE)
    assert shared == "" or SHARED.isdisjoint(options)
    for action in parser.actions:
        if action.help and action.default not in (None, False, True, [], ()):
            assert f"({action.default})" not in action.help, action.option_strings


def test_help_in_a_pipe_is_as_wide_as_columns_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    text, _, _ = run("help", "ls").out.decode().partition("\nexamples:\n")
    assert max(map(len, text.splitlines())) <= 50
