"""Chooses what a run with a budget does of a large disk: what was done longest ago, so that runs take turns.

What was done when is in a ledger (:mod:`brokerless.jobs.ledger`), a directory that the user names.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from brokerless import clock
from brokerless.errors import UnwritableError, UsageError
from brokerless.jobs.ledger import Checked, Ledger, run_id_of
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.guarded_files import make_inner_directory
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import local
from brokerless.log.storage.write_errors import unwritable

KeyT = TypeVar("KeyT")
_SAVE_EVERY = 10.0
"""Seconds between two writes of the ledger during a run."""


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


@dataclass(frozen=True, slots=True)
class Item:
    """A thing that is verified by itself."""

    version: str
    """Which state of it this is."""
    size: int
    """Its size in bytes."""
    is_growing: bool = False
    """Whether it changes all the time, so that a change does not make it come first."""


@dataclass(slots=True)
class Turn:
    """A run's turn: which of all ``items`` it verifies."""

    ledger: Ledger
    kind: str
    """The kind of entries of the ledger that the items are."""
    items: Mapping[str, Item]
    """All items, by their paths in the ledger."""
    roots: Sequence[str]
    """The paths below which entries of other items are forgotten at its end."""
    chosen: frozenset[str] = frozenset()
    bytes: int = 0
    """The bytes of the items that this run has verified."""
    run_id: str = field(default_factory=lambda: run_id_of(clock.now()))
    _saved: float = field(default_factory=monotonic)

    @classmethod
    def begin(cls, ledger: Ledger, kind: str, items: Mapping[str, Item], *, budget: int, roots: Sequence[str]) -> Turn:
        """Choose what a run with a budget of so many bytes does: first items in which there were errors, then those
        that were never verified or have changed, then those that were verified longest ago; one at least."""
        turn = cls(ledger, kind, items, roots)
        turn.chosen = frozenset(choose({path: each.size for path, each in items.items()}, budget, turn._order))
        return turn

    @property
    def total(self) -> int:
        """Bytes of all items."""
        return sum(each.size for each in self.items.values())

    @property
    def chosen_bytes(self) -> int:
        return sum(self.items[each].size for each in self.chosen)

    @property
    def verified_bytes(self) -> int:
        """Bytes of the items that were verified, in this run or before, and have not changed since."""
        return sum(each.size for path, each in self.items.items() if self._known(path) is not None)

    @property
    def oldest(self) -> int | None:
        """Since when all items were verified, in ms since the epoch; None while one was not, or has changed."""
        found = [self._known(each) for each in self.items]
        known = [each.verified for each in found if each is not None]
        return min(known, default=None) if len(known) == len(found) else None

    def as_dict(self) -> dict[str, Any]:
        return {
            "runBytes": self.bytes,
            "verifiedBytes": self.verified_bytes,
            "totalBytes": self.total,
            "verifiedSince": self.oldest,
        }

    def add(self, checked: Checked) -> None:
        """Records that an item was verified. Raises :class:`UnwritableError`."""
        self.ledger.add(checked)
        self.bytes += self.items[checked.path].size
        if monotonic() - self._saved > _SAVE_EVERY:
            self.ledger.flush()
            self._saved = monotonic()

    def end(self) -> None:
        """Records what this run has done; what is known of removed items goes. Raises :class:`UnwritableError`."""
        self.ledger.consolidate(self.roots, self.items.keys(), self.kind)

    def _known(self, path: str) -> Checked | None:
        """Return what was found in an item; None where it was not verified in the state that it has now."""
        known = self.ledger.entries.get((self.kind, path))
        return None if known is None or known.version != self.items[path].version else known

    def _order(self, path: str) -> tuple[int, int]:
        known = self.ledger.entries.get((self.kind, path))
        if known is None:
            return 1, 0
        if known.has_errors:
            return 0, known.verified
        return (2 if self.items[path].is_growing or self._known(path) else 1), known.verified


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
    if not path.parent.is_dir():
        raise UnwritableError(f"{path}: there is no directory {path.parent}; make it, or name another")
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
