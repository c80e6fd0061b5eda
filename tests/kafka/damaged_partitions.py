"""A topic whose partitions are damaged, each in its own way, while no broker runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.log import odd_logs
from tests.random_damage import damage_at_random

TOPIC = "damaged"


@dataclass
class Files:
    """A partition's directory to be damaged: base offsets of its segments, all and those that were not flushed."""

    directory: Path
    flushed_up_to: int
    chance: random.Random

    @property
    def segments(self) -> list[int]:
        return sorted(int(path.stem) for path in self.directory.glob("*.log"))

    @property
    def flushed(self) -> list[int]:
        """Base offsets of segments that end before the recovery point; the second is taken for damage."""
        bases = self.segments
        return [base for base, end in itertools.pairwise(bases) if end <= self.flushed_up_to]

    @property
    def unflushed(self) -> list[int]:
        return [base for base in self.segments if base not in self.flushed]

    def path(self, base: int, suffix: str = "log") -> Path:
        return self.directory / f"{base:020}.{suffix}"

    def batches(self, base: int) -> list[tuple[int, int]]:
        """Positions and sizes of a segment's batches."""
        data, at, found = self.path(base).read_bytes(), 0, []
        while at + 12 < len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
            found.append((at, size))
            at += size
        return found

    def batch(self, base: int) -> tuple[int, int]:
        """One in the middle."""
        found = self.batches(base)
        return self.chance.choice(found[1:-1] or found)

    def patch(self, base: int, position: int, data: bytes) -> None:
        with self.path(base).open("r+b") as file:
            file.seek(position)
            file.write(data)

    def cut(self, base: int) -> None:
        position, size = self.batch(base)
        with self.path(base).open("r+b") as file:
            file.truncate(position + self.chance.randrange(1, size))

    def flip(self, base: int) -> None:
        position, size = self.batch(base)
        at = position + self.chance.randrange(21, size)
        self.patch(base, at, bytes([self.path(base).read_bytes()[at] ^ 1 << self.chance.randrange(8)]))

    def append(self, base: int, data: bytes) -> None:
        with self.path(base).open("ab") as file:
            file.write(data)


Damage = Callable[[Files], object]


def zero_page(files: Files) -> None:
    data = files.path(files.segments[-1]).stat().st_size
    files.patch(files.segments[-1], max(0, data - 700), bytes(min(data, 700)))


def lower_offset(files: Files) -> None:
    """Base offsets have no checksum."""
    base = files.unflushed[0]
    for position, _ in files.batches(base)[2:]:
        files.patch(base, position, (base + 1).to_bytes(8, "big"))


def epoch_in_header(files: Files) -> None:
    base = files.unflushed[0]
    files.patch(base, files.batch(base)[0] + 12, (7).to_bytes(4, "big"))


def finished_compaction(files: Files) -> None:
    """The first two segments were compacted into one, and the broker died before it had taken their place."""
    first, second = files.segments[:2]
    files.path(first, "log.swap").write_bytes(files.path(first).read_bytes() + files.path(second).read_bytes())
    for kind in ("index.swap", "timeindex.swap"):
        files.path(first, kind).write_bytes(b"")


def damaged_compaction(files: Files, base: int) -> None:
    """A segment was compacted, and one bit is wrong in the log that is to replace it, which has no indexes."""
    data = bytearray(files.path(base).read_bytes())
    data[files.batch(base)[0] + 30] ^= 1
    files.path(base, "log.swap").write_bytes(data)


def leftovers(files: Files) -> None:
    for name in ("log.deleted", "index.deleted", "log.cleaned", "timeindex.cleaned"):
        files.path(files.segments[1], name).write_bytes(b"left over")


def index_of_nothing(files: Files) -> None:
    files.path(10_000_000, "index").write_bytes(bytes(80))


def size_field(size: int) -> Damage:
    return lambda files: files.patch(
        files.unflushed[0], files.batch(files.unflushed[0])[0] + 8, size.to_bytes(4, "big", signed=True)
    )


