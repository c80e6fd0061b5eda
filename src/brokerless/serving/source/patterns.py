"""Finds the names that match a regular expression, by RE2 as in a broker, whose time is linear in the text."""

from __future__ import annotations

from collections.abc import Iterable

from brokerless import arrow

MOST_CHARACTERS = 1000
"""Of a regular expression."""


def matching(names: Iterable[str], regex: str) -> set[str] | None:
    """Return the names that match as a whole; None where this is no regular expression."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(regex) > MOST_CHARACTERS:
        return None
    everything = [*names, ""]  # without any name, not even the expression would be checked
    try:
        options = pc.MatchSubstringOptions(f"^(?:{regex})$")
        matches = pc.call_function("match_substring_regex", [pa.array(everything, pa.string())], options)
    except pa.ArrowInvalid:
        return None
    return {name for name, is_match in zip(everything[:-1], arrow.values(matches)[:-1], strict=True) if is_match}
