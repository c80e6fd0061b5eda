"""Plans the renamings that give staged partitions their names in log directories, and move those with these names
aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path

from brokerless.errors import UsageError
from brokerless.jobs.restore.disks.staging import Staged
from brokerless.log.checkpoint.commit_journal import Renaming
from brokerless.log.commit.commit import aside_of
from brokerless.log.commit.partition_writer import unfinished_name


def plan_swap(staged: Sequence[Staged], unique: str) -> Mapping[Path, Sequence[Renaming]]:
    """Plan the swap of each log directory. ``unique``: 32 hexadecimal digits, in the names of what is moved aside."""
    parts: dict[Path, list[Renaming]] = {}
    for each in staged:
        place = each.placement
        for path, name in each.directories.items():
            has_records, offsets = place.existing.get(path), each.partition.checkpoints
            if has_records is not None and offsets.cleaner is None:  # else the line of what was there would stay
                offsets = replace(offsets, cleaner=each.partition.log_start_offset)
            aside = f"{place.name}.{unique}" if has_records else None
            discarded = unfinished_name(place.topic, place.partition) if has_records is False else None
            parts.setdefault(path, []).append(
                Renaming(name, place.name, aside=aside, discarded=discarded, offsets=astuple(offsets))
            )
    return parts


def check_aside(paths: Sequence[Path]) -> None:
    """Raises :class:`UsageError` where nothing can be moved beside a log directory by renaming it."""
    for path in paths:
        if path.stat().st_dev != path.parent.stat().st_dev:
            text = f"replaced partitions are moved to {aside_of(path)}, which is on another file system; move them away"
            raise UsageError(f"{path}: {text} yourself, and run this without --replace")
