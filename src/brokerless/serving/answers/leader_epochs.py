"""OffsetForLeaderEpoch (2 to 4): where an epoch ended, by which clients see whether a log was truncated (KIP-320).

The epochs are those of the ``leader-epoch-checkpoint``, and the announced one: it ends where the log does.
"""

from __future__ import annotations

from brokerless.serving.context import NOT_READ, Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.partition import ServedPartition
from brokerless.values import Row


async def answer_leader_epochs(serving: Serving, request: Request) -> Row:
    """Find the end of an epoch of each partition."""
    await serving.loaded()
    return await serving.in_thread(_answer, serving, request)


def epoch_error(partition: ServedPartition, current: int) -> Error | None:
    """Return what is wrong with the leader epoch that a client takes for the current one; -1 is none."""
    if current == -1:
        return None
    announced = partition.announced_epoch()
    if current < announced:
        return Error.FENCED_LEADER_EPOCH
    return Error.UNKNOWN_LEADER_EPOCH if current > announced else None


def _answer(serving: Serving, request: Request) -> Row:
    return {
        "topics": [
            {
                "topic": topic["topic"],
                "partitions": [_find(serving, topic["topic"], each) for each in topic["partitions"]],
            }
            for topic in request.body["topics"]
        ]
    }


def _find(serving: Serving, topic: str, wanted: Row) -> Row:
    number = wanted["partition"]
    partition = serving.topics.partition(topic, number)
    if partition is None:
        is_elsewhere = serving.topics.has(topic, number)
        error = Error.NOT_LEADER_OR_FOLLOWER if is_elsewhere else Error.UNKNOWN_TOPIC_OR_PARTITION
        return {"partition": number, "errorCode": error}
    error = epoch_error(partition, wanted["currentLeaderEpoch"])
    if error is not None:
        return {"partition": number, "errorCode": error}
    try:
        epoch, end = partition.end_of_epoch(wanted["leaderEpoch"])
    except NOT_READ as reason:
        return {"partition": number, "errorCode": serving.not_read(partition.paths.path, reason)}
    return {"partition": number, "leaderEpoch": epoch, "endOffset": end}
