"""Help: wrapped to the terminal, and page by page where it is longer than the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal

from brokerless.cli import HELP
from brokerless.cli.commands import COMMANDS, GROUPS
from brokerless.cli.help_pages import man_page, print_help, wrap
from brokerless.cli.parser import Parser, load_command
from brokerless.cli.parser import help_of as help_of_command

WIDTHS = (60, 80, 200)


def help_of(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(width))  # for argparse
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    return parser.format_help()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_the_terminal_but_for_commands_to_copy(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {"": HELP} | {name: help_of(name, width, monkeypatch) for name in COMMANDS}
    for name, page in pages.items():
        text, _, examples = wrap(page, width).partition("\nexamples:\n")
        assert [line for line in text.splitlines() if len(line) > width and '": ' not in line] == [], name
        assert examples.splitlines() == page.partition("\nexamples:\n")[2].splitlines() or not name
        assert wrap(page, width).split() == page.split(), name


def test_lists_hang_below_their_texts() -> None:
    text = "codes:\n  0  clean\n  1  findings: damage, a log that ends\n     within a batch\n\nmore\nof it\n"
    assert wrap(text, 24) == (
        "codes:\n  0  clean\n  1  findings: damage, a\n     log that ends\n     within a batch\n\nmore of it\n"
    )


def test_what_fits_stays() -> None:
    assert wrap(HELP, 200) == HELP


def test_commands_are_in_one_group_each() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)


@pytest.mark.parametrize("word", ["Iceberg", "Delta", "duplicate", "producer", "who writes most", "stuck", "GDPR"])
def test_the_words_that_people_look_for_are_in_the_first_help(word: str) -> None:
    assert word in HELP


def test_a_pager_gets_the_page_wrapped_to_the_terminal(tmp_path: Path) -> None:
    session = on_terminal(
        "--help",
        stdout_too=True,
        typed=lambda _: "",
        waits=False,
        columns=80,
        lines=24,
        environment={"PAGER": f"sh -c 'cat > {tmp_path}/paged'"},
    )
    assert (session.exit_code, session.screen) == (0, [])
    assert (tmp_path / "paged").read_text() == wrap(HELP, 80)


def test_without_a_terminal_nothing_is_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_help(HELP)
    assert capsys.readouterr().out == HELP


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_a_page_for_man_has_the_words_of_the_help(name: str | None, run: Run) -> None:
    done = run("help", "--man", *([] if name is None else [name]))
    assert (done.exit_code, done.err) == (0, "")
    page = done.out.decode()
    head, _, body = page.partition(".SH SYNOPSIS\n")
    assert head.startswith(f'.TH "BROKERLESS{"" if name is None else f"-{name.upper()}"}" 1 "" "brokerless ')
    plain = re.sub(r"^\.(SH|PP|TP|nf|fi)( DESCRIPTION)?", "", body, flags=re.MULTILINE)
    plain = re.sub(r"\\(fB|fR|&)", "", plain).replace(r"\-", "-").replace(r"\e", "\\")
    text = HELP if name is None else help_of_command(name)
    assert sorted(plain.lower().replace(":", "").split()) == sorted(text.lower()[6:].replace(":", "").split())


@pytest.mark.parametrize("names", [["nothing"], ["ls", "cat"]])
def test_a_page_for_man_of_no_command_is_refused(names: list[str], run: Run) -> None:
    done = run("help", "--man", *names)
    assert (done.exit_code, done.out) == (2, b"")


def test_a_page_for_man_has_no_instructions_by_accident() -> None:
    page = man_page("x", "a", "usage: x\n\n.SH not a title\n'nor this\n\noptions:\n  -a\\b  .x\n", "1")
    assert [line for line in page.splitlines() if line.startswith((".SH", "'"))][-1] == ".SH OPTIONS"
    assert r"\fB\-a\eb\fR" in page
    assert r"\&.x" in page
