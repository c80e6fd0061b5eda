"""What internal topics say now, from what they said."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format.twin import chain
from tests.golden import broker_data
from tests.internals.written import (
    ABORT,
    BEGIN,
    END,
    START,
    batch,
    committed,
    marker,
    string,
    topic_record,
    write_partition,
)

import brokerless
from brokerless import DamageError, Finding, UsageError, internals
from brokerless.format.layouts import BATCH_V2
from brokerless.internals.entries import decode_entry, internal_topic, read_entries
from brokerless.internals.metadata.cluster import Cluster, apply, cluster_rows, read_cluster
from brokerless.internals.schemas import HISTORY, STATE

CLEAN = broker_data("clean")
METADATA = "__cluster_metadata-0"


def state(path: Path, *tables: str) -> dict[str, list[dict[str, Any]]]:
    said = internals.state(brokerless.open(path).partitions, tables or STATE, on_damage=pytest.fail)
    for name, table in said.items():
        assert table.schema == STATE[name]
        table.validate(full=True)
    return {name: table.to_pylist() for name, table in said.items()}


def offsets(path: Path) -> dict[tuple[str, str, int], int]:
    return {(row["group"], row["topic"], row["partition"]): row["offset"] for row in state(path, "offsets")["offsets"]}


def findings(path: Path) -> list[Finding]:
    told: list[Finding] = []
    internals.state(brokerless.open(path).partitions, on_damage=told.append)
    return told


def test_the_last_offset_of_each_key_counts_and_a_tombstone_takes_it_away(tmp_path: Path) -> None:
    log = write_partition(
        tmp_path,
        "__consumer_offsets",
        batch(0, [committed("g", "a", 1), committed("g", "b", 1), committed("h", "a", 1)]),
        batch(3, [committed("g", "a", 2), committed("h", "a", None)]),
        batch(5, [committed("h", "c", 4), committed("h", "c", None), committed("h", "c", 5)]),
    )
    assert offsets(log) == {("g", "a", 0): 2, ("g", "b", 0): 1, ("h", "c", 0): 5}
    (row,) = [row for row in state(log, "offsets")["offsets"] if row["topic"] == "c"]
    assert (row["metadata"], row["leaderEpoch"], row["recordOffset"]) == ("note", -1, 7)
    assert row["expireTimestamp"].timestamp() * 1000 == START + 1000


def test_of_a_transaction_offsets_count_once_it_is_committed_and_are_as_old_as_their_record(tmp_path: Path) -> None:
    log = write_partition(
        tmp_path,
        "__consumer_offsets",
        batch(0, [committed("g", "committed", 1), committed("g", "later", 1)], producer_id=5),
        batch(2, [committed("g", "aborted", 2)], producer_id=6),
        batch(3, [committed("g", "open", 3)], producer_id=7),
        batch(4, [committed("g", "later", 9), committed("g", "plain", 4)]),
        marker(6, 5, commit=True),
        marker(7, 6, commit=False),
        batch(8, [committed("g", "plain", 100), committed("g", "committed", None)], producer_id=6),
    )
    assert offsets(log) == {("g", "committed", 0): 1, ("g", "later", 0): 9, ("g", "plain", 0): 4}
    (table,) = internals.history(brokerless.open(log).partitions)
    by_offset = dict(zip(table["offset"].to_pylist(), table["transaction"].to_pylist(), strict=True))
    assert by_offset == {
        0: "committed", 1: "committed", 2: "aborted", 3: "open", 4: None, 5: None, 8: "open", 9: "open",
    }  # fmt: skip


def test_the_oldest_key_and_the_newer_one_are_of_one_offset(tmp_path: Path) -> None:
    key, value = committed("g", "a", 7)
    assert key is not None
    old_value = b"\0\0" + (3).to_bytes(8, "big") + string("") + START.to_bytes(8, "big")
    log = write_partition(tmp_path, "__consumer_offsets", batch(0, [(b"\0\0" + key[2:], old_value), (key, value)]))
    assert offsets(log) == {("g", "a", 0): 7}


def test_records_that_are_not_known_are_warnings_and_keep_their_bytes(tmp_path: Path) -> None:
    log = write_partition(
        tmp_path,
        "__consumer_offsets",
        batch(0, [committed("g", "a", 1), (b"\x03\xe7new", b"\0\0\xff"), (b"\0\2\0\1g", b"\0\x63"), (None, b"x")]),
    )
    told = findings(log)
    assert [(each.severity, each.kind, each.position, each.offset) for each in told] == [
        ("warning", "record-type-unknown", 0, 1),
        ("warning", "record-version-unknown", 0, 2),
        ("warning", "record-unreadable", 0, 3),
    ]
    assert all(each.file == str(log / f"{0:020}.log") for each in told)
    table = pa.Table.from_batches(internals.history(brokerless.open(log).partitions), HISTORY)
    raw = table.select(["type", "key", "payload", "keyBytes", "payloadBytes"]).to_pylist()
    assert raw[0]["keyBytes"] is None
    assert raw[0]["payloadBytes"] is None
    assert raw[0]["key"] == '{"type":"1","data":{"group":"g","topic":"a","partition":0}}'
    assert raw[1]["keyBytes"] == b"\x03\xe7new"
    assert raw[1]["payloadBytes"] == b"\0\0\xff"
    assert raw[1]["type"] is None
    assert raw[2]["type"] == "GROUP_METADATA"
    assert raw[2]["keyBytes"] is None
    assert raw[2]["payloadBytes"] == b"\0\x63"
    assert raw[3] == {"type": None, "key": None, "payload": None, "keyBytes": None, "payloadBytes": b"x"}
    assert offsets_without_warnings(log) == {("g", "a", 0): 1}


def offsets_without_warnings(log: Path) -> dict[Any, int]:
    table = internals.state(brokerless.open(log).partitions, ["offsets"])["offsets"]
    return {(row["group"], row["topic"], row["partition"]): row["offset"] for row in table.to_pylist()}


def test_damage_is_raised_or_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    damaged = bytearray(batch(1, [committed("g", "b", 1)]))
    damaged[-1] ^= 1
    log = write_partition(
        tmp_path, "__consumer_offsets", batch(0, [committed("g", "a", 1)]), damaged, batch(2, [committed("g", "c", 1)])
    )
    with pytest.raises(DamageError):
        internals.state(brokerless.open(log).partitions)
    told: list[Finding] = []
    table = internals.state(brokerless.open(log).partitions, on_damage=told.append)["offsets"]
    assert table["topic"].to_pylist() == ["a", "c"]
    assert [each.kind for each in told] == ["checksum-mismatch"]


def test_a_table_that_there_is_not_is_a_wrong_argument() -> None:
    with pytest.raises(UsageError, match="offset'"):
        internals.state([], ["offset"])
    assert internals.state([], ["offsets"])["offsets"].num_rows == 0


def test_metadata_transactions_count_once_they_end(tmp_path: Path) -> None:
    records = [
        topic_record("first", 1),
        BEGIN, topic_record("in", 2), END,
        BEGIN, topic_record("aborted", 3), ABORT,
        topic_record("after", 4),
        BEGIN, topic_record("undecided", 5),
    ]  # fmt: skip
    log = write_partition(tmp_path, "__cluster_metadata", batch(0, records))
    assert [row["topic"] for row in state(log, "topics")["topics"]] == ["after", "first", "in"]


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    return Path(copytree(CLEAN / METADATA, tmp_path / METADATA))


def test_a_snapshot_and_the_log_after_it_say_what_the_whole_log_says(metadata: Path) -> None:
    with_snapshot = state(metadata)
    (snapshot,) = metadata.glob("*.checkpoint")
    snapshot.unlink()
    assert state(metadata) == with_snapshot
    assert len(with_snapshot["partitions"]) == 45


def replayed(partition: Path, end_offset: int | None = None) -> Cluster:
    """The state after the records of a log, or of a snapshot, without any snapshot's help."""
    cluster = Cluster()
    (opened,) = brokerless.open(partition).partitions
    for entry in read_entries(opened.paths[0], "__cluster_metadata", pytest.fail):
        if end_offset is None or entry.offset < end_offset:
            apply(cluster, decode_entry(entry, "__cluster_metadata", pytest.fail))
    return cluster


