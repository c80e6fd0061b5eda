"""The disks that a snapshot becomes: of one node, or of all that had replicas by the metadata."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.jobs.backup.disks import rows_of
from tests.jobs.rebuild.from_snapshot.disks import DEMO, REPLICAS, mapping, three_nodes

import brokerless
from brokerless import UsageError
from brokerless.cli import main
from brokerless.clusters.disk import load_disk
from brokerless.internals.metadata.cluster import Cluster, read_cluster
from brokerless.jobs.rebuild.from_snapshot.disks import spread
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.progress import ignore

TOPICS = ("orders", "payments", "users", "__consumer_offsets", "__transaction_state")


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """A snapshot of three nodes; the disks are gone."""
    disks = three_nodes(tmp_path)
    result = brokerless.backup(disks, tmp_path / "backup", name="three")
    assert result.is_complete, result.findings
    for each in disks:
        shutil.rmtree(each)
    return f"{tmp_path / 'backup'}@three"


def partitions_in(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir() if each.is_dir() and each.name != "__cluster_metadata-0"}


def test_without_spread_one_node_has_all_partitions(stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", apply=True)
    assert (rebuilt.lost, rebuilt.findings) == ((), ())
    assert [each.node_id for each in rebuilt.nodes] == [1]
    assert all(
        row["replicas"] == row["isr"] == [1] for each in rebuilt.cluster.partitions.values() for row in each.values()
    )
    assert rows_of(tmp_path / "to" / "node-1", TOPICS) == rows_of(DEMO, TOPICS)


def test_spread_over_the_nodes_each_has_what_the_metadata_has_there(stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", spread=True, apply=True)
    assert (rebuilt.lost, rebuilt.findings) == ((), ())
    expected = {(topic, number): nodes for (topic, number), nodes in REPLICAS.items()}
    for node in (1, 2, 3):
        own = {f"{topic}-{number}" for (topic, number), nodes in expected.items() if node in nodes}
        own |= {"users-0", "__consumer_offsets-0", "__transaction_state-0"} if node == 1 else set()
        assert partitions_in(tmp_path / "to" / f"node-{node}") == own
    for topic_id, partitions in rebuilt.cluster.partitions.items():
        for number, row in partitions.items():
            nodes = expected.get((rebuilt.cluster.topics[topic_id], number), [1])
            assert (row["replicas"], sorted(row["isr"])) == (nodes, sorted(nodes))
    truth = rows_of(DEMO, TOPICS)
    for node in (1, 2, 3):
        found = rows_of(tmp_path / "to" / f"node-{node}")
        assert {each: truth[each] for each in found if each in truth} == {
            each: found[each] for each in found if each in truth
        }


def test_all_replicas_of_a_partition_are_the_same_bytes(stored: str, tmp_path: Path) -> None:
    brokerless.rebuild(stored, tmp_path / "to", spread=True, apply=True)
    first, *others = (
        {each.name: each.read_bytes() for each in sorted(log.iterdir())}
        for log in sorted((tmp_path / "to").glob("*/orders-0"))
    )
    assert others == [first, first]
    assert any(name.endswith(".log") for name in first)


def test_a_start_of_each_node_changes_nothing(stored: str, tmp_path: Path) -> None:
    brokerless.rebuild(stored, tmp_path / "to", spread=True, apply=True)
    for node in (1, 2, 3):
        start = brokerless.open(tmp_path / "to" / f"node-{node}").restart()
        assert start.is_harmless, node


def test_positions_that_are_reset_are_reset_once_in_each_replica(stored: str, tmp_path: Path) -> None:
    """Copies are made of a log before anything is appended to it."""
    options = {"spread": True, "apply": True, "mapping": mapping(tmp_path / "m.json", (1, 2, 3))}
    brokerless.rebuild(stored, tmp_path / "to", reset_positions="end", **options)
    first, *others = ((each / f"{0:020}.log").read_bytes() for each in sorted((tmp_path / "to").glob("*/orders-0")))
    assert others == [first, first]


def test_nodes_get_other_ids_by_a_mapping_file(stored: str, tmp_path: Path) -> None:
    nodes = mapping(tmp_path / "others.json", (11, 12, 13), {11: 1, 12: 2, 13: 3})
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", mapping=nodes, spread=True, apply=True)
    assert partitions_in(tmp_path / "to" / "node-12") == {"orders-0", "orders-1", "payments-0"}
    (orders,) = (
        rows for topic_id, rows in rebuilt.cluster.partitions.items() if rebuilt.cluster.topics[topic_id] == "orders"
    )
    assert orders[0]["replicas"] == [11, 12, 13]


def test_the_only_broker_of_a_mapping_file_has_all_of_a_snapshot(stored: str, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(stored, tmp_path / "to", mapping=mapping(tmp_path / "one.json", (9,)), apply=True)
    assert (rebuilt.lost, rebuilt.findings) == ((), ())
    assert rows_of(tmp_path / "to" / "node-9", TOPICS) == rows_of(DEMO, TOPICS)


@pytest.mark.parametrize(
    ("nodes", "named"),
    [
        ((1, 3), "those that had payments-0; name node 2 in the mapping file"),
        ((3,), "those that had __consumer_offsets-0 and 3 other partitions; name nodes 1, 2 in the mapping file"),
    ],
)
def test_partitions_that_no_node_would_have_are_refused_with_what_to_do(
    nodes: tuple[int, ...], named: str, stored: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=named) as refused:
        brokerless.rebuild(stored, tmp_path / "to", mapping=mapping(tmp_path / "some.json", nodes), spread=True)
    assert str(refused.value).endswith("or leave out spread=, and give one broker, which has all")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"data": "link"}, "data=link is for disks"),
        ({"data": "in-place"}, "data=in-place is for disks"),
    ],
)
def test_what_is_for_disks_is_refused(options: dict[str, str], reason: str, stored: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        brokerless.rebuild(stored, tmp_path / "to", **options)  # type: ignore[arg-type]


def test_a_snapshot_is_given_alone_and_spread_is_for_snapshots(stored: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give it alone"):
        brokerless.rebuild([stored, DEMO], tmp_path / "to")
    with pytest.raises(UsageError, match="spread= is for a snapshot"):
        brokerless.rebuild(DEMO, tmp_path / "to", spread=True)
    with pytest.raises(UsageError, match="which is read"):
        brokerless.rebuild(stored, tmp_path / "backup" / "to")


def test_a_node_with_several_directories_gets_as_many() -> None:
    disk = load_disk(resolve(Location(str(DEMO))))
    assert disk.metadata is not None
    cluster = read_cluster(disk.metadata.paths, ignore)
    one, other = "b" * 22, "c" * 22
    for number, row in cluster.partitions[cluster.id_of("orders") or ""].items():
        row |= {"replicas": [1, 2], "directories": [row["directories"][0], one if number else other]}
    disks = spread(replace(disk, path="backup@1"), cluster)
    assert [(each.node_id, each.directory_id, len(each.replicas)) for each in disks] == [
        (1, disk.directory_id, 7), (2, other, 1), (2, one, 2),
    ]  # fmt: skip
    assert len({each.path for each in disks}) == 3


def test_without_metadata_nothing_says_where_replicas_are() -> None:
    disk = load_disk(resolve(Location(str(DEMO))))
    with pytest.raises(UsageError, match="leave out spread="):
        spread(disk, Cluster())


def test_the_command_line_does_the_same(stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebuild", stored, "--to", str(tmp_path / "to"), "--spread", "--apply", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [(row["nodeId"], row["partitions"]) for row in rows if row["table"] == "directories"]
    assert found == [(1, 5), (2, 3), (3, 3)]
