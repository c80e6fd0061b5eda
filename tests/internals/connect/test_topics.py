"""Names of topics that MirrorMaker and Kafka Connect make, and of others."""

from __future__ import annotations

import pytest

from brokerless.internals.connect.topics import TABLES, table_of_topic
from brokerless.internals.schemas import STATE


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("mm2-offset-syncs.west.internal", "mirrorOffsetSyncs"),
        ("mm2-offset-syncs_west_internal", "mirrorOffsetSyncs"),
        ("mm2-offset-syncs.west", None),
        ("west.checkpoints.internal", "mirrorCheckpoints"),
        ("us-west-1.checkpoints.internal", "mirrorCheckpoints"),
        ("checkpoints", None),
        ("heartbeats", None),
        ("mm2-offsets.west.internal", "connectOffsets"),
        ("mm2-configs.west.internal", "connectConfigs"),
        ("mm2-status.west.internal", "connectStatus"),
        ("connect-offsets", "connectOffsets"),
        ("_connect-configs", "connectConfigs"),
        ("docker-connect-status", "connectStatus"),
        ("connect-cluster-offsets", "connectOffsets"),
        ("mirrormaker2-cluster-status", "connectStatus"),
        ("connect_statuses", "connectStatus"),
        ("connect-user-status", None),
        ("reconnect-status", None),
        ("offsets", None),
        ("__consumer_offsets", None),
        (None, None),
    ],
)
def test_topics_are_known_by_their_names(topic: str | None, table: str | None) -> None:
    assert table_of_topic(topic) == table


def test_a_table_that_is_given_counts() -> None:
    given = {"heartbeats": "mirrorHeartbeats", "connect-offsets": "connectConfigs"}
    assert [table_of_topic(each, given) for each in ("heartbeats", "connect-offsets", "connect-status")] == [
        "mirrorHeartbeats", "connectConfigs", "connectStatus",
    ]  # fmt: skip


def test_each_table_has_a_schema() -> None:
    assert set(TABLES) <= STATE.keys()
