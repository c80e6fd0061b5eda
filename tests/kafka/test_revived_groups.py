"""Clients of groups, share groups and transactions go on with clusters that were rebuilt: with positions past the end
of what is left, and of partitions' directories alone. The judges are Kafka's own clients of 4.4.0."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_INVALID
from confluent_kafka.admin import ConfigResource

import brokerless
from brokerless.clusters.start.directories import plan_directories
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.jars import HELPERS_OF_4, OLD_FORMATS, check, run
from tests.kafka.producers import Record, produce_confluent
from tests.kafka.rebuilt import RebuiltNode, complaints, mapping, nodes_of, running

pytestmark = pytest.mark.xdist_group("revived_groups")

DEMO = Path(__file__).parents[2] / "demo" / "data"
COMMITTED_AT = 2
"""The offset of the first record in which the demo's group has its position."""
OWN_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
COUNT, NEW = 50, 20
GROUPS = {"shared": "share", "newer": "consumer", "older": "classic"}
"""Their protocols."""
OF_2001 = 1_000_000_000_000
RETENTION = {
    "log.retention.ms": "604800000",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
}
"""Kafka's default, checked at once: the tests' other brokers delete nothing."""


@dataclass
class Killed:
    """A killed broker's disk, and the settings of Kafka's own topics as it had created them."""

    disk: Path
    settings: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


def clients(broker: KafkaBroker, *words: str) -> list[str]:
    return check(run("Clients", broker.bootstrap, *words, helper=True, sources=HELPERS_OF_4)).decode().splitlines()


def own_settings(broker: KafkaBroker) -> dict[str, dict[str, str]]:
    """The settings of Kafka's own topics that are theirs, as a broker returns them."""
    admin = broker.admin()
    topics = [each for each in OWN_TOPICS if each in admin.list_topics(timeout=30).topics]
    asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, each) for each in topics])
    of_topic = 1  # ConfigSource.DYNAMIC_TOPIC_CONFIG
    return {
        resource.name: {name: each.value for name, each in found.result(30).items() if each.source == of_topic}
        for resource, found in asked.items()
    }


def killed(directory: Path, version: str, *words: str) -> Killed:
    broker = KafkaBroker(directory / "broker", {"share.coordinator.state.topic.num.partitions": "2"}, version)
    with broker:
        broker.create_topic("orders", 2)
        broker.create_topic("old")
        records = [Record(b"key", b"value", partition=number % 2) for number in range(2 * COUNT)]
        produce_confluent(broker, "orders", records)
        produce_confluent(broker, "old", [Record(None, b"old", timestamp=OF_2001)] * 10, "none", "commit")
        for line in clients(broker, *words) if words else ():
            assert "failed" not in line
        found = Killed(directory / "disk", own_settings(broker))
        crash(broker)
    broker.copy_log_dir(found.disk)
    return found


@pytest.fixture(scope="module")
def newest(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    words = [f"{protocol},{group},orders,{2 * COUNT}" for group, protocol in GROUPS.items()]
    return killed(tmp_path_factory.mktemp("groups"), "4.4.0", *words, "transact,mover,old,3")


def rebuilt(disk: Path, to: Path, **how: object) -> Rebuild:
    nodes = mapping(to.with_suffix(".json"), (1,), (1,))
    return brokerless.rebuild(disk, to, mapping=nodes, apply=True, **how)  # type: ignore[arg-type]


def places(line: str) -> list[tuple[int, int]]:
    return sorted((int(each.split(":")[0]), int(each.split(":")[1])) for each in line.split())


@pytest.fixture(scope="module")
def revived(
    newest: Killed, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Rebuild, RebuiltNode]]]:
    """Four rebuilt clusters that run at once: one with ``orders-0`` damaged, two without it, and one of directories
    alone."""
    root = tmp_path_factory.mktemp("revived")
    lost = Path(shutil.copytree(newest.disk, root / "lost", ignore=shutil.ignore_patterns("orders-0")))
    bare = Path(shutil.copytree(newest.disk, root / "bare", ignore=shutil.ignore_patterns("__cluster_metadata-0")))
    cut = Path(shutil.copytree(newest.disk, root / "cut"))
    log = cut / "orders-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    plans = {
        "cut": rebuilt(cut, root / "cut-to", reset_positions="end"),
        "end": rebuilt(lost, root / "end", reset_positions="end"),
        "start": rebuilt(lost, root / "start", reset_positions="start"),
        "bare": rebuilt(bare, root / "bare-to"),
    }
    nodes: dict[str, RebuiltNode] = {}
    for name, each in plans.items():
        (nodes[name],) = nodes_of(root / f"process-{name}", each)
        nodes[name].properties.write_text(
            nodes[name].properties.read_text() + "".join(f"{key}={value}\n" for key, value in RETENTION.items())
        )
    with running(list(nodes.values())):
        yield {name: (plans[name], nodes[name]) for name in plans}


def test_positions_past_the_end_are_listed_with_their_group_and_end(newest: Killed, tmp_path: Path) -> None:
    lost = Path(shutil.copytree(newest.disk, tmp_path / "lost", ignore=shutil.ignore_patterns("orders-0")))
    planned = brokerless.rebuild(lost, tmp_path / "to")
    found = {(each.position.group, each.position.topic, each.position.partition) for each in planned.positions}
    assert found == {(group, "orders", 0) for group in GROUPS}
    assert {(each.position.offset, each.end_offset) for each in planned.positions} == {(COUNT, 0)}
    described = [each for each in brokerless.cluster(lost).findings if each.kind == "position-past-end"]
    assert len(described) == len(GROUPS)
    assert not [each for each in brokerless.cluster(newest.disk).findings if each.kind == "position-past-end"]


