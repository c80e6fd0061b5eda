"""What coordinators answer after the partitions of Kafka's own topics were raised twice, beside what commands read in
the same files. The judge is a broker of 4.4.0 and its admin client: a broker takes the number when it starts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewPartitions

import brokerless
from brokerless.findings import Finding, Kind
from brokerless.internals.coordinators import partition_of, share_key
from brokerless.internals.groups.positions import read_positions
from brokerless.internals.metadata.cluster import cluster_of
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from brokerless.internals.tables import history_rows, state_rows
from brokerless.jobs.report.job import lag_table
from brokerless.jobs.restore.live.groups import source_offsets
from brokerless.jobs.restore.source import SourceReading
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location
from brokerless.serving.groups.offsets import CommittedOffsets
from brokerless.serving.source.topics import load_topics
from tests.kafka import recorded_starts
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import HELPERS_OF_4, NEWEST, check, run
from tests.kafka.producers import Record, produce_confluent

pytestmark = pytest.mark.xdist_group("coordinators")

GROUPS = [f"group-{number}-ü{chr(0x1F600 + number % 50)}" for number in range(500)]
IDS = [f"payments-{number}" for number in range(60)]
COUNTS = {CONSUMER_OFFSETS: (5, 8, 13), TRANSACTION_STATE: (3, 4, 7), SHARE_GROUP_STATE: (3, 5, 8)}
SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
}
NONE = "none"
RECORDED = f"coordinators-{NEWEST}"


@dataclass
class Raised:
    """A stopped broker's directory, and what its coordinators answered before: none where they knew nothing.
    ``shared``: of three share groups, one of which is still where its coordinator looks."""

    directory: Path
    offsets: dict[str, str]
    producers: dict[str, str]
    shared: dict[str, str]

    @property
    def partitions(self) -> list[PartitionPath]:
        return list(brokerless.open(self.directory).paths)


def ask(broker: KafkaBroker, names: list[str], *words: str) -> dict[str, str]:
    stdin = "\n".join(names).encode()
    done = run("Coordinated", broker.bootstrap, *words, stdin=stdin, helper=True, sources=HELPERS_OF_4)
    lines = check(done).decode().splitlines()
    return dict(line.split("\t") for line in lines)


def share_groups(topic_id: str) -> list[str]:
    """Three names. By the ID of their topic, which is new each time, the first has its group and its state in the same
    partitions by the first and by the last count; the states of the others are elsewhere."""

    def stays(topic: str, name: str) -> bool:
        first, _, last = COUNTS[topic]
        return partition_of(name, first) == partition_of(name, last)

    states = {name: share_key(name, topic_id, 0) for name in (f"shared-{number}" for number in range(2000))}
    found = [name for name, state in states.items() if stays(SHARE_GROUP_STATE, state)]
    moved = [name for name in states if name not in found]
    return [next(name for name in found if stays(CONSUMER_OFFSETS, name)), *moved[:2]]


def raise_partitions(broker: KafkaBroker, step: int) -> None:
    """Until the broker is started again, its coordinators go by the number that they began with."""
    admin = broker.admin()
    added = [NewPartitions(topic, counts[step]) for topic, counts in COUNTS.items()]
    for done in admin.create_partitions(added).values():
        done.result(30)
    for topic, counts in COUNTS.items():
        broker.wait_for_leaders(topic, counts[step])
    broker.stop()
    broker.start()


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Raised:
    base = recorded_starts.base(RECORDED, ask_coordinators, tmp_path_factory.mktemp("coordinators") / "raised")
    return Raised(base / "data", *json.loads((base / "answers.json").read_text()))


def record_starts() -> None:
    recorded_starts.record_base(RECORDED, ask_coordinators)


def ask_coordinators(directory: Path) -> None:
    """Fill ``directory`` with a broker's log directory, and what it answered before."""
    with KafkaBroker(directory.with_name("broker"), SETTINGS) as broker:
        broker.create_topic("orders")
        produce_confluent(broker, "orders", [Record(b"key", b"value")] * 10)
        ask(broker, GROUPS, "commit", "orders", "1")
        ask(broker, IDS, "transact", "orders")
        shared = share_groups((broker.log_dir / "orders-0" / "partition.metadata").read_text().split()[-1])
        words = [f"share,{group},orders,10" for group in shared]
        check(run("Clients", broker.bootstrap, *words, helper=True, sources=HELPERS_OF_4))
        raise_partitions(broker, 1)
        ask(broker, GROUPS[100:250], "commit", "orders", "2")
        ask(broker, IDS[:20], "transact", "orders")
        raise_partitions(broker, 2)
        ask(broker, GROUPS[200:400], "commit", "orders", "3")
        ask(broker, IDS[10:30], "transact", "orders")
        broker.stop()
        broker.start()
        answers = (ask(broker, GROUPS, "offsets"), ask(broker, IDS, "transactions"), ask(broker, shared, "shared"))
        broker.stop()
        broker.copy_log_dir(directory / "data")
    (directory / "answers.json").write_text(json.dumps(answers))


