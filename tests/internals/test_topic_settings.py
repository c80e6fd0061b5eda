"""A topic's setting comes from the topic, or its broker, or all brokers, in this order, as Kafka has it
(``ConfigHelper``); with a real broker in ``tests/kafka/test_compacted.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import broker_data

from brokerless.internals import topic_settings
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.topic_settings import read_topic_setting
from brokerless.log.storage.location import Location

NAME, OF_BROKER = "delete.retention.ms", "log.cleaner.delete.retention.ms"
TOPIC, BROKER = 2, 4


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, None),
        ({(BROKER, ""): {OF_BROKER: "1"}}, "1"),
        ({(BROKER, ""): {f"log.{NAME}": "1"}}, None),
        ({(BROKER, ""): {OF_BROKER: "1"}, (BROKER, "NODE"): {OF_BROKER: "2"}}, "2"),
        ({(BROKER, ""): {OF_BROKER: "1"}, (BROKER, "99"): {OF_BROKER: "2"}}, "1"),
        ({(TOPIC, "edges"): {NAME: "3"}, (BROKER, "NODE"): {OF_BROKER: "2"}}, "3"),
    ],
)
def test_the_nearest_setting_counts(
    configs: dict[tuple[int, str], dict[str, str]], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory: Path = broker_data("clean")
    properties = dict(
        line.split("=", 1) for line in (directory / "meta.properties").read_text().splitlines() if "=" in line
    )
    named = {
        (kind, properties["node.id"] if name == "NODE" else name): settings
        for (kind, name), settings in configs.items()
    }
    cluster = Cluster()
    cluster.add_topic("id", "edges")
    cluster.configs.update(named)
    monkeypatch.setattr(topic_settings, "_clusters", lambda _path, _files: cluster)  # type: ignore[reportUnknownLambdaType]
    assert read_topic_setting(Location(str(directory / "edges-0")), "edges", NAME) == expected
