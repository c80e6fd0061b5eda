"""Oracle: Kafka's own definitions, printed and asked by Java; ``tests/kafka/test_metadata_start.py`` starts brokers.

Of two versions, whose jars other tests need as well; of all six in ``make recorded``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.generate_setting_definitions import TARGET, as_text, definitions
from tests.kafka.jars import NEWEST, OLD_FORMATS, jars
from tests.kafka.recorded_starts import ASK_ALWAYS

from brokerless.errors import UsageError
from brokerless.log.settings.definitions import (
    SettingKind,
    describe_versions,
    find_version,
    refusal,
    settings_of,
    versions,
)

SINCE_4_1 = ("4.1.2", "4.2.2", "4.3.1", "4.4.0")


KINDS: tuple[SettingKind, ...] = ("topic", "broker", "group")
ASKED = versions() if ASK_ALWAYS else (OLD_FORMATS, NEWEST)


@pytest.mark.slow
@pytest.mark.parametrize("version", ASKED)
def test_the_definitions_are_those_in_kafkas_jars(version: str, kafka_jars: Path) -> None:
    of_kafka = definitions(jars(version))
    assert {kind: of_kafka.get(kind, {}) for kind in KINDS} == {kind: settings_of(kind, version) for kind in KINDS}


def test_the_file_is_as_its_program_writes_it() -> None:
    of_versions = {version: {kind: settings_of(kind, version) for kind in KINDS} for version in versions()}
    assert as_text(of_versions) == TARGET.read_text()
    assert (versions()[0], versions()[-1]) == (OLD_FORMATS, NEWEST)


@pytest.mark.parametrize(
    ("name", "value", "refusing"),
    [
        ("segment.bytes", "1048575", SINCE_4_1),
        ("segment.bytes", "1048576", ()),
        ("segment.bytes", "13", versions()),
        ("segment.bytes", " +2097152 ", ()),
        ("segment.bytes", "2147483648", versions()),
        ("segment.bytes", "1.5e6", versions()),
        ("retention.ms", "-1", ()),
        ("retention.ms", "-2", versions()),
        ("retention.ms", "", versions()),
        ("compression.type", "none", versions()),
        ("compression.type", "uncompressed", ()),
        ("compression.gzip.level", "-1", ()),
        ("compression.gzip.level", "0", versions()),
        ("min.cleanable.dirty.ratio", "1.1", versions()),
        ("min.cleanable.dirty.ratio", "5e-1", ()),
        ("min.cleanable.dirty.ratio", "half", versions()),
        ("preallocate", "TRUE", ()),
        ("preallocate", "1", versions()),
        ("cleanup.policy", "compact , delete", ()),
        ("cleanup.policy", "compact,gone", versions()),
        ("leader.replication.throttled.replicas", "0:1,1:2", ()),
        ("leader.replication.throttled.replicas", "0", versions()),
        ("any.setting", "any", ()),
    ],
)
def test_values_that_a_version_refuses(name: str, value: str, refusing: tuple[str, ...]) -> None:
    assert tuple(each for each in versions() if refusal("topic", name, value, each) is not None) == refusing


def test_settings_of_brokers_have_definitions_of_their_own() -> None:
    assert refusal("broker", "log.segment.bytes", "5", NEWEST) == "1048576 or more"
    assert refusal("topic", "log.segment.bytes", "5", NEWEST) is None
    assert "message.format.version" in settings_of("topic", OLD_FORMATS)
    assert "message.format.version" not in settings_of("topic", NEWEST)


def test_a_setting_is_defined_as_the_last_version_before_changed_it() -> None:
    assert [each for each in versions() if settings_of("topic", each)["cleanup.policy"].get("mayBeEmpty")] == [
        *SINCE_4_1[1:]
    ]
    assert [each for each in versions() if "internal.segment.bytes" in settings_of("topic", each)] == [*SINCE_4_1]


def test_a_version_is_found_by_its_first_two_numbers() -> None:
    assert [find_version(each) for each in ("3.9", "4.1", "4.4", "4.4.0")] == [OLD_FORMATS, "4.1.2", NEWEST, NEWEST]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("2.8", ". Starts of older ones were not recorded: 3.9 says what an upgrade to it makes of the directory"),
        ("3.5.1", ". Starts of older ones were not recorded: 3.9 says what an upgrade to it makes of the directory"),
        ("4.1.0", "; the nearest is 4.1"),
        ("4.10", "; the nearest is 4.4"),
        ("5.0", "; the nearest is 4.4"),
        *((text, "") for text in ("newest", "", "4", "4.x", "4.4.0.1", "4.\u0664", "9" * 5000 + ".1")),
    ],
)
def test_a_version_that_is_not_known_is_refused_with_what_to_ask_for(text: str, end: str) -> None:
    known = "3.9 (3.9.1), 4.0 (4.0.2), 4.1 (4.1.2), 4.2 (4.2.2), 4.3 (4.3.1), 4.4 (4.4.0)"
    with pytest.raises(UsageError) as refused:
        find_version(text)
    assert str(refused.value) == f"the rules of Kafka {text!r} are not known; known are {known}{end}"


def test_versions_that_follow_each_other_are_said_as_one() -> None:
    assert describe_versions(versions()) == "3.9 to 4.4"
    assert describe_versions(["3.9.1", "4.1.2", "4.2.2", "4.3.1"]) == "3.9 and 4.1 to 4.3"
    assert describe_versions(["4.1.2", "4.0.2"]) == "4.0 and 4.1"
    assert describe_versions(["4.0.2"]) == "4.0"
