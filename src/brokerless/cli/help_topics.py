"""Finds what help has of a word that is no command: the runbook, a kind of finding, a part of the first help, options.

The runbook and the list of findings are in the package in a wheel and in the one file, and in ``docs`` of a clone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from brokerless.cli.commands import COMMANDS

PAGES = ("runbook", "findings")
_SHOWN = 12
_LITTLE = {"", "a", "an", "and", "as", "at", "between", "by", "each", "for", "from", "how", "i", "in", "is", "it", "my",
           "of", "on", "or", "the", "to", "wa", "wer", "what", "wher", "why", "with"}  # fmt: skip
"""Words, as `_stems` returns them, that no question is found by."""
_EXIT = re.compile(r"^exit(s|[ -]?codes?)?$")


def page(name: str) -> str | None:
    """Return a page as text; None for another name, and where it is not installed."""
    if name not in PAGES:
        return None
    packed = resources.files("brokerless") / "pages" / f"{name}.md"
    path = Path(__file__).parents[3] / "docs" / f"{name}.md"
    for each in (packed, path):
        if each.is_file():
            return plain(each.read_text(encoding="utf-8"))
    return None


def plain(text: str) -> str:
    """Return Markdown as text for a terminal: links by their texts, and fences of code as indented lines."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
        elif is_code:
            lines.append(f"    {line}")
        else:
            lines.append(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line))
    return "\n".join(lines) + "\n"


def about(word: str, first_help: str) -> list[str]:
    """Return lines with all that help has of a word; none where it has nothing."""
    wanted = re.compile(rf"\b{re.escape('exit code' if _EXIT.match(word) else word)}", re.IGNORECASE)
    lines = [*_questions(first_help, word), *_parts(first_help, wanted)]
    found = [(name, line) for name in COMMANDS if (line := _line_of(name, wanted)) is not None]
    if found:
        lines += ["commands (brokerless help COMMAND says more):", *(f"  {name:12}{line}" for name, line in found)]
        lines.append("")
    kinds = list(_kinds(wanted))
    if kinds:
        more = [f"  and {len(kinds) - _SHOWN} more (brokerless help findings)"] * (len(kinds) > _SHOWN)
        lines += [
            "kinds of findings (brokerless help KIND says more):",
            *(f"  {each}" for each in kinds[:_SHOWN]),
            *more,
        ]
        lines.append("")
    headings = [f"  {name}: {each}" for name in PAGES for each in _headings(name, wanted)]
    lines += ["pages (brokerless help PAGE prints one):", *headings[:_SHOWN], ""] if headings else []
    return lines[:-1]


def _parts(text: str, wanted: re.Pattern[str]) -> Iterator[str]:
    """Paragraphs of the first help that have the word, apart from its lists of commands and questions."""
    for paragraph in text.split("\n\n"):
        is_list = re.match(r"(?!exit)[a-z]+:\n  \w+  |questions:\n", paragraph)
        if not is_list and not paragraph.startswith("brokerless help ") and wanted.search(paragraph):
            yield from (*paragraph.splitlines(), "")


def _questions(text: str, asked: str) -> Iterator[str]:
    """Questions of the first help, and the commands that answer them, by those of ``asked`` words that they have: the
    ones with the most, if these are half of all."""
    stems = _stems(asked) - _LITTLE
    _, _, below = text.partition("\nquestions:\n")
    lines = below.partition("\n\n")[0].splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    found = [(len(stems & _stems(f"{question} {command}")), question, command) for question, command in pairs]
    most = max((score for score, *_ in found), default=0)
    if most and most * 2 >= len(stems):
        yield "questions:"
        for score, question, command in found:
            yield from (question, command) if score == most else ()
        yield ""


def _stems(text: str) -> set[str]:
    """Return words without what English adds to them: ``deleted`` and ``deletes`` are one."""
    words = re.findall(r"\w+", text.casefold())
    return {re.sub(r"(ed|es|s|ing|e)$", "", word) if len(word) > 3 else word.removesuffix("s") for word in words}


def _line_of(name: str, wanted: re.Pattern[str]) -> str | None:
    """Return the line of a command that has a word: what it does, or the option that is called so."""
    from brokerless.cli.parser import Parser, load_command

    if wanted.search(COMMANDS[name]):
        return COMMANDS[name]
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    for action in parser.own_actions:
        option = next((each for each in action.option_strings if wanted.search(each)), None)
        if option is not None or (action.help and wanted.search(action.help)):
            return f"{action.option_strings[-1]}: {action.help}".replace("%%", "%")
    return None


def _kinds(wanted: re.Pattern[str]) -> Iterator[str]:
    from brokerless.findings import describe_kinds

    return (f"{kind}: {each.sentence}" for kind, each in describe_kinds().items() if wanted.search(kind))


def _headings(name: str, wanted: re.Pattern[str]) -> Iterator[str]:
    return (
        line.lstrip("# ") for line in (page(name) or "").splitlines() if line.startswith("#") and wanted.search(line)
    )
