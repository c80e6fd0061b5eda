"""Oracle: the files that real brokers wrote, what their own classes read in them (``expected-state.json``), and what
Kafka's own classes read in ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import BROKERS, broker_data, broker_expected

from brokerless.format import layouts
from brokerless.log.checkpoint.leader_epochs import leader_epoch_checkpoint, load_leader_epochs
from brokerless.log.checkpoint.meta_properties import load_meta_properties, meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint, offset_checkpoint
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata, partition_metadata
from brokerless.log.checkpoint.quorum_state import load_quorum_state
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.producer.snapshot import ProducerSnapshot, load_producer_snapshot, producer_snapshot
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.location import Location


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
def test_what_a_broker_recorded_of_a_partition_is_read_as_the_broker_reads_it(broker: str) -> None:
    files = 0
    for state in sorted(broker_expected(broker).glob("*/expected-state.json")):
        directory = broker_data(broker) / state.parent.name
        for name, expected in json.loads(state.read_bytes()).items():
            path = str(directory / name)
            if name == "leader-epoch-checkpoint":
                read = load_leader_epochs(Location(path))
                pairs = zip(read.epochs.tolist(), read.start_offsets.tolist(), strict=True)
                assert [{"epoch": epoch, "startOffset": offset} for epoch, offset in pairs] == expected
            elif name == "partition.metadata":
                read = load_partition_metadata(Location(path))
                assert {"version": read.version, "topicId": read.topic_id} == expected
            else:
                read = load_producer_snapshot(Location(path))
                by_id = sorted(as_kafka_gives(read), key=lambda producer: producer["producerId"])
                assert by_id == sorted(expected, key=lambda producer: producer["producerId"])
            assert read.findings == ()
            assert read.file == path
            files += 1
    assert files >= 20


def test_a_file_that_is_not_there_is_a_finding() -> None:
    for load in (load_leader_epochs, load_offset_checkpoint, load_producer_snapshot, load_quorum_state):
        (finding,) = load(Location("nowhere/at-all")).findings
        assert (finding.severity, finding.kind) == ("error", "unreadable-file")
        assert finding.message == "there is no such file or directory"


def test_noise_in_any_of_these_files_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    random = np.random.default_rng(1)
    for size in range(1, 200):
        for content in (random.bytes(size), bytes(random.choice(list(b'01 \n:={}[]",aversion\\-'), size).tolist())):
            path.write_bytes(b"7" + content)
            for load in (load_leader_epochs, load_offset_checkpoint, load_partition_metadata, load_producer_snapshot):
                assert load(Location(str(path))).findings
            load_quorum_state(Location(str(path)))
            load_meta_properties(Location(str(path)))


def snapshot_entries(path: Path) -> np.ndarray:
    read = load_producer_snapshot(Location(str(path)))
    assert read.findings == ()
    columns = (
        read.producer_ids, read.producer_epochs, read.last_sequences, read.last_offsets, read.offset_deltas,
        read.timestamps, read.coordinator_epochs, read.current_txn_first_offsets,
    )  # fmt: skip
    entries = np.empty(len(read.producer_ids), layouts.PRODUCER_SNAPSHOT_ENTRY)
    for name, column in zip(layouts.PRODUCER_SNAPSHOT_ENTRY.names or (), columns, strict=True):
        entries[name] = column
    return entries


@pytest.mark.parametrize("broker", BROKERS)
def test_what_a_broker_wrote_for_a_partition_is_written_byte_for_byte(broker: str) -> None:
    files = 0
    for path in sorted(broker_data(broker).glob("*/*")):
        if path.name == "leader-epoch-checkpoint" and path.stat().st_size:
            read = load_leader_epochs(Location(str(path)))
            written = leader_epoch_checkpoint(zip(read.epochs.tolist(), read.start_offsets.tolist(), strict=True))
        elif path.name == "partition.metadata":
            written = partition_metadata(load_partition_metadata(Location(str(path))).topic_id or "")
        elif path.suffix == ".snapshot":
            written = producer_snapshot(snapshot_entries(path))
        else:
            continue
        assert written == path.read_bytes()
        files += 1
    assert files >= 20


def test_nothing_to_record_is_a_checkpoint_without_entries() -> None:
    assert leader_epoch_checkpoint([]) == offset_checkpoint({}) == b"0\n0\n"
    assert len(producer_snapshot(np.empty(0, layouts.PRODUCER_SNAPSHOT_ENTRY))) == 10


@pytest.mark.usefixtures("kafka_jars")
def test_kafka_reads_what_we_wrote(tmp_path: Path) -> None:
    from tests.kafka.jars import check, run

    epochs = [(0, 0), (7, 2**40), (2**31 - 1, 2**63 - 1)]
    offsets = {("a.b_c-d", 0): 0, ("a.b_c-d", 2**31 - 1): 2**63 - 1}
    producers = np.zeros(3, layouts.PRODUCER_SNAPSHOT_ENTRY)
    producers["producer_id"] = [5, 2**63 - 1, 0]
    producers["producer_epoch"] = [0, 2**15 - 1, 3]
    producers["last_sequence"] = [1, 2**31 - 1, -1]
    producers["last_offset"] = [10, 2**62, -1]
    producers["offset_delta"] = [3, 0, 0]
    producers["timestamp"] = [1_700_000_000_000, -1, 12]
    producers["coordinator_epoch"] = [-1, 9, 0]
    producers["current_txn_first_offset"] = [-1, 2**61, -1]
    topic, directory = random_id(), random_id()
    for name, data in {
        "leader-epoch-checkpoint": leader_epoch_checkpoint(epochs),
        "recovery-point-offset-checkpoint": offset_checkpoint(offsets),
        "00000000000000000011.snapshot": producer_snapshot(producers),
        "partition.metadata": partition_metadata(topic),
        "meta.properties": meta_properties("a=b:c", 3, directory),
    }.items():
        write_file(tmp_path / name, data)
    given = json.loads(check(run("ReadState", str(tmp_path), helper=True)))
    assert given == {
        "leader-epoch-checkpoint": [list(each) for each in epochs],
        "recovery-point-offset-checkpoint": {f"{name}-{part}": offset for (name, part), offset in offsets.items()},
        "00000000000000000011.snapshot": [
            # firstSeq wraps around: 1, 0, 2147483647, 2147483646
            {"producerId": 5, "epoch": 0, "coordinatorEpoch": -1, "timestamp": 1_700_000_000_000, "txn": -1,
             "batches": [[2147483646, 1, 7, 10]]},
            {"producerId": 2**63 - 1, "epoch": 2**15 - 1, "coordinatorEpoch": 9, "timestamp": -1, "txn": 2**61,
             "batches": [[2**31 - 1, 2**31 - 1, 2**62, 2**62]]},
            {"producerId": 0, "epoch": 3, "coordinatorEpoch": 0, "timestamp": 12, "txn": -1, "batches": []},
        ],
        "partition.metadata": topic,
        "meta.properties": {"clusterId": "a=b:c", "nodeId": 3, "directoryId": directory},
    }  # fmt: skip
