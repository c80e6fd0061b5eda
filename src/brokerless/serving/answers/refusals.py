"""Refuses all requests that would write, each with an error that its client takes as final.

Produce: TOPIC_AUTHORIZATION_FAILED; producer IDs and transactions: CLUSTER_AUTHORIZATION_FAILED; topics, settings,
users and quotas: POLICY_VIOLATION with a message; ACLs: SECURITY_DISABLED; to delete groups or their offsets:
GROUP_AUTHORIZATION_FAILED. All versions of a 4.4 broker.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

TEXT = "this is a read-only endpoint of brokerless: nothing can be written"
_POLICY = {"errorCode": Error.POLICY_VIOLATION, "errorMessage": TEXT}
_CLUSTER = {"errorCode": Error.CLUSTER_AUTHORIZATION_FAILED}
_TOPIC = {"errorCode": Error.TOPIC_AUTHORIZATION_FAILED}
_GROUP = {"errorCode": Error.GROUP_AUTHORIZATION_FAILED}
_NO_SECURITY = {"errorCode": Error.SECURITY_DISABLED, "errorMessage": TEXT}


def _produce(request: Request) -> Row:
    def refused(each: Row) -> Row:
        return {"index": each["index"], "baseOffset": -1, "logStartOffset": -1, "errorMessage": TEXT, **_TOPIC}

    topics = request.body["topicData"]
    return {
        "responses": [
            {**_names(topic), "partitionResponses": [refused(each) for each in topic["partitionData"]]}
            for topic in topics
        ]
    }


def _topics(request: Request) -> Row:
    return {"topics": [{"name": each["name"], "numPartitions": -1, **_POLICY} for each in request.body["topics"]]}


def _deleted_topics(request: Request) -> Row:
    body = request.body
    named = body["topics"] if "topics" in body else [{"name": each} for each in body["topicNames"]]
    return {"responses": [{**_names(each), **_POLICY} for each in named]}


def _deleted_records(request: Request) -> Row:
    def refused(each: Row) -> Row:
        return {"partitionIndex": each["partitionIndex"], "lowWatermark": -1, **_TOPIC}

    return {
        "topics": [
            {"name": topic["name"], "partitions": [refused(each) for each in topic["partitions"]]}
            for topic in request.body["topics"]
        ]
    }


def _added_partitions(request: Request) -> Row:
    if "v3AndBelowTopics" not in request.body:
        return dict(_CLUSTER)
    error = Error.CLUSTER_AUTHORIZATION_FAILED
    return {
        "resultsByTopicV3AndBelow": [
            {
                "name": topic["name"],
                "resultsByPartition": [
                    {"partitionIndex": each, "partitionErrorCode": error} for each in topic["partitions"]
                ],
            }
            for topic in request.body["v3AndBelowTopics"]
        ]
    }


def _committed_in_transaction(request: Request) -> Row:
    return {
        "topics": [
            {
                **_names(topic),
                "partitions": [{"partitionIndex": each["partitionIndex"], **_CLUSTER} for each in topic["partitions"]],
            }
            for topic in request.body["topics"]
        ]
    }


def _moved_replicas(request: Request) -> Row:
    return {
        "results": [
            {
                "topicName": topic["name"],
                "partitions": [
                    {"partitionIndex": each, "errorCode": _CLUSTER["errorCode"]} for each in topic["partitions"]
                ],
            }
            for directory in request.body["dirs"]
            for topic in directory["topics"]
        ]
    }


def _configs(request: Request) -> Row:
    def refused(each: Row) -> Row:
        return {"resourceType": each["resourceType"], "resourceName": each["resourceName"], **_POLICY}

    return {"responses": [refused(each) for each in request.body["resources"]]}


def _quotas(request: Request) -> Row:
    return {"entries": [{"entity": each["entity"], **_POLICY} for each in request.body["entries"]]}


def _users(request: Request) -> Row:
    body = request.body
    names = dict.fromkeys(each["name"] for each in (*body["deletions"], *body["upsertions"]))
    return {"results": [{"user": each, **_POLICY} for each in names]}


def _names(each: Row) -> Row:
    return {key: each[key] for key in ("name", "topicId") if key in each}


_REFUSED: dict[str, Callable[[Request], Row]] = {
    "Produce": _produce,
    "CreateTopics": _topics,
    "DeleteTopics": _deleted_topics,
    "DeleteRecords": _deleted_records,
    "CreatePartitions": lambda request: {
        "results": [{"name": each["name"], **_POLICY} for each in request.body["topics"]]
    },
    "InitProducerId": lambda _: {"producerId": -1, "producerEpoch": -1, **_CLUSTER},
    "AddPartitionsToTxn": _added_partitions,
    "AddOffsetsToTxn": lambda _: dict(_CLUSTER),
    "EndTxn": lambda _: dict(_CLUSTER),
    "TxnOffsetCommit": _committed_in_transaction,
    "CreateAcls": lambda request: {"results": [_NO_SECURITY for _ in request.body["creations"]]},
    "DeleteAcls": lambda request: {"filterResults": [_NO_SECURITY for _ in request.body["filters"]]},
    "AlterConfigs": _configs,
    "IncrementalAlterConfigs": _configs,
    "AlterReplicaLogDirs": _moved_replicas,
    "DeleteGroups": lambda request: {"results": [{"groupId": each, **_GROUP} for each in request.body["groupsNames"]]},
    "OffsetDelete": lambda _: dict(_GROUP),
    "ElectLeaders": lambda _: dict(_CLUSTER),
    "AlterPartitionReassignments": lambda _: {**_CLUSTER, "errorMessage": TEXT},
    "AlterClientQuotas": _quotas,
    "AlterUserScramCredentials": _users,
    "UpdateFeatures": lambda _: {**_CLUSTER, "errorMessage": TEXT},
}
REFUSED = frozenset(_REFUSED)
"""The requests that are refused, by name."""


async def refuse(serving: Serving, request: Request) -> Row | None:
    """Return the refusal of a request; None where a producer waits for no response: then its connection is closed."""
    if request.api.name == "Produce" and request.body["acks"] == 0:
        return None
    return await serving.in_thread(_REFUSED[request.api.name], request)
