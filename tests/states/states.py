"""All states, and how they are laid out: side by side in one log directory, and alone where one ends a broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.states import mutations
from tests.states.bases import AGED, COUNTS, STATES, checkpoint_lines, lay_out, make_startable, unpacked
from tests.states.mutations import HIGH_WATERMARK, RECOVERY, SINGLES, Change, base_offsets, end_offset

Stop = Literal["clean", "flushed", "unflushed"]
"""``clean``; else killed: ``flushed`` up to the last segment, as a roll leaves it, or not at all."""
STOPS: tuple[Stop, ...] = ("clean", "flushed", "unflushed")


SHARES = 12
"""Tests of a version: each takes a share of the states, so that several processes have work."""


@dataclass(frozen=True)
class State:
    """A partition's files that are changed, and how the broker had ended."""

    name: str
    change: Change
    stop: Stop
    topic: str = STATES

    @property
    def is_clean(self) -> bool:
        return self.stop == "clean"


@dataclass(frozen=True)
class Pack:
    """States that lie in one log directory, by their partition's directory."""

    base: str
    is_clean: bool
    states: Mapping[str, State]


def all_states() -> dict[str, State]:
    found = [State(f"{name}.{stop}", SINGLES[name], stop) for name in SINGLES for stop in STOPS]
    found += [
        State(f"{name}.{AGED}.{stop}", SINGLES[name], stop, AGED) for name in mutations.AGED_TOO for stop in STOPS[::2]
    ]
    return {each.name: each for each in found}


def packs(states: Iterable[State], alone: Iterable[str]) -> list[Pack]:
    """Lay out states: as many in a directory as the base has partitions; those named in ``alone`` by themselves."""
    by_themselves = set(alone)
    found: list[Pack] = []
    together: dict[bool, list[State]] = {True: [], False: []}
    for each in states:
        if each.name in by_themselves:
            found.append(Pack("few", each.is_clean, {f"{each.topic}-0": each}))
        else:
            together[each.is_clean].append(each)
    for is_clean, those in together.items():
        found += _filled(is_clean, those)
    return found


def _filled(is_clean: bool, states: Sequence[State]) -> list[Pack]:
    found: list[Pack] = []
    numbers: dict[str, int] = {}
    now: dict[str, State] = {}
    for each in states:
        number = numbers.get(each.topic, 1)  # 0 is what others are copied from
        if number == COUNTS["many"][each.topic]:
            found.append(Pack("many", is_clean, now))
            now, numbers, number = {}, {}, 1
        now[f"{each.topic}-{number}"] = each
        numbers[each.topic] = number + 1
    return [*found, Pack("many", is_clean, now)] if now else found


def make(version: str, pack: Pack, target: Path, *, all_partitions: bool = True) -> Path:
    """Make the log directory of a pack; for a broker with all partitions that it would create."""
    make_startable(version, make_as_it_was(version, pack, target, all_partitions=all_partitions))
    return target


def make_as_it_was(version: str, pack: Pack, target: Path, *, all_partitions: bool = True) -> Path:
    """Make the same with the metadata of its base."""
    lay_out(version, pack.base, pack.is_clean, target, all_partitions=all_partitions)
    source = unpacked(version) / pack.base / ("stopped" if pack.is_clean else "killed") / f"{STATES}-0"
    end = end_offset(source)
    points = {"clean": end, "flushed": base_offsets(source)[-1], "unflushed": 0}
    flushed = {(topic, 0): end for topic in (STATES, AGED)}
    ends = dict(flushed)
    for name, state in pack.states.items():
        directory, number = target / name, int(name.rpartition("-")[2])
        own = (target / f"{state.topic}-0" / "partition.metadata").read_bytes()
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(source, directory)
        (directory / "partition.metadata").write_bytes(own)
        flushed[state.topic, number], ends[state.topic, number] = points[state.stop], end
    checkpoint_lines(target / RECOVERY, flushed)
    checkpoint_lines(target / HIGH_WATERMARK, ends)
    for name, state in pack.states.items():
        state.change(target / name)
    return target


def sizes(root: Path) -> dict[str, int]:
    """Sizes of all that is below a directory, -1 for a directory."""
    return {
        str(path.relative_to(root)): -1 if path.is_dir() else path.stat().st_size for path in sorted(root.rglob("*"))
    }


def shares(names: Iterable[str], count: int) -> list[set[str]]:
    """Divide states, by the mutation's name, so that those of one mutation are together."""
    found: list[set[str]] = [set() for _ in range(count)]
    for number, mutation in enumerate(sorted({name.partition(".")[0] for name in names})):
        found[number % count] |= {name for name in names if name.partition(".")[0] == mutation}
    return found
