"""Oracle: Kafka's own definitions, printed and asked by Java; ``tests/kafka/test_metadata_start.py`` starts brokers."""

from __future__ import annotations

import pytest
from scripts.generate_setting_definitions import TARGET, generate
from tests.kafka.jars import NEWEST, OLD_FORMATS, KafkaUnavailableError, jars

from brokerless.errors import UsageError
from brokerless.log.settings.definitions import find_version, is_defined, refusal, versions


@pytest.mark.slow
def test_the_definitions_are_those_in_kafkas_jars() -> None:
    try:
        directories = [jars(version) for version in (OLD_FORMATS, NEWEST)]
    except KafkaUnavailableError as error:
        pytest.skip(str(error))
    assert generate(directories) == TARGET.read_text()
    assert versions() == (OLD_FORMATS, NEWEST)


@pytest.mark.parametrize(
    ("name", "value", "refusing"),
    [
        ("segment.bytes", "1048575", (NEWEST,)),
        ("segment.bytes", "1048576", ()),
        ("segment.bytes", "13", (OLD_FORMATS, NEWEST)),
        ("segment.bytes", " +2097152 ", ()),
        ("segment.bytes", "2147483648", (OLD_FORMATS, NEWEST)),
        ("segment.bytes", "1.5e6", (OLD_FORMATS, NEWEST)),
        ("retention.ms", "-1", ()),
        ("retention.ms", "-2", (OLD_FORMATS, NEWEST)),
        ("retention.ms", "", (OLD_FORMATS, NEWEST)),
        ("compression.type", "none", (OLD_FORMATS, NEWEST)),
        ("compression.type", "uncompressed", ()),
        ("compression.gzip.level", "-1", ()),
        ("compression.gzip.level", "0", (OLD_FORMATS, NEWEST)),
        ("min.cleanable.dirty.ratio", "1.1", (OLD_FORMATS, NEWEST)),
        ("min.cleanable.dirty.ratio", "5e-1", ()),
        ("min.cleanable.dirty.ratio", "half", (OLD_FORMATS, NEWEST)),
        ("preallocate", "TRUE", ()),
        ("preallocate", "1", (OLD_FORMATS, NEWEST)),
        ("cleanup.policy", "compact , delete", ()),
        ("cleanup.policy", "compact,gone", (OLD_FORMATS, NEWEST)),
        ("leader.replication.throttled.replicas", "0:1,1:2", ()),
        ("leader.replication.throttled.replicas", "0", (OLD_FORMATS, NEWEST)),
        ("any.setting", "any", ()),
    ],
)
def test_values_that_a_version_refuses(name: str, value: str, refusing: tuple[str, ...]) -> None:
    assert tuple(each for each in versions() if refusal("topic", name, value, each) is not None) == refusing


def test_settings_of_brokers_have_definitions_of_their_own() -> None:
    assert refusal("broker", "log.segment.bytes", "5", NEWEST) == "1048576 or more"
    assert refusal("topic", "log.segment.bytes", "5", NEWEST) is None
    assert is_defined("topic", "message.format.version", OLD_FORMATS)
    assert not is_defined("topic", "message.format.version", NEWEST)


def test_a_version_is_found_by_its_first_two_numbers() -> None:
    assert [find_version(each) for each in ("3.9", "4.4", "4.4.0")] == [OLD_FORMATS, NEWEST, NEWEST]
    with pytest.raises(UsageError, match=r"settings of Kafka '2.8' are not known; known are 3.9.1, 4.4.0"):
        find_version("2.8")
