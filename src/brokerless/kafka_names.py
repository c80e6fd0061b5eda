"""Names that Kafka gives to compression types and isolation levels."""

from __future__ import annotations

from typing import Literal, get_args

COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their number in the attributes of a batch or message."""

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: tuple[Isolation, ...] = get_args(Isolation)
