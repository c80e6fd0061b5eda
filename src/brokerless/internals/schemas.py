"""Arrow schemas of the tables made from Kafka's internal topics.

Names are those of Kafka's records. Timestamps are milliseconds since the epoch, null where Kafka has none.
"""

from __future__ import annotations

import pyarrow as pa

from brokerless.kafka_names import ACL_NAMES
from brokerless.schemas import NAME, TIMESTAMP

_RECORD = {"recordTimestamp": TIMESTAMP, "recordOffset": pa.int64()}
_IDS = pa.list_(pa.int32())
_NAMES = pa.list_(pa.string())
_ENDPOINTS = pa.list_(
    pa.struct({"name": pa.string(), "host": pa.string(), "port": pa.int32(), "securityProtocol": pa.int16()})
)
_FEATURES = pa.list_(
    pa.struct({"name": pa.string(), "minSupportedVersion": pa.int16(), "maxSupportedVersion": pa.int16()})
)
_ASSIGNMENT = pa.list_(pa.struct({"topic": pa.string(), "topicId": pa.string(), "partitions": _IDS}))
HISTORY = pa.schema(
    {
        "topic": NAME,
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": TIMESTAMP,
        "type": NAME,
        "key": pa.string(),
        "payload": pa.string(),
        "keyBytes": pa.binary(),
        "payloadBytes": pa.binary(),
        "transaction": NAME,
        "isCurrent": pa.bool_(),
        "file": NAME,
        "batchPosition": pa.int64(),
    }
)
"""A record of an internal topic. ``key`` and ``payload`` are the JSON that Kafka's dump tool prints; what cannot be
decoded is in ``keyBytes`` and ``payloadBytes``, which are null for all others. ``transaction``: ``committed``,
``aborted`` or ``open`` for offsets that were committed within a transaction. ``isCurrent``: whether the coordinator of
the group, transactional id or share group reads this partition; null for other topics, and where the topic's number of
partitions is not known."""

_LOCATED = {"sourcePartition": pa.int32(), "isCurrent": pa.bool_()}
"""The partition that a row is from, and whether coordinators read it there: null where the topic's number of partitions
is not known."""

