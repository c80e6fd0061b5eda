"""Gives staged partitions their names in several log directories: all of them, or none.

``.brokerless-restore`` in each directory says what changes, from before the first change until after the last one. The
one in the first directory decides: while it is there, the next run completes everything; where only others have one, it
was never written, and they are removed. A broker ignores these files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.restore.disks.staging import OWNER, Staged
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, write_checkpoints
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.storage.atomic import sync_directory, write_file
from brokerless.log.storage.location import Location
from brokerless.log.storage.own_files import is_own_directory, make_directory, open_directory, read_own, remove_tree
from brokerless.values import Int32, Int64, Value, WrongJsonError, from_json, to_json

JOURNAL = ".brokerless-restore"
ASIDE = ".replaced"
"""What the directory beside a log directory ends with, that replaced partitions are moved to."""
_LIMIT = 64 << 20
_UNIQUE = re.compile(r"[0-9a-f]{32}")


class Move(Value, frozen=True):
    """One partition in one log directory. ``staged``: the name that it has. ``aside``: what is there is moved to this
    name beside the log directory; or, if that is ``discarded``, to this name in it, and removed at the end. The
    offsets: as :class:`PartitionOffsets` has them."""

    topic: str
    partition: Int32
    staged: str
    aside: str | None
    discarded: str | None
    recovery_point: Int64 | None
    log_start_offset: Int64 | None
    high_watermark: Int64 | None
    cleaner: Int64 | None

    def __post_init__(self) -> None:
        own = names.parse_partition_directory(self.name)
        if own is None or (own.topic, own.partition, own.state) != (self.topic, self.partition, "live"):
            raise WrongJsonError("this is of no partition")
        for each in (self.staged, self.discarded):
            parsed = None if each is None else names.parse_partition_directory(each)
            if each is not None and (parsed is None or not parsed.is_unfinished or parsed.partition != self.partition):
                raise WrongJsonError("this has a name that is not ours")
        prefix, aside = f"{self.name}.", self.aside
        if aside is not None and not (aside.startswith(prefix) and _UNIQUE.fullmatch(aside.removeprefix(prefix))):
            raise WrongJsonError("aside is not ours")

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def offsets(self) -> PartitionOffsets:
        return PartitionOffsets(self.recovery_point, self.log_start_offset, self.high_watermark, self.cleaner)


@dataclass(frozen=True, slots=True)
class Swap:
    """All that changes, by log directory. ``paths``: real ones, the first decides."""

    paths: tuple[Path, ...]
    moves: Mapping[Path, tuple[Move, ...]]


class _Journal(Value, frozen=True):
    restore: Literal[1]
    paths: tuple[str, ...]
    moves: tuple[tuple[Move, ...], ...]


def aside_of(log_directory: Path) -> Path:
    """Where replaced partitions of a log directory are moved to: beside it, as a broker ends its start at names in it
    that are no partitions'."""
    return log_directory.with_name(log_directory.name + ASIDE)


def plan_swap(staged: Sequence[Staged], unique: str) -> Swap:
    """``unique``: 32 hexadecimal digits, in the names of what is moved aside."""
    moves: dict[Path, list[Move]] = {}
    for each in staged:
        place = each.placement
        for path, name in each.directories.items():
            has_records = place.existing.get(path)
            offsets = each.partition.checkpoints
            if has_records is not None and offsets.cleaner is None:
                start = each.partition.log_start_offset
                offsets = PartitionOffsets(
                    offsets.recovery_point, offsets.log_start_offset, offsets.high_watermark, start
                )
            moves.setdefault(path, []).append(
                Move(
                    place.topic, place.partition, name,
                    f"{place.name}.{unique}" if has_records else None,
                    unfinished_name(place.topic, place.partition) if has_records is False else None,
                    *astuple(offsets),
                )
            )  # fmt: skip
    paths = tuple(sorted(moves))
    return Swap(paths, {path: tuple(moves[path]) for path in paths})