def test_kafkas_own_snapshot_is_what_the_log_before_it_adds_up_to(metadata: Path) -> None:
    (snapshot,) = metadata.glob("*.checkpoint")
    assert cluster_rows(replayed(snapshot)) == cluster_rows(replayed(metadata, int(snapshot.name[:20])))


def test_a_log_that_begins_after_a_snapshot_needs_it(metadata: Path) -> None:
    whole = state(metadata, "topics", "partitions", "configs")
    (snapshot,) = metadata.glob("*.checkpoint")
    log = metadata / f"{0:020}.log"
    data, positions = log.read_bytes(), dict[int, int]()
    for batch_ in brokerless.open(log).batches(["baseOffset", "position"]):
        positions |= dict(zip(batch_["baseOffset"].to_pylist(), batch_["position"].to_pylist(), strict=True))
    first = max(offset for offset in positions if offset <= int(snapshot.name[:20]))
    for each in metadata.glob("0*0.*"):
        each.unlink()
    (metadata / f"{first:020}.log").write_bytes(data[positions[first] :])
    assert state(metadata, "topics", "partitions", "configs") == whole
    snapshot.write_bytes(snapshot.read_bytes()[:-80])  # its footer
    assert [each.kind for each in findings(metadata)] == ["snapshot-not-whole", "metadata-gap"]