@pytest.mark.parametrize("reset_to", ["end", "start"])
def test_groups_get_new_records_of_a_partition_that_begins_again(
    revived: dict[str, tuple[Rebuild, RebuiltNode]], reset_to: str
) -> None:
    plan, node = revived[reset_to]
    assert {each.kind for each in plan.findings if each.severity != "info"} == {"partition-missing"}
    produce_confluent(node, "orders", [Record(None, b"new", partition=0)] * NEW, partitioner="consistent")
    lines = clients(node, *(f"{protocol},{group},orders,{NEW}" for group, protocol in GROUPS.items()))
    expected = [(0, number) for number in range(NEW)]
    assert {group: places(line) for group, line in zip(GROUPS, lines, strict=True)} == dict.fromkeys(GROUPS, expected)
    assert complaints([node]) == []


def test_groups_go_on_at_the_end_that_recovery_has_left(revived: dict[str, tuple[Rebuild, RebuiltNode]]) -> None:
    plan, node = revived["cut"]
    (end,) = {each.end_offset for each in plan.positions}
    assert end < COUNT
    assert {each.kind for each in plan.findings if each.severity != "info"} == {"recovery-cuts"}
    assert node.watermarks("orders")[0] == (0, end)
    produce_confluent(node, "orders", [Record(None, b"new", partition=0)] * NEW, partitioner="consistent")
    lines = clients(node, *(f"{protocol},{group},orders,{NEW}" for group, protocol in GROUPS.items()))
    expected = [(0, end + number) for number in range(NEW)]
    assert {group: places(line) for group, line in zip(GROUPS, lines, strict=True)} == dict.fromkeys(GROUPS, expected)
    assert complaints([node]) == []


def test_a_cluster_of_directories_alone_serves_groups_share_groups_and_transactions(
    newest: Killed, revived: dict[str, tuple[Rebuild, RebuiltNode]]
) -> None:
    plan, node = revived["bare"]
    produce_confluent(node, "orders", [Record(None, b"new", partition=1)] * NEW)
    words = [f"{protocol},{group},orders,{NEW}" for group, protocol in GROUPS.items()]
    *lines, transacted = clients(node, *words, "transact,mover,old,2")
    expected = [(1, COUNT + number) for number in range(NEW)]
    assert {group: places(line) for group, line in zip(GROUPS, lines, strict=True)} == dict.fromkeys(GROUPS, expected)
    assert len(places(transacted)) == 2
    assert own_settings(node) == newest.settings
    assert {"group.version", "share.version", "transaction.version"} <= plan.cluster.features.keys()


def test_retention_deletes_nothing_of_a_topic_whose_settings_are_lost(
    revived: dict[str, tuple[Rebuild, RebuiltNode]],
) -> None:
    _, with_settings = revived["end"]
    assert until_deleted(with_settings)[0] == 10  # a topic whose settings are known goes by the broker's default
    start, end = revived["bare"][1].watermarks("old")[0]
    assert start == 0
    assert end >= 15


def until_deleted(broker: KafkaBroker) -> tuple[int, int]:
    give_up = time.monotonic() + 30
    while (found := broker.watermarks("old")[0])[0] == 0 and time.monotonic() < give_up:
        time.sleep(0.1)
    return found


def test_settings_of_own_topics_are_those_with_which_3_9_creates_them(kafka_jars: Path, tmp_path: Path) -> None:
    found = killed(tmp_path, OLD_FORMATS, "classic,older,orders,100")
    shutil.rmtree(found.disk / "__cluster_metadata-0")
    plan = brokerless.rebuild(found.disk, tmp_path / "to")
    ours = {topic: settings for (_, topic), settings in plan.cluster.configs.items() if topic in OWN_TOPICS}
    assert ours == found.settings
    assert ours.keys() == {CONSUMER_OFFSETS, TRANSACTION_STATE}


def test_a_position_that_recovery_cuts_off_is_none_for_a_broker(kafka_jars: Path, tmp_path: Path) -> None:
    """The demo's disk, whose own dry runs are in ``tests/clusters/start/test_group_positions.py``."""
    broker = KafkaBroker(tmp_path / "broker")
    shutil.copytree(DEMO, broker.log_dir)
    (broker.log_dir / ".kafka_cleanshutdown").unlink()
    (broker.log_dir / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    (log,) = broker.log_dir.glob(f"{CONSUMER_OFFSETS}-*/*.log")
    rows = brokerless.open(log).batches(["position", "lastOffset"]).read_all().to_pylist()
    at = next(row["position"] for row in rows if row["lastOffset"] == COMMITTED_AT)
    data = bytearray(log.read_bytes())
    data[at + 70] ^= 1
    log.write_bytes(data)
    shutil.rmtree(broker.log_dir / "orders-2")
    (restart,) = plan_directories([resolve(Location(str(broker.log_dir)))])
    assert not restart.lost_positions
    with broker:
        broker.wait_for_leaders("orders", 3)
        assert broker.committed("shipping", [("orders", 2)]) == {("orders", 2): OFFSET_INVALID}