def check_aside(paths: Sequence[Path]) -> None:
    """Raises :class:`UsageError` where nothing can be moved beside a log directory by renaming it."""
    for path in paths:
        if path.stat().st_dev != path.parent.stat().st_dev:
            text = f"replaced partitions are moved to {aside_of(path)}, which is on another file system; move them away"
            raise UsageError(f"{path}: {text} yourself, and run this without --replace")


def apply_swap(swap: Swap) -> None:
    """Raises OSError, and UsageError for what is not there any more."""
    data = _dump(swap)
    for path in (*swap.paths[1:], swap.paths[0]):
        write_file(path / JOURNAL, data)
    _complete(swap)


def settle(paths: Sequence[Path]) -> bool:
    """Completes or undoes what a kill cut short in these log directories, which are locked; says whether it was
    completed. Raises :class:`UsageError` where others take part that are not among them, or something is gone."""
    left = [path for path in paths if (path / JOURNAL).exists()]
    if not left:
        for path in paths:
            for each in path.iterdir():
                parsed = names.parse_partition_directory(each.name)
                if parsed is not None and parsed.is_unfinished and (parsed.unique_id or "").startswith(OWNER):
                    _remove(path, each.name)
        return False
    swap = _load(left[0] / JOURNAL)
    missing = [path for path in swap.paths if path not in paths]
    if missing:
        text = f"a restore was cut short that changes {', '.join(map(str, missing))}, too; give all of its directories"
        raise UsageError(f"{left[0]}: {text}")
    if (swap.paths[0] / JOURNAL).exists():
        _complete(_load(swap.paths[0] / JOURNAL))
        return True
    for path in left:
        for each in swap.moves[path]:
            _remove(path, each.staged)
        (path / JOURNAL).unlink()
        sync_directory(path)
    return False


def _complete(swap: Swap) -> None:
    for path in swap.paths:
        for each in swap.moves[path]:
            _move(path, each)
        sync_directory(path)
        write_checkpoints(path, {(each.topic, each.partition): each.offsets for each in swap.moves[path]})
    for path in swap.paths:
        for each in swap.moves[path]:
            if each.discarded is not None:
                _remove(path, each.discarded)
    for path in (*swap.paths[1:], swap.paths[0]):
        with suppress(FileNotFoundError):
            (path / JOURNAL).unlink()
        sync_directory(path)


def _move(path: Path, move: Move) -> None:
    """Once more does nothing: the staged directory has its name then."""
    if not is_own_directory(path / move.staged):
        if is_own_directory(path / move.name):
            return
        text = "a restore was cut short, and what it had written is gone: was a broker started on it meanwhile?"
        raise UsageError(f"{path / move.staged}: {text} Remove {path / JOURNAL}, and restore again")
    if is_own_directory(path / move.name):
        if move.aside is not None:
            aside = aside_of(path)
            make_directory(aside)
            (path / move.name).rename(aside / move.aside)
            sync_directory(aside)
        elif move.discarded is not None:
            (path / move.name).rename(path / move.discarded)
        else:
            raise UsageError(f"{path / move.name}: this partition came meanwhile; remove it, and run this again")
    (path / move.staged).rename(path / move.name)


def _remove(path: Path, name: str) -> None:
    with open_directory(path) as directory:
        remove_tree(directory, name)


def _dump(swap: Swap) -> bytes:
    return to_json(_Journal(1, tuple(map(str, swap.paths)), tuple(swap.moves[path] for path in swap.paths)))


def _load(path: Path) -> Swap:
    """Raises :class:`UsageError` for what is no journal of ours: with names that are no partition's, for example."""
    try:
        found = from_json(read_own(Location(str(path)), _LIMIT), _Journal)
        paths = tuple(map(Path, found.paths))
        if not paths or len(found.moves) != len(paths) or path.parent not in paths:
            raise WrongJsonError("its directories are others")
    except (WrongJsonError, UnreadableError) as error:
        raise UsageError(f"{path}: this is no journal of a restore: {error}; move it away") from error
    return Swap(paths, dict(zip(paths, found.moves, strict=True)))
