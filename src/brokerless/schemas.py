"""The Arrow schemas of the four tables: records, batches, segments, transactions.

Names are Kafka's, as in spark-sql-kafka for records. Timestamps are milliseconds since the epoch, as Kafka stores them.
"""

from __future__ import annotations

import pyarrow as pa

TIMESTAMP = pa.timestamp("ms", tz="UTC")
NAME = pa.string()
"""Plain strings, as Arrow neither groups by differing dictionaries nor sorts by any. Where all rows of a record batch
have the same one, its bytes are shared with others."""
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
"""Kafka's ``TimestampType`` ids (org.apache.kafka.common.record.TimestampType); records carry the id."""

RECORDS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", NAME),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("headers", HEADERS, nullable=False),
        pa.field("file", NAME, nullable=False),
        pa.field("batchPosition", pa.int64(), nullable=False),
        pa.field("sequence", pa.int32(), nullable=False),
        pa.field("isControl", pa.bool_(), nullable=False),
    ]
)

BATCHES = pa.schema(
    [
        pa.field("file", NAME, nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("sizeInBytes", pa.int64(), nullable=False),
        pa.field("topic", NAME),
        pa.field("partition", pa.int32()),
        pa.field("baseOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("magic", pa.int8(), nullable=False),
        pa.field("compression", NAME),
        pa.field("timestampType", NAME),
        pa.field("baseTimestamp", TIMESTAMP),
        pa.field("maxTimestamp", TIMESTAMP),
        pa.field("producerId", pa.int64()),
        pa.field("producerEpoch", pa.int16()),
        pa.field("baseSequence", pa.int32()),
        pa.field("lastSequence", pa.int32()),
        pa.field("partitionLeaderEpoch", pa.int32()),
        pa.field("isTransactional", pa.bool_()),
        pa.field("isControl", pa.bool_()),
        pa.field("deleteHorizonMs", pa.int64()),
        pa.field("count", pa.int32()),
        pa.field("checksum", pa.int64()),
        pa.field("isValid", pa.bool_()),
    ]
)

SEGMENTS = pa.schema(
    [
        pa.field("topic", NAME),
        pa.field("partition", pa.int32()),
        pa.field("file", NAME, nullable=False),
        pa.field("baseOffset", pa.int64(), nullable=False),
        pa.field("firstOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("sizeInBytes", pa.int64(), nullable=False),
        pa.field("validBytes", pa.int64(), nullable=False),
        pa.field("batches", pa.int64(), nullable=False),
        pa.field("records", pa.int64()),
        pa.field("minTimestamp", TIMESTAMP),
        pa.field("maxTimestamp", TIMESTAMP),
        pa.field("magics", pa.list_(pa.int8()), nullable=False),
        pa.field("compressions", pa.list_(pa.string()), nullable=False),
        pa.field("hasOffsetIndex", pa.bool_(), nullable=False),
        pa.field("hasTimeIndex", pa.bool_(), nullable=False),
        pa.field("hasTransactionIndex", pa.bool_(), nullable=False),
    ]
)

TRANSACTIONS = pa.schema(
    [
        pa.field("topic", NAME),
        pa.field("partition", pa.int32()),
        pa.field("producerId", pa.int64(), nullable=False),
        pa.field("producerEpoch", pa.int16(), nullable=False),
        pa.field("firstOffset", pa.int64()),
        pa.field("lastOffset", pa.int64(), nullable=False),
        pa.field("state", NAME, nullable=False),
        pa.field("batches", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("firstTimestamp", TIMESTAMP),
        pa.field("lastTimestamp", TIMESTAMP),
        pa.field("coordinatorEpoch", pa.int32()),
    ]
)

DIFFERENCES = pa.schema(
    [
        pa.field("topic", NAME),
        pa.field("partition", pa.int32()),
        pa.field("what", pa.string(), nullable=False),
        pa.field("cause", pa.string(), nullable=False),
        pa.field("firstOffset", pa.int64(), nullable=False),
        pa.field("lastOffset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("leftTimestamp", TIMESTAMP),
        pa.field("rightTimestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
    ]
)
