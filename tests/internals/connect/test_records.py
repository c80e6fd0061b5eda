"""Records of MirrorMaker and Kafka Connect say what their own classes put into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.internals.connect.written import made

from brokerless.internals.connect.records import decode_connect_record
from brokerless.internals.connect.topics import TABLES


def as_kafka(table: str, key: dict[str, Any], data: dict[str, Any]) -> str:
    """The text of Kafka's ``toString``."""
    if table == "mirrorHeartbeats":
        names = ("sourceClusterAlias", "targetClusterAlias", "timestamp")
        return "Heartbeat{" + ", ".join(f"{name}={ {**key, **data}[name] }" for name in names) + "}"
    offsets = f"upstreamOffset={data['upstreamOffset']}, downstreamOffset={data['offset']}"
    place = f"topicPartition={key['topic']}-{key['partition']}, {offsets}"
    if table == "mirrorOffsetSyncs":
        return f"OffsetSync{{{place}}}"
    return f"Checkpoint{{consumerGroupId={key['group']}, {place}, metadata={data['metadata']}}}"


def test_mirror_makers_records_say_what_kafka_says_of_them(kafka_jars: Path) -> None:
    records = [each for each in made() if each.table.startswith("mirror")]
    assert len(records) == 5
    for each in records:
        said = decode_connect_record(each.table, each.key, each.value)
        assert (said.problem, said.data is None) == (None, False)
        assert as_kafka(each.table, said.key_data, said.data or {}) == each.says


def test_connects_records_have_the_json_that_was_put_into_them(kafka_jars: Path) -> None:
    records = [each for each in made() if each.table == "connectOffsets"]
    said = [decode_connect_record(each.table, each.key, each.value) for each in records]
    assert [(each.key_data["connector"], each.key_data["partition"], each.payload) for each in said] == [
        ("files", {"filename": '/tmp/a "b".txt'}, {"data": {"position": 1234}}),
        ("db", {"server": "zürich"}, {"data": {"lsn": (1 << 63) - 1, "snapshot": True, "ratio": 0.1, "part": None}}),
        ("gone", {"server": "x"}, None),
    ]


def test_all_kinds_of_configs_and_status_are_known(kafka_jars: Path) -> None:
    records = [each for each in made() if each.table in ("connectConfigs", "connectStatus")]
    said = [decode_connect_record(each.table, each.key, each.value) for each in records]
    assert [each.problem for each in said] == [None] * 11
    found = [(each.type, each.key_data.get("connector"), each.key_data.get("task")) for each in said]
    assert found == [
        ("CONNECTOR_CONFIG", "db-1", None),
        ("TASK_CONFIG", "db-1", 10),
        ("COMMIT_TASKS", "db-1", None),
        ("TARGET_STATE", "db-1", None),
        ("SESSION_KEY", None, None),
        ("TASKS_FENCING", "db-1", None),
        ("RESTART_CONNECTOR", "db-1", None),
        ("LOGGER_LEVEL", None, None),
        ("CONNECTOR_STATUS", "db-1", None),
        ("TASK_STATUS", "db-1", 10),
        ("TOPIC_STATUS", "db-1", None),
    ]
    assert (said[10].key_data["topic"], (said[3].data or {})["state.v2"]) == ("orders-1", "STOPPED")


SYNC_KEY = b"\0\1a\0\0\0\1"
GROUP_KEY = b"\0\1g" + SYNC_KEY


@pytest.mark.parametrize(
    ("table", "key", "value", "kind", "says"),
    [
        ("mirrorOffsetSyncs", None, bytes(16), "record-unreadable", "without a key"),
        ("mirrorOffsetSyncs", b"\0\5a", bytes(16), "record-unreadable", "a key that cannot be read: 5 bytes at 2"),
        ("mirrorOffsetSyncs", b"\xff\xff", bytes(16), "record-unreadable", "a key that cannot be read"),
        ("mirrorOffsetSyncs", SYNC_KEY, bytes(15), "record-unreadable", "a value that cannot be read"),
        ("mirrorCheckpoints", GROUP_KEY, b"\0\1" + bytes(18), "record-version-unknown", "version 1"),
        ("mirrorCheckpoints", GROUP_KEY, b"\0", "record-unreadable", "a value that cannot be read"),
        ("connectOffsets", b'{"a":1}', b"{}", "record-unreadable", "Expected `array`, got `object`"),
        ("connectOffsets", b'["a"]', b"{}", "record-unreadable", "`array` of length 2, got 1"),
        ("connectOffsets", b'[1,{"a":1}]', b"{}", "record-unreadable", "Expected `str`, got `int` - at `$[0]`"),
        ("connectOffsets", b'["a","b"]', b"{}", "record-unreadable", "Expected `object | null`, got `str` - at `$[1]`"),
        ("connectOffsets", b'["a",{}]', b"[]", "record-unreadable", "Expected `object | null`, got `array`"),
        ("connectOffsets", b'["a",{}]', b'{"b":"\\ud800"}', "record-unreadable", "half of a surrogate pair"),
        ("connectOffsets", b'["a",' + b"[" * 100_000, b"{}", "record-unreadable", "this is not JSON"),
        ("connectConfigs", b"conector-a", b"{}", "record-type-unknown", "begins as none that is known"),
        ("connectConfigs", b"connector-\xff", b"{}", "record-unreadable", "not UTF-8"),
        ("connectConfigs", b"task-a-99999999999", b"{}", "record-unreadable", "task's number is too large"),
        ("connectConfigs", b"task-a-4294967296", b"{}", "record-unreadable", "the task's number"),
        ("connectStatus", b"status-connector-a", b"{}", "record-unreadable", "required field `state`"),
        (
            "connectStatus",
            b"status-topic-t:connector-a",
            b'{"topic":{}}',
            "record-unreadable",
            "field `name` - at `$.topic`",
        ),
    ],
)
def test_what_cannot_be_read_is_a_problem(table: str, key: bytes | None, value: bytes, kind: str, says: str) -> None:
    record = decode_connect_record(table, key, value)
    assert record.problem is not None
    assert (record.problem[0], record.payload) == (kind, None)
    assert says in record.problem[1]


def test_a_tombstone_is_no_problem() -> None:
    record = decode_connect_record("mirrorOffsetSyncs", SYNC_KEY, None)
    assert (record.problem, record.payload, record.key_data) == (None, None, {"topic": "a", "partition": 1})


KEYS = st.sampled_from([SYNC_KEY, GROUP_KEY, b'["a",{"b":1}]', b"task-a-1", b"status-task-a-1"]) | st.binary(
    max_size=40
)
VALUES = st.none() | st.binary(max_size=40) | st.text('{}[]",:0123456789eE-truefalsn\\ud', max_size=40).map(str.encode)


@examples(300)
@given(st.sampled_from(TABLES), st.none() | KEYS, VALUES)
def test_any_bytes_are_a_record_or_a_problem(table: str, key: bytes | None, value: bytes | None) -> None:
    record = decode_connect_record(table, key, value)
    assert record.problem is None or record.payload is None
    assert record.problem is not None or record.key is not None
