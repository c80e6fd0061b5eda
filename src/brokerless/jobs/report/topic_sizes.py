"""Sizes of the largest topics in other formats and codecs, estimated from small samples, for a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from brokerless.arrow import table_of
from brokerless.format import layouts
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.job import SizeSettings, size
from brokerless.jobs.size.result import TopicSize
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.values import Row

MOST_TOPICS = 10
SAMPLE = 512 << 10
"""Bytes of each topic that are read; a smaller topic is read as a whole."""
BATCH_BYTES = (None, 16 << 10, 128 << 10)
"""Of v2: the batches that are there, the default ``batch.size`` of Kafka's producer, and large batches."""


def compared() -> tuple[Choice, ...]:
    """Each format and codec at its default level: v2 by batch size, older formats with the batches that are there."""
    older = (layouts.MAGIC_V0, layouts.MAGIC_V1)
    choices = [Choice(magic, codec) for magic in older for codec in layouts.CODECS if codec != "zstd"]
    v2 = [Choice(layouts.MAGIC_V2, codec, batch_bytes=each) for codec in layouts.CODECS for each in BATCH_BYTES]
    return (*choices, *v2)


def topic_sizes_table(
    directory: LogDirectory,
    partitions: Sequence[PartitionPath],
    max_batch_bytes: int,
    running: RunOptions = HERE,
) -> pa.Table:
    """Return what each of the largest topics takes, and would take: a row for what is there and one for each format and
    codec, with its smallest batches. What is damaged is left out; the audit reports it."""
    of_topics: dict[str, int] = {}
    for each in partitions:
        of_topics[_key(each)] = of_topics.get(_key(each), 0) + each.size
    largest = set(sorted(of_topics, key=lambda name: (-of_topics[name], name))[:MOST_TOPICS])
    chosen = [each for each in partitions if _key(each) in largest and each.size]
    settings = SizeSettings(compared(), SAMPLE, max_batch_bytes=max_batch_bytes)
    found: list[TopicSize] = []
    with closing(size(chosen, settings, running)) as sizes:
        found += (each for each in sizes if each.records.bytes)
    found.sort(key=lambda each: each.bytes, reverse=True)
    return table_of([row for each in found for row in _rows(directory, each)], FIGURES["topicSizes"])


def _key(partition: PartitionPath) -> str:
    return f"/{partition.path}" if partition.topic is None else partition.topic


def _rows(directory: LogDirectory, topic: TopicSize) -> Iterator[Row]:
    now, *choices = topic.as_dicts()
    if topic.is_mixed:
        now |= {"format": None, "compression": None}
    yield _row(now, topic)
    smallest: dict[tuple[str, str], Row] = {}
    for row, choice in sorted(zip(choices, topic.sizes, strict=True), key=lambda each: each[0]["sizeInBytes"]):
        kind = (row["format"], row["compression"])
        if kind not in smallest:
            selected = ("-t", topic.topic) if topic.topic is not None and directory.kind == "log-directory" else ()
            is_better = row["isBest"] and row["sizeInBytes"] < topic.bytes
            command = choice.command([directory.path], selected) if is_better else None
            smallest[kind] = {**_row(row, topic), "command": command}
    yield from smallest.values()


def _row(row: Row, topic: TopicSize) -> Row:
    names = ("topic", "format", "compression", "sizeInBytes", "low", "high", "isCurrent", "isBest", "isExact")
    batch = None if row["batchBytes"] is None else round(row["batchBytes"])
    more = {"batchBytes": batch, "currentSizeInBytes": topic.bytes, "command": None}
    return {name: row[name] for name in names} | more
