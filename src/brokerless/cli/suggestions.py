"""Suggests what a mistyped command or option was meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``did you mean --limit?``, or an empty string if no name is like it. What was abbreviated comes first."""
    from difflib import get_close_matches  # which no right name needs

    names = list(names)
    near = [each for each in names if len(name.strip("-")) > 1 and each.startswith(name)]
    near = near or get_close_matches(name.lower(), names, 1)
    return f"did you mean {' or '.join(near[:3])}?" if near else ""


_MEANT = {
    ("cat", "--format"): "--template",
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
