"""Metadata (0 to 13), DescribeTopicPartitions (0) and DescribeCluster (0 to 2): brokers, topics, partitions.

There is one broker, which leads all partitions that are on these disks. Others are listed without a leader
(LEADER_NOT_AVAILABLE): clients take the number of entries for that of partitions, and would assign fewer. Topics are
never created. Authorized operations are those of who may read. Left out: racks, replicas on other brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from brokerless.format.messages.layouts import ZERO_UUID
from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.topics import INTERNAL, ServedTopic
from brokerless.values import Row

READ, DESCRIBE, DESCRIBE_CONFIGS = 3, 8, 10
TOPIC_OPERATIONS = 1 << READ | 1 << DESCRIBE | 1 << DESCRIBE_CONFIGS
CLUSTER_OPERATIONS = 1 << DESCRIBE | 1 << DESCRIBE_CONFIGS
NOT_REQUESTED = -(1 << 31)
_BROKERS = 1
"""``endpointType`` of clients of brokers; 2 is that of clients of controllers."""
_MOST_PARTITIONS = 2000
"""``max.request.partition.size.limit``."""
_NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")


async def answer_metadata(serving: Serving, request: Request) -> Row:
    """Describe the requested topics, or all."""
    await serving.loaded()
    return await serving.in_thread(_answer, serving, request)


def _answer(serving: Serving, request: Request) -> Row:
    body, topics = request.body, request.body["topics"]
    everything = topics is None or (request.version == 0 and not topics)
    operations = TOPIC_OPERATIONS if body.get("includeTopicAuthorizedOperations") else NOT_REQUESTED
    ids = [each["topicId"] for each in topics or [] if each.get("topicId", ZERO_UUID) != ZERO_UUID]
    if everything:
        rows = [_topic(serving, each, operations) for each in list(serving.topics.by_name.values())]
    elif ids:
        rows = [_topic_by_id(serving, each, request.version, operations) for each in dict.fromkeys(ids)]
    else:
        names = dict.fromkeys(each["name"] for each in topics or [] if each["name"] is not None)
        rows = [_topic_by_name(serving, each, operations) for each in names]
    wants_operations = body.get("includeClusterAuthorizedOperations")
    return {
        "brokers": [{"nodeId": serving.node_id, "host": serving.host, "port": serving.port, "rack": None}],
        "clusterId": serving.topics.cluster_id,
        "controllerId": serving.node_id,
        "topics": rows,
        "clusterAuthorizedOperations": CLUSTER_OPERATIONS if wants_operations else NOT_REQUESTED,
    }


async def answer_topic_partitions(serving: Serving, request: Request) -> Row:
    """Describe topics in the order of their names, as many partitions at once as requested."""
    await serving.loaded()
    return await serving.in_thread(_topic_partitions, serving, request)


def _topic_partitions(serving: Serving, request: Request) -> Row:
    body, by_name = request.body, serving.topics.by_name
    names = sorted({each["name"] for each in body["topics"]}) or sorted(by_name)
    cursor = body["cursor"]
    if cursor is not None:
        names = [each for each in names if each >= cursor["topicName"]]
        if (body["topics"] and cursor["topicName"] not in names) or cursor["partitionIndex"] < 0:
            wanted = dict.fromkeys(each["name"] for each in body["topics"])
            return {"topics": [{"errorCode": Error.INVALID_REQUEST, "name": each} for each in wanted]}
    left = max(1, min(_MOST_PARTITIONS, body["responsePartitionLimit"]))
    rows: list[Row] = []
    for name in names:
        if not left:
            return {"topics": rows, "nextCursor": {"topicName": name, "partitionIndex": 0}}
        topic = by_name.get(name)
        if topic is None:
            rows.append(_unknown(name, TOPIC_OPERATIONS))
            continue
        first = cursor["partitionIndex"] if cursor is not None and cursor["topicName"] == name else 0
        end = max(first, min(topic.count, first + left))
        row = _topic(serving, topic, TOPIC_OPERATIONS)
        row["partitions"] = [
            each | {"eligibleLeaderReplicas": [], "lastKnownElr": []} for each in row["partitions"][first:end]
        ]
        rows.append(row)
        left -= len(row["partitions"])
        if end < topic.count:
            return {"topics": rows, "nextCursor": {"topicName": name, "partitionIndex": end}}
    return {"topics": rows, "nextCursor": None}


async def answer_cluster(serving: Serving, request: Request) -> Row:
    """Describe the only broker."""
    body = request.body
    if body.get("endpointType", _BROKERS) != _BROKERS:
        text = "the request was sent to an endpoint of type BROKER, but wants one of type CONTROLLER"
        return {"errorCode": Error.MISMATCHED_ENDPOINT_TYPE, "errorMessage": text}
    operations = CLUSTER_OPERATIONS if body["includeClusterAuthorizedOperations"] else NOT_REQUESTED
    return {
        "clusterId": serving.topics.cluster_id,
        "controllerId": serving.node_id,
        "brokers": [{"brokerId": serving.node_id, "host": serving.host, "port": serving.port, "rack": None}],
        "clusterAuthorizedOperations": operations,
    }


def is_topic_name(name: str) -> bool:
    """Return whether a topic may have this name (``Topic.validate``, 4.4.0)."""
    return _NAME.fullmatch(name) is not None


def _topic_by_name(serving: Serving, name: str, operations: int) -> Row:
    topic = serving.topics.by_name.get(name)
    return _unknown(name, operations) if topic is None else _topic(serving, topic, operations)


def _topic_by_id(serving: Serving, topic_id: str, version: int, operations: int) -> Row:
    topic = serving.topics.by_id.get(topic_id)
    if topic is not None:
        return _topic(serving, topic, operations)
    name = None if version >= 12 else ""
    return {"errorCode": Error.UNKNOWN_TOPIC_ID, "name": name, "topicId": topic_id}


def _unknown(name: str, operations: int) -> Row:
    error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else Error.INVALID_TOPIC_EXCEPTION
    return {
        "errorCode": error,
        "name": name,
        "isInternal": name in INTERNAL,
        "topicAuthorizedOperations": operations,
    }


def _topic(serving: Serving, topic: ServedTopic, operations: int) -> Row:
    return {
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.is_internal,
        "partitions": list(_partitions(serving, topic)),
        "topicAuthorizedOperations": operations,
    }


def _partitions(serving: Serving, topic: ServedTopic) -> Iterator[Row]:
    nodes = [serving.node_id]
    for number in range(topic.count):
        partition = topic.partitions.get(number)
        if partition is None:
            yield {
                "errorCode": Error.LEADER_NOT_AVAILABLE,
                "partitionIndex": number,
                "leaderId": -1,
                "replicaNodes": [],
                "isrNodes": [],
            }
        else:
            yield {
                "partitionIndex": number,
                "leaderId": serving.node_id,
                "leaderEpoch": partition.announced_epoch(),
                "replicaNodes": nodes,
                "isrNodes": nodes,
            }
