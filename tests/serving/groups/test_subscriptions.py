from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.groups.subscriptions import ServedTopics
from brokerless.serving.source.topics import load_topics

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_names_and_patterns() -> None:
    topics = load_topics([resolve(Location(str(DEMO)))], pytest.fail)
    ids = {name: each.topic_id for name, each in topics.by_name.items()}
    served = ServedTopics(topics)
    assert served.match({"orders", "none"}, "") == {ids["orders"]}
    assert served.match(set(), "(or|us).*s") == {ids["orders"], ids["users"]}
    assert served.match({"payments"}, "order") == {ids["payments"]}
    assert served.counts()[ids["orders"]] == 3
    for wrong in ("(", "x" * 2000):
        with pytest.raises(GroupError):
            served.match(set(), wrong)