def known(answers: dict[str, str]) -> dict[str, str]:
    return {name: answer for name, answer in answers.items() if answer != NONE}


def moved(findings: list[Finding]) -> set[str]:
    """The partitions with records that no coordinator reads."""
    return {Path(each.file).name for each in findings if each.kind == Kind.COORDINATOR_MOVED}


def test_the_groups_offsets_are_the_brokers_answers(raised: Raised) -> None:
    found: list[Finding] = []
    rows = state_rows(raised.partitions, ["offsets"], found.append)["offsets"]
    assert {row["group"]: f"orders-0:{row['offset']}" for row in rows} == known(raised.offsets)
    assert len(rows) == len(known(raised.offsets)) < len(GROUPS)
    assert all(row["sourcePartition"] == partition_of(row["group"], 13) and row["isCurrent"] for row in rows)
    assert moved(found) == {f"{CONSUMER_OFFSETS}-{number}" for number in range(8)}


def test_transactional_ids_are_the_brokers_answers(raised: Raised) -> None:
    found: list[Finding] = []
    rows = state_rows(raised.partitions, ["transactionalIds"], found.append)["transactionalIds"]
    assert {row["transactionalId"]: str(row["producerId"]) for row in rows} == known(raised.producers)
    assert len(rows) < len(IDS)
    assert moved(found) == {f"{TRANSACTION_STATE}-{number}" for number in range(4)}


def test_positions_are_the_brokers_answers_of_share_groups_too(raised: Raised) -> None:
    partitions = raised.partitions
    cluster = cluster_of(partitions)
    assert cluster is not None
    found: list[Finding] = []
    positions = list(read_positions(partitions, cluster.topics, found.append))
    groups = {each.group: f"orders-0:{each.offset}" for each in positions if not each.is_shared}
    assert groups == known(raised.offsets)
    assert {each.group for each in positions if each.is_shared} == known(raised.shared).keys() < raised.shared.keys()
    assert any(name.startswith(SHARE_GROUP_STATE) for name in moved(found))


def test_without_the_metadata_the_directories_say_the_same(raised: Raised) -> None:
    others = [each for each in raised.partitions if each.topic == CONSUMER_OFFSETS]
    rows = state_rows(others, ["offsets"], lambda _: None, counts={})["offsets"]
    assert {row["group"]: f"orders-0:{row['offset']}" for row in rows} == known(raised.offsets)


def test_history_has_the_records_that_no_coordinator_reads(raised: Raised) -> None:
    own = [each for each in raised.partitions if each.topic == CONSUMER_OFFSETS]
    rows = [row for row in history_rows(own, lambda _: None) if row["type"] == "OFFSET_COMMIT" and row["payload"]]
    assert {row["key"]["data"]["group"] for row in rows} == set(GROUPS)
    current = {row["key"]["data"]["group"] for row in rows if row["isCurrent"]}
    assert current == known(raised.offsets).keys()
    assert {row["isCurrent"] for row in rows} == {True, False}


def test_audit_reports_what_is_left_and_no_lag_of_it(raised: Raised) -> None:
    log = brokerless.open(raised.directory)
    findings = log.audit().findings
    assert moved(findings) >= {f"{CONSUMER_OFFSETS}-{number}" for number in range(8)}
    lags = [each.message for each in findings if each.kind == Kind.GROUP_LAG]
    assert len(lags) == len(known(raised.offsets))


def test_rebuild_says_what_no_coordinator_reads(raised: Raised, tmp_path: Path) -> None:
    plan = brokerless.rebuild(raised.directory, tmp_path / "rebuilt")
    assert moved(list(plan.findings)) >= {f"{CONSUMER_OFFSETS}-{number}" for number in range(8)}


def test_the_report_has_the_brokers_offsets(raised: Raised) -> None:
    rows = lag_table(raised.partitions).to_pylist()
    assert {row["group"]: f"orders-0:{row['offset']}" for row in rows} == known(raised.offsets)


def test_served_groups_have_the_brokers_offsets(raised: Raised) -> None:
    found: list[Finding] = []
    topics = load_topics([resolve(Location(str(raised.directory)))], found.append)
    topics.load_cluster()
    offsets = CommittedOffsets(found.append)
    offsets.load(topics)
    served = {name: f"orders-0:{own['orders', 0].offset}" for name, own in offsets.groups.items()}
    assert served == known(raised.offsets)
    assert moved(found) >= {f"{CONSUMER_OFFSETS}-{number}" for number in range(8)}


def test_restored_groups_have_the_brokers_offsets(raised: Raised) -> None:
    partitions = raised.partitions
    cluster = cluster_of(partitions)
    rows = source_offsets(partitions, cluster, SourceReading(), None)
    assert {row["group"]: f"orders-0:{row['offset']}" for row in rows} == known(raised.offsets)
