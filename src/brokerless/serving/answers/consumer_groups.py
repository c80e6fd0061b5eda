"""The group protocol of KIP-848: ConsumerGroupHeartbeat and ConsumerGroupDescribe (0 and 1).

A group whose members are gone may go over from one protocol to the other; one with members may not, as with a broker
whose ``group.consumer.migration.policy`` is ``disabled``.
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections.abc import Set

from brokerless.format.messages.layouts import ZERO_UUID
from brokerless.kafka_names import TopicPartition
from brokerless.serving.answers.metadata import DESCRIBE, NOT_REQUESTED, READ
from brokerless.serving.context import Request, Serving, unhurried
from brokerless.serving.groups.assignors import ASSIGNORS
from brokerless.serving.groups.consumer import LEFT_FOR_NOW, ConsumerGroup, ConsumerMember, Heartbeat, by_topic
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.subscriptions import ServedTopics
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.topics import Topics
from brokerless.values import Row

_CONSUMER = 1
"""``memberType`` of a member of this protocol."""
_OPERATIONS = 1 << READ | 1 << DESCRIBE


async def answer_consumer_heartbeat(serving: Serving, request: Request) -> Row:
    """Take a member into its group, or hear that it is there."""
    await serving.loaded()
    body = request.body
    try:
        _check(request)
        group = serving.groups.consumer_group(
            body["groupId"], ServedTopics(serving.topics), is_joining=body["memberEpoch"] == 0
        )
        return group.heartbeat(_heartbeat(request))
    except GroupError as error:
        return {"errorCode": error.error, "errorMessage": error.error.name}


def _check(request: Request) -> None:
    """``GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid``."""
    body, epoch = request.body, request.body["memberEpoch"]
    is_named = bool(body["memberId"]) or (epoch == 0 and request.version == 0)
    is_wrong = not body["groupId"] or not is_named or "" in (body["instanceId"], body["rackId"]) or epoch < LEFT_FOR_NOW
    if epoch == 0:
        has_subscription = body["subscribedTopicNames"] is not None or bool(body.get("subscribedTopicRegex"))
        is_wrong |= body["rebalanceTimeoutMs"] == -1 or body["topicPartitions"] != [] or not has_subscription
    is_wrong |= epoch == LEFT_FOR_NOW and body["instanceId"] is None
    if is_wrong:
        raise GroupError(Error.INVALID_REQUEST)
    if body["serverAssignor"] not in (None, *ASSIGNORS):
        raise GroupError(Error.UNSUPPORTED_ASSIGNOR)


def _heartbeat(request: Request) -> Heartbeat:
    body = request.body
    names, owned = body["subscribedTopicNames"], body["topicPartitions"]
    own_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return Heartbeat(
        body["memberId"] or own_id,
        body["memberEpoch"],
        body["instanceId"],
        rack_id=body["rackId"],
        rebalance_ms=body["rebalanceTimeoutMs"],
        names=None if names is None else frozenset(names),
        regex=body.get("subscribedTopicRegex"),
        assignor=body["serverAssignor"],
        owned=None
        if owned is None
        else frozenset((each["topicId"], number) for each in owned for number in each["partitions"]),
        client_id=request.client_id,
        host=request.host,
    )


async def answer_describe_consumer_groups(serving: Serving, request: Request) -> Row:
    """Describe groups of this protocol."""
    await serving.loaded()
    operations = _OPERATIONS if request.body["includeAuthorizedOperations"] else NOT_REQUESTED
    rows: list[Row] = []
    async for group_id in unhurried(request.body["groupIds"]):
        group = serving.groups.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            rows.append(_described(group, serving.topics) | {"authorizedOperations": operations})
        else:
            error = Error.GROUP_ID_NOT_FOUND if group_id else Error.INVALID_GROUP_ID
            what = "not found" if group is None else "is not a consumer group"
            text = f"Group {group_id} {what}."
            rows.append({"groupId": group_id, "errorCode": error, "errorMessage": text})
    return {"groups": rows}


def _described(group: ConsumerGroup, topics: Topics) -> Row:
    return {
        "groupId": group.group_id,
        "groupState": group.state,
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.target_epoch,
        "assignorName": group.assignor,
        "members": [_member(each, group.target.get(each.member_id, set()), topics) for each in group.members.values()],
    }


def _member(member: ConsumerMember, target: set[TopicPartition], topics: Topics) -> Row:
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "rackId": member.rack_id,
        "memberEpoch": member.epoch,
        "clientId": member.client_id,
        "clientHost": member.host,
        "subscribedTopicNames": sorted(member.names),
        "subscribedTopicRegex": member.regex,
        "assignment": {"topicPartitions": _named(member.assigned, topics)},
        "targetAssignment": {"topicPartitions": _named(target, topics)},
        "memberType": _CONSUMER,
    }


def _named(places: Set[TopicPartition], topics: Topics) -> list[Row]:
    found = by_topic(places)
    return [{**each, "topicName": topics.by_id[each["topicId"]].name} for each in found if each["topicId"] != ZERO_UUID]
