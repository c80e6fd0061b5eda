"""The Arrow schemas of a report's figures. Times are milliseconds since the epoch, sizes bytes of log files."""

from __future__ import annotations

import pyarrow as pa

from brokerless.internals.schemas import LAG
from brokerless.schemas import NAME, SEGMENTS, TIMESTAMP

_PLACE = [pa.field("topic", NAME), pa.field("partition", pa.int32())]
_SUMS = [
    pa.field("batches", pa.int64(), nullable=False),
    pa.field("records", pa.int64(), nullable=False),
    pa.field("sizeInBytes", pa.int64(), nullable=False),
]

FIGURES = {
    "partitions": pa.schema(
        [
            *_PLACE,
            pa.field("segments", pa.int64(), nullable=False),
            *_SUMS,
            pa.field("firstOffset", pa.int64()),
            pa.field("lastOffset", pa.int64()),
            pa.field("minTimestamp", TIMESTAMP),
            pa.field("maxTimestamp", TIMESTAMP),
        ]
    ),
    "segments": pa.schema(
        [
            *SEGMENTS,
            pa.field("gapBefore", pa.int64(), nullable=False),
            pa.field("leaderEpochs", pa.list_(pa.int32()), nullable=False),
        ]
    ),
    "throughput": pa.schema(
        [
            pa.field("topic", NAME),
            pa.field("start", TIMESTAMP),
            pa.field("end", TIMESTAMP),
            *_SUMS,
        ]
    ),
    "batchSizes": pa.schema(
        [
            pa.field("topic", NAME),
            pa.field("fromBytes", pa.int64(), nullable=False),
            pa.field("belowBytes", pa.int64(), nullable=False),
            *_SUMS,
        ]
    ),
    "compression": pa.schema(
        [
            pa.field("topic", NAME),
            pa.field("magic", pa.int8(), nullable=False),
            pa.field("compression", NAME),
            *_SUMS,
        ]
    ),
    "topicSizes": pa.schema(
        [
            pa.field("topic", NAME),
            pa.field("format", NAME),
            pa.field("compression", NAME),
            pa.field("batchBytes", pa.int64()),
            pa.field("sizeInBytes", pa.int64(), nullable=False),
            pa.field("low", pa.int64(), nullable=False),
            pa.field("high", pa.int64(), nullable=False),
            pa.field("currentSizeInBytes", pa.int64(), nullable=False),
            pa.field("isCurrent", pa.bool_(), nullable=False),
            pa.field("isBest", pa.bool_(), nullable=False),
            pa.field("isExact", pa.bool_(), nullable=False),
            pa.field("command", NAME),
        ]
    ),
    "producers": pa.schema(
        [
            *_PLACE,
            pa.field("producerId", pa.int64()),
            pa.field("producerEpoch", pa.int16()),
            *_SUMS,
            pa.field("transactionalBatches", pa.int64(), nullable=False),
            pa.field("minTimestamp", TIMESTAMP),
            pa.field("maxTimestamp", TIMESTAMP),
        ]
    ),
    "transactions": pa.schema(
        [
            *_PLACE,
            pa.field("committed", pa.int64(), nullable=False),
            pa.field("aborted", pa.int64(), nullable=False),
            pa.field("open", pa.int64(), nullable=False),
            pa.field("withoutData", pa.int64(), nullable=False),
        ]
    ),
    "lag": LAG,
    "findings": pa.schema(
        [
            pa.field("severity", NAME, nullable=False),
            pa.field("kind", NAME, nullable=False),
            *_PLACE,
            pa.field("file", NAME, nullable=False),
            pa.field("position", pa.int64()),
            pa.field("offset", pa.int64()),
            pa.field("message", NAME, nullable=False),
            pa.field("expected", NAME),
            pa.field("found", NAME),
            pa.field("advice", NAME),
        ]
    ),
}
"""Sums are over batches that reach to the log start offset or beyond; ``records`` are those that headers declare,
without control records.

``segments``: :data:`brokerless.schemas.SEGMENTS`; ``gapBefore`` is how many offsets are missing after the segment
before, ``leaderEpochs`` the first and last one of its batches. ``throughput``: a batch counts where its max timestamp
is, in an hour, or a longer time where a topic has more than 5000 hours; both times are null for batches without
timestamp, or with one before 1970 or after 2199. ``batchSizes``: by powers of two. ``topicSizes``: of the largest
topics, what is there (``isCurrent``; ``batchBytes`` is then the mean, and ``format`` and ``compression`` are null if
several are mixed), and what each format and codec would make of it, with the batch size that makes it smallest (null:
the batches that are there). From ``low`` to ``high`` is the 95 % interval, ``currentSizeInBytes`` is what the topic
takes now, and ``command`` writes the best choice where that is smaller. ``producers``: ``producerId`` is
-1 for batches of producers without idempotence, and null for all producers of a partition after the first 1000;
``producerEpoch`` is the largest. ``lag``: ``endOffset`` and ``lag`` are null for a partition that is not there.
"""
