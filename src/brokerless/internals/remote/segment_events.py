"""Events of ``__remote_log_metadata``: what brokers write of a remote segment, and into which partition.

Sources: ``RemoteLogMetadataTopicPartitioner``, ``RemoteLogMetadataSerde``, ``BytesApiMessageSerde``,
``TopicBasedRemoteLogMetadataManager`` (3.9.1, 4.4.0).
"""

from __future__ import annotations

import struct
from base64 import b64encode, urlsafe_b64decode
from typing import Any

import pyarrow as pa

from brokerless.format.messages.writer import encode
from brokerless.format.plain_varint import encode_unsigned
from brokerless.internals.messages import messages
from brokerless.internals.remote.segment_metadata import STATES, RemoteSegmentState, SegmentMetadata
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.tables.partitioner import partition_for_key

_FRAME_VERSION, _VERSION = 1, 0
_METADATA, _UPDATE = 0, 1
"""The API keys of a segment's first event, and of those after it."""


def metadata_partition(topic_id: str, partition: int, count: int) -> int:
    """Return the partition of ``__remote_log_metadata``, which has ``count``, with the events of a partition."""
    most, least = struct.unpack(">qq", urlsafe_b64decode(topic_id + "=="))
    hashed = 1
    for each in (_hash_of_long(least), _hash_of_long(most), partition):
        hashed = (31 * hashed + each) & 0xFFFFFFFF
    return int(partition_for_key(pa.array([hashed.to_bytes(4, "big")], pa.binary()), count)[0])


def _hash_of_long(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ (bits >> 32)) & 0xFFFFFFFF


def events_of(segment: SegmentMetadata) -> tuple[bytes, bytes]:
    """Return the values of two records: the copy of a segment started, and finished. A broker discards one without the
    other."""
    named = {
        "topicIdPartition": {"name": segment.topic, "id": segment.topic_id, "partition": segment.partition},
        "id": segment.segment_id,
    }
    custom = segment.custom_metadata
    started = {
        "remoteLogSegmentId": named,
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "brokerId": segment.broker_id,
        "maxTimestampMs": segment.max_timestamp,
        "eventTimestampMs": segment.started_at,
        "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": offset} for epoch, offset in segment.epochs],
        "segmentSizeInBytes": segment.size,
        "customMetadata": None,
        "remoteLogSegmentState": _number("COPY_SEGMENT_STARTED"),
        **({"txnIndexEmpty": True} if segment.is_txn_index_empty else {}),
    }
    finished = {
        "remoteLogSegmentId": named,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.changed_at,
        "customMetadata": None if custom is None else b64encode(custom).decode(),
        "remoteLogSegmentState": _number("COPY_SEGMENT_FINISHED"),
    }
    return _event(_METADATA, started), _event(_UPDATE, finished)


def _number(state: RemoteSegmentState) -> int:
    return STATES.index(state)


def _event(api_key: int, data: dict[str, Any]) -> bytes:
    head = b"".join(map(encode_unsigned, (_FRAME_VERSION, api_key, _VERSION)))
    return head + encode(messages(REMOTE_LOG_METADATA).values[api_key], _VERSION, data)
