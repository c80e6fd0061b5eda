"""Tables of MirrorMaker's and Kafka Connect's topics, from logs with the records of their own classes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.internals.connect.written import made
from tests.internals.written import START, batch, marker, write_partition

import brokerless
from brokerless import Finding, UsageError, internals
from brokerless.internals.connect.topics import TABLES
from brokerless.internals.schemas import STATE

TOPICS = {
    "mirrorOffsetSyncs": "mm2-offset-syncs.west.internal",
    "mirrorCheckpoints": "west.checkpoints.internal",
    "mirrorHeartbeats": "heartbeats",
    "connectOffsets": "connect-offsets",
    "connectConfigs": "connect-configs",
    "connectStatus": "connect-status",
}
GIVEN = {"heartbeats": "mirrorHeartbeats"}
AT = {"recordTimestamp": START, "recordOffset": 0}


def write_all(directory: Path) -> Path:
    """A partition of each topic, with all records that Kafka's classes make."""
    for table, topic in TOPICS.items():
        write_partition(directory, topic, batch(0, [(each.key, each.value) for each in made() if each.table == table]))
    return directory


def fail(finding: Finding) -> None:
    pytest.fail(str(finding))


def state(path: Path, *tables: str, topics: dict[str, str] | None = None) -> dict[str, list[dict[str, Any]]]:
    partitions = brokerless.open(path).partitions
    said = internals.state(partitions, tables or TABLES, topics=topics, on_damage=fail)
    for name, table in said.items():
        assert table.schema == STATE[name]
        table.validate(full=True)
    return {name: without_times(table.to_pylist()) for name, table in said.items()}


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Timestamps as milliseconds."""
    return [{name: ms(value) if hasattr(value, "timestamp") else value for name, value in row.items()} for row in rows]


def ms(time: Any) -> int:
    return round(time.timestamp() * 1000)


def test_mirror_makers_tables_have_a_row_for_each_key(kafka_jars: Path, tmp_path: Path) -> None:
    said = state(write_all(tmp_path), topics=GIVEN)
    assert said["mirrorOffsetSyncs"][0] == {
        "internalTopic": TOPICS["mirrorOffsetSyncs"], "topic": "orders", "partition": 0,
        "upstreamOffset": 120, "downstreamOffset": 118, **AT,
    }  # fmt: skip
    assert [row["downstreamOffset"] for row in said["mirrorOffsetSyncs"]] == [118, -1]
    assert said["mirrorCheckpoints"][0] == {
        "internalTopic": TOPICS["mirrorCheckpoints"], "group": "shipping", "topic": "west.orders", "partition": 3,
        "upstreamOffset": 77, "downstreamOffset": 75, "metadata": "", **AT,
    }  # fmt: skip
    assert [row["group"] for row in said["mirrorCheckpoints"]] == ["shipping", "\U0001d11e"]
    assert said["mirrorHeartbeats"] == [
        {
            "internalTopic": "heartbeats", "sourceClusterAlias": "west", "targetClusterAlias": "east",
            "timestamp": 1_795_000_000_123, **AT,
        }
    ]  # fmt: skip


def test_connects_tables_have_json_where_connectors_decide(kafka_jars: Path, tmp_path: Path) -> None:
    said = state(write_all(tmp_path))
    offsets = {row["connector"]: (row["sourcePartition"], row["sourceOffset"]) for row in said["connectOffsets"]}
    assert offsets == {
        "db": ('{"server":"zürich"}', '{"lsn":9223372036854775807,"snapshot":true,"ratio":0.1,"part":null}'),
        "files": (r'{"filename":"/tmp/a \"b\".txt"}', '{"position":1234}'),
    }
    configs = {row["key"]: (row["connector"], row["task"], row["value"]) for row in said["connectConfigs"]}
    assert configs["task-db-1-10"] == ("db-1", 10, '{"properties":{"name":"db-1","tasks.max":"2"}}')
    assert configs["commit-db-1"] == ("db-1", None, '{"tasks":2}')
    assert len(configs) == 8
    connector, task, topic = said["connectStatus"]
    assert (connector["state"], connector["workerId"], connector["generation"]) == ("RUNNING", "10.0.0.1:8083", 7)
    assert (task["state"], task["task"], task["trace"], task["version"]) == ("FAILED", 10, "at\nline", "4.3")
    assert (topic["topic"], topic["task"], topic["discoverTimestamp"]) == ("orders-1", 3, 1_795_000_000_000)
    assert said["mirrorHeartbeats"] == [], "its name does not tell"


OFFSET = b'["c",{"p":1}]'


def test_the_last_offset_of_a_key_counts_unless_its_transaction_was_aborted(tmp_path: Path) -> None:
    log = write_partition(
        tmp_path,
        "my-connect-offsets",
        batch(0, [(OFFSET, b'{"o":1}'), (b'["d",{}]', b"{}")]),
        batch(2, [(OFFSET, b'{"o":2}')], producer_id=5),
        marker(3, 5, commit=True),
        batch(4, [(OFFSET, b'{"o":3}')], producer_id=5),
        marker(5, 5, commit=False),
        batch(6, [(b'["d",{}]', None)]),
    )
    (row,) = state(log, "connectOffsets")["connectOffsets"]
    assert (row["sourceOffset"], row["recordOffset"]) == ('{"o":2}', 2)


def test_what_cannot_be_read_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    log = write_partition(
        tmp_path, "connect-offsets", batch(0, [(OFFSET, b'{"o":1}'), (b"[", b"{}"), (b"{}", b"\xff")])
    )
    reported: list[Finding] = []
    partitions = brokerless.open(log).partitions
    found = internals.state(partitions, ["connectOffsets"], on_damage=reported.append)["connectOffsets"]
    assert found.num_rows == 1
    assert [(each.kind, each.severity, each.offset) for each in reported] == [
        ("record-unreadable", "warning", 1), ("record-unreadable", "warning", 2),
    ]  # fmt: skip
    rows = [row for part in internals.history(partitions, on_damage=reported.append) for row in part.to_pylist()]
    assert [(row["payload"], row["payloadBytes"]) for row in rows] == [
        ('{"data":{"o":1}}', None), (None, b"{}"), (None, b"\xff"),
    ]  # fmt: skip
    assert json.loads(rows[0]["key"]) == {"data": {"connector": "c", "partition": {"p": 1}}}


def test_topics_can_be_given_and_only_as_tables_that_topics_make(kafka_jars: Path, tmp_path: Path) -> None:
    partitions = brokerless.open(write_all(tmp_path) / "heartbeats-0").partitions
    assert list(internals.history(partitions)) == []
    (part,) = internals.history(partitions, topics=GIVEN)
    assert part.to_pylist()[0]["type"] == "HEARTBEAT"
    for call in (internals.state, lambda *given, **how: list(internals.history(*given, **how))):
        with pytest.raises(UsageError, match="no topic makes a table 'offsets'"):
            call(partitions, topics={"heartbeats": "offsets"})
