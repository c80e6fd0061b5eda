"""A partition that is staged under a temporary name, as a value that processes exchange."""

from __future__ import annotations

from dataclasses import dataclass

from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """A partition that lacks nothing but its name: everything of it is synced, and nobody writes to it any more."""

    directory: str
    """The directory's present name within the log directory."""
    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    checkpoints: PartitionOffsets
    files: tuple[tuple[str, int], ...]
    """The names and sizes (bytes) of its files."""
    has_offsets: bool = True
    """Whether its records have their final offsets; otherwise they may move up to where a log ends."""

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """What its directory will be called."""
        return names.partition_directory(self.topic, self.partition)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Of its segments."""
        found = (names.parse_segment_file(name) for name, _ in self.files)
        return tuple(sorted(file.offset for file in found if file is not None and file.kind == "log"))

    @property
    def size(self) -> int:
        """Bytes of its logs."""
        return sum(size for name, size in self.files if name.endswith(".log"))
