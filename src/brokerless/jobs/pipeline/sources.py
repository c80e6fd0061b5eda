"""Finds log directories below the paths of a pipeline, and the partitions that are selected, with all their copies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.pipeline.settings import Settings
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage import paths
from brokerless.log.storage.location import Location
from brokerless.progress import Say, ignore

_DEPTH = 3
"""How far below a path log directories are searched: ``backups/2026-11-23/broker-1/kafka-logs``."""

_WILD = re.compile(r"[*?\[]")
Copies = dict[str, tuple[PartitionPath, ...]]
"""Partitions by name (``orders-0``), each with the directories that hold it: snapshots, or replicas."""


def find_log_directories(settings: Settings) -> list[LogDirectory]:
    """Return the log directories in the settings' paths, each once. Raises :class:`UnreadableError` for a path with
    none."""
    found: dict[str, LogDirectory] = {}
    for path in settings.paths:
        for pattern_match in Location(path, settings.storage_options).expand():
            own = _find(pattern_match, settings.to, _DEPTH)
            if not own:  # said by what lists it
                own = [open_directory(pattern_match)]
            found.update((paths.full_path(each.path), each) for each in own)
    return list(found.values())


def _find(location: Location, to: str, depth: int) -> list[LogDirectory]:
    try:
        return [open_directory(location)]
    except UnreadableError:
        if not depth or not location.is_directory():
            return []
    found: list[LogDirectory] = []
    for entry in location.entries():
        is_searched = entry.is_directory and not entry.name.startswith(("_", "."))
        if is_searched and paths.full_path(entry.path) != paths.full_path(to):
            found += _find(entry.location, to, depth - 1)
    return found


def select_copies(
    directories: Iterable[LogDirectory], settings: Settings, known: Collection[str] = (), say: Say = ignore
) -> Copies:
    """Return the selected partitions, by topic and number. ``say`` is called for patterns that match nothing but topics
    that are ``known`` from earlier runs, and for others with ``*``, ``?`` or ``[`` if something else is selected.

    Raises :class:`UsageError` for a lone file whose path does not say which partition it is, and
    :class:`UnreadableError` for a pattern that no topic matches.
    """
    found: dict[tuple[str, int], list[PartitionPath]] = {}
    topics: set[str] = set()
    for directory in directories:
        for each in directory.partitions:
            if each.topic is None or each.partition is None:
                text = "the name does not say which partition this is; give its directory, as orders-0"
                raise UsageError(f"{each.path}: {text}")
            topics.add(each.topic)
            if is_selected(each.topic, settings):
                found.setdefault((each.topic, each.partition), []).append(each)
    where = ", ".join(settings.paths)
    for pattern in settings.topic:
        if any(fnmatchcase(topic, pattern) for topic in topics):
            continue
        if gone := [topic for topic in known if fnmatchcase(topic, pattern)]:
            say(f"no topic {pattern} in {where} any more ({', '.join(sorted(gone)[:8])} before)")
        elif found and _WILD.search(pattern):
            say(f"no topic {pattern} in {where} so far")
        else:
            there = ", ".join(sorted(topics)[:8]) or "none"
            raise UnreadableError("", f"no topic {pattern} in {where} (there are {there})")
    return {names.partition_directory(*name): tuple(found[name]) for name in sorted(found)}


def is_selected(topic: str, settings: Settings) -> bool:
    """Return whether a topic goes into a table."""
    if _matches(topic, settings.exclude):
        return False
    if names.is_internal(topic):
        return _matches(topic, [each for each in settings.topic if each.startswith("__")])
    return not settings.topic or _matches(topic, settings.topic)


def _matches(topic: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)