LAG = pa.schema(
    [
        pa.field("group", NAME, nullable=False),
        pa.field("topic", NAME, nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("endOffset", pa.int64()),
        pa.field("lag", pa.int64()),
        pa.field("commitTimestamp", TIMESTAMP),
    ]
)
"""A row for each committed offset: how far it is from the end of its partition's log, as it is read. ``endOffset`` and
``lag`` are null for a partition that is not here."""

STATE = {
    "offsets": pa.schema(
        {
            "group": pa.string(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "leaderEpoch": pa.int32(),
            "metadata": pa.string(),
            "commitTimestamp": TIMESTAMP,
            "expireTimestamp": TIMESTAMP,
            "topicId": pa.string(),
            "recordOffset": pa.int64(),
            **_LOCATED,
        }
    ),
    "groups": pa.schema(
        {
            "group": pa.string(),
            "type": pa.string(),
            "epoch": pa.int32(),
            "assignmentEpoch": pa.int32(),
            "protocolType": pa.string(),
            "protocol": pa.string(),
            "leader": pa.string(),
            "currentStateTimestamp": TIMESTAMP,
            "members": pa.int64(),
            **_LOCATED,
        }
    ),
    "members": pa.schema(
        {
            "group": pa.string(),
            "memberId": pa.string(),
            "groupInstanceId": pa.string(),
            "rackId": pa.string(),
            "clientId": pa.string(),
            "clientHost": pa.string(),
            "epoch": pa.int32(),
            "subscribedTopicNames": _NAMES,
            "subscribedTopicRegex": pa.string(),
            "assignment": _ASSIGNMENT,
            **_LOCATED,
        }
    ),
    "transactionalIds": pa.schema(
        {
            "transactionalId": pa.string(),
            "state": pa.string(),
            "producerId": pa.int64(),
            "producerEpoch": pa.int16(),
            "previousProducerId": pa.int64(),
            "nextProducerId": pa.int64(),
            "nextProducerEpoch": pa.int16(),
            "transactionTimeoutMs": pa.int32(),
            "transactionPartitions": pa.list_(pa.struct({"topic": pa.string(), "partitionIds": _IDS})),
            "transactionStartTimestamp": TIMESTAMP,
            "transactionLastUpdateTimestamp": TIMESTAMP,
            "clientTransactionVersion": pa.int16(),
            "recordOffset": pa.int64(),
            **_LOCATED,
        }
    ),
    "topics": pa.schema({"topic": pa.string(), "topicId": pa.string(), "partitions": pa.int32()}),
    "partitions": pa.schema(
        {
            "topic": pa.string(),
            "topicId": pa.string(),
            "partition": pa.int32(),
            "leader": pa.int32(),
            "leaderEpoch": pa.int32(),
            "partitionEpoch": pa.int32(),
            "leaderRecoveryState": pa.int8(),
            "replicas": _IDS,
            "isr": _IDS,
            "removingReplicas": _IDS,
            "addingReplicas": _IDS,
            "directories": _NAMES,
            "eligibleLeaderReplicas": _IDS,
            "lastKnownElr": _IDS,
        }
    ),
    "configs": pa.schema(
        {"resourceType": pa.string(), "resourceName": pa.string(), "name": pa.string(), "value": pa.string()}
    ),
    "brokers": pa.schema(
        {
            "brokerId": pa.int32(),
            "brokerEpoch": pa.int64(),
            "incarnationId": pa.string(),
            "rack": pa.string(),
            "fenced": pa.bool_(),
            "inControlledShutdown": pa.bool_(),
            "endPoints": _ENDPOINTS,
            "features": _FEATURES,
            "logDirs": _NAMES,
            "cordonedLogDirs": _NAMES,
        }
    ),
    "controllers": pa.schema(
        {
            "controllerId": pa.int32(),
            "incarnationId": pa.string(),
            "endPoints": _ENDPOINTS,
            "features": _FEATURES,
        }
    ),
    "features": pa.schema({"name": pa.string(), "featureLevel": pa.int16()}),
    "quotas": pa.schema(
        {
            "entity": pa.list_(pa.struct({"entityType": pa.string(), "entityName": pa.string()})),
            "key": pa.string(),
            "value": pa.float64(),
        }
    ),
    "acls": pa.schema(
        {
            "id": pa.string(),
            "resourceType": pa.int8(),
            "resourceName": pa.string(),
            "patternType": pa.int8(),
            "principal": pa.string(),
            "host": pa.string(),
            "operation": pa.int8(),
            "permissionType": pa.int8(),
            **{f"{each}Name": pa.string() for each in ACL_NAMES},
        }
    ),
    "users": pa.schema(
        {
            "name": pa.string(),
            "mechanism": pa.string(),
            "iterations": pa.int32(),
            "salt": pa.string(),
            "storedKey": pa.string(),
            "serverKey": pa.string(),
        }
    ),
    "tokens": pa.schema(
        {
            "owner": pa.string(),
            "requester": pa.string(),
            "renewers": _NAMES,
            "issueTimestamp": TIMESTAMP,
            "maxTimestamp": TIMESTAMP,
            "expirationTimestamp": TIMESTAMP,
            "tokenId": pa.string(),
        }
    ),
    "producerIds": pa.schema({"nextProducerId": pa.int64()}),
    "remoteSegments": pa.schema(
        {
            "topic": pa.string(),
            "topicId": pa.string(),
            "partition": pa.int32(),
            "segmentId": pa.string(),
            "state": pa.string(),
            "isReferenced": pa.bool_(),
            "startOffset": pa.int64(),
            "endOffset": pa.int64(),
            "segmentSizeInBytes": pa.int64(),
            "maxTimestamp": TIMESTAMP,
            "segmentLeaderEpochs": pa.list_(pa.struct({"leaderEpoch": pa.int32(), "offset": pa.int64()})),
            "brokerId": pa.int32(),
            "startTimestamp": TIMESTAMP,
            "eventTimestamp": TIMESTAMP,
            "customMetadata": pa.string(),
            "txnIndexEmpty": pa.bool_(),
            "metadataPartition": pa.int32(),
            "recordOffset": pa.int64(),
        }
    ),
    "mirrorOffsetSyncs": pa.schema(
        {
            "internalTopic": pa.string(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "upstreamOffset": pa.int64(),
            "downstreamOffset": pa.int64(),
            **_RECORD,
        }
    ),
    "mirrorCheckpoints": pa.schema(
        {
            "internalTopic": pa.string(),
            "group": pa.string(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "upstreamOffset": pa.int64(),
            "downstreamOffset": pa.int64(),
            "metadata": pa.string(),
            **_RECORD,
        }
    ),
    "mirrorHeartbeats": pa.schema(
        {
            "internalTopic": pa.string(),
            "sourceClusterAlias": pa.string(),
            "targetClusterAlias": pa.string(),
            "timestamp": TIMESTAMP,
            **_RECORD,
        }
    ),
    "connectOffsets": pa.schema(
        {
            "internalTopic": pa.string(),
            "connector": pa.string(),
            "sourcePartition": pa.string(),
            "sourceOffset": pa.string(),
            **_RECORD,
        }
    ),
    "connectConfigs": pa.schema(
        {
            "internalTopic": pa.string(),
            "type": pa.string(),
            "key": pa.string(),
            "connector": pa.string(),
            "task": pa.int32(),
            "value": pa.string(),
            **_RECORD,
        }
    ),
    "connectStatus": pa.schema(
        {
            "internalTopic": pa.string(),
            "type": pa.string(),
            "key": pa.string(),
            "connector": pa.string(),
            "task": pa.int32(),
            "topic": pa.string(),
            "state": pa.string(),
            "workerId": pa.string(),
            "generation": pa.int32(),
            "trace": pa.string(),
            "version": pa.string(),
            "discoverTimestamp": TIMESTAMP,
            **_RECORD,
        }
    ),
}
"""The tables of what internal topics say now, by name. Names are those of Kafka's records; -1 is none where Kafka has
it so, and a timestamp that is none is null."""
