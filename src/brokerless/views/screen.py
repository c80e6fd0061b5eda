"""What a command's text is shown on: how wide the terminal is, and whether it has colours.

The command line says so once, around a command; whoever formats a line need not be handed it. In a pipe, a file and
Python there is no width and no colour.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

_COLORS = {"error": "\x1b[1;31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
_PLAIN = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Screen:
    """The screen that text is formatted for."""

    width: int | None = None
    """Characters of a line; None for any number."""
    has_colors: bool = False


_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_COMMANDS = ("brokerless ", "kafka-")
_ANY = Screen()
_SCREEN = ContextVar("screen", default=_ANY)


@contextmanager
def shown_on(screen: Screen) -> Generator[None]:
    """Format for this screen what is formatted meanwhile."""
    before = _SCREEN.set(screen)
    try:
        yield
    finally:
        _SCREEN.reset(before)


def width() -> int | None:
    """Characters that a line may have; None for any number."""
    return _SCREEN.get().width


def has_colors() -> bool:
    """Says whether there are colours."""
    return _SCREEN.get().has_colors


def colored(severity: str, columns: int = 0) -> str:
    """``error``, ``warning`` or ``info`` in its colour, where there are colours, filled up to ``columns``."""
    fill = " " * (columns - len(severity))
    if not has_colors() or severity not in _COLORS:
        return severity + fill
    return f"{_COLORS[severity]}{severity}{_PLAIN}{fill}"


def hang(text: str) -> list[str]:
    """Return a line of prose as lines that fit the screen, later ones two characters to the right of the first; rows of
    tables (which have two spaces between columns) and commands to copy stay."""
    columns, own = width(), text.strip()
    if columns is None or len(_ESCAPES.sub("", text)) <= columns or "  " in own or own.startswith(_COMMANDS):
        return [text]
    indent = " " * (len(text) - len(text.lstrip()))
    first, *others = wrapped(own, columns - len(indent) - 2)
    return [f"{indent}{first}", *(f"{indent}  {line}" for line in others)]


def wrapped(text: str, columns: int) -> list[str]:
    """``text`` in lines of ``columns`` characters, broken at words; a longer word sticks out."""
    return textwrap.wrap(text, max(columns, 20), break_long_words=False, break_on_hyphens=False) or [""]
