"""The Arrow schemas of the pipeline's own tables. Times are UTC, sizes bytes."""

from __future__ import annotations

import pyarrow as pa

from brokerless.jobs.ledger import FINDING, PLACE, RANGE

TIMESTAMP = pa.timestamp("us", tz="UTC")

FINDINGS = pa.schema([pa.field("runId", pa.string(), nullable=False), *PLACE, *FINDING])
"""What was found in logs, once each; ``runId`` is the run that found it first."""
DAMAGED = pa.schema([pa.field("runId", pa.string(), nullable=False), *PLACE, *RANGE, pa.field("isInTable", pa.bool_())])
"""Ranges that readers do not get: ``sizeInBytes`` bytes of a file from ``position`` on that are in no intact batch, and
the offsets that were there as the intact batches around them show (both null: none is missing; ``lastOffset`` null:
nothing shows where they ended). Of the kind ``not-exported`` are offsets of segments that were not verified.
``position`` is null, and the size 0, for offsets that no file has. ``isInTable``: whether the topic's table has all of
these offsets nevertheless, from another copy or from before the damage; null without offsets, or without a table."""
RUNS = pa.schema(
    [
        pa.field("runId", pa.string(), nullable=False),
        pa.field("started", TIMESTAMP, nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("findSeconds", pa.float64(), nullable=False),
        pa.field("verifySeconds", pa.float64(), nullable=False),
        pa.field("exportSeconds", pa.float64(), nullable=False),
        pa.field("maintainSeconds", pa.float64(), nullable=False),
        pa.field("reportSeconds", pa.float64(), nullable=False),
        pa.field("logDirectories", pa.int32(), nullable=False),
        pa.field("partitions", pa.int32(), nullable=False),
        pa.field("segmentsVerified", pa.int64(), nullable=False),
        pa.field("bytesVerified", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("files", pa.int64(), nullable=False),
        pa.field("bytesWritten", pa.int64(), nullable=False),
        pa.field("errors", pa.int64(), nullable=False),
        pa.field("warnings", pa.int64(), nullable=False),
        pa.field("damagedRanges", pa.int64(), nullable=False),
        pa.field("interrupted", pa.string()),
    ]
)
"""A row for each run that came to its end. ``errors``, ``warnings`` and ``damagedRanges``: found by this run for the
first time. ``interrupted``: the run before it, if that was killed."""
