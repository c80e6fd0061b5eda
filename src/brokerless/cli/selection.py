"""Selects partitions by ``-t``, ``-p`` and ``--exclude-internal``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from brokerless.log.names import is_internal

if TYPE_CHECKING:
    from brokerless.log.directory import PartitionPath

_SHOWN = 8


def paths_below(paths: Sequence[str]) -> list[str]:
    """Return the log directories in each path; a path without any is itself, of which reading says what is wrong."""
    from brokerless.log.directory import log_directories_below
    from brokerless.log.storage.location import Location

    found: list[str] = []
    for path in paths:
        found += [each.path for each in log_directories_below(Location(path))] or [path]
    return list(dict.fromkeys(found))


def is_narrowed(options: Namespace) -> bool:
    """Return whether only some partitions are selected."""
    return bool(options.topic or options.partition or options.exclude_internal)


def select(partitions: Sequence[PartitionPath], options: Namespace) -> tuple[list[PartitionPath], str | None]:
    """Return the selected partitions; and the topics and numbers that none of them has, with the nearest names."""
    patterns, numbers = options.topic, options.partition
    open_to_all = [each for each in partitions if not (options.exclude_internal and is_internal(each.topic))]
    of_topics = [each for each in open_to_all if not patterns or any(_matches(each, pattern) for pattern in patterns)]
    found = [each for each in of_topics if not numbers or each.partition in numbers]
    topics = list(dict.fromkeys(each.topic for each in open_to_all if each.topic is not None))
    missing = [
        f"no topic {pattern} ({_hint(pattern, topics)})"
        for pattern in dict.fromkeys(patterns)
        if not any(_matches(each, pattern) for each in open_to_all)
    ]
    there = {each.partition for each in found}
    known = [each.partition for each in of_topics if each.partition is not None]
    missing += [
        f"no partition {number} (there are {min(known)} to {max(known)})"
        for number in dict.fromkeys(numbers)
        if number not in there and known
    ]
    if not found and not missing and (patterns or numbers):
        missing = ["no partition matches"]
    return found, " and ".join(missing) or None


def is_selected(options: Namespace, topic: str, number: int) -> bool:
    """Return whether a partition is selected that was not there when the others were."""
    return is_topic_selected(options, topic) and (not options.partition or number in options.partition)


def is_topic_selected(options: Namespace, topic: str) -> bool:
    """Return whether any partition of a topic may be selected."""
    is_of_topics = not options.topic or any(fnmatchcase(topic, pattern) for pattern in options.topic)
    return is_of_topics and not (options.exclude_internal and is_internal(topic))


def named_topics(partitions: Iterable[PartitionPath], options: Namespace) -> set[str]:
    """Return the topics among chosen partitions that a command line names, by an option or as a path.

    A pattern names Kafka's own topics only if it begins as they do, with two underscores; so it is with a shell's
    patterns and hidden files.
    """
    return {
        each.topic
        for each in partitions
        if each.topic and (each.path in options.paths or is_named(options, each.topic))
    }


def is_named(options: Namespace, topic: str) -> bool:
    """Return whether a topic is named by an option, as :func:`named_topics`."""
    return any(_is_named(topic, by) for by in options.topic)


def _is_named(topic: str, pattern: str) -> bool:
    return fnmatchcase(topic, pattern) and (pattern.startswith("__") or not is_internal(topic))


def _matches(partition: PartitionPath, pattern: str) -> bool:
    return partition.topic is not None and fnmatchcase(partition.topic, pattern)


def _hint(pattern: str, topics: Sequence[str]) -> str:
    """The names that are most like one that is not there; or some of those that are."""
    if "," in pattern:
        return f"repeat the option for each of several: {' '.join(f'-t {each.strip()}' for each in pattern.split(','))}"
    by_lower = {topic.lower(): topic for topic in reversed(topics)}
    from difflib import get_close_matches  # which no right name needs

    near = [by_lower[name] for name in get_close_matches(pattern.strip("*").lower(), by_lower, 3)]
    if near:
        return f"did you mean {' or '.join(near)}?"
    shown = ", ".join(topics[:_SHOWN]) + (f" and {len(topics) - _SHOWN:,} more" if len(topics) > _SHOWN else "")
    return f"there are {shown}" if topics else "no topic is known here"
