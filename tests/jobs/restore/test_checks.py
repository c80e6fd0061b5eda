"""What is said before a topic is restored: what the target would refuse, delete or change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerless.jobs.restore.checks import check_groups, check_topic, codec_on, limits_of
from brokerless.jobs.restore.results import GroupRestore, Limits, SourcePartition, TopicRestore

PARTITION = SourcePartition("t", 0, 0, 10, records=10, size=1000, codec="none")
TOPIC = TopicRestore("t", (PARTITION,), 1, {}, {}, True)
NOW = 1_000_000


def kinds(topic: TopicRestore = TOPIC, **partition: Any) -> dict[str, str]:
    found = check_topic(replace(topic, partitions=(replace(PARTITION, **partition),)), "broker")
    return {each.kind: each.severity for each in found}


def test_a_topic_that_fits_is_not_worth_a_word() -> None:
    assert kinds() == {}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, Limits()),
        ({"retention.ms": "1000"}, Limits(expired_before=NOW - 1000)),
        ({"retention.ms": "-1"}, Limits()),
        ({"retention.ms": "1000", "cleanup.policy": "compact"}, Limits()),
        ({"retention.ms": "1000", "cleanup.policy": "compact,delete"}, Limits(expired_before=NOW - 1000)),
        ({"retention.ms": "1000", "message.timestamp.type": "LogAppendTime"}, Limits()),
        ({"retention.ms": "much"}, Limits()),
        ({"max.message.bytes": "500"}, Limits(largest=500)),
        ({"max.message.bytes": "500", "segment.bytes": "400"}, Limits(largest=400)),
        ({"message.timestamp.difference.max.ms": "10"}, Limits(earliest=NOW - 10, latest=NOW + 10)),
        ({"message.timestamp.difference.max.ms": "10", "message.timestamp.before.max.ms": "20"},
         Limits(earliest=NOW - 20, latest=NOW + 10)),
        ({"message.timestamp.before.max.ms": "10", "message.timestamp.after.max.ms": str(2**63 - 1)},
         Limits(earliest=NOW - 10)),
        ({"message.timestamp.after.max.ms": "10"}, Limits(latest=NOW + 10)),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_settings(settings: dict[str, str], expected: Limits) -> None:
    assert limits_of(settings, NOW) == expected


def test_what_the_target_refuses_is_an_error() -> None:
    compacted = replace(TOPIC, target={"cleanup.policy": "compact"}, configs={"cleanup.policy": "compact"})
    assert kinds(too_large=1, largest=(5000, 3)) == {"record-too-large": "error"}
    assert kinds(out_of_range=1) == {"timestamp-refused": "error"}
    assert kinds(compacted, without_key=1)["key-missing"] == "error"
    assert kinds(unnameable=1) == {"header-name": "error"}


def test_the_setting_that_is_smaller_is_named() -> None:
    target = {"max.message.bytes": "1000", "segment.bytes": "900"}
    topic = replace(TOPIC, target=target, partitions=(replace(PARTITION, too_large=1, largest=(5000, 3)),))
    (found,) = check_topic(topic, "broker")
    assert found.found == "segment.bytes=900"
    assert "kafka-configs --alter --topic t --add-config segment.bytes=6000" in found.message
    (found,) = check_topic(replace(topic, exists=False), "broker")
    assert "first create t with segment.bytes=6000" in found.message


@pytest.mark.parametrize(
    ("setting", "codec", "expected"),
    [("producer", "zstd", "zstd"), ("uncompressed", "zstd", "none"), ("gzip", "none", "gzip"), ("lz4", "lz4", "lz4")],
)
def test_batches_have_the_codec_of_the_target(setting: str, codec: str, expected: str) -> None:
    assert codec_on({"compression.type": setting}, codec) == expected
    found = kinds(replace(TOPIC, target={"compression.type": setting}), too_large=1, codec=codec)
    assert found["record-too-large"] == ("error" if expected == "none" else "warning")


def test_too_few_replicas_in_sync_are_an_error() -> None:
    topic = replace(TOPIC, target={"min.insync.replicas": "2"}, replicas=1)
    assert kinds(topic) == {"too-few-replicas": "error"}
    assert kinds(replace(topic, replicas=2)) == kinds(replace(topic, replicas=None)) == {}


def test_a_large_record_may_pass_once_it_is_compressed() -> None:
    assert kinds(too_large=1, codec="zstd") == {"record-too-large": "warning"}


def test_a_committed_offset_after_what_is_restored_is_a_warning() -> None:
    groups = [GroupRestore("g", "t", 0, offset, None) for offset in (0, 10, 11)]
    (found,) = check_groups(groups, [TOPIC], "broker")
    assert (found.severity, found.kind, found.offset, found.found) == ("warning", "group-offset-after-end", 10, "11")


def test_what_is_deleted_or_changed_is_a_warning() -> None:
    assert kinds(undecided=(5, 2)) == {"transaction-open": "warning"}
    assert kinds(expired=(3, 300)) == {"retention-deletes": "warning"}
    assert kinds(replace(TOPIC, target={"retention.bytes": "400"})) == {"retention-deletes": "warning"}
    assert kinds(replace(TOPIC, target={"retention.bytes": "4000"})) == {}
    assert kinds(replace(TOPIC, target={"cleanup.policy": "compact"})) == {"target-compacts": "warning"}
    times = replace(TOPIC, target={"message.timestamp.type": "LogAppendTime"})
    assert kinds(times) == {"timestamps-replaced": "warning"}
    assert kinds(late=1, at_zero=1) == {"late-records": "warning", "timestamp-zero": "warning"}


def test_settings_that_differ_are_shown_with_both_values() -> None:
    topic = replace(TOPIC, configs={"max.message.bytes": "5", "segment.ms": "7"}, target={"max.message.bytes": "6"})
    found = {each.message: (each.expected, each.found) for each in check_topic(topic, "broker")}
    assert found == {
        "t: max.message.bytes is another on the target": ("5", "6"),
        "t: segment.ms is another on the target": ("7", None),
    }
    assert kinds(replace(topic, configs=None)) == {"configs-unknown": "info"}
