"""Real brokers start on rebuilt directories, and serve what the killed cluster had: topics with their ids, settings,
ACLs, users, committed offsets, and every record at its offset, to consumers in both isolation levels.

``python -m tests.kafka.rebuild_cases`` has more cases, with six nodes, and with Kafka 3.9.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

import brokerless
from tests.internals.dumps import decoded_records, dumped_records
from tests.kafka.described import Known, View
from tests.kafka.oracle import dump
from tests.kafka.producers import Consumed
from tests.kafka.rebuilt import (
    RebuiltNode,
    complaints,
    differences,
    goes_on,
    mapping,
    nodes_of,
    running,
    visible_topics,
)

pytestmark = pytest.mark.xdist_group("cluster-described")
METADATA = "__cluster_metadata-0"


def test_a_cluster_whose_controllers_are_gone_serves_all_that_it_had(known: Known, tmp_path: Path) -> None:
    nodes = mapping(tmp_path / "nodes.json", (1, 2, 3), (1, 2, 3))
    rebuilt = brokerless.rebuild(known.disks, tmp_path / "to", mapping=nodes, data="link", apply=True)
    assert not [each for each in rebuilt.findings if each.severity == "error"]
    (snapshot,) = (tmp_path / "to" / "node-1" / METADATA).glob("*.checkpoint")
    theirs = dumped_records(dump([snapshot], "--cluster-metadata-decoder"))
    ours = decoded_records("__cluster_metadata", snapshot)
    assert {at: said[1] for at, said in theirs.items() if said} == {at: said.payload for at, said in ours.items()}
    processes = nodes_of(tmp_path, rebuilt)
    with running(processes) as broker:
        assert differences(broker, known) == []
        assert visible_topics(processes[0].sasl) == {"orders"}  # by its ACL
        goes_on(broker)
    assert complaints(processes) == []


def test_one_new_node_takes_all_disks_with_damaged_metadata_or_none(known: Known, tmp_path: Path) -> None:
    cut, bare = (
        [shutil.copytree(each, tmp_path / name / each.name) for each in known.disks] for name in ("cut", "bare")
    )
    for each in cut:
        cut_metadata(each)
        cut_small_files(each)
    for each in bare:
        shutil.rmtree(each / METADATA)
    processes: list[RebuiltNode] = []
    for name, disks in (("cut", cut), ("bare", bare)):
        nodes = one_node(tmp_path / f"{name}.json", 7, disks)
        rebuilt = brokerless.rebuild(disks, tmp_path / f"to-{name}", mapping=nodes, quorum="dynamic", apply=True)
        processes += nodes_of(tmp_path / name, rebuilt)
    replicas = {place: [7] for place in known.replicas}
    with running(processes):
        assert differences(processes[0], known, replicas=replicas) == []
        of_directories = ("cluster_id", "topic_ids", "replicas", "end_offsets", "committed", "records")
        assert differences(processes[1], known, compared=of_directories, replicas=replicas) == []
    assert complaints(processes) == []


def cut_small_files(disk: Path) -> None:
    """Empties one file that a start parses, and cuts another, in each partition of a topic (KAFKA-16814)."""
    for partition in disk.glob("orders-*"):
        (partition / "partition.metadata").write_bytes(b"")
        (partition / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n")


def cut_metadata(disk: Path) -> None:
    """Leaves half of the last batch of the metadata, and a snapshot that is none."""
    log = max((disk / METADATA).glob("*.log"))
    (partition,) = brokerless.open(log).partitions
    last = [row for batch in partition.batches(["position", "sizeInBytes"]) for row in batch.to_pylist()][-1]
    log.write_bytes(log.read_bytes()[: last["position"] + last["sizeInBytes"] // 2])
    (disk / METADATA / f"{1:020}-{1:010}.checkpoint").write_bytes(b"no snapshot")


def one_node(file: Path, number: int, disks: Sequence[Path]) -> Path:
    """A mapping file for a node that is broker and controller, and has all disks."""
    document = json.loads(mapping(file, (number,), (number,)).read_text())
    document["nodes"][0]["disks"] = list(map(str, disks))
    file.write_text(json.dumps(document))
    return file


def test_nodes_start_with_exactly_what_is_printed_where_two_of_three_are_lost(known: Known, tmp_path: Path) -> None:
    """All three are brokers and controllers; of two, no disk is left."""
    document = json.loads(mapping(tmp_path / "nodes.json", (1, 2, 3), (1, 2, 3)).read_text())
    for each in document["nodes"]:  # what a user logs in with is in no metadata
        del each["listeners"]["SASL"], each["protocols"]
    (tmp_path / "nodes.json").write_text(json.dumps(document))
    brokerless.rebuild(known.disks, tmp_path / "all", mapping=tmp_path / "nodes.json", data="link", apply=True)
    rebuilt = brokerless.rebuild(tmp_path / "all" / "node-1", tmp_path / "to", apply=True)
    assert {each.node_id: each.roles for each in rebuilt.nodes} == {
        1: ("broker", "controller"), 2: ("controller",), 3: ("controller",),
    }  # fmt: skip
    processes = nodes_of(tmp_path, rebuilt)
    for each in processes:
        printed = rebuilt.server_properties(each.node_id)
        each.properties.write_text("".join(f"{name}={value}\n" for name, value in printed.items()))
    with running(processes) as broker:
        replicas = {place: [1] for place in known.replicas}
        here = {view: records for view, records in known.records.items() if 1 in known.replicas[view[:2]]}
        gone: dict[View, list[Consumed]] = {view: [] for view in known.records.keys() - here.keys()}
        of_node_1 = ("cluster_id", "topic_ids", "replicas", "records")
        assert differences(broker, known, compared=of_node_1, replicas=replicas, records={**here, **gone}) == []
        assert [each.process.poll() for each in processes if each.process is not None] == [None] * 3
    assert complaints(processes) == []
