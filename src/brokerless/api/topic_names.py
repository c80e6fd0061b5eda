"""Selects partitions by the names of topics, and names the nearest where one is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from brokerless.errors import UsageError
from brokerless.tables.partition_reader import PartitionReader

P = TypeVar("P", bound=PartitionReader)
_SHOWN = 8


def select_topics(partitions: Sequence[P], topics: Iterable[str] | str | None) -> Sequence[P]:
    """Return the partitions of topics by their names or patterns (``click*``); all for None. Raises
    :class:`UsageError` for one that there is not, with the nearest name."""
    if topics is None:
        return partitions
    patterns = [topics] if isinstance(topics, str) else list(topics)
    for each in patterns:
        if not isinstance(each, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"topics: {each!r} is no name of a topic")
    known = list(dict.fromkeys(each.topic for each in partitions if each.topic is not None))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"there is no topic {pattern}{hint(pattern, known)}")
    return [each for each in partitions if is_chosen(each.topic or "", patterns)]


def is_chosen(topic: str, topics: Iterable[str] | str | None) -> bool:
    """Return whether a topic is one of these, by names or patterns; any is for None."""
    patterns = ["*"] if topics is None else [topics] if isinstance(topics, str) else topics
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def hint(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean orders?``, or some of the names that there are, to be written after a message."""
    from difflib import get_close_matches  # which no right name needs

    near = get_close_matches(name, known, 1) or [each for each in known if each.lower() == name.lower()]
    if near:
        return f"; did you mean {near[0]}?"
    more = f" and {len(known) - _SHOWN:,} more" if len(known) > _SHOWN else ""
    return f"; there are {', '.join(known[:_SHOWN])}{more}" if known else ""
