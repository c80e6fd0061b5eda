"""Applies the dead cluster's ACLs to answers: what a user may not know is left out, or refused as a broker does.

Each kind of request has its rule (``KafkaApis`` and its handlers, 4.4.0): lists are answered in part, what would say
everything says what is allowed, and descriptions of the cluster need an ACL of the cluster. Requests without a rule are
open to all, or refused to all. Left out: a member of KIP-848 that subscribes by a pattern may be assigned topics whose
records it then cannot fetch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeVar

from brokerless.serving.access import (
    CLUSTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    THE_CLUSTER,
    TOPIC,
    TRANSACTIONAL_ID,
)
from brokerless.serving.answers.metadata import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, is_topic_name
from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

_CONFIG_TOPIC, _CONFIG_GROUP = 2, 32
_GROUP_KEY, _TRANSACTION_KEY = 0, 1
_SINCE_KEYS, _SINCE_TOP_LEVEL, _SINCE_GROUPS, _SINCE_NULL = 4, 2, 8, 7
_FAILED = {
    TOPIC: Error.TOPIC_AUTHORIZATION_FAILED,
    GROUP: Error.GROUP_AUTHORIZATION_FAILED,
    CLUSTER: Error.CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID: Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}

ElementT = TypeVar("ElementT")
Answer = Callable[[Serving, Request], Awaitable[Row | None]]


@dataclass(frozen=True, slots=True)
class _Gate:
    serving: Serving
    request: Request
    answer: Answer

    def may(self, operation: int, type_: int, name: str) -> bool:
        access, request = self.serving.access, self.request
        return access is None or access.allows(
            request.user, request.host.lstrip("/"), operation, type_=type_, name=name
        )

    def may_of_cluster(self, operation: int) -> bool:
        return self.may(operation, CLUSTER, THE_CLUSTER)

    def topic(self, wanted: Row) -> str | None:
        """Return the name of a topic of a request; None for an ID that is not known."""
        topic_id = wanted.get("topicId")
        found = None if topic_id is None else self.serving.topics.by_id.get(topic_id)
        if found is not None:
            return found.name
        return wanted.get("name", wanted.get("topic")) or None

    async def answered(self, **changed: Any) -> Row:
        """The answer to the request with a part of its body changed."""
        body = {**self.request.body, **changed}
        return await self.answer(self.serving, replace(self.request, body=body)) or {}

    async def answered_of(self, allowed: Callable[[str], bool], **changed: Any) -> Row:
        """The answer as if there were only some topics, to the request with a part of its body changed."""
        topics = self.serving.topics
        by_name = {name: each for name, each in topics.by_name.items() if allowed(name)}
        serving = replace(self.serving, topics=replace(topics, by_name=by_name))
        request = replace(self.request, body={**self.request.body, **changed})
        return await self.answer(serving, request) or {}

    def operations(self, row: Row, key: str, mask: int, place: tuple[int, str]) -> None:
        """Leaves those operations that are allowed."""
        if row.get(key, -1) >= 0:
            row[key] = sum(1 << each for each in range(32) if mask >> each & 1 and self.may(each, *place))


AccessRule = Callable[[_Gate], Awaitable[Row | None]]


async def answer_allowed(serving: Serving, request: Request, answer: Answer) -> Row | None:
    """Answer what the user may know."""
    rule = None if serving.access is None else _RULES.get(request.api.name)
    if rule is None:
        return await answer(serving, request)
    await serving.loaded()
    return await rule(_Gate(serving, request, answer))


def _parted(elements: Iterable[ElementT], holds: Callable[[ElementT], bool]) -> tuple[list[ElementT], list[ElementT]]:
    """Elements for which something holds, and the others."""
    parts: tuple[list[ElementT], list[ElementT]] = [], []
    for each in elements:
        parts[not holds(each)].append(each)
    return parts


def _topics(operation: int, wanted: str, given: str, refused: Callable[[Row], Row], **changed: Any) -> AccessRule:
    """Topics that are refused come after those that are answered. ``changed``: of the request, where some are."""

    async def rule(gate: _Gate) -> Row:
        allowed: list[Row] = []
        others: list[Row] = []
        for each in gate.request.body[wanted]:
            name = gate.topic(each)
            (allowed if name is None or gate.may(operation, TOPIC, name) else others).append(each)
        answer = await gate.answered(**{wanted: allowed, **(changed if others else {})})
        if not answer.get("errorCode"):
            answer[given] = [*answer.get(given, ()), *(_named(each) | refused(each) for each in others)]
        return answer

    return rule


def _partitions(number: str, **values: Any) -> Callable[[Row], Row]:
    """Makes the rows of refused partitions, which are listed as rows with ``number`` or as numbers."""

    def rows(topic: Row) -> Row:
        listed: Sequence[Any] = topic["partitionIndexes"] if "partitionIndexes" in topic else topic["partitions"]
        numbers = [each if isinstance(each, int) else each[_number_of(each)] for each in listed]
        return {"partitions": [{number: each, "errorCode": _FAILED[TOPIC], **values} for each in numbers]}

    return rows


def _number_of(partition: Row) -> str:
    return "partitionIndex" if "partitionIndex" in partition else "partition"


def _named(topic: Row) -> Row:
    return {key: topic[key] for key in ("name", "topic", "topicId") if key in topic}


def _of_cluster(operation: int, **refused: Any) -> AccessRule:
    async def rule(gate: _Gate) -> Row:
        if gate.may_of_cluster(operation):
            return await gate.answered()
        return {"errorCode": _FAILED[CLUSTER], **refused}

    return rule


async def _users(gate: _Gate) -> Row:
    """Return as many refusals as names in the request, none of which is in them (``getErrorResponse``)."""
    if gate.may_of_cluster(DESCRIBE):
        return await gate.answered()
    error = _FAILED[CLUSTER]
    return {"errorCode": error, "results": [{"errorCode": error} for _ in gate.request.body["users"] or ()]}


async def _metadata(gate: _Gate) -> Row:
    body, version = gate.request.body, gate.request.version
    wanted = body["topics"]
    refused: list[Row] = []
    if wanted is None or (version == 0 and not wanted):
        answer = await gate.answered_of(lambda name: gate.may(DESCRIBE, TOPIC, name))
    else:
        allowed: list[Row] = []
        for each in wanted:
            name = gate.topic(each)
            if name is None or gate.may(DESCRIBE, TOPIC, name):
                allowed.append(each)
            else:
                is_by_id = each.get("name") is None
                place = {"topicId": each["topicId"]} if is_by_id else {}
                refused.append({"errorCode": _FAILED[TOPIC], "name": None if is_by_id else name, **place})
        if allowed or version:
            answer = await gate.answered(topics=allowed)
        else:  # an empty list is everything
            answer = await gate.answered_of(lambda _: False, topics=[])
    for row in answer["topics"]:
        gate.operations(row, "topicAuthorizedOperations", TOPIC_OPERATIONS, (TOPIC, row["name"] or ""))
    answer["topics"] += refused
    return _with_cluster_operations(gate, answer)


def _with_cluster_operations(gate: _Gate, answer: Row) -> Row:
    mask = CLUSTER_OPERATIONS if gate.may_of_cluster(DESCRIBE) else 0
    gate.operations(answer, "clusterAuthorizedOperations", mask, (CLUSTER, THE_CLUSTER))
    return answer


async def _cluster(gate: _Gate) -> Row:
    return _with_cluster_operations(gate, await gate.answered())


async def _topic_partitions(gate: _Gate) -> Row:
    body = gate.request.body
    names = {each["name"] for each in body["topics"]}
    refused = {each for each in names if not gate.may(DESCRIBE, TOPIC, each)}
    cursor = body["cursor"]
    first = "" if cursor is None else cursor["topicName"]
    if cursor is not None and (cursor["partitionIndex"] < 0 or (names and first not in names)):
        return await gate.answered()  # which is wrong, and said first
    if not names:
        answer = await gate.answered_of(lambda name: gate.may(DESCRIBE, TOPIC, name))
    elif not (allowed := sorted(each for each in names - refused if each >= first)):
        answer = {"topics": []}
    else:
        cursor = None if first in refused else cursor
        answer = await gate.answered(topics=[{"name": each} for each in allowed], cursor=cursor)
    for row in answer["topics"]:
        gate.operations(row, "topicAuthorizedOperations", TOPIC_OPERATIONS, (TOPIC, row["name"]))
    answer["topics"] += [{"errorCode": _FAILED[TOPIC], "name": each} for each in sorted(refused) if each >= first]
    return answer


def _of_group(**refused: Any) -> AccessRule:
    async def rule(gate: _Gate) -> Row:
        body = gate.request.body
        if not gate.may(READ, GROUP, body["groupId"]):
            return {"errorCode": _FAILED[GROUP], **refused}
        names = body.get("subscribedTopicNames") or ()
        if not all(gate.may(DESCRIBE, TOPIC, each) for each in names):
            return {"errorCode": _FAILED[TOPIC]}
        return await gate.answered()

    return rule


async def _join(gate: _Gate) -> Row:
    name = None if gate.request.version >= _SINCE_NULL else ""
    return await _of_group(protocolName=name)(gate) or {}


async def _commit(gate: _Gate) -> Row:
    if gate.may(READ, GROUP, gate.request.body["groupId"]):
        return await _topics(READ, "topics", "topics", _partitions("partitionIndex"))(gate) or {}
    rows = [_named(each) | _partitions("partitionIndex")(each) for each in gate.request.body["topics"]]
    for each in (partition for row in rows for partition in row["partitions"]):
        each["errorCode"] = _FAILED[GROUP]
    return {"topics": rows}


async def _offsets(gate: _Gate) -> Row:
    body, version = gate.request.body, gate.request.version
    if version < _SINCE_GROUPS:
        row, refused = _of_offsets(gate, body)
        if row is not None:
            return row
        answer = await gate.answered(topics=refused[0])
        answer["topics"] = _allowed_topics(gate, answer["topics"]) + refused[1]
        return answer
    rows: list[Row] = []
    for each in body["groups"]:
        row, (allowed, refused) = _of_offsets(gate, each)
        if row is None:
            (row,) = (await gate.answered(groups=[{**each, "topics": allowed}]))["groups"]
            if not row.get("errorCode"):
                row["topics"] = _allowed_topics(gate, row["topics"]) + refused
        rows.append(row)
    return {"groups": rows}


def _of_offsets(gate: _Gate, wanted: Row) -> tuple[Row | None, tuple[list[Row] | None, list[Row]]]:
    """The answer about one group that is refused; and of its topics those to answer, and the rows of the others."""
    rows = _partitions("partitionIndex", committedOffset=-1, metadata="")
    if not gate.may(DESCRIBE, GROUP, wanted["groupId"]):
        if gate.request.version >= _SINCE_TOP_LEVEL:
            return {"groupId": wanted["groupId"], "errorCode": _FAILED[GROUP], "topics": []}, (None, [])
        topics = [{"name": each["name"], **rows(each)} for each in wanted["topics"]]
        for each in (partition for row in topics for partition in row["partitions"]):
            each["errorCode"] = _FAILED[GROUP]
        return {"topics": topics}, (None, [])
    if wanted["topics"] is None:
        return None, (None, [])
    allowed: list[Row] = []
    refused: list[Row] = []
    for each in wanted["topics"]:
        name = gate.topic(each)
        if name is None or gate.may(DESCRIBE, TOPIC, name):
            allowed.append(each)
        else:
            refused.append(_named(each) | rows(each))
    return None, (allowed, refused)


def _allowed_topics(gate: _Gate, rows: list[Row]) -> list[Row]:
    names = [(gate.topic(each), each) for each in rows]
    return [each for name, each in names if name is None or gate.may(DESCRIBE, TOPIC, name)]


async def _describe_groups(gate: _Gate) -> Row:
    key = "groups" if "groups" in gate.request.body else "groupIds"
    wanted: list[str] = gate.request.body[key]
    allowed, refused = _parted(wanted, lambda each: gate.may(DESCRIBE, GROUP, each))
    answer = await gate.answered(**{key: allowed})
    rows: list[Row] = []
    for row in answer["groups"]:
        gate.operations(row, "authorizedOperations", 1 << READ | 1 << DESCRIBE, (GROUP, row["groupId"]))
        rows.append(row if _knows_topics(gate, row) else {"groupId": row["groupId"], "errorCode": _FAILED[TOPIC]})
    rows += [{"groupId": each, "errorCode": _FAILED[GROUP]} for each in refused]
    return {"groups": rows}


def _knows_topics(gate: _Gate, group: Row) -> bool:
    """Return whether a user may know all topics that the members of a group of KIP-848 have."""
    assigned = [
        each[key] for each in group.get("members", ()) for key in ("assignment", "targetAssignment") if key in each
    ]
    named = (place["topicName"] for each in assigned for place in each["topicPartitions"])
    return all(gate.may(DESCRIBE, TOPIC, each) for each in named)


async def _list_groups(gate: _Gate) -> Row:
    answer = await gate.answered()
    if not gate.may_of_cluster(DESCRIBE):
        answer["groups"] = [each for each in answer["groups"] if gate.may(DESCRIBE, GROUP, each["groupId"])]
    return answer


async def _coordinator(gate: _Gate) -> Row:
    body = gate.request.body
    type_ = {_GROUP_KEY: GROUP, _TRANSACTION_KEY: TRANSACTIONAL_ID}.get(body.get("keyType", _GROUP_KEY))
    if type_ is None:
        return await gate.answered()
    nobody = {"nodeId": -1, "host": "", "port": -1, "errorCode": _FAILED[type_]}
    if gate.request.version < _SINCE_KEYS:
        return await gate.answered() if gate.may(DESCRIBE, type_, body["key"]) else nobody
    allowed, refused = _parted(body["coordinatorKeys"], lambda each: gate.may(DESCRIBE, type_, each))
    answer = await gate.answered(coordinatorKeys=allowed)
    answer["coordinators"] += [{"key": each, **nobody} for each in refused]
    return answer


async def _configs(gate: _Gate) -> Row:
    allowed: list[Row] = []
    refused: list[Row] = []
    for each in gate.request.body["resources"]:
        place = {_CONFIG_TOPIC: (TOPIC, each["resourceName"]), _CONFIG_GROUP: (GROUP, each["resourceName"])}.get(
            each["resourceType"], (CLUSTER, THE_CLUSTER)
        )
        if gate.may(DESCRIBE_CONFIGS, *place):
            allowed.append(each)
        else:
            row = {key: each[key] for key in ("resourceType", "resourceName")}
            refused.append({**row, "errorCode": _FAILED[place[0]], "errorMessage": None})
    answer = await gate.answered(resources=allowed)
    answer["results"] = chain(answer["results"], refused)
    return answer


async def _list_transactions(gate: _Gate) -> Row:
    answer = await gate.answered()
    rows = answer.get("transactionStates", ())
    answer["transactionStates"] = [
        each for each in rows if gate.may(DESCRIBE, TRANSACTIONAL_ID, each["transactionalId"])
    ]
    return answer


async def _describe_transactions(gate: _Gate) -> Row:
    wanted: list[str] = gate.request.body["transactionalIds"]
    allowed, refused = _parted(wanted, lambda each: gate.may(DESCRIBE, TRANSACTIONAL_ID, each))
    answer = await gate.answered(transactionalIds=allowed)
    for row in answer["transactionStates"]:
        row["topics"] = [each for each in row.get("topics", ()) if gate.may(DESCRIBE, TOPIC, each["topic"])]
    error = _FAILED[TRANSACTIONAL_ID]
    answer["transactionStates"] += [{"transactionalId": each, "errorCode": error} for each in refused]
    return answer


async def _producers(gate: _Gate) -> Row:
    rule = _topics(READ, "topics", "topics", _partitions("partitionIndex"))
    nameable, unnameable = _parted(gate.request.body["topics"], lambda each: is_topic_name(each["name"]))
    answer = await gate.answered(topics=unnameable)  # which is said first
    others = {**gate.request.body, "topics": nameable}
    answered = await rule(replace(gate, request=replace(gate.request, body=others)))
    return {"topics": [*answer["topics"], *(answered or {"topics": []})["topics"]]}


_RULES: dict[str, AccessRule] = {
    "Metadata": _metadata,
    "DescribeTopicPartitions": _topic_partitions,
    "DescribeCluster": _cluster,
    "DescribeConfigs": _configs,
    "ListOffsets": _topics(
        DESCRIBE, "topics", "topics", _partitions("partitionIndex", timestamp=-1, offset=-1, leaderEpoch=-1)
    ),
    "Fetch": _topics(
        READ, "topics", "responses", _partitions("partitionIndex", highWatermark=-1, records=[]), maxWaitMs=0
    ),
    "OffsetForLeaderEpoch": _topics(DESCRIBE, "topics", "topics", _partitions("partition")),
    "DescribeProducers": _producers,
    "FindCoordinator": _coordinator,
    "JoinGroup": _join,
    "SyncGroup": _of_group(),
    "Heartbeat": _of_group(),
    "LeaveGroup": _of_group(),
    "ConsumerGroupHeartbeat": _of_group(),
    "DescribeGroups": _describe_groups,
    "ConsumerGroupDescribe": _describe_groups,
    "ListGroups": _list_groups,
    "OffsetCommit": _commit,
    "OffsetFetch": _offsets,
    "DescribeLogDirs": _of_cluster(DESCRIBE, results=[]),
    "ListTransactions": _list_transactions,
    "DescribeTransactions": _describe_transactions,
    "DescribeUserScramCredentials": _users,
    "DescribeClientQuotas": _of_cluster(DESCRIBE_CONFIGS, entries=None),
    "DescribeAcls": _of_cluster(DESCRIBE),
    "DescribeQuorum": _of_cluster(DESCRIBE),
    "ListPartitionReassignments": _of_cluster(DESCRIBE),
    "ListConfigResources": _of_cluster(DESCRIBE_CONFIGS),
}
