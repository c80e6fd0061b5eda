"""Help and tables are those that were read: see ``tests/cli/texts.py``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.texts import TEXTS, WIDTHS, logs, text_of_table, texts

COMMANDS_TO_COPY = ("brokerless ", "kafka-", "$ ")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dict(texts())


def test_all_are_as_they_were_read(made: dict[str, str]) -> None:
    """``python -m tests.cli.texts`` writes those that differ."""
    differences: list[str] = []
    for name, text in made.items():
        path = TEXTS / f"{name}.txt"
        before = path.read_text() if path.exists() else ""
        differences += difflib.unified_diff(before.splitlines(), text.splitlines(), name, name, lineterm="", n=1)
    assert differences == []
    assert {str(each.relative_to(TEXTS).with_suffix("")) for each in TEXTS.rglob("*.txt")} == made.keys()


def shown(text: str) -> Iterator[str]:
    yield from text.partition("[stderr]\n")[0].partition("\nexamples:\n")[0].splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_but_commands_to_copy_is_wider_than_the_terminal(made: dict[str, str], width: int) -> None:
    wide = [
        f"{name}: {line}"
        for name, text in made.items()
        if name.startswith(f"{width}/")
        for line in shown(text)
        if len(line) > width and not line.strip().startswith(COMMANDS_TO_COPY) and '": ' not in line
    ]
    assert wide == []


def test_no_name_of_this_machine_is_in_them() -> None:
    for path in TEXTS.rglob("*.txt"):
        assert str(Path.cwd()) not in path.read_text()
        assert "/tmp" not in path.read_text().replace("read-only", "")


@pytest.mark.parametrize(
    "line",
    ["internals kafka --history", "ls kafka --json", "audit damaged --json", "cat kafka -n 2", "restart kafka --json"],
)
def test_data_is_the_same_however_narrow_the_terminal(line: str) -> None:
    with logs():
        assert text_of_table(line, 60) == text_of_table(line, None)
