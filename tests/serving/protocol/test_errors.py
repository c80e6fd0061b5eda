from __future__ import annotations

import re

from confluent_kafka import KafkaError

from brokerless.serving.protocol.errors import Error

OTHER_NAMES = {
    Error.UNKNOWN_SERVER_ERROR: "UNKNOWN",
    Error.NONE: "NO_ERROR",
    Error.CORRUPT_MESSAGE: "INVALID_MSG",
    Error.UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PART",
    Error.NOT_LEADER_OR_FOLLOWER: "NOT_LEADER_FOR_PARTITION",
    Error.INVALID_TOPIC_EXCEPTION: "TOPIC_EXCEPTION",
}
"""librdkafka's."""


def test_codes_are_those_of_librdkafka() -> None:
    known = {name: code for name, code in vars(KafkaError).items() if re.fullmatch("[A-Z][A-Z_]+", name)}
    names = {each: OTHER_NAMES.get(each, each.name) for each in Error}
    assert {each: known[name] for each, name in names.items() if name in known} == {
        each: each.value for each, name in names.items() if name in known
    }
    assert len([name for name in names.values() if name in known]) > 30
