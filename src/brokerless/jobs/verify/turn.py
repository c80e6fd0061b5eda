"""Verifies some bytes of logs in each run, what was verified longest ago first, so that runs take turns over a disk.

A file of JSON, never in a log directory, lists which segments were verified, when, and how large they were and how old
their last change was. It is written beside and renamed, some times during a run and at its end: a run that is killed
has done what it recorded. One run at a time has it: as it is replaced, an empty file beside it is locked.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.directory_lock import file_lock
from brokerless.log.storage.files import unreadable_error
from brokerless.log.storage.paths import full_path, is_remote, local
from brokerless.log.storage.write_errors import refuse_directory, unwritable
from brokerless.values import Int64, Value, ValueT, WrongJsonError, from_json, to_json

_LIMIT = 256 << 20
"""Bytes of a state that is read: some 150 for each segment."""
_OF_VERIFY = "verify --budget"
_SAVE_EVERY = 10.0
"""Seconds between two writes of the state during a run."""


class VerifiedSegment(Value, frozen=True):
    """A segment when it was verified: its size in bytes, ``modified`` and ``verified`` in ms since the epoch,
    ``errors`` that were found."""

    size_in_bytes: Int64
    modified: Int64 | None
    verified: Int64
    errors: Int64

    def is_of(self, segment: SegmentPaths) -> bool:
        """Return whether the segment has not changed since."""
        return (self.size_in_bytes, self.modified) == (segment.size, segment.log.modified)


class _VerifyState(Value, frozen=True):
    verify_state: Literal[1]
    segments: dict[str, VerifiedSegment]


@dataclass(slots=True)
class StateFile:
    """The file with the state of runs that take turns. ``of``: the command, in messages."""

    path: str
    of: str
    _lock: ExitStack = field(default_factory=ExitStack)

    def load(self, kind: type[ValueT], empty: ValueT) -> ValueT:
        """Read the state; ``empty`` where there is no file yet. Raises :class:`UnreadableError` for another file."""
        try:
            with Path(self.path).open("rb") as file:
                data = file.read(_LIMIT + 1)
        except FileNotFoundError:
            return empty
        except OSError as error:
            raise unreadable_error(self.path, error) from error
        try:
            if len(data) > _LIMIT:
                raise WrongJsonError(f"it has more than {_LIMIT} bytes")
            return from_json(data, kind)
        except WrongJsonError as error:
            raise UnreadableError(self.path, f"this is no state of {self.of}: {error}; name another file") from error

    def save(self, value: Value) -> None:
        """Write the state. Raises :class:`UnwritableError`."""
        with unwritable(self.path):
            write_file(self.path, to_json(value, indent=1))

    def end(self, value: Value) -> None:
        """Write the state, and let others have it. Raises :class:`UnwritableError`."""
        with self._lock:
            self.save(value)


@dataclass(slots=True)
class Turn:
    """What one run verifies. ``segments``: all of them, by the paths of their logs, of which ``chosen`` has those to
    verify. ``total``: bytes of all segments. ``bytes``: those of
    the segments that this run has verified."""

    file: StateFile
    state: dict[str, VerifiedSegment]
    segments: dict[str, SegmentPaths]
    chosen: frozenset[str]
    bytes: int = 0
    _saved: float = field(default_factory=monotonic)

    @property
    def total(self) -> int:
        return sum(each.size for each in self.segments.values())

    @property
    def chosen_bytes(self) -> int:
        return sum(self.segments[each].size for each in self.chosen)

    @property
    def verified_bytes(self) -> int:
        """Bytes of the segments that were verified, in this run or before, and have not changed since."""
        return sum(each.size for path, each in self.segments.items() if self._is_verified(path))

    @property
    def oldest(self) -> int | None:
        """Since when all segments were verified, in ms since the epoch; None while one was not, or has changed."""
        if not all(map(self._is_verified, self.segments)):
            return None
        return min((self.state[full_path(path)].verified for path in self.segments), default=None)

    def as_dict(self) -> dict[str, Any]:
        return {
            "runBytes": self.bytes,
            "verifiedBytes": self.verified_bytes,
            "totalBytes": self.total,
            "verifiedSince": self.oldest,
        }

    def is_chosen(self, segment: SegmentPaths) -> bool:
        return segment.log.path in self.chosen

    def add(self, segment: SegmentPaths, findings: Sequence[Finding]) -> None:
        """Records that a segment was verified."""
        errors = sum(each.severity == "error" for each in findings)
        found = VerifiedSegment(segment.size, segment.log.modified, clock.now(), errors)
        self.state[full_path(segment.log.path)] = found
        self.bytes += segment.size
        if monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Writes the state. Raises :class:`UnwritableError`."""
        self.file.save(self._value())
        self._saved = monotonic()

    def end(self) -> None:
        """Writes the state, and lets others have it. Raises :class:`UnwritableError`."""
        self.file.end(self._value())

    def _value(self) -> _VerifyState:
        return _VerifyState(1, dict(sorted(self.state.items())))

    def _is_verified(self, path: str) -> bool:
        known = self.state.get(full_path(path))
        return known is not None and known.is_of(self.segments[path])


