"""What is known of disks, transactions, producers, users, quotas and settings; nothing of it can be changed here.

- DescribeLogDirs (1 to 5): the partitions of each directory that is served, and their bytes.
- DescribeProducers (0): producers whose transaction is open; who is idle is left out.
- ListTransactions (0 to 2), DescribeTransactions (0): by ``__transaction_state``, where that is on these disks.
- DescribeUserScramCredentials (0), DescribeClientQuotas (0, 1): by the cluster's metadata. Passwords are not part of
  it.
- DescribeAcls (1 to 3): by the cluster's metadata; where that has none, SECURITY_DISABLED.
- DescribeQuorum (0 to 2): by ``quorum-state`` beside the cluster's metadata: the last leader, its epoch, and voters as
  far as they are there (KIP-853 has them in the log: then the leader alone). No replica follows.
- ListConfigResources (0, 1), ListPartitionReassignments (0): topics and the only broker; no reassignment.

Left out: delegation tokens, features.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from brokerless.internals.records import TRANSACTION_STATE
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.names import CLUSTER_METADATA
from brokerless.log.seek import end_offset
from brokerless.serving.access import matching_acls
from brokerless.serving.answers.metadata import is_topic_name
from brokerless.serving.context import NOT_READ, Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.partition import ServedPartition
from brokerless.serving.source.patterns import matching
from brokerless.values import Row

_TOPIC, _BROKER, _BROKER_LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_EXACT, _DEFAULT = 0, 1
"""``matchType`` of a quota's filter; 2 is any that is specified."""


async def answer_log_dirs(serving: Serving, request: Request) -> Row:
    """List the directories that are served, with their partitions."""
    return await serving.in_thread(_log_dirs, serving, request)


def _log_dirs(serving: Serving, request: Request) -> Row:
    wanted = request.body["topics"]
    chosen = None if wanted is None else {(each["topic"], number) for each in wanted for number in each["partitions"]}
    directories: dict[str, dict[str, list[Row]]] = {}
    for each in serving.topics.partitions:
        above = each.paths.location.containing
        topics = directories.setdefault(each.paths.path if above is None else above.path, {})
        if chosen is None or (each.topic, each.number) in chosen:
            row = {"partitionIndex": each.number, "partitionSize": each.paths.size, "offsetLag": 0}
            topics.setdefault(each.topic, []).append(row)
    return {
        "results": [
            {"logDir": path, "topics": [{"name": topic, "partitions": rows} for topic, rows in topics.items()]}
            for path, topics in directories.items()
        ]
    }


async def answer_producers(serving: Serving, request: Request) -> Row:
    """List the producers with open transactions."""
    await serving.loaded()
    return await serving.in_thread(_producers, serving, request)


def _producers(serving: Serving, request: Request) -> Row:
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partitionIndex": number, **_producers_of(serving, topic["name"], number)}
                    for number in topic["partitionIndexes"]
                ],
            }
            for topic in request.body["topics"]
        ]
    }


def _producers_of(serving: Serving, topic: str, number: int) -> Row:
    partition = serving.topics.partition(topic, number)
    if not is_topic_name(topic):
        return {"errorCode": Error.INVALID_TOPIC_EXCEPTION}
    if partition is None:
        is_elsewhere = serving.topics.has(topic, number)
        return {"errorCode": Error.NOT_LEADER_OR_FOLLOWER if is_elsewhere else Error.UNKNOWN_TOPIC_OR_PARTITION}
    try:
        return {"activeProducers": list(_open(partition))}
    except NOT_READ as error:
        return {"errorCode": serving.not_read(partition.paths.path, error)}


def _open(partition: ServedPartition) -> Iterable[Row]:
    for found in partition.open_transactions():
        each = found.transaction
        yield {
            "producerId": each.producer_id,
            "producerEpoch": each.producer_epoch,
            "lastSequence": found.last_sequence,
            "lastTimestamp": -1 if each.last_timestamp is None else each.last_timestamp,
            "coordinatorEpoch": found.coordinator_epoch,
            "currentTxnStartOffset": -1 if each.first_offset is None else each.first_offset,
        }


async def answer_list_transactions(serving: Serving, request: Request) -> Row:
    """List transactional ids, all or some."""
    await serving.loaded()
    return await serving.in_thread(_listed_transactions, serving, request)