def test_a_damaged_snapshot_is_passed_over_where_the_log_has_all(metadata: Path) -> None:
    whole = state(metadata)
    (snapshot,) = metadata.glob("*.checkpoint")
    data = bytearray(snapshot.read_bytes())
    data[1000] ^= 1
    snapshot.write_bytes(data)
    told: list[Finding] = []
    (partition,) = brokerless.open(metadata).partitions
    cluster = read_cluster(partition.paths[0], told.append)
    assert [(each.severity, each.kind, each.file) for each in told] == [
        ("warning", "snapshot-not-whole", str(snapshot)),
    ]
    assert len(cluster.topics) == len(whole["topics"])


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("__consumer_offsets-1", "__consumer_offsets"),
        (f"__consumer_offsets-1/{0:020}.log", "__consumer_offsets"),
        (f"{METADATA}/{139:020}-0000000001.checkpoint", "__cluster_metadata"),
        ("bootstrap.checkpoint", "__cluster_metadata"),
        (f"txn-0/{0:020}.log", None),
        ("txn-0", None),
    ],
)
def test_a_lone_file_is_of_the_topic_that_its_directory_names(path: str, topic: str | None) -> None:
    (partition,) = brokerless.open(CLEAN / path).partitions
    assert internal_topic(partition.paths[0]) == topic


def test_members_are_reported_with_what_they_were_assigned() -> None:
    said = state(CLEAN, "groups", "members")
    assert {row["group"]: (row["type"], row["epoch"], row["members"]) for row in said["groups"]} == {
        "group-classic": ("classic", 2, 0),
        "group-static": ("classic", 1, 1),
        "group-new": ("consumer", 2, 0),
    }
    (member,) = said["members"]
    assert member["assignment"] == [{"topic": "codec-gzip", "topicId": None, "partitions": [0, 1, 2, 3]}]
    assert member["subscribedTopicNames"] == ["codec-gzip"]


INTERNAL = [
    CLEAN / "__consumer_offsets-1",
    CLEAN / "__consumer_offsets-2",
    CLEAN / "__transaction_state-0",
    CLEAN / METADATA,
]
CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=40)


@examples(150)
@given(st.sampled_from(INTERNAL), CHANGES, st.booleans())
def test_changed_bytes_under_right_checksums_are_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, source: Path, changes: list[tuple[float, int]], snapshots: bool
) -> None:
    directory = tmp_path_factory.mktemp("changed") / source.name
    directory.mkdir()
    for file in [*source.glob("*.log"), *(source.glob("*.checkpoint") if snapshots else ())]:
        data = bytearray(file.read_bytes())
        starts = [*chain(bytes(data))[0], len(data)]
        for place, byte in changes:
            at = int(place * len(data))
            start = max(each for each in starts if each <= at)
            data[at] = byte if at - start >= BATCH_V2.itemsize else data[at]
        for start, end in pairwise(starts):
            data[start + 17 : start + 21] = calc_crc32c(bytes(data[start + 21 : end])).to_bytes(4, "big")
        (directory / file.name).write_bytes(data)
    told: list[Finding] = []
    partitions = brokerless.open(directory).partitions
    for table in internals.state(partitions, on_damage=told.append).values():
        table.validate(full=True)
    for part in internals.history(partitions, on_damage=told.append):
        part.validate(full=True)
        for row in part.to_pylist():
            assert (row["payload"] is None) | (row["payloadBytes"] is None)
    assert {each.file for each in told} <= {str(file) for file in directory.iterdir()}
