from __future__ import annotations

import pytest

from brokerless.serving.groups import coordinator
from brokerless.serving.groups.coordinator import Coordinator
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.offsets import Committed, CommittedOffsets
from brokerless.serving.groups.subscriptions import ServedTopics
from brokerless.serving.source.topics import Topics


def test_groups_of_the_dead_cluster_are_empty() -> None:
    offsets = CommittedOffsets(print)
    offsets.groups["simple"] = {("orders", 0): Committed(5, 1, "", 7)}
    groups = Coordinator(offsets)
    topics = ServedTopics(Topics("any", 1, {}))
    groups.take([{"type": "classic", "group": "old", "epoch": 7, "protocolType": "consumer"}], topics)
    assert {name: (each.state, each.generation) for name, each in groups.groups.items()} == {
        "old": ("Empty", 7),
        "simple": ("Empty", 0),
    }
    with pytest.raises(GroupError):
        groups.find("another")
    with pytest.raises(GroupError):
        groups.find("")


def test_groups_that_nobody_uses_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "MOST_GROUPS", 10)
    groups = Coordinator(CommittedOffsets(print))
    for number in range(1000):
        groups.find_or_make(f"group-{number}")
    assert len(groups.groups) <= 10