def _listed_transactions(serving: Serving, request: Request) -> Row:
    from brokerless.internals.transactional_ids import STATES

    body, rows = request.body, _transactions(serving)
    states, producers = set(body["stateFilters"]), set(body["producerIdFilters"])
    least = body.get("durationFilter", -1)
    now = time.time_ns() // 1_000_000
    pattern = body.get("transactionalIdPattern")
    names = None if not pattern else matching(rows, pattern)
    if pattern and names is None:
        return {"errorCode": Error.INVALID_REGULAR_EXPRESSION}
    return {
        "unknownStateFilters": [each for each in body["stateFilters"] if each not in STATES],
        "transactionStates": [
            {"transactionalId": name, "producerId": row["producerId"], "transactionState": row["state"]}
            for name, row in rows.items()
            if row["state"] != "Dead"
            if not states or row["state"] in states
            if not producers or row["producerId"] in producers
            if least < 0 or _duration(row, now) > least
            if names is None or name in names
        ],
    }


def _duration(row: Row, now: int) -> int:
    start = row["transactionStartTimestamp"]
    return -1 if row["state"] == "Empty" or start is None else now - start


async def answer_describe_transactions(serving: Serving, request: Request) -> Row:
    """Describe transactional ids."""
    await serving.loaded()
    return await serving.in_thread(_described_transactions, serving, request.body["transactionalIds"])


def _described_transactions(serving: Serving, names: Iterable[str]) -> Row:
    rows = _transactions(serving)
    return {"transactionStates": [_transaction(each, rows.get(each)) for each in names]}


def _transaction(name: str, row: Row | None) -> Row:
    if row is None or row["state"] == "Dead":
        error = Error.TRANSACTIONAL_ID_NOT_FOUND if name else Error.INVALID_REQUEST
        return {"transactionalId": name, "errorCode": error}
    start = row["transactionStartTimestamp"]
    partitions = row["transactionPartitions"]
    return {
        "transactionalId": name,
        "transactionState": row["state"],
        "transactionTimeoutMs": row["transactionTimeoutMs"],
        "transactionStartTimeMs": -1 if start is None else start,
        "producerId": row["producerId"],
        "producerEpoch": row["producerEpoch"],
        "topics": [{"topic": each["topic"], "partitions": each["partitionIds"]} for each in partitions],
    }


def _transactions(serving: Serving) -> Mapping[str, Row]:
    """The transactional ids of the cluster, by name; read once."""
    if serving.transactional_ids is None:
        from brokerless.internals.coordinators import partition_counts
        from brokerless.internals.tables import state_rows

        topic = serving.topics.by_name.get(TRANSACTION_STATE)
        readers = [] if topic is None else [each.paths for each in topic.partitions.values()]
        counts = None if serving.topics.cluster is None else partition_counts(serving.topics.cluster)
        rows = state_rows(readers, ["transactionalIds"], serving.report, counts=counts)["transactionalIds"]
        serving.transactional_ids = {row["transactionalId"]: row for row in rows}
    return serving.transactional_ids


async def answer_users(serving: Serving, request: Request) -> Row:
    """List the users who have a password of SCRAM."""
    await serving.loaded()
    return await serving.in_thread(_users, serving, request)


def _users(serving: Serving, request: Request) -> Row:
    cluster, wanted = serving.topics.cluster, request.body["users"]
    known: dict[str, list[Row]] = {}
    for (user, mechanism), row in sorted({} if cluster is None else cluster.users.items()):
        known.setdefault(user, []).append({"mechanism": mechanism, "iterations": row["iterations"]})
    names = [each["name"] for each in wanted] if wanted else list(known)
    rows: list[Row] = []
    for name, count in Counter(names).items():
        row: Row = {"user": name, "credentialInfos": known.get(name, [])}
        if count > 1:
            row = {"user": name, "errorCode": Error.DUPLICATE_RESOURCE}
        elif name not in known:
            row["errorCode"] = Error.RESOURCE_NOT_FOUND
        rows.append(row)
    return {"results": rows}


async def answer_quotas(serving: Serving, request: Request) -> Row:
    """List quotas, those of some entities or all."""
    await serving.loaded()
    return await serving.in_thread(_quotas, serving, request)


