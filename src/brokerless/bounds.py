"""Bounds of the integers in Kafka's formats."""

from __future__ import annotations

from typing import Any

from brokerless.errors import UsageError

MAX_INT32 = 2**31 - 1
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
LAST_OFFSET = MAX_INT64 - 1
"""The largest offset of a record: the one after it has to be an offset as well."""


def check_number(name: str, value: Any, least: int, most: int | None, *, allowed: str) -> None:
    """Raise :class:`UsageError` for a value that is no whole number from ``least`` to ``most``, if there is one.
    ``allowed``: what a message says of others, such as ``is not from 0 to 5``."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise UsageError(f"{name}: {value!r} is not a whole number")
    if value < least or (most is not None and value > most):
        raise UsageError(f"{name}: {value} {allowed}")
