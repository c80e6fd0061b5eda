"""Logs that grow by damaged segments, and what of them has to be in a pipeline's tables.

That is known by how the logs were made, and not by how they are read.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.jobs.pipeline.works import own_table, table_offsets
from tests.log.whole_batches import batch

TOPICS, PARTITIONS = ("orders", "click.stream-2", "_odd"), 2
RECORDS = 100
"""Of a batch."""


@dataclass
class Partition:
    """``readable``: the first offsets of batches that a consumer gets; ``lost``: of those that it does not."""

    directory: Path
    end: int = 0
    readable: list[int] = field(default_factory=list[int])
    lost: list[int] = field(default_factory=list[int])


class Logs:
    """Logs that grow by whole segments, some batches of which are damaged."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self._chance, self._disk = root, chance, root / "disk-1"
        self._template = batch(0, RECORDS, value=chance.randbytes(1000))
        names = [(topic, number) for topic in TOPICS for number in range(PARTITIONS)]
        self.partitions = {name: Partition(self._disk / f"{name[0]}-{name[1]}") for name in names}
        for each in self.partitions.values():
            each.directory.mkdir(parents=True)
            (each.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(each.directory)}\n")

    def grow(self, size: int) -> None:
        """Adds about so many bytes, a segment to each partition."""
        count = max(3, size // len(self.partitions) // len(self._template))
        for each in self.partitions.values():
            data = np.tile(self._template, (count, 1))
            firsts = each.end + np.arange(count) * RECORDS
            data[:, :8] = firsts.astype(">i8").view(np.uint8).reshape(count, 8)
            path = each.directory / f"{each.end:020d}.log"
            self._damage(data, firsts, each)
            path.with_suffix(".tmp").write_bytes(data.tobytes())
            path.with_suffix(".tmp").rename(path)
            each.end += count * RECORDS

    def back_up(self) -> None:
        """Adds an intact copy of a partition, as far as it is now, on another disk."""
        own = self.partitions[self._chance.choice(sorted(self.partitions))]
        copy = self.root / "disk-2" / own.directory.name
        unfinished = self.root / "unfinished"
        shutil.copytree(own.directory, unfinished)
        for path in unfinished.glob("*.log"):
            data = np.tile(self._template, (path.stat().st_size // len(self._template), 1))
            firsts = int(path.stem) + np.arange(len(data)) * RECORDS
            data[:, :8] = firsts.astype(">i8").view(np.uint8).reshape(len(data), 8)
            path.write_bytes(data.tobytes())
        shutil.rmtree(copy, ignore_errors=True)
        copy.parent.mkdir(exist_ok=True)
        unfinished.rename(copy)
        own.readable, own.lost = sorted(own.readable + own.lost), []

    def _damage(self, data: NDArray[np.uint8], firsts: NDArray[np.int64], own: Partition) -> None:
        """Some batches get another checksum, and from time to time one has no size, so that no reader gets further in
        its segment; never the last two, as nothing shows where a log ends that ends in damage."""
        count = len(data)
        wrong = {self._chance.randrange(count - 2) for _ in range(max(1, count // 300))} if count > 2 else set[int]()
        broken = self._chance.randrange(count // 2, count - 2) if count > 8 and self._chance.random() < 0.2 else count
        for row in wrong:
            data[row, 200] ^= 1 << self._chance.randrange(8)
        if broken < count:
            data[broken, 8:12] = 0
        for row, first in enumerate(firsts.tolist()):
            (own.lost if row in wrong or row >= broken else own.readable).append(first)


def topic_id(directory: Path) -> str:
    return {"o": "AAAAAAAAAAAAAAAAAAAAAQ", "c": "AAAAAAAAAAAAAAAAAAAAAg", "_": "AAAAAAAAAAAAAAAAAAAAAw"}[
        directory.name[0]
    ]


def differences(logs: Logs, to: Path, form: str) -> list[str]:
    """What of the logs is not in the tables once, and what is damaged and not listed."""
    wrong: list[str] = []
    rows = own_table(to, "damaged", form)
    for (topic, number), own in logs.partitions.items():
        found = table_offsets(to, topic, number, form)
        expected = (np.array(own.readable, np.int64)[:, None] + np.arange(RECORDS)).ravel()
        if not np.array_equal(np.sort(found), np.sort(expected)):
            extra, lacking = np.setdiff1d(found, expected), np.setdiff1d(expected, found)
            twice = len(found) - len(np.unique(found))
            wrong.append(f"{topic}-{number}: {len(lacking)} lacking, {len(extra)} too many, {twice} twice")
        readable = set(own.readable)
        for row in rows:
            first, last = row["firstOffset"], row["lastOffset"]
            if (row["topic"], row["partition"]) != (topic, number) or first is None:
                continue
            batches = range(first // RECORDS * RECORDS, own.end if last is None else last + 1, RECORDS)
            if row["isInTable"] != (last is not None and readable.issuperset(batches)):
                wrong.append(f"{topic}-{number}: wrong about offsets {first} to {last}: in table {row['isInTable']}")
        spans = [
            (row["firstOffset"], row["lastOffset"])
            for row in rows
            if (row["topic"], row["partition"]) == (topic, number)
        ]
        listed = np.zeros(own.end, np.bool_)
        for first, last in spans:
            if first is not None:
                listed[first : own.end if last is None else last + 1] = True
        unlisted = [first for first in own.lost if not listed[first : first + RECORDS].all()]
        if unlisted:
            wrong.append(
                f"{topic}-{number}: damaged and not listed: batches from {unlisted[:5]} on, {len(unlisted)} in all"
            )
        if len(spans) != len(set(spans)):
            wrong.append(f"{topic}-{number}: ranges are listed twice")
    return wrong
