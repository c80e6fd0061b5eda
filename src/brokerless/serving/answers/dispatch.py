"""Which function answers which kind of request."""

from __future__ import annotations

from functools import cache
from typing import Any

from brokerless.serving.answers.api_versions import answer_api_versions
from brokerless.serving.answers.authorization import Answer
from brokerless.serving.answers.configs import answer_configs
from brokerless.serving.answers.consumer_groups import answer_consumer_heartbeat, answer_describe_consumer_groups
from brokerless.serving.answers.descriptions import (
    answer_acls,
    answer_config_resources,
    answer_describe_transactions,
    answer_list_transactions,
    answer_log_dirs,
    answer_producers,
    answer_quorum,
    answer_quotas,
    answer_reassignments,
    answer_users,
)
from brokerless.serving.answers.fetch import answer_fetch
from brokerless.serving.answers.group_members import (
    answer_coordinator,
    answer_describe_groups,
    answer_heartbeat,
    answer_join,
    answer_leave,
    answer_list_groups,
    answer_sync,
)
from brokerless.serving.answers.group_offsets import answer_commit, answer_offsets
from brokerless.serving.answers.leader_epochs import answer_leader_epochs
from brokerless.serving.answers.list_offsets import answer_list_offsets
from brokerless.serving.answers.logins import AUTHENTICATE, HANDSHAKE
from brokerless.serving.answers.metadata import answer_cluster, answer_metadata, answer_topic_partitions
from brokerless.serving.answers.refusals import REFUSED, refuse
from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.tables import Api, apis

WAITING = frozenset({"Fetch", "JoinGroup", "SyncGroup"})
"""Requests whose answer waits for something else than its turn."""


async def _answer_api_versions(serving: Serving, request: Request) -> dict[str, Any]:
    return answer_api_versions(serving, request, (*answered(), *(logins().values() if serving.users else ())))


_ANSWERS: dict[str, Answer] = {
    "ApiVersions": _answer_api_versions,
    "Metadata": answer_metadata,
    "DescribeTopicPartitions": answer_topic_partitions,
    "DescribeCluster": answer_cluster,
    "DescribeConfigs": answer_configs,
    "ListOffsets": answer_list_offsets,
    "Fetch": answer_fetch,
    "OffsetForLeaderEpoch": answer_leader_epochs,
    "FindCoordinator": answer_coordinator,
    "JoinGroup": answer_join,
    "SyncGroup": answer_sync,
    "Heartbeat": answer_heartbeat,
    "LeaveGroup": answer_leave,
    "DescribeGroups": answer_describe_groups,
    "ListGroups": answer_list_groups,
    "ConsumerGroupHeartbeat": answer_consumer_heartbeat,
    "ConsumerGroupDescribe": answer_describe_consumer_groups,
    "OffsetCommit": answer_commit,
    "OffsetFetch": answer_offsets,
    "DescribeLogDirs": answer_log_dirs,
    "DescribeProducers": answer_producers,
    "ListTransactions": answer_list_transactions,
    "DescribeTransactions": answer_describe_transactions,
    "DescribeUserScramCredentials": answer_users,
    "DescribeClientQuotas": answer_quotas,
    "DescribeQuorum": answer_quorum,
    "DescribeAcls": answer_acls,
    "ListPartitionReassignments": answer_reassignments,
    "ListConfigResources": answer_config_resources,
    **dict.fromkeys(REFUSED, refuse),
}


@cache
def answered() -> tuple[Api, ...]:
    """Return the kinds of requests that are answered."""
    return tuple(each for each in apis().values() if each.name in _ANSWERS)


@cache
def logins() -> dict[int, Api]:
    """Return the kinds of requests by which clients log in; a connection answers them itself."""
    return {key: apis()[key] for key in (HANDSHAKE, AUTHENTICATE)}


@cache
def answers() -> dict[int, tuple[Api, Answer]]:
    """Return the APIs by their keys, each with the function that answers."""
    return {each.key: (each, _ANSWERS[each.name]) for each in answered()}
