"""Times in milliseconds since the epoch, as Kafka counts them."""

from __future__ import annotations

import math
import time
from datetime import datetime

from brokerless.errors import UsageError

HOUR_MS = 3_600_000
Time = int | datetime
"""Milliseconds since the epoch, or a datetime with a time zone."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def milliseconds(at: Time | None) -> int | None:
    """Milliseconds since the epoch of a time. Raises :class:`UsageError` for a datetime without a time zone."""
    if not isinstance(at, datetime):
        return at
    if at.tzinfo is None:
        raise UsageError(f"{at.isoformat()}: a time needs a time zone")
    return math.floor(at.timestamp() * 1000 + 1e-6)
