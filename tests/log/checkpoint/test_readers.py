"""Oracle: what a broker's own classes read in its data folders (``expected-state.json``), and the files themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import BROKERS, broker_data, broker_expected

from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.checkpoint.producer_snapshot import ProducerSnapshot, load_producer_snapshot
from brokerless.log.checkpoint.quorum_state import load_quorum_state

TXN_SNAPSHOT = broker_data("clean") / "_.dots-and_under.scores-0-0" / "00000000000000000005.snapshot"


def as_kafka_gives(snapshot: ProducerSnapshot) -> list[dict[str, Any]]:
    return [
        {
            "producerId": int(snapshot.producer_ids[row]),
            "producerEpoch": int(snapshot.producer_epochs[row]),
            "coordinatorEpoch": int(snapshot.coordinator_epochs[row]),
            "lastTimestamp": int(snapshot.timestamps[row]),
            "currentTxnFirstOffset": first if (first := int(snapshot.current_txn_first_offsets[row])) >= 0 else None,
            "batches": [
                {
                    "firstSeq": int(snapshot.first_sequences[row]),
                    "lastSeq": int(snapshot.last_sequences[row]),
                    "firstOffset": int(snapshot.first_offsets[row]),
                    "lastOffset": int(snapshot.last_offsets[row]),
                    "timestamp": int(snapshot.timestamps[row]),
                }
            ]
            if snapshot.last_offsets[row] >= 0
            else [],
        }
        for row in range(len(snapshot.producer_ids))
    ]


@pytest.mark.parametrize("broker", BROKERS)
def test_what_a_broker_noted_about_a_partition_is_read_as_the_broker_reads_it(broker: str) -> None:
    files = 0
    for state in sorted(broker_expected(broker).glob("*/expected-state.json")):
        directory = broker_data(broker) / state.parent.name
        for name, expected in json.loads(state.read_bytes()).items():
            path = str(directory / name)
            if name == "leader-epoch-checkpoint":
                read = load_leader_epochs(path)
                pairs = zip(read.epochs.tolist(), read.start_offsets.tolist(), strict=True)
                assert [{"epoch": epoch, "startOffset": offset} for epoch, offset in pairs] == expected
            elif name == "partition.metadata":
                read = load_partition_metadata(path)
                assert {"version": read.version, "topicId": read.topic_id} == expected
            else:
                read = load_producer_snapshot(path)
                by_id = sorted(as_kafka_gives(read), key=lambda producer: producer["producerId"])
                assert by_id == sorted(expected, key=lambda producer: producer["producerId"])
            assert read.findings == ()
            assert read.file == path
            files += 1
    assert files >= 20


@pytest.mark.parametrize("broker", BROKERS)
def test_offset_checkpoints_name_partitions_of_their_log_directory(broker: str) -> None:
    data = broker_data(broker)
    partitions = {path.name for path in data.iterdir() if path.is_dir()}
    for path in sorted(data.glob("*-offset-checkpoint")):
        read = load_offset_checkpoint(str(path))
        assert read.findings == ()
        assert {f"{topic}-{partition}" for topic, partition in read.offsets} <= partitions
        assert len(read.offsets) == max(0, len(path.read_text().splitlines()) - 2)


def test_the_recovery_point_after_a_clean_stop_is_the_end_of_each_log() -> None:
    read = load_offset_checkpoint(str(broker_data("clean") / "recovery-point-offset-checkpoint"))
    for (topic, partition), offset in read.offsets.items():
        expected = (broker_expected("clean") / f"{topic}-{partition}" / "expected.jsonl").read_text().splitlines()
        batches = [line for line in map(json.loads, expected) if line["type"] == "batch"]
        assert offset == (batches[-1]["lastOffset"] + 1 if batches else 0)


def test_the_log_start_after_delete_records_is_checkpointed() -> None:
    read = load_offset_checkpoint(str(broker_data("clean") / "log-start-offset-checkpoint"))
    assert read.offsets == {("head-deleted", 0): 105}


def test_an_empty_checkpoint_has_no_entries_and_nothing_wrong_as_for_kafka() -> None:
    read = load_offset_checkpoint(str(broker_data("unclean") / "cleaner-offset-checkpoint"))
    assert (read.offsets, read.findings) == ({}, ())


def test_meta_properties_say_which_node_of_which_cluster_it_is() -> None:
    kraft = load_meta_properties(str(broker_data("clean") / "meta.properties"))
    assert (kraft.version, kraft.cluster_id, kraft.node_id) == (1, "AAAAAAAAQACAAAAAAAAAAQ", 1)
    assert kraft.directory_id == "JnctyTyXiAUoM7EFNU1m3g"
    zookeeper = load_meta_properties(str(broker_data("old-formats") / "meta.properties"))
    assert (zookeeper.version, zookeeper.cluster_id, zookeeper.node_id) == (0, "Ap6ckfVFTJCyOxOLtYW-aw", 1)
    assert kraft.findings == zookeeper.findings == ()


def test_the_quorum_state_says_who_leads_the_metadata_log() -> None:
    state = load_quorum_state(str(broker_data("clean") / "__cluster_metadata-0" / "quorum-state"))
    assert (state.version, state.leader_id, state.leader_epoch, state.voted_id) == (0, 1, 2, -1)
    assert (state.voters, state.findings) == ((1,), ())


def test_a_quorum_state_of_version_1_has_a_directory_instead_of_voters(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(
        '{"leaderId":-1,"leaderEpoch":7,"votedId":3,"votedDirectoryId":"JnctyTyXiAUoM7EFNU1m3g","data_version":1}'
    )
    state = load_quorum_state(str(path))
    assert (state.leader_id, state.leader_epoch, state.voted_id) == (-1, 7, 3)
    assert (state.voted_directory_id, state.voters, state.findings) == ("JnctyTyXiAUoM7EFNU1m3g", (), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("1\n0\n", "version 0", id="another version"),
        pytest.param("zero\n0\n", "an int32 for 'zero'", id="no version"),
        pytest.param("0\n2\n0 0\n", "2 entries", id="cut off"),
        pytest.param("0\n1\n0 0\n1 5\n", "1 entries", id="more than its count"),
        pytest.param("0\n1\n0 0 0\n", "2 words", id="another checkpoint's line"),
        pytest.param("0\n1\n0 9223372036854775808\n", "an int64 for '9223372036854775808'", id="too large"),
        pytest.param("0\n1\n\0\0\0", "2 words", id="zeros"),
    ],
)
def test_a_checkpoint_that_kafka_refuses_gives_nothing_but_a_finding(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text(text)
    read = load_leader_epochs(str(path))
    assert len(read.epochs) == 0
    (finding,) = read.findings
    assert (finding.severity, finding.kind, finding.file) == ("error", "checkpoint-corrupt", str(path))
    assert finding.expected == expected


def test_epochs_that_go_back_are_told(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n3\n0 0\n5 100\n4 200\n")
    read = load_leader_epochs(str(path))
    assert read.epochs.tolist() == [0, 5, 4]
    assert [(each.severity, each.kind, each.offset) for each in read.findings] == [
        ("warning", "checkpoint-not-sorted", 200)
    ]


def test_a_checkpoint_of_bytes_that_are_no_text_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(b"0\n1\n\xff\xfe 0 0\n")
    read = load_offset_checkpoint(str(path))
    assert read.offsets == {}
    assert [each.kind for each in read.findings] == ["checkpoint-corrupt"]


def test_every_flipped_byte_of_a_producer_snapshot_is_noticed(tmp_path: Path) -> None:
    good = TXN_SNAPSHOT.read_bytes()
    path = tmp_path / TXN_SNAPSHOT.name
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        read = load_producer_snapshot(str(path))
        assert len(read.producer_ids) == 0
        assert [(each.severity, each.kind) for each in read.findings] == [("error", "producer-snapshot-corrupt")]


def test_every_cut_of_a_producer_snapshot_is_noticed(tmp_path: Path) -> None:
    good = TXN_SNAPSHOT.read_bytes()
    path = tmp_path / TXN_SNAPSHOT.name
    for size in range(len(good)):
        path.write_bytes(good[:size])
        assert [each.kind for each in load_producer_snapshot(str(path)).findings] == ["producer-snapshot-corrupt"]


def test_sequences_of_a_snapshot_wrap_around(tmp_path: Path) -> None:
    snapshot = load_producer_snapshot(str(TXN_SNAPSHOT))
    snapshot.last_sequences[:] = 1
    assert snapshot.first_sequences.tolist() == [2**31 - 3]  # 5 records: 2147483645, ..6, ..7, 0, 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "partition-metadata-corrupt"),
        ("version: 0\n", "partition-metadata-corrupt"),
        ("version: -1\ntopic_id: GGfzE_HvRoGT7m9N-0_chw", "partition-metadata-corrupt"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "partition-metadata-corrupt"),
        ("version: 0\ntopic_id: GGfzE_HvRoGT7m9N", "partition-metadata-corrupt"),
    ],
)
def test_a_partition_without_a_topic_id_is_a_finding(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    read = load_partition_metadata(str(path))
    assert (read.version, read.topic_id, [each.kind for each in read.findings]) == (None, None, [kind])


@pytest.mark.parametrize(
    "text", ["version=2\n", "version=1\nnode.id=1\n", "version=1\ncluster.id=a\nnode.id=one\n", "version=\n"]
)
def test_meta_properties_that_kafka_refuses_are_a_finding(tmp_path: Path, text: str) -> None:
    path = tmp_path / "meta.properties"
    path.write_text(text)
    read = load_meta_properties(str(path))
    assert (read.version, read.properties) == (None, {})
    assert [each.kind for each in read.findings] == ["meta-properties-corrupt"]


def test_meta_properties_are_java_properties(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("! a comment\n  node.id : 7\nversion 1\ncluster.id=a\\=b\\:c\n")
    read = load_meta_properties(str(path))
    assert (read.version, read.node_id, read.cluster_id, read.findings) == (1, 7, "a=b:c", ())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"data_version":9}', '{"data_version":0,"leaderId":"1"}', "[" * 5000]
)
def test_a_quorum_state_that_kafka_refuses_is_a_finding(tmp_path: Path, text: str) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(text)
    assert [each.kind for each in load_quorum_state(str(path)).findings] == ["quorum-state-corrupt"]


def test_a_file_that_is_not_there_is_a_finding() -> None:
    for load in (load_leader_epochs, load_offset_checkpoint, load_producer_snapshot, load_quorum_state):
        (finding,) = load("nowhere/at-all").findings
        assert (finding.severity, finding.kind) == ("error", "unreadable-file")
        assert finding.message == "there is no such file or directory"


def test_noise_in_any_of_these_files_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    random = np.random.default_rng(1)
    for size in range(1, 200):
        for content in (random.bytes(size), bytes(random.choice(list(b'01 \n:={}[]",aversion\\-'), size).tolist())):
            path.write_bytes(b"7" + content)
            for load in (load_leader_epochs, load_offset_checkpoint, load_partition_metadata, load_producer_snapshot):
                assert load(str(path)).findings
            load_quorum_state(str(path))
            load_meta_properties(str(path))
