"""Finds settings in the cluster's metadata with values that a version of Kafka does not take.

A broker parses those of every topic while it starts, wherever its partitions are, and ends at one that it refuses. Its
own settings and the brokers' defaults are passed over instead (``DynamicBrokerConfig``). Sources: ``LogManager``
(``fetchTopicConfigOverrides``), ``LogConfig`` (3.9.1, 4.4.0). Each was tried with both
(``tests/kafka/test_metadata_start.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.versions import LEVELS, METADATA_VERSION
from brokerless.jobs.restart.replicas import ClusterState
from brokerless.log.settings.definitions import refusal, versions


def refused_settings(state: ClusterState, path: str, version: str) -> Iterator[Finding]:
    """Yield what ``version`` refuses, as errors for topics and warnings for brokers; and what only another version
    refuses that could start with this metadata, as warnings. ``path``: of the metadata."""
    level = state.features.get(METADATA_VERSION, 0)
    for topic, values in state.topic_settings.items():
        for name, value in values.items():
            expected = {each: refusal("topic", name, value, each) for each in versions()}
            refusing = [each for each, text in expected.items() if text is not None]
            alike = ", and so does ".join(f"Kafka {each}" for each in reversed(refusing))
            setting = f"{name} of topic {topic} has a value that ends"
            if expected[version] is not None:
                others = [each for each in versions() if each not in refusing and _starts(each, level)]
                but = f"; Kafka {', '.join(others)} starts with it" if others else ""
                text = f"Kafka {version} ends at its start: {name} of topic {topic} has a value that it refuses{but}"
                yield Finding(
                    "error",
                    Kind.SETTING_REFUSED,
                    path,
                    message=text,
                    expected=expected[version],
                    found=f"{name}={value}",
                )
            elif refusing and any(_starts(each, level) for each in refusing):
                text = f"{setting} {alike} at its start; Kafka {version} takes it"
                words = next(filter(None, expected.values()))
                yield Finding(
                    "warning", Kind.SETTING_REFUSED, path, message=text, expected=words, found=f"{name}={value}"
                )
    yield from _refused_of_brokers(state.broker_settings, path, version)


def _refused_of_brokers(settings: Mapping[str, Mapping[str, str]], path: str, version: str) -> Iterator[Finding]:
    for broker, values in settings.items():
        for name, value in values.items():
            expected = refusal("broker", name, value, version)
            if expected is not None:
                whose = f"broker {broker}" if broker else "all brokers"
                text = f"{name} of {whose} has a value that Kafka {version} refuses: it passes over the settings of "
                text += f"{whose} in the metadata"
                yield Finding(
                    "warning", Kind.SETTING_REFUSED, path, message=text, expected=expected, found=f"{name}={value}"
                )


def _starts(version: str, level: int) -> bool:
    """Return whether a version starts with this ``metadata.version`` at all."""
    least, most = LEVELS[version]
    return least <= level <= most