DAMAGES: dict[str, Damage] = {
    "nothing": lambda files: None,
    "last-cut": lambda files: files.cut(files.segments[-1]),
    "last-flipped": lambda files: files.flip(files.segments[-1]),
    "last-emptied": lambda files: files.path(files.segments[-1]).write_bytes(b""),
    "last-lost": lambda files: files.path(files.segments[-1]).unlink(),
    "last-zeroed": zero_page,
    "last-with-garbage": lambda files: files.append(files.segments[-1], files.chance.randbytes(500)),
    "last-with-zeros": lambda files: files.append(files.segments[-1], bytes(5000)),
    "last-index-of-odd-size": lambda files: files.path(files.segments[-1], "index").write_bytes(bytes(13)),
    "unflushed-cut": lambda files: files.cut(files.unflushed[0]),
    "unflushed-flipped": lambda files: files.flip(files.unflushed[0]),
    "unflushed-lost": lambda files: files.path(files.unflushed[0]).unlink(),
    "unflushed-size-too-small": size_field(3),
    "unflushed-size-negative": size_field(-5),
    "unflushed-size-too-large": size_field(1 << 30),
    "unflushed-offsets-fall": lower_offset,
    "unflushed-epoch-in-header": epoch_in_header,
    "flushed-time-index-lost": lambda files: files.path(files.flushed[1], "timeindex").unlink(),
    "unflushed-time-index-lost": lambda files: files.path(files.unflushed[0], "timeindex").unlink(),
    "unflushed-snapshot-garbage": lambda files: files.path(files.unflushed[1], "snapshot").write_bytes(b"garbage"),
    "flushed-cut": lambda files: files.cut(files.flushed[1]),
    "flushed-flipped": lambda files: files.flip(files.flushed[1]),
    "flushed-lost": lambda files: files.path(files.flushed[1]).unlink(),
    "flushed-index-lost": lambda files: files.path(files.flushed[1], "index").unlink(),
    "flushed-index-garbage": lambda files: files.path(files.flushed[1], "index").write_bytes(b"garbage!" * 9),
    "flushed-index-lost-and-flipped": lambda files: (
        files.flip(files.flushed[1]), files.path(files.flushed[1], "index").unlink()
    ),
    "flushed-transaction-index-garbage": lambda files: files.path(files.flushed[1], "txnindex").write_bytes(
        bytes(2) + files.chance.randbytes(32)
    ),
    "first-lost": lambda files: files.path(files.segments[0]).unlink(),
    "all-lost": lambda files: [path.unlink() for path in files.directory.glob("000*")],
    "finished-compaction": finished_compaction,
    "leftovers": leftovers,
    "index-of-nothing": index_of_nothing,
    "several": lambda files: (files.cut(files.segments[-1]), files.flip(files.unflushed[0]), leftovers(files)),
}  # fmt: skip


RANDOM: dict[str, Damage] = {
    f"random-{number:03}": lambda files: damage_at_random(files.directory, files.chance) for number in range(80)
}
DAMAGES |= RANDOM


def tear_at_lower_offset(files: Files) -> None:
    """The beginning of a batch whose offset is before its segment: nobody was about to append that."""
    position, _ = files.batches(files.segments[0])[0]
    batch = files.path(files.segments[0]).read_bytes()[position : position + 70]
    files.append(files.segments[-1], batch)


DAMAGES |= {
    "last-torn-at-lower-offset": tear_at_lower_offset,
    "last-with-text": lambda files: files.append(files.segments[-1], b"no batch begins so\n" * 9),
    "unflushed-compaction-flipped": lambda files: damaged_compaction(files, files.unflushed[0]),
    "flushed-compaction-flipped": lambda files: damaged_compaction(files, files.flushed[1]),
}
PARTITIONS = {name: number for number, name in enumerate(DAMAGES)}

CLOSED: dict[str, Damage] = {
    "nothing": lambda files: None,
    "last-cut": lambda files: files.cut(files.segments[-1]),
    "last-flipped": lambda files: files.flip(files.segments[-1]),
    "last-emptied": lambda files: files.path(files.segments[-1]).write_bytes(b""),
    "last-with-zeros": lambda files: files.append(files.segments[-1], bytes(10)),
    "last-with-garbage": lambda files: files.append(files.segments[-1], bytes(8) + bytes([0, 0, 9, 9]) + bytes(99)),
    "unflushed-cut": lambda files: last_index(files, 1, 1 << 30),
    "unflushed-flipped": lambda files: last_index(files, 1, -5),
    "unflushed-lost": lambda files: files.path(files.segments[-1], "index").write_bytes(b""),
    "flushed-flipped": lambda files: files.flip(files.segments[0]),
    "last-torn-at-lower-offset": tear_at_lower_offset,
    "last-with-text": DAMAGES["last-with-text"],
}
"""What is done after a clean stop, by the partition to which it is done."""
UNCLOSED = {
    "last-cut", "last-with-zeros", "last-with-garbage", "unflushed-cut", "unflushed-flipped",
    "last-torn-at-lower-offset", "last-with-text",
}  # fmt: skip
HIDDEN = {"unflushed-cut"}
FAR_OFFSET = 3 << 31
REFUSED = PARTITIONS[max(RANDOM)]
FAR = PARTITIONS[min(RANDOM)]


def last_index(files: Files, offset: int, position: int) -> None:
    """One entry in the index of the last segment."""
    entry = offset.to_bytes(4, "big") + position.to_bytes(4, "big", signed=True)
    files.path(files.segments[-1], "index").write_bytes(entry)


def go_far(files: Files) -> None:
    """Adds a batch to the first segment that is too far for its indexes, and which a broker then splits."""
    first = files.segments[0]
    files.append(first, odd_logs.batch(FAR_OFFSET, [(b"k", b"v")]))
    files.path(first, "index").unlink()
