"""Paths as the jobs that write partitions again take them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from brokerless.jobs.rewrite.plan import Source
from brokerless.log.directory import resolve
from brokerless.log.names import Include
from brokerless.log.storage.location import Location


def sources_of(*paths: Path | str, include: Collection[Include] = (), topic: str | None = None) -> list[Source]:
    """These paths with all of their partitions, or those of one topic."""
    found = [resolve(Location(str(path)), include) for path in paths]
    return [Source(log, [each for each in log.partitions if topic in (None, each.topic)]) for log in found]
