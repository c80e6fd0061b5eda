"""Suggests what a mistyped command or option was meant to be, and the new spelling of old ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``did you mean --limit?``, or an empty string if no name is like it. What was abbreviated comes first."""
    from difflib import get_close_matches  # which no right name needs

    names = list(names)
    near = [each for each in names if len(name.strip("-")) > 1 and each.startswith(name)]
    near = near or get_close_matches(name.lower(), names, 1)
    return f"did you mean {' or '.join(near[:3])}?" if near else ""


@dataclass(frozen=True)
class _Renamed:
    """``command``: what does it now. ``option``: its new name, None if the command says it all. ``dropped``: options of
    the old command that had no effect, and whether they have a value."""

    command: str
    option: str | None = None
    dropped: tuple[str, ...] = ()


_RENAMED = {
    ("audit", "--restart"): _Renamed("restart", dropped=("--spark", "--max-batch-bytes")),
    ("salvage", "--carve"): _Renamed("carve", dropped=("--spark",)),
    ("cat", "--format"): _Renamed("cat", "--template"),
    ("export", "--codec"): _Renamed("export", "--compression"),
}


_OLD_NAMES = {
    ("prove", "--key"): "--public-key",
    ("prove", "--output"): "--erased",
    ("rebuild", "--from"): "--state",
    ("restore", "--map"): "--offset-map",
    ("sql", "--format"): "--output-format",
    ("sql", "--rows"): "--limit",
}
"""Options that had the name of something else in another command, and what they are called now; the old name is
answered, and is in no help."""


def old_names(command: str) -> dict[str, str]:
    """The earlier names of a command's options, which are answered like those of now."""
    return {old: new for (name, old), new in _OLD_NAMES.items() if name == command}


_MEANT = {
    ("export", "--format"): "--as iceberg, --as delta or --as parquet",
    ("export", "--iceberg"): "--as iceberg",
    ("export", "--delta"): "--as delta",
    ("export", "--parquet"): "--as parquet",
    ("serve", "--address"): "--listen HOST:PORT",
    ("serve", "--bind"): "--listen HOST:PORT",
    ("serve", "--host"): "--listen HOST:PORT",
    ("serve", "--password"): "--users FILE",
    ("serve", "--port"): "--listen 127.0.0.1:PORT",
    ("serve", "--username"): "--users FILE",
}
"""What people write for options that there are."""


def meant(command: str, option: str) -> str:
    """``did you mean --as iceberg?`` for an option that other tools may have, or an empty string."""
    found = _MEANT.get((command, option))
    return "" if found is None else f"did you mean {found}?"


def new_spelling(command: str, arguments: Sequence[str]) -> str | None:
    """The command line that replaces one of the old spellings; None if this is none of them."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        old = argument.partition("=")[0]
        renamed = _RENAMED.get((command, old))
        if renamed is not None:
            options = list(_replaced(arguments[:end], old, renamed))
            return shlex.join(["brokerless", renamed.command, *options, *arguments[end:]])
    return None


def _replaced(arguments: Sequence[str], old: str, renamed: _Renamed) -> Iterable[str]:
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if name in renamed.dropped:
            _ = equals or next(remaining, None)
        elif name != old:
            yield argument
        elif renamed.option is not None:
            yield f"{renamed.option}{equals}{value}"
