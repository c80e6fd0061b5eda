"""Oracle: the files that real brokers wrote, byte for byte, and Kafka's own classes that read ours."""

from __future__ import annotations

import json
import re
import time
from calendar import timegm
from pathlib import Path

import numpy as np
import pytest
from tests.golden import BROKERS, broker_data

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.log.checkpoint.leader_epochs import leader_epoch_checkpoint, load_leader_epochs
from brokerless.log.checkpoint.meta_properties import load_meta_properties, meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint, offset_checkpoint
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata, partition_metadata
from brokerless.log.checkpoint.producer_snapshot import load_producer_snapshot, producer_snapshot
from brokerless.log.checkpoint.topic_ids import random_id
from brokerless.log.storage.atomic import write_file

CHECKPOINTS = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]


def snapshot_entries(path: Path) -> np.ndarray:
    read = load_producer_snapshot(str(path))
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
            read = load_leader_epochs(str(path))
            written = leader_epoch_checkpoint(zip(read.epochs.tolist(), read.start_offsets.tolist(), strict=True))
        elif path.name == "partition.metadata":
            written = partition_metadata(load_partition_metadata(str(path)).topic_id or "")
        elif path.suffix == ".snapshot":
            written = producer_snapshot(snapshot_entries(path))
        else:
            continue
        assert written == path.read_bytes()
        files += 1
    assert files >= 20


@pytest.mark.parametrize("broker", BROKERS)
def test_what_a_broker_wrote_for_its_log_directory_is_written_byte_for_byte(broker: str) -> None:
    for name in CHECKPOINTS:
        path = broker_data(broker) / name
        assert offset_checkpoint(load_offset_checkpoint(str(path)).offsets) == path.read_bytes()


@pytest.mark.parametrize("broker", ["clean", "unclean"])
def test_the_meta_properties_of_a_kraft_node_are_written_byte_for_byte(broker: str) -> None:
    path = broker_data(broker) / "meta.properties"
    read = load_meta_properties(str(path))
    comment = path.read_text().splitlines()[1]
    written = timegm(time.strptime(comment, "#%a %b %d %H:%M:%S %Z %Y"))
    assert read.cluster_id is not None
    assert read.node_id is not None
    assert meta_properties(read.cluster_id, read.node_id, read.directory_id, written * 1000 + 999) == path.read_bytes()


def test_nothing_to_note_is_a_checkpoint_without_entries() -> None:
    assert leader_epoch_checkpoint([]) == offset_checkpoint({}) == b"0\n0\n"
    assert len(producer_snapshot(np.empty(0, layouts.PRODUCER_SNAPSHOT_ENTRY))) == 10


def test_a_cluster_id_is_escaped_as_java_does_and_one_that_kafka_would_misread_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    write_file(path, meta_properties("#a=b:c\\d!", 7))
    read = load_meta_properties(str(path))
    assert (read.cluster_id, read.node_id, read.directory_id, read.findings) == ("#a=b:c\\d!", 7, None, ())
    for wrong in ("", "a b", "ünlich", "a\nnode.id=9"):
        with pytest.raises(UsageError):
            meta_properties(wrong, 7)


def test_ids_are_random_uuids_as_kafka_writes_them() -> None:
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in ids)


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
