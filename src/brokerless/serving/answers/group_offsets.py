"""OffsetCommit (2 to 10) and OffsetFetch (1 to 10): the offsets of groups.

They begin with those of the dead cluster's ``__consumer_offsets``, and are not expired. Offsets of partitions that the
topic does not have are refused (UNKNOWN_TOPIC_OR_PARTITION, or UNKNOWN_TOPIC_ID). What cannot be written to the file
(``--offsets``) is not committed (KAFKA_STORAGE_ERROR).
"""

from __future__ import annotations

from brokerless.errors import UnwritableError
from brokerless.format.messages.layouts import ZERO_UUID
from brokerless.kafka_names import TopicPartition
from brokerless.serving.context import Request, Serving, unhurried
from brokerless.serving.groups.consumer import ConsumerGroup
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.offsets import MOST_METADATA, Committed, now_ms
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.topics import ServedTopic
from brokerless.values import Row

_SINCE_GROUPS, _SINCE_NOT_FOUND, _SINCE_TOPIC_IDS = 8, 9, 10


async def answer_commit(serving: Serving, request: Request) -> Row:
    """Take the offsets that a member, or a consumer without a group's protocol, commits."""
    await serving.loaded()
    error: Error | None = None
    taken: dict[TopicPartition, Committed] = {}
    rows: list[Row] = []
    async for topic in unhurried(request.body["topics"]):
        served = _topic(serving, topic, request.version)
        names = {key: topic[key] for key in ("name", "topicId") if key in topic}
        partitions: list[Row] = []
        async for each in unhurried(topic["partitions"]):
            number = each["partitionIndex"]
            code = _error_of(served, each["partitionIndex"], request.version)
            if code == Error.NONE:  # only then the group is asked
                error = _refusal(serving, request) if error is None else error
                code = error or _error_of_metadata(serving, request.body["groupId"], each["committedMetadata"] or "")
            if code == Error.NONE and served is not None:
                taken[served.name, number] = Committed(
                    each["committedOffset"],
                    each.get("committedLeaderEpoch", -1),
                    each["committedMetadata"] or "",
                    now_ms(),
                )
            partitions.append({"partitionIndex": number, "errorCode": code})
        rows.append({**names, "partitions": partitions})
    try:
        await serving.groups.offsets.commit(request.body["groupId"], taken)
    except UnwritableError:
        for each in (partition for row in rows for partition in row["partitions"]):
            each["errorCode"] = each["errorCode"] or Error.KAFKA_STORAGE_ERROR
    return {"topics": rows}


def _refusal(serving: Serving, request: Request) -> Error:
    """Return why a group does not take a commit."""
    body = request.body
    generation, member_id = body["generationIdOrMemberEpoch"], body["memberId"]
    group = serving.groups.groups.get(body["groupId"])
    try:
        if group is None:
            if generation >= 0:
                return Error.GROUP_ID_NOT_FOUND if request.version >= _SINCE_NOT_FOUND else Error.ILLEGAL_GENERATION
            serving.groups.find_or_make(body["groupId"])
            return Error.NONE
        if generation < 0 and group.state == "Empty":
            return Error.NONE
        if isinstance(group, ConsumerGroup):
            group.member(member_id, generation)
            return Error.NONE if request.version >= _SINCE_NOT_FOUND else Error.UNSUPPORTED_VERSION
        if generation < 0 and not member_id and body.get("groupInstanceId") is None:
            return Error.UNKNOWN_MEMBER_ID
        member = group.member(member_id, body.get("groupInstanceId"))
        if generation != group.generation:
            return Error.ILLEGAL_GENERATION
        if group.state == "CompletingRebalance":
            return Error.REBALANCE_IN_PROGRESS
        group.heartbeat(member, generation)
    except GroupError as error:
        return error.error
    return Error.NONE


def _error_of(topic: ServedTopic | None, number: int, version: int) -> Error:
    if topic is None:
        return Error.UNKNOWN_TOPIC_ID if version >= _SINCE_TOPIC_IDS else Error.UNKNOWN_TOPIC_OR_PARTITION
    return Error.NONE if 0 <= number < topic.count else Error.UNKNOWN_TOPIC_OR_PARTITION


def _error_of_metadata(serving: Serving, group: str, metadata: str) -> Error:
    if len(metadata) > MOST_METADATA:
        return Error.OFFSET_METADATA_TOO_LARGE
    return Error.INVALID_COMMIT_OFFSET_SIZE if serving.groups.offsets.is_full(group, metadata) else Error.NONE


def _topic(serving: Serving, wanted: Row, version: int) -> ServedTopic | None:
    topics = serving.topics
    return topics.by_id.get(wanted["topicId"]) if version >= _SINCE_TOPIC_IDS else topics.by_name.get(wanted["name"])


async def answer_offsets(serving: Serving, request: Request) -> Row:
    """Return what groups have committed, of some partitions or of all."""
    await serving.loaded()
    return await serving.in_thread(_offsets, serving, request)


def _offsets(serving: Serving, request: Request) -> Row:
    body = request.body
    if request.version < _SINCE_GROUPS:
        return {"topics": _committed(serving, body["groupId"], body["topics"], request.version)}
    return {"groups": [_of_group(serving, each, request.version) for each in body["groups"]]}


def _of_group(serving: Serving, wanted: Row, version: int) -> Row:
    group = serving.groups.groups.get(wanted["groupId"])
    member_id, epoch = wanted.get("memberId"), wanted.get("memberEpoch", -1)
    if isinstance(group, ConsumerGroup) and (member_id is not None or epoch >= 0):
        try:
            group.member(member_id or "", epoch)
        except GroupError as error:
            return {"groupId": wanted["groupId"], "errorCode": error.error}
    return {"groupId": wanted["groupId"], "topics": _committed(serving, wanted["groupId"], wanted["topics"], version)}


def _committed(serving: Serving, group: str, topics: list[Row] | None, version: int) -> list[Row]:
    known = serving.groups.offsets.groups.get(group, {})
    if topics is None:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(known):
            numbers.setdefault(topic, []).append(number)
        topics = [{"name": topic, "partitionIndexes": each} for topic, each in numbers.items()]
        if version >= _SINCE_TOPIC_IDS:
            by_name = serving.topics.by_name
            topics = [{"topicId": by_name[each["name"]].topic_id, **each} for each in topics if each["name"] in by_name]
    rows: list[Row] = []
    for topic in topics:
        served = _topic(serving, topic, version)
        name = topic["name"] if version < _SINCE_TOPIC_IDS else "" if served is None else served.name
        is_unknown = version >= _SINCE_TOPIC_IDS and served is None
        rows.append(
            {
                "name": name,
                "topicId": topic.get("topicId", ZERO_UUID),
                "partitions": [
                    _partition(number, known.get((name, number)), is_unknown=is_unknown)
                    for number in topic["partitionIndexes"]
                ],
            }
        )
    return rows


def _partition(number: int, committed: Committed | None, *, is_unknown: bool) -> Row:
    if committed is None:
        error = Error.UNKNOWN_TOPIC_ID if is_unknown else Error.NONE
        return {"partitionIndex": number, "committedOffset": -1, "metadata": "", "errorCode": error}
    return {
        "partitionIndex": number,
        "committedOffset": committed.offset,
        "committedLeaderEpoch": committed.epoch,
        "metadata": committed.metadata,
    }
