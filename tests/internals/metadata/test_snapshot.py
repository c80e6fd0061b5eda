"""A snapshot with the same contents is the one that ``kafka-storage format`` writes, and the dump tool reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.internals.dumps import decoded_records, dumped_records
from tests.kafka.jars import NEWEST, OLD_FORMATS, check, run
from tests.kafka.oracle import dump

import brokerless
from brokerless.format.control import decode_control
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.metadata.records import MetadataRecord, cluster_records
from brokerless.internals.metadata.snapshot import BATCH_SIZE, snapshot_batches
from brokerless.internals.records import decode_record

SETTINGS = {
    "process.roles": "controller",
    "node.id": "7",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:19093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:19093",
}


def contents(file: Path) -> tuple[list[MetadataRecord], list[dict[str, Any]] | None]:
    records: list[MetadataRecord] = []
    voters = None
    for rows in brokerless.open(file).records(["key", "value", "isControl"], control=True):
        for row in rows.to_pylist():
            if row["isControl"]:
                control = decode_control(row["key"], row["value"])
                assert control is not None
                if control.type == "KRAFT_VOTERS" and control.data is not None:
                    voters = control.data["voters"]
                continue
            record = decode_record("__cluster_metadata", None, row["value"])
            assert record.payload is not None
            records.append((str(record.type), record.payload["version"], record.payload["data"]))
    return records, voters


def without_times(batches: bytes, file: Path) -> list[tuple[int, bytes]]:
    """Batches without their checksums and timestamps, which are those of their writing, and a header's own."""
    found: list[tuple[int, bytes]] = []
    file.write_bytes(batches)
    for rows in brokerless.open(file).batches(["position", "sizeInBytes"]):
        for row in rows.to_pylist():
            batch = bytearray(batches[row["position"] : row["position"] + row["sizeInBytes"]])
            batch[17:21] = bytes(4)
            batch[27:43] = bytes(16)
            if row["position"] == 0:
                batch[73:81] = bytes(8)
            found.append((row["position"], bytes(batch)))
    return found


@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_the_snapshot_of_a_formatted_quorum_is_kafkas(kafka_jars: Path, tmp_path: Path, version: str) -> None:
    properties = tmp_path / "server.properties"
    settings = {**SETTINGS, "log.dirs": str(tmp_path / "data")}
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    arguments = ("format", "--standalone", "--cluster-id=MkU3OEVBNTcwNTJENDM2Qk", "-c", str(properties))
    check(run("kafka.tools.StorageTool", *arguments, version=version))
    (theirs,) = tmp_path.glob("data/__cluster_metadata-0/*.checkpoint")
    records, voters = contents(theirs)
    assert voters is not None
    ours = b"".join(snapshot_batches(records, epoch=0, timestamp_ms=1, voters=voters))
    copy, own = tmp_path / theirs.name, tmp_path / f"{1:020}-{0:010}.checkpoint"
    assert without_times(ours, own) == without_times(theirs.read_bytes(), copy)


def test_kafkas_dump_tool_reads_a_snapshot_of_several_batches(kafka_jars: Path, tmp_path: Path) -> None:
    many = {f"name-{number}": "x" * 30_000 for number in range(80)}
    cluster = Cluster(topics={"A" * 21 + "g": "orders"}, configs={(2, "orders"): many}, next_producer_id=4000)
    batches = list(snapshot_batches(cluster_records(cluster, 21), epoch=2, timestamp_ms=1_700_000_000_000))
    assert len(batches) == 2 + 3
    assert all(len(each) <= BATCH_SIZE for each in batches)
    file = tmp_path / f"{50:020}-{2:010}.checkpoint"
    file.write_bytes(b"".join(batches))
    theirs = dumped_records(dump([file], "--cluster-metadata-decoder"))
    ours = decoded_records("__cluster_metadata", file)
    assert {offset: said.payload for offset, said in ours.items()} == {
        offset: said[1] for offset, said in theirs.items() if said is not None
    }
    assert len(theirs) == 1 + 1 + 80 + 1
