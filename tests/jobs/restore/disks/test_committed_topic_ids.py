"""Topic ids in committed offsets become the target's, and all else in the batches stays.

That groups go on where they were is for brokers to say: tests/kafka/test_restored_disks.py.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import brokerless
from brokerless import Finding
from brokerless.format.messages.writer import encode
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.internals.messages import messages
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.internals.tables import state_rows
from brokerless.jobs.restore.disks.committed_topic_ids import changed_topic_ids, check_share_groups, translate

OLD, OTHER, NEW, STALE = ("A" * 20 + end for end in ("BQ", "Bg", "Bw", "CA"))
OFFSET_COMMIT = 1


def raw(topic_id: str) -> bytes:
    return urlsafe_b64decode(f"{topic_id}==")


def record(topic: str, topic_id: str, offset: int) -> tuple[bytes, bytes]:
    layouts = messages(CONSUMER_OFFSETS)
    key = encode(layouts.keys[OFFSET_COMMIT], 0, {"group": "g", "topic": topic, "partition": 0})
    data = {
        "offset": offset, "leaderEpoch": 0, "metadata": "", "commitTimestamp": offset, "topicId": topic_id,
    }  # fmt: skip
    return b"\0\1" + key, b"\0\4" + encode(layouts.values[OFFSET_COMMIT], 4, data)


def batch(base_offset: int, records: Sequence[tuple[bytes, bytes]], codec: str = "none") -> bytes:
    attributes = BatchAttributes(base_offset=base_offset, partition_leader_epoch=0)
    builder = BatchBuilder(1 << 16, codec=codec, attributes=attributes)  # type: ignore[arg-type]
    for key, value in records:
        builder.append(1_700_000_000_000, key, value)
    return builder.close()


def partition(directory: Path, *batches: bytes) -> Path:
    path = directory / "__consumer_offsets-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(b"".join(batches))
    return path


def committed(path: Path) -> list[dict[str, Any]]:
    return state_rows(brokerless.open(path).paths, ("offsets",), lambda each: None)["offsets"]


def test_ids_are_translated_and_checksums_right(tmp_path: Path) -> None:
    path = partition(
        tmp_path,
        batch(0, [record("orders", OLD, 7), record("users", OTHER, 8)]),
        batch(2, [record("payments", OTHER, 9)]),
    )
    before = committed(path)
    source, target = Cluster(topics={OLD: "orders"}), Cluster(topics={NEW: "orders", STALE: "unrelated"})
    findings: list[Finding] = []
    translate(path, changed_topic_ids(before, source, target), findings.append)
    assert not findings
    assert [{**row, "topicId": None} for row in committed(path)] == [{**row, "topicId": None} for row in before]
    assert {row["topic"]: row["topicId"] for row in committed(path)} == {
        "orders": NEW, "users": OTHER, "payments": OTHER,
    }  # fmt: skip
    assert not [each for each in brokerless.open(path).verify() if each.severity == "error"]


def test_commits_for_an_earlier_topic_of_that_name_stay(tmp_path: Path) -> None:
    rows = [
        {"topic": "orders", "topicId": STALE, "commitTimestamp": 1},
        {"topic": "orders", "topicId": OLD, "commitTimestamp": 2},
        {"topic": "users", "topicId": None, "commitTimestamp": 3},
    ]
    target = Cluster(topics={NEW: "orders", OTHER: "users"})
    by_latest = changed_topic_ids(rows, None, target)
    by_metadata = changed_topic_ids(rows, Cluster(topics={STALE: "orders"}), target)
    assert (by_latest, by_metadata) == ({raw(OLD): raw(NEW)}, {raw(STALE): raw(NEW)})
    assert not changed_topic_ids(rows, None, Cluster(topics={OLD: "orders"}))


def test_compressed_batches_are_reported(tmp_path: Path) -> None:
    path = partition(tmp_path, batch(0, [record("orders", OLD, 7)]), batch(1, [record("orders", OLD, 8)], "gzip"))
    before = (path / f"{0:020}.log").read_bytes()
    findings: list[Finding] = []
    ids = changed_topic_ids(committed(path), None, Cluster(topics={NEW: "orders"}))
    translate(path, ids, findings.append)
    assert [(each.kind, each.offset) for each in findings] == [("topic-ids-compressed", 1)]
    after = (path / f"{0:020}.log").read_bytes()
    assert len(after) == len(before)
    assert [row["topicId"] for row in committed(path)] == [OLD]  # that of the later commit


def test_positions_of_share_groups_are_of_no_use_to_topics_with_other_ids() -> None:
    source = Cluster(topics={OLD: "orders", OTHER: "users", STALE: "gone"})
    (found,) = check_share_groups(source, Cluster(topics={NEW: "orders", OTHER: "users"}), "metadata")
    assert found.kind == "share-group-topic-ids"
    assert "of 1 topics this cluster has others, orders among them" in found.message
    assert not list(check_share_groups(source, source, "metadata"))
