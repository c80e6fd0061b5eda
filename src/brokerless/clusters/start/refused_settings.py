"""Finds settings in the cluster's metadata with values that a version of Kafka does not take.

A broker parses those of every topic while it starts, wherever its partitions are, and ends at one that it refuses. Its
own settings and the brokers' defaults are passed over instead (``DynamicBrokerConfig``). Sources: ``LogManager``
(``fetchTopicConfigOverrides``), ``LogConfig`` (3.9 to 4.4). Each was tried
(``tests/kafka/test_metadata_start.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.internals.metadata.versions import METADATA_VERSION, starts_with
from brokerless.log.settings.definitions import describe_versions, refusal, versions


def refused_settings(cluster: Cluster, path: str, version: str) -> Iterator[Finding]:
    """Yield what ``version`` refuses, as errors for topics and warnings for brokers; and what only another version
    refuses that could start with this metadata, as warnings. ``path``: of the metadata."""
    level = cluster.features.get(METADATA_VERSION, 0)
    starting = [each for each in versions() if starts_with(each, level)]
    for topic in cluster.topics.values():
        for name, value in cluster.settings_of(topic).items():
            expected = {each: refusal("topic", name, value, each) for each in versions()}
            taking = [each for each in starting if expected[each] is None]
            refusing = [each for each in starting if expected[each] is not None]
            found, own = f"{name}={value}", expected[version]
            if own is not None:
                but = f"; Kafka {describe_versions(taking)} can start with it" if taking else ""
                text = f"Kafka {version} ends at its start: {name} of topic {topic} has a value that it refuses{but}"
                yield Kind.SETTING_REFUSED.at(path, text, severity="error", expected=own, found=found)
            elif refusing:
                text = (
                    f"{name} of topic {topic} has a value that ends Kafka {describe_versions(refusing)} at its start; "
                )
                text += f"Kafka {version} takes it"
                words = expected[refusing[-1]]
                yield Kind.SETTING_REFUSED.at(path, text, severity="warning", expected=words, found=found)
    yield from _refused_of_brokers(_broker_settings(cluster), path, version)


def _broker_settings(cluster: Cluster) -> dict[str, dict[str, str]]:
    """By node ID as text; those of all brokers by none."""
    return {name: values for (type_, name), values in cluster.configs.items() if type_ == ResourceType.BROKER}


def _refused_of_brokers(settings: Mapping[str, Mapping[str, str]], path: str, version: str) -> Iterator[Finding]:
    for broker, values in settings.items():
        for name, value in values.items():
            expected = refusal("broker", name, value, version)
            if expected is not None:
                whose = f"broker {broker}" if broker else "all brokers"
                text = f"{name} of {whose} has a value that Kafka {version} refuses: it passes over the settings of "
                text += f"{whose} in the metadata"
                yield Kind.SETTING_REFUSED.at(
                    path, text, severity="warning", expected=expected, found=f"{name}={value}"
                )
