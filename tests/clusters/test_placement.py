"""Where replicas are by the cluster's metadata: one verdict for each row of the table, and the same kind everywhere.

Brokers were started on each (``tests/kafka/test_directory_restart.py``, ``tests/states``).
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import brokerless
from brokerless.cli import main
from brokerless.clusters.placement import KINDS, BrokerNode, Verdict, absent, is_reserved, place
from brokerless.clusters.start.directory_files import LoadedDirectory
from brokerless.findings import Kind
from brokerless.internals.metadata.cluster import Cluster

ORDERS, OTHER = "orders-id-orders-id-aa", "others-id-others-id-aa"
HERE, GONE = "here-directory-here-aa", "gone-directory-gone-aa"
NODE = BrokerNode(1, {"/a": HERE, "/b": "b-directory-b-direct-a"})


def row(*replicas: int, directories: tuple[str, ...] = ()) -> dict[str, object]:
    return {"replicas": list(replicas), "isr": list(replicas), "directories": list(directories)}


CLUSTER = Cluster(
    topics={ORDERS: "orders", OTHER: "others"},
    partitions={
        ORDERS: {0: row(1, directories=(HERE,)), 1: row(1, directories=(GONE,)), 2: row(2, 3)},
        OTHER: {0: row(1, directories=(HERE,))},
    },
)


def replica(name: str, topic_id: str | None, root: str = "/a", corruption: bool = False) -> LoadedDirectory:
    parts = name.partition(".")
    topic, _, number = parts[0].rpartition("-")
    state = parts[2].rpartition("-")[2] if parts[2] else "live"
    broken = Kind.PARTITION_METADATA_CORRUPT.at(f"{root}/{name}/partition.metadata") if corruption else None
    return LoadedDirectory(topic, int(number), state, f"{root}/{name}", topic_id=topic_id, corruption=broken)  # type: ignore[arg-type]


UNIQUE = "5" * 32
STATES: dict[Verdict, tuple[list[LoadedDirectory], Cluster | None]] = {
    Verdict.HERE: ([replica("orders-0", ORDERS)], CLUSTER),
    Verdict.PROMOTED: ([replica(f"orders-0.{UNIQUE}-future", ORDERS)], CLUSTER),
    Verdict.MOVING: ([replica(f"orders-0.{UNIQUE}-future", ORDERS, "/b"), replica("orders-0", ORDERS)], CLUSTER),
    Verdict.EMPTIED: ([replica(f"orders-0.{UNIQUE}-future", ORDERS, "/b")], CLUSTER),
    Verdict.BLOCKED: ([replica(f"orders-0.{UNIQUE}-future", ORDERS), replica("orders-0", ORDERS)], CLUSTER),
    Verdict.OTHER_DIRECTORY: ([replica("orders-1", ORDERS)], CLUSTER),
    Verdict.OTHER_TOPIC: ([replica("orders-0", OTHER)], CLUSTER),
    Verdict.TOPIC_UNKNOWN: ([replica("orders-0", "unknown-id-unknown-id-a")], CLUSTER),
    Verdict.PARTITION_UNKNOWN: ([replica("orders-9", ORDERS)], CLUSTER),
    Verdict.ELSEWHERE: ([replica("orders-2", ORDERS)], CLUSTER),
    Verdict.NO_ID: ([replica("orders-0", None)], None),
    Verdict.ID_CORRUPT: ([replica("orders-0", None, corruption=True)], CLUSTER),
    Verdict.STRAY: ([replica(f"orders-0.{UNIQUE}-stray", ORDERS)], CLUSTER),
    Verdict.DELETED: ([replica(f"orders-0.{UNIQUE}-delete", ORDERS)], CLUSTER),
}


@pytest.mark.parametrize("verdict", STATES)
def test_each_verdict(verdict: Verdict) -> None:
    replicas, cluster = STATES[verdict]
    placed = place(replicas, cluster, NODE)[0]
    assert placed.verdict == verdict
    finding = placed.finding
    assert (None if finding is None else finding.kind) == KINDS.get(verdict)


def test_a_partition_that_a_node_has_twice_is_a_placement_of_its_own(tmp_path: Path) -> None:
    placed = place([replica("orders-0", ORDERS), replica("orders-0", ORDERS, "/b")], CLUSTER, NODE)
    assert [each.verdict for each in placed] == [Verdict.HERE, Verdict.HERE, Verdict.TWICE]
    finding = placed[-1].finding
    assert finding is not None
    assert "also as /a/orders-0" in finding.message


def test_a_promoted_replica_that_replaces_another_one_is_a_warning_of_the_start() -> None:
    placed = place([replica(f"orders-0.{UNIQUE}-future", ORDERS), replica("orders-0", ORDERS, "/b")], CLUSTER, NODE)
    finding = placed[0].finding
    assert finding is not None
    assert finding.severities == ("info", "warning", "info")


def test_what_is_absent_begins_where_the_metadata_has_it_or_else_in_the_first_directory() -> None:
    missing = list(absent(place([], CLUSTER, NODE), CLUSTER, NODE))
    assert [(each.place, each.path) for each in missing] == [
        (("orders", 0), "/a"),
        (("orders", 1), "/a"),
        (("others", 0), "/a"),
    ]
    assert {each.finding.kind for each in missing} == {"partition-missing"}
    elsewhere = replace(missing[0], is_nowhere=False).finding
    assert (elsewhere.kind, elsewhere.severities) == ("replica-missing", ("info", "error", "warning"))


def test_reserved_directory_ids_say_nothing() -> None:
    assert is_reserved("A" * 21 + "Q")
    assert not is_reserved("A" * 20 + "Zw")


DEMO = Path(__file__).parents[2] / "demo" / "data"


def test_all_commands_report_one_kind_one_path_and_the_severity_of_their_scope(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    disk = Path(shutil.copytree(DEMO, tmp_path / "disk"))
    shutil.copytree(disk / "orders-0", disk / "orders-9")
    gone = Path(shutil.copytree(disk / "orders-0", disk / "gone-0"))
    (gone / "partition.metadata").write_text(f"version: 0\ntopic_id: {'B' * 21}A")
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for command in (["audit"], ["restart"], ["cluster"], ["rebuild", "--to", str(tmp_path / "to")]):
        main([command[0], str(disk), *command[1:], "--json"])
        rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
        rows += [each for at in rows for each in at.get("stray") or () if isinstance(each, dict)]
        own = {
            Path(at["file"]).parent.name: at for at in rows if at.get("kind") in ("topic-unknown", "partition-unknown")
        }
        found[command[0]] = {name: (at["kind"], at["severity"]) for name, at in own.items()}
    expected = {"orders-9": ("partition-unknown", "error"), "gone-0": ("topic-unknown", "error")}
    assert found == dict.fromkeys(("audit", "restart", "cluster", "rebuild"), expected)
    described = brokerless.cluster(disk)
    assert {Path(each.file).parent.name for each in described.findings} >= {"orders-9", "gone-0"}