def _quotas(serving: Serving, request: Request) -> Row:
    cluster, body = serving.topics.cluster, request.body
    if len({each["entityType"] for each in body["components"]}) < len(body["components"]):
        return {"errorCode": Error.INVALID_REQUEST, "errorMessage": "a type of entity comes twice", "entries": None}
    values: dict[tuple[tuple[str, str | None], ...], list[Row]] = {}
    for row in [] if cluster is None else cluster.quotas.values():
        entity = tuple((each["entityType"], each["entityName"]) for each in row["entity"])
        if _is_of(dict(entity), body["components"], is_strict=body["strict"]):
            values.setdefault(entity, []).append({"key": row["key"], "value": row["value"]})
    return {
        "entries": [
            {"entity": [{"entityType": type_, "entityName": name} for type_, name in entity], "values": rows}
            for entity, rows in values.items()
        ]
    }


def _is_of(entity: Mapping[str, str | None], components: Iterable[Row], *, is_strict: bool) -> bool:
    wanted = list(components)
    for each in wanted:
        type_ = each["entityType"]
        if type_ not in entity:
            return False
        if each["matchType"] == _EXACT and entity[type_] != each["match"]:
            return False
        if each["matchType"] == _DEFAULT and entity[type_] is not None:
            return False
    return not is_strict or len(entity) == len(wanted)


async def answer_acls(serving: Serving, request: Request) -> Row:
    """List ACLs, all or some."""
    await serving.loaded()
    cluster = serving.topics.cluster
    if cluster is None or not cluster.acls:
        return {"errorCode": Error.SECURITY_DISABLED, "errorMessage": "No Authorizer is configured."}
    acls = list(cluster.acls.values())
    return {"resources": await serving.in_thread(matching_acls, acls, request.body)}


async def answer_quorum(serving: Serving, request: Request) -> Row:
    """Describe the last quorum of the cluster's metadata."""
    return await serving.in_thread(_quorum, serving, request)


def _quorum(serving: Serving, request: Request) -> Row:
    found = next((each for each in serving.topics.metadata_from if each.quorum_state is not None), None)
    if found is None or found.quorum_state is None:
        return {"errorCode": Error.UNSUPPORTED_VERSION, "errorMessage": "There is no quorum on these disks."}
    topics = request.body["topics"]
    if [(each["topicName"], [one["partitionIndex"] for one in each["partitions"]]) for each in topics] != [
        (CLUSTER_METADATA, [0])
    ]:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
        return {
            "topics": [
                {
                    "topicName": each["topicName"],
                    "partitions": [
                        {"partitionIndex": one["partitionIndex"], "errorCode": error} for one in each["partitions"]
                    ],
                }
                for each in topics
            ]
        }
    state = load_quorum_state(found.quorum_state.location)
    try:
        end = end_offset(found) or 0
    except NOT_READ as error:
        return {"errorCode": serving.not_read(found.path, error)}
    leader = -1 if state.leader_id is None else state.leader_id
    voters = state.voters or ((leader,) if leader >= 0 else ())
    partition = {
        "leaderId": leader,
        "leaderEpoch": state.leader_epoch or 0,
        "highWatermark": end,
        "currentVoters": [{"replicaId": each, "logEndOffset": end if each == leader else -1} for each in voters],
    }
    return {"topics": [{"topicName": CLUSTER_METADATA, "partitions": [partition]}]}


async def answer_reassignments(serving: Serving, request: Request) -> Row:
    """Answer that nothing moves."""
    return {}


async def answer_config_resources(serving: Serving, request: Request) -> Row:
    """List what has settings."""
    await serving.loaded()
    return await serving.in_thread(_config_resources, serving, request)


def _config_resources(serving: Serving, request: Request) -> Row:
    all_types = (_TOPIC, _BROKER, _BROKER_LOGGER, _METRICS, _GROUP)
    types = set(request.body.get("resourceTypes", (_METRICS,))) or set(all_types)
    if not types <= set(all_types):
        return {"errorCode": Error.UNSUPPORTED_VERSION}
    cluster, node = serving.topics.cluster, str(serving.node_id)
    known = [] if cluster is None else [(type_, name) for type_, name in cluster.configs if type_ in (_METRICS, _GROUP)]
    found = [*((_TOPIC, name) for name in serving.topics.by_name), (_BROKER, node), (_BROKER_LOGGER, node), *known]
    return {
        "configResources": [{"resourceName": name, "resourceType": type_} for type_, name in found if type_ in types]
    }
