"""Makes the directory of a new partition."""

from __future__ import annotations

from pathlib import Path

from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.checkpoint.partition_metadata import partition_metadata
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.producer.loading import LoadedProducers
from brokerless.log.producer.state import ProducerState
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.guarded_files import make_inner_directory
from brokerless.log.write.active_segment import SegmentState
from brokerless.log.write.log_writer import LogContents


def create_partition(
    path: Path, start_offset: int, topic_id: str | None, producers: ProducerState | None = None
) -> LogContents:
    """Makes a new partition's directory, empty but for its ``partition.metadata``. ``producers``: those that are known
    where the log begins. Raises OSError."""
    if start_offset < 0:
        raise UsageError(f"start_offset: {start_offset} is not an offset")
    make_inner_directory(path)
    write_file(path / names.PARTITION_METADATA, partition_metadata(topic_id or random_id()))
    known = LoadedProducers(producers or ProducerState(start_offset), start_offset)
    return LogContents(
        [],
        SegmentState(start_offset),
        start_offset,
        recovery_point=start_offset,
        log_end_offset=start_offset,
        epochs=(),
        producers=known,
    )


def checked_name(topic: str, partition: int) -> str:
    """Return the name of a partition's directory. Raises :class:`UsageError` if Kafka would not give it."""
    name = names.partition_directory(topic, partition)
    parsed = names.parse_partition_directory(name)
    if parsed is None or (parsed.topic, parsed.partition, parsed.state) != (topic, partition, "live"):
        allowed = "a topic has 1 to 249 letters, digits, dots, underscores and dashes"
        raise UsageError(f"{name}: this is not a partition's name; {allowed}")
    return name
