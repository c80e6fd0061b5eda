"""Reads the batch headers of partitions once, and adds them up to the figures of a report: Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from brokerless.arrow import table_of
from brokerless.errors import raise_errors
from brokerless.format.arrays import Int64s
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.report.sums import ProducerSums, TopicSums
from brokerless.log.directory import PartitionPath
from brokerless.log.segment import Chunk
from brokerless.progress import Done, Report, ignore
from brokerless.tables.partition_tables import OnUnreadable, segment_rows
from brokerless.values import Row

Figures = dict[str, pa.Table]
"""Tables by their names, with the schemas of :data:`brokerless.jobs.report.schemas.FIGURES`."""


def read_figures(
    partitions: Iterable[PartitionPath],
    *,
    on_damage: Report | None = None,
    on_unreadable: OnUnreadable | None = None,
    max_batch_bytes: int | None = None,
    done: Done = ignore,
) -> Figures:
    """Return the tables ``partitions``, ``segments``, ``throughput``, ``batchSizes``, ``compression`` and
    ``producers``.

    Headers are read once, and wrapper messages of v0 and v1 are looked into. ``on_damage``, ``on_unreadable`` and
    ``max_batch_bytes`` as in :meth:`PartitionPath.segment_rows`; without ``on_damage``, the first error is raised as
    :class:`DamageError`. ``done`` is called with the bytes of log that were passed since the last call.
    """
    rows: dict[str, list[Row]] = {name: [] for name in ("partitions", "segments", "producers")}
    topics: dict[str | None, TopicSums] = {}
    for partition in partitions:
        reading = _FiguresReading(partition, topics.setdefault(partition.topic, TopicSums()), max_batch_bytes)
        segments = reading.segment_rows(on_damage or raise_errors, on_unreadable, done)
        place = {"topic": partition.topic, "partition": partition.partition}
        rows["segments"] += segments
        rows["partitions"].append(place | _partition_row(segments))
        rows["producers"] += (place | row for row in reading.producers.rows())
    figures = {name: table_of(of_table, FIGURES[name]) for name, of_table in rows.items()}
    for name, rows_of in (
        ("throughput", lambda sums: sums.times.rows()),
        ("batchSizes", TopicSums.size_rows),
        ("compression", TopicSums.codec_rows),
    ):
        of_topics = [{"topic": topic, **row} for topic, sums in topics.items() for row in rows_of(sums)]
        figures[name] = table_of(of_topics, FIGURES[name])
    return figures


@dataclass(slots=True)
class _FiguresReading:
    partition: PartitionPath
    topic: TopicSums
    max_batch_bytes: int | None
    producers: ProducerSums = field(default_factory=ProducerSums)
    epochs: list[int] = field(default_factory=list[int])

    def segment_rows(self, on_damage: Report, on_unreadable: OnUnreadable | None, done: Done) -> list[Row]:
        """Return the rows of the segments; what they have in common with others is added up."""
        rows: list[Row] = []
        next_offset: int | None = None
        for row in segment_rows(
            self.partition,
            max_batch_bytes=self.max_batch_bytes,
            on_damage=on_damage,
            on_unreadable=on_unreadable,
            watch=self._add,
        ):
            first, last = row["firstOffset"], row["lastOffset"]
            gap = 0 if None in (first, next_offset) else max(first - next_offset, 0)
            rows.append({**row, "gapBefore": gap, "leaderEpochs": self.epochs})
            next_offset = next_offset if last is None else last + 1
            self.epochs = []
            done(row["sizeInBytes"])
        return rows

    def _add(self, chunk: Chunk) -> None:
        start = self.partition.start_offset or 0
        if (chunk.batches.end_of_records < start).any():
            chunk = chunk.take(chunk.batches.end_of_records >= start)
        batches = chunk.batches
        if not len(batches):
            return
        records = _record_counts(chunk, self.max_batch_bytes)
        self.topic.add(batches, records)
        self.producers.add(batches, records)
        epochs = batches.partition_leader_epoch
        if (epochs >= 0).any():
            found = [*self.epochs, int(epochs[epochs >= 0].min()), int(epochs.max())]
            self.epochs = sorted({min(found), max(found)})


def _record_counts(chunk: Chunk, max_batch_bytes: int | None) -> Int64s:
    batches = chunk.batches
    counts = np.where(batches.is_legacy, 1, batches.count)
    if batches.is_wrapper.any():
        from brokerless.format.read.wrappers import inspect_wrappers

        counts = inspect_wrappers(chunk.buffer, batches, max_batch_bytes).count
    return np.where(batches.is_control, 0, np.maximum(counts, 0)).astype(np.int64)


def _partition_row(segments: Sequence[Row]) -> Row:
    def found(name: str) -> list[Any]:
        return [row[name] for row in segments if row[name] is not None]

    return {
        "segments": len(segments),
        **{name: sum(found(name)) for name in ("batches", "records", "sizeInBytes")},
        "firstOffset": min(found("firstOffset"), default=None),
        "lastOffset": max(found("lastOffset"), default=None),
        "minTimestamp": min(found("minTimestamp"), default=None),
        "maxTimestamp": max(found("maxTimestamp"), default=None),
    }
