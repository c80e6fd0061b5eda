"""The log files of one replica, written as a broker writes them: appended in pieces, rolled, cleaned, expired, cut."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from tests.log.whole_batches import zigzag

from brokerless.format import layouts
from brokerless.format.crc.kernels import crc32c_ranges

Row = tuple[int, bytes | None, bytes | None]
"""A record: its offset, key and value."""
TIME = 1_800_000_000_000
_COMPANIONS = ("index", "timeindex")


@dataclass(frozen=True)
class Batch:
    """``first`` and ``last``: its offsets, whatever is left of its records. ``producer``: its ID, or -1."""

    first: int
    last: int
    rows: tuple[Row, ...]
    epoch: int = 0
    producer: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    is_marker: bool = False

    @property
    def data(self) -> bytes:
        records = b"".join(_record(offset - self.first, key, value) for offset, key, value in self.rows)
        header = np.zeros(1, layouts.BATCH_V2)
        header["base_offset"], header["partition_leader_epoch"], header["magic"] = self.first, self.epoch, 2
        header["size"] = layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE + len(records)
        bits = layouts.TRANSACTIONAL_BIT if self.is_transactional else 0
        header["attributes"] = bits | (layouts.CONTROL_BIT if self.is_marker else 0)
        header["last_offset_delta"], header["count"] = self.last - self.first, len(self.rows)
        header["base_timestamp"] = header["max_timestamp"] = TIME + self.first
        header["producer_id"], header["producer_epoch"] = self.producer, self.producer_epoch
        header["base_sequence"] = self.first if self.producer >= 0 and not self.is_marker else -1
        made = np.concatenate([header.view(np.uint8), np.frombuffer(records, np.uint8)])
        crc = np.zeros(1, np.uint32)
        crc32c_ranges(made, np.array([layouts.BATCH_CRC_START]), np.array([len(made)]), crc)
        made[: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)["crc"] = crc
        return made.tobytes()


def _record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + zigzag(0) + zigzag(delta)
    for each in (key, value):
        body += zigzag(-1) if each is None else zigzag(len(each)) + each
    body += zigzag(0)
    return zigzag(len(body)) + body


@dataclass
class Segment:
    base: int
    batches: list[Batch] = field(default_factory=list[Batch])

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.base


@dataclass(eq=False)
class ReplicaLog:
    """A replica's log in a directory. ``half``: what is still to be written of a batch. ``forgotten``: files that are
    removed a while after they were renamed."""

    directory: Path
    topic_id: str
    segments: list[Segment] = field(default_factory=lambda: [Segment(0)])
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    half: bytes = b""
    forgotten: list[Path] = field(default_factory=list[Path])

    def make(self) -> None:
        self.directory.mkdir(parents=True)
        (self.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {self.topic_id}")
        self.write_epochs()
        self._touch(self.segments[-1].base)

    @property
    def start(self) -> int:
        return self.segments[0].base

    @property
    def end(self) -> int:
        return self.segments[-1].end

    @property
    def whole_end(self) -> int:
        """Where it ends without what is half written."""
        return self.segments[-1].batches[-1].first if self.half else self.end

    @property
    def batches(self) -> Iterator[Batch]:
        return (each for segment in self.segments for each in segment.batches)

    def write_epochs(self) -> None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in self.epochs)
        text = f"0\n{len(self.epochs)}\n{lines}"
        (self.directory / "leader-epoch-checkpoint.tmp").write_text(text)
        (self.directory / "leader-epoch-checkpoint.tmp").rename(self.directory / "leader-epoch-checkpoint")

    def append(self, batch: Batch, *, half: bool = False) -> None:
        """Append a batch; ``half``: the rest of its bytes comes with the next call, or with :meth:`complete`."""
        self.complete()
        self.segments[-1].batches.append(batch)
        data = batch.data
        if half:
            data, self.half = data[: len(data) // 2], data[len(data) // 2 :]
        self._write(data)

    def complete(self) -> None:
        if self.half:
            data, self.half = self.half, b""
            self._write(data)

    def roll(self) -> None:
        self.complete()
        if self.segments[-1].batches:
            self.segments.append(Segment(self.end))
            self._touch(self.segments[-1].base)

    def expire(self) -> Iterator[None]:
        """Retention deletes the oldest segment, file by file."""
        if len(self.segments) < 2:
            return
        gone = self.segments.pop(0)
        yield from self._delete([gone.base])
        kept = [each for each in self.epochs if each[1] > self.start]
        self.epochs = [(max(epoch for epoch, offset in self.epochs if offset <= self.start), self.start), *kept]
        self.write_epochs()

    def clean(self, keep: Callable[[Sequence[Batch]], Sequence[Batch]]) -> Iterator[None]:
        """The cleaner puts what is kept of the segments before the active one into one (``LocalLog.replaceSegments``).
        Between two steps, others may append to the active one, and roll."""
        old = self.segments[:-1]
        if len(old) < 2:
            return
        kept = Segment(old[0].base, list(keep([each for segment in old for each in segment.batches])))
        target = self._path(kept.base, "log")
        cleaned, swap = Path(f"{target}.cleaned"), Path(f"{target}.swap")
        cleaned.write_bytes(b"".join(each.data for each in kept.batches))
        yield
        if self.segments[: len(old)] != old:  # retention was faster
            cleaned.unlink()
            return
        cleaned.rename(swap)
        yield
        self.segments[: len(old)] = [kept]
        yield from self._delete([each.base for each in reversed(old)])
        swap.rename(target)
        for each in _COMPANIONS:
            self._path(kept.base, each).write_bytes(b"")

    def truncate(self, offset: int) -> None:
        """Cut off all that is not before an offset, as a follower does."""
        self.complete()
        while len(self.segments) > 1 and self.segments[-1].base > offset:
            gone = self.segments.pop()
            for each in ("log", *_COMPANIONS):
                self._path(gone.base, each).unlink(missing_ok=True)
        active = self.segments[-1]
        active.batches = [each for each in active.batches if each.last < offset]
        with self._path(active.base, "log").open("r+b") as file:
            file.truncate(sum(len(each.data) for each in active.batches))
        self.epochs = [each for each in self.epochs if each[1] < offset] or self.epochs[:1]

    def forget(self) -> None:
        """Remove the files whose minute is over."""
        for each in self.forgotten:
            each.unlink(missing_ok=True)
        self.forgotten.clear()

    def copy_to(self, directory: Path) -> ReplicaLog:
        """Copy the log into another directory, as a move between disks does."""
        self.complete()
        found = ReplicaLog(directory, self.topic_id, [replace(each, batches=[*each.batches]) for each in self.segments])
        found.epochs = [*self.epochs]
        directory.mkdir(parents=True)
        shutil.copy(self.directory / "partition.metadata", directory)
        found.write_epochs()
        for each in found.segments:
            found._touch(each.base)
            found._path(each.base, "log").write_bytes(b"".join(one.data for one in each.batches))
        return found

    def rename(self, directory: Path) -> None:
        self.complete()
        self.directory.rename(directory)
        self.directory, self.forgotten = directory, [directory / each.name for each in self.forgotten]

    def _delete(self, bases: Sequence[int]) -> Iterator[None]:
        for base in bases:
            for each in ("log", *_COMPANIONS):
                path = self._path(base, each)
                if path.exists():
                    path.rename(f"{path}.deleted")
                    self.forgotten.append(Path(f"{path}.deleted"))
            yield

    def _path(self, base: int, kind: str) -> Path:
        return self.directory / f"{base:020}.{kind}"

    def _touch(self, base: int) -> None:
        for each in ("log", *_COMPANIONS):
            self._path(base, each).write_bytes(b"")

    def _write(self, data: bytes) -> None:
        with self._path(self.segments[-1].base, "log").open("ab") as file:
            file.write(data)
