"""Settings that a version refuses, in the metadata's state; ``tests/kafka/test_metadata_start.py`` starts brokers."""

from __future__ import annotations

from brokerless.clusters.start.refused_settings import refused_settings
from brokerless.internals.metadata.cluster import Cluster, ResourceType

BOTH, ONLY_NEWEST = {"metadata.version": 21}, {"metadata.version": 33}


def found(version: str, features: dict[str, int], **settings: str) -> list[tuple[str, str]]:
    values = {name.replace("_", "."): value for name, value in settings.items()}
    state = Cluster(topics={"id": "orders"}, configs={(ResourceType.TOPIC, "orders"): values}, features=features)
    return [(each.severity, each.message) for each in refused_settings(state, "/data", version)]


def test_the_version_that_starts_decides_and_the_other_is_named() -> None:
    ((severity, text),) = found("4.4.0", BOTH, segment_bytes="16384")
    assert severity == "error"
    assert text == (
        "Kafka 4.4.0 ends at its start: segment.bytes of topic orders has a value that it refuses; Kafka 3.9 and 4.0 "
        "can start with it"
    )
    ((severity, text),) = found("3.9.1", BOTH, segment_bytes="16384")
    assert severity == "warning"
    assert (
        text
        == "segment.bytes of topic orders has a value that ends Kafka 4.1 to 4.4 at its start; Kafka 3.9.1 takes it"
    )


def test_a_version_that_cannot_start_with_the_metadata_is_not_named() -> None:
    ((_, text),) = found("4.4.0", ONLY_NEWEST, segment_bytes="16384")
    assert text.endswith("has a value that it refuses")


def test_what_is_refused_by_all_and_by_none() -> None:
    assert [severity for severity, _ in found("3.9.1", BOTH, compression_type="none")] == ["error"]
    assert not found("3.9.1", BOTH, segment_bytes="1048576", any_setting="any", retention_ms="-1")


def test_settings_of_brokers_are_passed_over_by_brokers() -> None:
    broker = ResourceType.BROKER
    state = Cluster(configs={(broker, ""): {"log.segment.bytes": "5"}, (broker, "1"): {"log.retention.ms": "soon"}})
    texts = [(each.severity, each.message) for each in refused_settings(state, "/data", "4.4.0")]
    assert [severity for severity, _ in texts] == ["warning"] * 2
    assert "log.segment.bytes of all brokers has a value that Kafka 4.4.0 refuses" in texts[0][1]
    assert "log.retention.ms of broker 1 has a value" in texts[1][1]
