"""The settings of an append to a partition, and its result: what goes into the log, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT64, check_fields
from brokerless.errors import UsageError
from brokerless.format import layouts

TimestampType = Literal["CreateTime", "LogAppendTime"]
Origin = Literal["client", "coordinator", "replication"]
"""Who appends (Kafka's ``AppendOrigin``): some things only clients must not do."""


@dataclass(frozen=True, slots=True)
class AppendConfig:
    """A topic's settings that matter to produced batches. Defaults are 4.1.1's.

    Parameters
    ----------
    to_magic
        The message format (``message.format.version``, until 3.9).
    codec
        ``compression.type``; "producer" keeps the codec of each batch.
    level
        The codec's level; None for Kafka's default.
    timestamp_type
        ``message.timestamp.type``.
    timestamp_before_max_ms
        ``message.timestamp.before.max.ms``.
    timestamp_after_max_ms
        ``message.timestamp.after.max.ms``.
    compacted
        Whether ``cleanup.policy`` has "compact".
    max_message_bytes
        ``max.message.bytes``.
    """

    to_magic: int = layouts.MAGIC_V2
    codec: str = "producer"
    level: int | None = None
    timestamp_type: TimestampType = "CreateTime"
    timestamp_before_max_ms: int = MAX_INT64
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    max_message_bytes: int = 1_048_588

    def __post_init__(self) -> None:
        check_fields(self)
        layouts.check_magic(self.to_magic)
        if self.codec != "producer" and self.codec not in layouts.CODECS:
            raise UsageError(f"there is no codec {self.codec!r}; there are producer, {', '.join(layouts.CODECS)}")
        if self.level is not None and self.codec in ("producer", "none"):
            raise UsageError("a level needs a codec; with compression.type producer, Kafka's default level is used")
        if self.timestamp_type not in ("CreateTime", "LogAppendTime"):
            raise UsageError(f"a timestamp type is CreateTime or LogAppendTime, not {self.timestamp_type!r}")


@dataclass(frozen=True, slots=True)
class AppendContext:
    """The context of one append: the topic's settings, the offset of the first record, the leader epoch, the
    time now (ms), who appends, and the bytes that a batch may inflate to."""

    config: AppendConfig
    first_offset: int
    partition_leader_epoch: int
    now_ms: int
    origin: Origin
    max_batch_bytes: int

    @property
    def to_magic(self) -> int:
        return self.config.to_magic

    @property
    def is_append_time(self) -> bool:
        return self.config.timestamp_type == "LogAppendTime"

    def max_timestamp(self, timestamps: NDArray[np.int64]) -> int:
        """Return the max timestamp in the header of a batch with these, in ms; -1 for none."""
        if self.is_append_time:
            return self.now_ms
        return max(layouts.NO_TIMESTAMP, int(timestamps.max())) if len(timestamps) else layouts.NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What a broker writes of produced batches."""

    buffer: NDArray[np.uint8]
    """Whole batches (uint8), with their offsets, leader epoch and timestamps."""
    first_offset: int
    next_offset: int
    """The offset after the last record."""
    max_timestamp: int
    """In ms; -1 for none."""
    in_place: bool
    """Whether only headers were changed."""
    records_converted: int
    """How many records were written again; 0 if ``in_place``."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why produced batches are not appended; none of them is."""

    error: str
    """The exception that Kafka throws, without its package."""
    message: str
    position: int | None = None
    """Of the batch that is to blame, in bytes, if it is a single one."""
    cause: str | None = None
    """The exception within a ``RecordValidationException``, which is what a client sees."""
    record_errors: NDArray[np.int64] | tuple[()] = ()
    """The records that are to blame (int64), by their index in the batch."""

    def __str__(self) -> str:
        return f"{self.error}: {self.message}"


class BatchRefusedError(Exception):
    """Carries a refusal to the public function of the append path; it never leaves it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


def refuse(error: str, message: str, position: int | None = None) -> NoReturn:
    raise BatchRefusedError(Refusal(error, message, position))
