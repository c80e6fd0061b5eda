"""Finds which records an earlier run had sent when it was stopped: they are on the target, and not in the map yet.

What a partition of the target has after the last run of the map is read back and compared with what comes next in the
source. Records arrive in order and without gaps, so that those on their way at the stop are the source's next ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from brokerless.errors import ClusterError, UsageError
from brokerless.jobs.restore.live.connection import TIMEOUT_S, ClusterConnection, load_library
from brokerless.jobs.restore.live.offset_map import OffsetMap
from brokerless.jobs.restore.live.production import LiveRecord
from brokerless.kafka_names import TopicPartition

SETTLED_S = 1.0
"""For so long nothing may have been appended before an end counts as one: requests of a killed run may still be on
their way within the broker."""


class TargetReader:
    """Reads partitions of the target."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection, self._library = connection, load_library()
        settings = connection.settings(
            group_id="brokerless-restore", enable_auto_commit=False, auto_offset_reset="error",
            enable_partition_eof=True, isolation_level="read_uncommitted", fetch_wait_max_ms=50,
        )  # fmt: skip
        self._consumer = connection.create(lambda: self._library.Consumer(settings))

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> TargetReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        """Return the log start offset, and the offset after the last record."""
        at = self._library.TopicPartition(*place)
        return self._connection.ask(lambda left: self._consumer.get_watermark_offsets(at, timeout=left))

    def settled_ends(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the ends of several partitions, once nothing has been appended for :data:`SETTLED_S`; after a minute
        in which something was, others write there, and they are what they are by then."""
        found = {place: self.bounds(place) for place in places}
        give_up = time.monotonic() + 60 * SETTLED_S
        while places and time.monotonic() < give_up:
            time.sleep(SETTLED_S)
            again = {place: self.bounds(place) for place in places}
            if again == found:
                break
            found = again
        return found

    def read(self, place: TopicPartition, start: int, end: int) -> Iterator[LiveRecord]:
        """Yield the records with ``start <= offset < end`` that are there. Raises :class:`ClusterError`."""
        if start >= end:
            return
        self._consumer.assign([self._library.TopicPartition(*place, start)])
        try:
            give_up = time.monotonic() + TIMEOUT_S
            while True:
                message = self._consumer.poll(0.5)
                if message is None:
                    if time.monotonic() > give_up:
                        text = f"no answer when {place[0]}-{place[1]} was read from offset {start}"
                        raise ClusterError(f"{self._connection.bootstrap}: {text}")
                    continue
                give_up = time.monotonic() + TIMEOUT_S
                error = message.error()
                if error is not None and error.code() == self._library.KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    if error.retriable():
                        continue
                    raise self._connection.failure(self._library.KafkaException(error))
                if message.offset() >= end:
                    return
                yield self._record(message)
                if message.offset() == end - 1:
                    return
        finally:
            self._consumer.unassign()

    def _record(self, message: Any) -> LiveRecord:
        kind, timestamp = message.timestamp()
        if kind == self._library.TIMESTAMP_NOT_AVAILABLE:
            timestamp = -1
        own = None if kind == self._library.TIMESTAMP_LOG_APPEND_TIME else timestamp
        headers = tuple((name, value) for name, value in message.headers() or ())
        return LiveRecord(message.offset(), message.key(), message.value(), headers=headers, timestamp=own)


@dataclass(frozen=True, slots=True)
class Resumed:
    """Counts of a partition's records that are on the target already, when a restore goes on."""

    matched: int
    """How many of the source's next records are there already."""
    foreign: int
    """How many records there are not the source's."""


def resume(
    map_: OffsetMap,
    target: TargetReader,
    place: TopicPartition,
    bounds: tuple[int, int],
    rows: Iterator[LiveRecord],
    is_compacted: bool,
) -> tuple[Resumed, Iterator[LiveRecord]]:
    """Puts records into the map that are on the target already, and takes them from ``rows``, the source's next ones;
    returns the others, too.

    Where others wrote in between, the source's records are those among them that match in order. Raises
    :class:`UsageError` where it cannot be known, and :class:`ClusterError`."""
    position, (first, end) = map_.positions[place], bounds
    if end < position.target:
        text = f"{place[0]}-{place[1]} ends at offset {end}, before {position.target}, which the map has recorded: "
        text += "records were lost there. Restore it into a new topic, with a new map"
        raise UsageError(f"{map_.directory}: {text}")
    if end == position.target:
        return Resumed(0, 0), rows
    pending, matched, foreign = next(rows, None), 0, 0

    def pass_over(until: int) -> None:
        """Records that were there, and are deleted or compacted away since."""
        nonlocal pending, matched
        while pending is not None and position.target < until:
            map_.add(place, pending.offset, position.target)
            pending, matched = next(rows, None), matched + 1

    pass_over(first)
    for record in target.read(place, max(first, position.target), end):
        if is_compacted:
            pass_over(record.offset)
        if pending is not None and record.is_of(pending):
            map_.add(place, pending.offset, record.offset)
            pending, matched = next(rows, None), matched + 1
        elif is_compacted:
            text = f"{place[0]}-{place[1]} is compacted, and has a record of somebody else at offset {record.offset}"
            raise UsageError(f"{map_.directory}: {text}; restore it into a new topic, with a new map")
        else:
            foreign += 1
    if is_compacted:
        pass_over(end)
    map_.write()
    return Resumed(matched, foreign), rows if pending is None else chain([pending], rows)
