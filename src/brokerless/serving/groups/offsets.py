"""Committed offsets: those of the dead cluster, and those that are committed here, in memory or in a file as well.

The file is JSON Lines with the columns of ``internals --table offsets``. It is written beside and renamed, before a
commit is answered; commits that come meanwhile go into the next one together.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from brokerless.errors import UnwritableError
from brokerless.findings import Kind
from brokerless.internals.groups.offsets_file import read_offsets_file
from brokerless.kafka_names import TopicPartition
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.files import out_of_files
from brokerless.progress import Report, ignore
from brokerless.serving.groups.room import Room, size_of
from brokerless.serving.reports import no_files_left
from brokerless.serving.source.topics import Topics
from brokerless.values import Row

MOST_METADATA = 4096
"""Characters of a commit's metadata (``offset.metadata.max.bytes``)."""
MOST_OFFSETS = 2_000_000
"""Of all groups together: what memory is for."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset that a group has committed."""

    offset: int
    epoch: int
    metadata: str
    timestamp: int
    """When it was committed (ms)."""


@dataclass(slots=True)
class CommittedOffsets:
    """The offsets that groups have committed."""

    report: Report
    path: Path | None = None
    """The file that has them, None without one."""
    groups: dict[str, dict[TopicPartition, Committed]] = field(
        default_factory=dict[str, dict[TopicPartition, Committed]]
    )
    """By group, then by topic and partition."""
    count: int = 0
    room: Room = field(default_factory=Room)
    """What their metadata and the names of their groups may take; those of the dead cluster are there in any case."""
    _writing: asyncio.Task[None] | None = None
    _next: asyncio.Task[None] | None = None

    def load(self, topics: Topics) -> list[Row]:
        """Read the dead cluster's committed offsets as its coordinators would load them, then those of the file; return
        the rows of the dead cluster's groups.

        Raises :class:`UsageError` for a file of another form."""
        from brokerless.internals.coordinators import partition_counts
        from brokerless.internals.groups.positions import read_positions
        from brokerless.internals.tables import state_rows

        readers = topics.offsets_from
        names = {topic_id: each.name for topic_id, each in topics.by_id.items()}
        if topics.cluster is not None:
            names |= topics.cluster.topics
        counts = None if topics.cluster is None else partition_counts(topics.cluster)
        for each in read_positions(readers, names, self.report, counts=counts):
            value = each.value
            self._set(
                each.group,
                (each.topic, each.partition),
                Committed(each.offset, value.get("leaderEpoch", -1), value["metadata"], value["commitTimestamp"]),
            )
        for group, place, committed in read_file(self.path) if self.path is not None else ():
            self._set(group, place, committed)
        # Damage, and what no coordinator loads, is reported above.
        return state_rows(readers, ["groups"], ignore, counts=counts)["groups"] if readers else []

    def _set(self, group: str, place: TopicPartition, committed: Committed) -> None:
        if group not in self.groups:
            self.groups[group] = {}
            self.room.take(size_of((group,)))
        of_group = self.groups[group]
        before = of_group.get(place)
        self.count += before is None
        of_group[place] = committed
        self.room.take(_size(committed) - _size(before))

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Take offsets that a group commits. Raises :class:`UnwritableError` where they cannot be written to the file,
        which is reported; then the group has those from before."""
        before = {place: self.groups.get(group, {}).get(place) for place in offsets}
        for place, committed in offsets.items():
            self._set(group, place, committed)
        if self.path is None or not offsets:
            return
        try:
            await self._written()
        except (OSError, UnwritableError) as error:
            for place, committed in offsets.items():
                self._restore(group, place, committed, before[place])
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            text = f"commits are refused, as they cannot be written: {reason}"
            if out_of_files(error) is None:
                self.report(Kind.OFFSETS_NOT_WRITTEN.at(str(self.path), text))
            else:
                self.report(no_files_left(str(self.path), text))
            raise UnwritableError(text) from error

    def _restore(self, group: str, place: TopicPartition, committed: Committed, before: Committed | None) -> None:
        of_group = self.groups.get(group, {})
        if of_group.get(place) is not committed:
            return  # committed again meanwhile
        self.room.take(_size(before) - _size(committed))
        if before is not None:
            of_group[place] = before
            return
        del of_group[place]
        self.count -= 1
        if not of_group:
            del self.groups[group]
            self.room.take(-size_of((group,)))

    def is_full(self, group: str, metadata: str) -> bool:
        """Return whether another commit would be too many."""
        more = (0 if group in self.groups else size_of((group,))) + size_of((metadata,))
        return self.count >= MOST_OFFSETS or self.room.taken + more > self.room.most

    async def _written(self) -> None:
        """Wait until the file has what was committed before."""
        if self._writing is not None and not self._writing.done():
            if self._next is None or self._next.done():
                self._next = asyncio.create_task(self._write_after(self._writing))
            await asyncio.shield(self._next)
            return
        self._writing = asyncio.create_task(self._write())
        await asyncio.shield(self._writing)

    async def _write_after(self, before: asyncio.Task[None]) -> None:
        await asyncio.wait([before])
        self._writing = asyncio.create_task(self._write())
        self._next = None
        await self._writing

    async def _write(self) -> None:
        assert self.path is not None
        groups = {group: dict(offsets) for group, offsets in self.groups.items()}  # which go on to change
        await asyncio.get_running_loop().run_in_executor(None, _write_groups, self.path, groups)


def _size(committed: Committed | None) -> int:
    return 0 if committed is None or not committed.metadata else size_of((committed.metadata,))


def _write_groups(path: Path, groups: Mapping[str, Mapping[TopicPartition, Committed]]) -> None:
    write_file(path, b"".join(_lines(groups)))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_file(path: Path) -> Iterable[tuple[str, TopicPartition, Committed]]:
    """Read a file of committed offsets; one that is not there has none. Raises :class:`UsageError` for another one."""
    for row in read_offsets_file(str(path)) if path.exists() else ():
        committed = Committed(row["offset"], row["leaderEpoch"], row["metadata"], row["commitTimestamp"])
        yield row["group"], (row["topic"], row["partition"]), committed


def _lines(groups: Mapping[str, Mapping[TopicPartition, Committed]]) -> Iterable[bytes]:
    for group, offsets in sorted(groups.items()):
        for (topic, partition), each in sorted(offsets.items()):
            row = {
                "group": group,
                "topic": topic,
                "partition": partition,
                "offset": each.offset,
                "leaderEpoch": each.epoch,
                "metadata": each.metadata,
                "commitTimestamp": each.timestamp,
            }
            yield json.dumps(row, ensure_ascii=False).encode(errors="replace") + b"\n"
