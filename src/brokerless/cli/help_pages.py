"""Help as a terminal shows it: wrapped to its width, and page by page where it is longer than the terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator

from brokerless.cli.pager import paged

_ITEM = re.compile(r"( *\S+(?: \S+)*  +)\S|( +)\S")
"""What begins a line of a list: a name and two spaces, or just spaces."""
_LEAST = 20
"""Columns below which nobody reads."""


def wrap(text: str, width: int) -> str:
    """Wraps paragraphs and the items of lists to ``width`` characters; what is narrower stays."""
    if all(len(line) <= width for line in text.splitlines()):
        return text
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        for item in _items(paragraph):
            head = _ITEM.match(item)
            if head is not None and not head[1]:
                lines.append(item)  # a command to copy, or what is wrapped already
                continue
            hanging = 0 if head is None else len(head[1])
            lines += textwrap.wrap(
                item, width, subsequent_indent=" " * min(hanging, width // 2), break_long_words=False,
                break_on_hyphens=False,
            ) or [""]  # fmt: skip
        lines.append("")
    return "\n".join(lines[:-1]) + "\n" * (text.endswith("\n") and lines[-2] != "")


def _items(paragraph: str) -> Iterator[str]:
    """The items of a list, each with the lines that it goes on with as one; a paragraph of text is one item."""
    begun: list[str] = []
    hanging = 0
    for line in paragraph.splitlines() or [""]:
        indent = len(line) - len(line.lstrip())
        goes_on = bool(begun) and indent == hanging
        if goes_on:
            begun.append(line.strip())
            continue
        if begun:
            yield " ".join(begun)
        begun, head = [line], _ITEM.match(line)
        hanging = 0 if head is None else len(head[1] or "") or -1
    if begun:
        yield " ".join(begun)


def print_help(text: str) -> None:
    """Prints help on stdout; wrapped, and page by page if it is too long, where that is a terminal. In a pipe, it is
    wrapped to COLUMNS, where that is set."""
    if not sys.stdout.isatty():
        columns = os.environ.get("COLUMNS", "")
        sys.stdout.write(wrap(text, int(columns)) if columns.isdigit() and int(columns) >= _LEAST else text)
        return
    with paged("help"):
        sys.stdout.write(wrap(text, shutil.get_terminal_size().columns))


def man_page(name: str, summary: str, text: str, version: str) -> str:
    """Return help as a page for ``man``, in its language. ``text``: the help, not wrapped."""
    usage, _, body = text.partition("\n\n")
    lines = [
        f'.TH "{name.upper()}" 1 "" "brokerless {version}" "User Commands"',
        *(".SH NAME", _roff(f"{name} - {summary}", dashes=r"\-")),
        *(".SH SYNOPSIS", _roff(" ".join(usage.removeprefix("usage: ").split()))),
        ".SH DESCRIPTION",
    ]
    for paragraph in body.split("\n\n"):
        for kind, head, rest in _man_items(paragraph):
            if kind == "section":
                lines += [f".SH {_roff(head.upper())}"]
            elif kind == "item":
                lines += [".TP", rf"\fB{_roff(head)}\fR", _roff(rest)]
            elif kind == "line":
                lines += [".nf", _roff(head), ".fi"]
            else:
                lines += [".PP", _roff(head)]
    return "\n".join(lines) + "\n"


def _man_items(paragraph: str) -> Iterator[tuple[str, str, str]]:
    """The parts of a paragraph of help: a title, lines of text as one, items of a list, commands to copy."""
    text: list[str] = []
    for item in _items(paragraph):
        for line in item.splitlines():
            if re.fullmatch(r"[a-z][a-z ]*:", line):
                yield "section", line[:-1], ""
            elif found := re.fullmatch(r"  ?(\S.*?)(?:  +| {2,})(\S.*)", line):
                yield "item", found[1], found[2]
            elif line.startswith("  "):
                yield "line", line, ""
            elif line:
                text.append(line)
    if text:
        yield "text", " ".join(text), ""


def _roff(text: str, dashes: str = "-") -> str:
    """Text in which nothing is an instruction."""
    escaped = re.sub(r"--?", lambda found: found[0].replace("-", r"\-"), text.replace("\\", r"\e"))
    escaped = escaped.replace(r" \- ", f" {dashes} ")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
