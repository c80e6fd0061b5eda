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
from typing import Any

from brokerless.errors import UnwritableError
from brokerless.findings import Finding, Kind
from brokerless.internals.groups.offsets_file import read_offsets_file
from brokerless.log.segment import Report
from brokerless.log.storage.atomic import write_file
from brokerless.serving.source.topics import Topics
from brokerless.tables.partition_reader import PartitionReader

MOST_METADATA = 4096
"""Characters of a commit's metadata (``offset.metadata.max.bytes``)."""
MOST_OFFSETS = 2_000_000
"""Of all groups together: what memory is for."""

Place = tuple[str, int]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Committed:
    """``timestamp``: when it was committed (ms)."""

    offset: int
    epoch: int
    metadata: str
    timestamp: int


@dataclass(slots=True)
class CommittedOffsets:
    """By group, and topic and partition. ``path``: of the file, if there is one."""

    report: Report
    path: Path | None = None
    groups: dict[str, dict[Place, Committed]] = field(default_factory=dict[str, dict[Place, Committed]])
    count: int = 0
    _writing: asyncio.Task[None] | None = None
    _next: asyncio.Task[None] | None = None

    def load(self, topics: Topics) -> list[Row]:
        """Read the dead cluster's committed offsets, then those of the file; return the rows of the dead cluster's
        groups.

        Raises :class:`UsageError` for a file of another form."""
        from brokerless.internals.groups.positions import read_positions
        from brokerless.internals.tables import state_rows

        readers = [PartitionReader(each) for each in topics.offsets_from]
        names = {topic_id: each.name for topic_id, each in topics.by_id.items()}
        if topics.cluster is not None:
            names |= topics.cluster.topics
        for each in read_positions(readers, names, self.report):
            value = each.value
            self._set(
                each.group,
                (each.topic, each.partition),
                Committed(each.offset, value.get("leaderEpoch", -1), value["metadata"], value["commitTimestamp"]),
            )
        for group, place, committed in read_file(self.path) if self.path is not None else ():
            self._set(group, place, committed)
        return state_rows(readers, ["groups"], self.report)["groups"] if readers else []

    def _set(self, group: str, place: Place, committed: Committed) -> None:
        of_group = self.groups.setdefault(group, {})
        self.count += place not in of_group
        of_group[place] = committed

    async def commit(self, group: str, offsets: Mapping[Place, Committed]) -> None:
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
            self.report(Finding("error", Kind.OFFSETS_NOT_WRITTEN, str(self.path), message=text))
            raise UnwritableError(text) from error

    def _restore(self, group: str, place: Place, committed: Committed, before: Committed | None) -> None:
        of_group = self.groups.get(group, {})
        if of_group.get(place) is not committed:
            return  # committed again meanwhile
        if before is not None:
            of_group[place] = before
            return
        del of_group[place]
        self.count -= 1
        if not of_group:
            del self.groups[group]

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
        data = b"".join(_lines(self.groups))
        await asyncio.get_running_loop().run_in_executor(None, write_file, self.path, data)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_file(path: Path) -> Iterable[tuple[str, Place, Committed]]:
    """Read a file of committed offsets; one that is not there has none. Raises :class:`UsageError` for another one."""
    for row in read_offsets_file(str(path)) if path.exists() else ():
        committed = Committed(row["offset"], row["leaderEpoch"], row["metadata"], row["commitTimestamp"])
        yield row["group"], (row["topic"], row["partition"]), committed


def _lines(groups: Mapping[str, Mapping[Place, Committed]]) -> Iterable[bytes]:
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
