"""Chooses what a run with a budget does of a large disk, what was done longest ago first, so that runs take turns.

What was done when is in a ledger (:mod:`brokerless.jobs.ledger`), a directory that the user names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from brokerless.errors import UnwritableError, UsageError
from brokerless.jobs.ledger import Ledger
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.location import Location
from brokerless.log.storage.own_files import make_inner_directory
from brokerless.log.storage.paths import local
from brokerless.log.storage.write_errors import unwritable

KeyT = TypeVar("KeyT")


def open_ledger(partitions: Sequence[PartitionPath], budget: int | None, state: str | None) -> Ledger | None:
    """Return the ledger of runs with a budget (bytes), with what it knows; None without a budget. ``partitions``: what
    is read, in whose log directories it is not.

    Raises :class:`UsageError`, :class:`UnwritableError`, and :class:`UnreadableError` for a ledger that does not say
    what was done."""
    if budget is None and state is None:
        return None
    if budget is None or state is None:
        raise UsageError("a budget needs a directory for the state, and the other way round: give both")
    if budget <= 0:
        raise UsageError(f"budget: {budget!r} is no number of bytes above 0")
    at = Location.of(state)
    if not at.is_remote:
        _refuse_log_directory(partitions, at)
        _make(Path(local(at.path)))
    ledger = Ledger(at)
    ledger.load()
    return ledger


def choose(sizes: Mapping[KeyT, int], budget: int, order: Callable[[KeyT], Any]) -> list[KeyT]:
    """Return those that a run with a budget of so many bytes does: the first ones by ``order``, and one at least.
    ``sizes``: bytes of each."""
    chosen: list[KeyT] = []
    for each in sorted(sizes, key=order):
        if chosen and sizes[each] > budget:
            break
        chosen.append(each)
        budget -= sizes[each]
    return chosen


def _make(path: Path) -> None:
    """Makes the directory, if it is not there, and finds out at once whether anything can be written to it."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path}: this is a file, and the state is a directory of its own; name another")
    with unwritable(path):
        if not path.exists():
            make_inner_directory(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise UnwritableError(f"{path}: nothing can be written here; name a directory that is yours")


def _refuse_log_directory(partitions: Iterable[PartitionPath], at: Location) -> None:
    """The state is in no log directory that is read: a broker would take it for a partition of no topic."""
    state = Path(local(at.path)).resolve()
    for each in partitions:
        if each.location.is_remote:
            continue
        place = Path(local(each.path)).resolve()
        above = place.parent if each.topic is not None or place.is_file() else place
        if state.is_relative_to(above):
            raise UsageError(f"{at.path}: this is in {above}, which is a log directory; name one elsewhere")
