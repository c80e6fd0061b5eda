"""The topic settings that control how a log is written, with Kafka's names and defaults (4.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from brokerless.bounds import MAX_INT32, MAX_INT64, check_number
from brokerless.errors import UsageError

_SMALLEST_INDEX = 24
"""Bytes: two entries of a time index, one of which Kafka keeps free for the last entry of a segment."""

CleanupPolicy = Literal["delete", "compact", "compact,delete", ""]
"""Empty: all records stay (KIP-1161, 4.2)."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic settings, as in ``LogConfig`` (4.1.1): ``segment_bytes`` is ``segment.bytes``, and so on.

    Sizes in bytes, times in ms; -1 for a retention without bound. The random jitter of
    ``segment_ms``, 0 by Kafka's default, is always 0 here. Raises :class:`UsageError` for values that Kafka refuses.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    cleanup_policy: CleanupPolicy = "delete"

    def __post_init__(self) -> None:
        for name, value, least, most in (
            # Below 14 there is no batch. Brokers from 4.0 on want 1 MiB or more; as a file, smaller is as good.
            ("segment_bytes", self.segment_bytes, 14, MAX_INT32),
            ("segment_ms", self.segment_ms, 1, None),
            ("segment_index_bytes", self.segment_index_bytes, _SMALLEST_INDEX, MAX_INT32),
            ("index_interval_bytes", self.index_interval_bytes, 0, MAX_INT32),
            ("retention_ms", self.retention_ms, -1, None),
            ("retention_bytes", self.retention_bytes, -1, None),
        ):
            allowed = f"{least} or more" if most is None else f"{least} to {most}"
            check_number(name, value, least, most, allowed=f"is not in what Kafka allows ({allowed})")
        if self.cleanup_policy not in ("delete", "compact", "compact,delete", ""):
            allowed = "'delete', 'compact', 'compact,delete', ''"
            raise UsageError(f"cleanup_policy: {self.cleanup_policy!r} is none of {allowed}")

    @property
    def deletes(self) -> bool:
        """Whether retention by time and bytes applies."""
        return "delete" in self.cleanup_policy


DEFAULTS = LogConfig()


def with_segment_bytes(segment_bytes: int | None) -> LogConfig | None:
    """Return settings with this ``segment.bytes``; None where no size was requested. Raises :class:`UsageError`."""
    return None if segment_bytes is None else LogConfig(segment_bytes=segment_bytes)


UNBOUNDED = LogConfig(segment_bytes=MAX_INT32, segment_ms=MAX_INT64)
"""For a log whose segments are to begin where those of another one do: they end nowhere else unless they have to."""