def begin_turn(partitions: Sequence[PartitionPath], budget: int | None, path: str | None) -> Turn | None:
    """Choose what a run verifies: at most ``budget`` bytes, and one segment at least; None without a budget. First come
    segments in which there were errors, then those that were never verified or have changed (but the last one of a
    partition, which changes all the time), then those that were verified longest ago.

    Until :meth:`Turn.end`, no other run has this state. Raises :class:`UsageError`, also while another run has it,
    :class:`UnreadableError` for a state that is none, and :class:`UnwritableError`.
    """
    file = begin_state(partitions, budget, path, of=_OF_VERIFY)
    if file is None or budget is None:
        return None
    segments = {each.log.path: each for partition in partitions for each in partition.segments}
    growing = {partition.segments[-1].log.path for partition in partitions if partition.segments}
    state = _without_removed(load_state(file.path), partitions, segments)

    def order(path: str) -> tuple[int, int]:
        known = state.get(full_path(path))
        if known is None:
            return 1, 0
        if known.errors:
            return 0, known.verified
        return (2 if path in growing or known.is_of(segments[path]) else 1), known.verified

    chosen: list[str] = []
    left = budget
    for each in sorted(segments, key=order):
        if chosen and segments[each].size > left:
            break
        chosen.append(each)
        left -= segments[each].size
    return Turn(file, state, segments, frozenset(chosen))


def begin_state(
    partitions: Sequence[PartitionPath], budget: int | None, path: str | None, *, of: str
) -> StateFile | None:
    """Return the state of runs with a budget, which no other run has until its end; None without a budget. ``of``: the
    command, in messages.

    Raises :class:`UsageError`, also while another run has it, and :class:`UnwritableError`."""
    if budget is None and path is None:
        return None
    if budget is None or path is None:
        raise UsageError("a budget needs a file for the state, and the other way round: give both")
    if budget <= 0:
        raise UsageError(f"budget: {budget!r} is no number of bytes above 0")
    _refuse_log_directory(partitions, path)
    return StateFile(path, of, _lock(path, of.split()[0]))


def _lock(path: str, command: str) -> ExitStack:
    """Keeps other runs from a state until it is closed, or dropped. Raises :class:`UsageError` while one has it, and
    :class:`UnwritableError`."""
    busy = f"{path}: another run of {command} has this state; wait for its end, or name another file"
    lock = ExitStack()
    with unwritable(path):
        try:
            descriptor = os.open(f"{local(path)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except PermissionError as error:
            error.filename = path
            raise
        lock.enter_context(file_lock(descriptor, busy))
    return lock


def load_state(path: str) -> dict[str, VerifiedSegment]:
    """Read the state of ``verify --budget``; an empty one where there is no file yet."""
    return StateFile(path, _OF_VERIFY).load(_VerifyState, _VerifyState(1, {})).segments


def _without_removed(
    state: Mapping[str, VerifiedSegment], partitions: Sequence[PartitionPath], segments: Mapping[str, SegmentPaths]
) -> dict[str, VerifiedSegment]:
    """The state without segments that these partitions do not have any more."""
    present = {full_path(each) for each in segments}
    listed = {full_path(each.path) for each in partitions}
    return {path: each for path, each in state.items() if path in present or path.rpartition("/")[0] not in listed}


def _refuse_log_directory(partitions: Sequence[PartitionPath], path: str) -> None:
    """The state is a local file, and in no log directory that is verified: a broker would not know it."""
    if is_remote(path):
        raise UsageError(f"{path}: the state is a local file")
    refuse_directory(path, "a file in it, such as verify-state.json")
    state = Path(local(path)).resolve()
    for each in partitions:
        if each.location.is_remote:
            continue
        place = Path(local(each.path)).resolve()
        above = place.parent if each.topic is not None or place.is_file() else place
        if state.is_relative_to(above):
            raise UsageError(f"{path}: this is in {above}, which is a log directory; name a file elsewhere")
