"""Which remote segments a start deletes; ``tests/kafka/test_remote_start.py`` asks brokers."""

from __future__ import annotations

from typing import Any

from brokerless.clusters.start.remote_deletions import RemoteDeletion, deletion_line, remote_deletions
from brokerless.internals.remote.storage import RemoteLogSegment, RemoteStorage

SEGMENTS = {("T", 0): [RemoteLogSegment("a", 0, 9, 100, (0,)), RemoteLogSegment("b", 10, 19, 50, (0, 1))]}
STORAGE = RemoteStorage({"T": "orders"}, SEGMENTS, True, SEGMENTS)


def found(**row: Any) -> list[RemoteDeletion]:
    rows = {("T", 0): {"replicas": [1], "isr": [1], "leaderEpoch": 1, **row}}
    return list(remote_deletions(STORAGE, rows, 1, {}, set()))


def test_all_segments_go_where_the_only_replica_begins_again() -> None:
    assert found() == [RemoteDeletion("orders", 0, 2, 0, 19, 150)]
    assert deletion_line(found()).startswith(
        "this start would delete 2 remote segments of tiered topics (orders-0 0..19)"
    )


def test_objects_are_counted_where_the_bucket_is_given() -> None:
    row: dict[str, Any] = {"replicas": [1], "isr": [1], "leaderEpoch": 1}
    objects = {("T", 0): {"a": 5, "b": 6, "orphan": 1}}
    deletions = list(remote_deletions(STORAGE, {("T", 0): row}, 1, {("orders", 0): ((2, 20),)}, set(), objects))
    assert [each.objects for each in deletions] == [11]
    assert "2 remote segments (11 objects) of tiered topics" in deletion_line(deletions)
    assert not list(remote_deletions(STORAGE, {("T", 0): row}, 1, {("orders", 0): ((0, 0),)}, set(), objects))


def test_none_goes_where_another_node_leads_or_nobody_does() -> None:
    assert not found(replicas=[1, 2], isr=[1, 2])
    assert not found(replicas=[2], isr=[2])
    row: dict[str, Any] = {"replicas": [1], "isr": [1], "leaderEpoch": 1}
    assert not list(remote_deletions(STORAGE, {("T", 0): row}, 1, {}, {("orders", 0)}))
