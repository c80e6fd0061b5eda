"""Bounds of the integers in Kafka's formats."""

from __future__ import annotations

MAX_INT32 = 2**31 - 1
MIN_INT64, MAX_INT64 = -(2**63), 2**63 - 1
LAST_OFFSET = MAX_INT64 - 1
"""The largest offset of a record: the one after it has to be an offset as well."""
