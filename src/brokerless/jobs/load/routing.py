"""Chooses the partition of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.bounds import LAST_OFFSET, MAX_INT32, MAX_INT64, check_number
from brokerless.errors import UsageError
from brokerless.format.arrays import Int64s
from brokerless.log.checkpoint.topic_ids import is_topic_id
from brokerless.log.names import CLUSTER_METADATA, is_partition
from brokerless.tables.rows import RowError


@dataclass(frozen=True, slots=True)
class Routing:
    """Where records go: topic, partition and offset.

    Parameters
    ----------
    topic, partition
        Those of all records, whatever their columns say; None: as their columns say.
    partitions
        How many partitions a topic has, for records without one. A key then decides as for Kafka's producers; records
        without a key stick to a partition for ``batch.size`` bytes.
    start_offset
        The first offset of each partition.
    timestamp
        Ms since the epoch, for records without one; None for now.
    topic_id
        The ID by which a cluster knows ``topic``, as ``kafka-topics --describe`` shows it. By default the first of
        these: that of the topic's partitions in the directory, that of the cluster's metadata there, that of
        ``exported_ids``, a random one.
    exported_ids
        IDs of topics by name, as an export records them.

    Raises
    ------
    UsageError
        For an invalid topic, partition, offset, timestamp or ID.
    """

    topic: str | None = None
    partition: int | None = None
    partitions: int | None = None
    start_offset: int = 0
    timestamp: int | None = None
    topic_id: str | None = None
    exported_ids: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if self.topic == CLUSTER_METADATA:
            raise UsageError(f"{self.topic} is KRaft's own log, and no broker starts with other records in it")
        if self.topic is not None and not is_partition(self.topic, 0):
            raise UsageError(f"{self.topic!r} is not a valid topic name")
        for name, value, least, most in (
            ("partition", self.partition, 0, MAX_INT32),
            ("partitions", self.partitions, 1, MAX_INT32),
            ("start_offset", self.start_offset, 0, LAST_OFFSET),
            ("timestamp", self.timestamp, -1, MAX_INT64),
        ):
            if value is not None:
                check_number(name, value, least, most, allowed=f"is not from {least} to {most}")
        if self.partition is not None and self.partitions is not None and self.partition >= self.partitions:
            raise UsageError(f"there is no partition {self.partition} among {self.partitions}")
        if self.topic_id is not None and self.topic is None:
            raise UsageError("an ID is that of one topic; say which one it is (--topic)")
        if self.topic_id is not None and not is_topic_id(self.topic_id):
            raise UsageError(f"{self.topic_id!r} is not a topic ID: 16 bytes in base64 for URLs, 22 characters")


class Router:
    """Finds the partition of each row, and numbers the partitions that it meets."""

    def __init__(self, placement: Routing, sticky_bytes: int, without_key: int = 0) -> None:
        """Make a router. ``without_key`` is what :func:`sticky_partition` counted of records without a key so far."""
        self.codes: dict[tuple[str, int], int] = {}
        self.names: list[tuple[str, int]] = []
        """Topic and partition, by their number."""
        self._placement = placement
        self._sticky_bytes = sticky_bytes
        self.without_key = without_key

    def place(self, rows: pa.RecordBatch, numbers: Int64s) -> NDArray[np.int32]:
        """Return the number of each row's partition, int32, shape ``(len(rows),)``. ``rows``: as :func:`rows.normalize`
        gives them, at least one; ``numbers``: their numbers in the input.

        Raises :class:`UsageError` or :class:`RowError` where no topic is known.
        """
        topic, partition = self._placement.topic, self._placement.partition
        if topic is not None and partition is not None:
            return np.full(rows.num_rows, self._code((topic, partition)), np.int32)
        topics, names = self._topics(rows, numbers)
        partitions = self.partitions(rows, numbers)
        if len(names) == 1 and (partitions == partitions[0]).all():  # as in a task of Spark whose rows are arranged
            return np.full(rows.num_rows, self._code((names[0], int(partitions[0]))), np.int32)
        pairs = topics.astype(np.int64) << 32 | partitions
        encoded: arrow.Column = arrow.column_of_numbers(pa.int64(), pairs).dictionary_encode()
        codes = [self._code((names[pair >> 32], pair & 0xFFFFFFFF)) for pair in arrow.values(encoded.dictionary)]
        return np.array(codes, np.int32)[arrow.numbers(encoded.indices, np.int32)]

    def _code(self, place: tuple[str, int]) -> int:
        if place not in self.codes:
            self.codes[place] = len(self.names)
            self.names.append(place)
        return self.codes[place]

    def _topics(self, rows: pa.RecordBatch, numbers: Int64s) -> tuple[NDArray[np.int32], list[str]]:
        """Each row's topic, as an index of a list of names."""
        topic = self._placement.topic
        if topic is not None:
            return np.zeros(rows.num_rows, np.int32), [topic]
        if "topic" not in rows.schema.names:
            raise UsageError("there is no column 'topic'; say which topic it is (--topic)")
        column = rows.column("topic")
        if column.null_count:
            row = int(np.argmax(~arrow.is_valid(column)))
            raise RowError(int(numbers[row]), "topic", "is null; say which topic all records have (--topic)")
        return arrow.numbers(column.indices, np.int32), arrow.values(column.dictionary)

    def partitions(self, rows: pa.RecordBatch, numbers: Int64s) -> NDArray[np.int32]:
        """Each row's partition, int32, shape ``(len(rows),)``; as for :meth:`place`."""
        placement, count = self._placement, self._placement.partitions
        if placement.partition is not None:
            return np.full(rows.num_rows, placement.partition, np.int32)
        if "partition" not in rows.schema.names:
            return self._by_key(rows)
        column = rows.column("partition")
        partitions = arrow.numbers(column, np.int32)
        known = arrow.is_valid(column)
        if count is not None and (wrong := known & (partitions >= count)).any():
            row = int(np.argmax(wrong))
            raise RowError(
                int(numbers[row]), "partition", f"is {partitions[row]}, and there are {count} (--partitions)"
            )
        if not known.all():
            partitions = partitions.copy()
            partitions[~known] = self._by_key(rows.filter(arrow.column_of_flags(~known)))
        return partitions

    def _by_key(self, rows: pa.RecordBatch) -> NDArray[np.int32]:
        """Return where Kafka's producers would send these rows."""
        count = self._placement.partitions or 1
        if count == 1:
            return np.zeros(rows.num_rows, np.int32)
        from brokerless.tables.partitioner import partition_for_key, sticky_partition

        keys = rows.column("key")
        partitions = partition_for_key(keys, count)
        without = np.flatnonzero(partitions < 0)
        if len(without):
            sizes = np.diff(arrow.ends(rows.column("value"))).astype(np.int64)[without]
            chosen, self.without_key = sticky_partition(sizes, self.without_key, self._sticky_bytes, count)
            partitions[without] = chosen
        return partitions
