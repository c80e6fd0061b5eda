"""Internal topics that a real broker wrote: each record is what its dump tool prints, and what they add up to is
what the broker itself says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.internals.dumps import DECODERS, as_text, decoded_records, dumped_files
from tests.internals.test_tables import replayed, state
from tests.kafka import jars, recorded_starts
from tests.kafka.broker import KafkaBroker, crash

from brokerless.internals.metadata.cluster import cluster_rows

pytestmark = pytest.mark.xdist_group("internals")

SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "1",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "metadata.max.idle.interval.ms": "500",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.index.size.max.bytes": "65536",  # as large is a running broker's index
}
RECORDED = f"internals-{jars.NEWEST}"


@pytest.fixture(scope="module")
def written(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A log directory as it was while the broker ran, and what the broker said of it; both are recorded."""
    base = recorded_starts.base(RECORDED, ask_broker, tmp_path_factory.mktemp("internals") / "written")
    return base / "data", json.loads((base / "said.json").read_text())


def record_starts() -> None:
    recorded_starts.record_base(RECORDED, ask_broker)


def ask_broker(directory: Path) -> None:
    """Fill ``directory`` with both."""
    with KafkaBroker(directory.with_name("broker"), SETTINGS) as broker:
        done = jars.run("ClusterState", broker.bootstrap, helper=True, sources=jars.HELPERS_OF_4, alone=True)
        said = jars.check(done)
        crash(broker)  # nothing is to change now, not even as at a clean shutdown
    broker.copy_log_dir(directory / "data")
    (directory / "said.json").write_bytes(said)


Written = tuple[Path, dict[str, Any]]


@pytest.mark.parametrize("topic", DECODERS)
def test_each_record_is_what_the_dump_tool_prints(written: Written, topic: str) -> None:
    data, _ = written
    files = sorted([*data.glob(f"{topic}-*/*.log"), *data.glob(f"{topic}-*/*.checkpoint")])
    count = 0
    for file, theirs in dumped_files(topic, files).items():
        ours = decoded_records(topic, file)
        assert {offset: (said.problem, as_text((said.key, said.payload))) for offset, said in ours.items()} == {
            offset: (None, as_text(said)) for offset, said in theirs.items()
        }
        count += len(ours)
    assert count > 2


def test_records_of_all_kinds_were_written(written: Written) -> None:
    data, _ = written
    kinds = {
        record.type
        for topic in DECODERS
        for log in data.glob(f"{topic}-*/*.log")
        for record in decoded_records(topic, log).values()
    }
    assert len(kinds) > 30
    assert kinds >= {
        "OFFSET_COMMIT", "GROUP_METADATA", "CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT", "SHARE_GROUP_METADATA",
        "SHARE_SNAPSHOT", "TRANSACTION_LOG", "REMOVE_TOPIC_RECORD", "CLIENT_QUOTA_RECORD",
        "REMOVE_ACCESS_CONTROL_ENTRY_RECORD", "USER_SCRAM_CREDENTIAL_RECORD", "END_TRANSACTION_RECORD",
    }  # fmt: skip


def test_committed_offsets_and_groups_are_those_that_the_broker_has(written: Written) -> None:
    data, said = written
    ours = state(data, "offsets", "groups", "members")
    assert {
        f"{row['group']}|{row['topic']}-{row['partition']}": [row["offset"], row["leaderEpoch"], row["metadata"]]
        for row in ours["offsets"]
    } == said["offsets"]
    groups = {row["group"]: row for row in ours["groups"]}
    assert {name: row["type"] for name, row in groups.items()} == {
        "classic-group": "classic", "left-group": "classic", "new-group": "consumer", "shared": "share",
    }  # fmt: skip
    (name,) = said["groups"]
    assert [groups[name][column] for column in ("epoch", "assignmentEpoch", "members")] == said["groups"][name]
    members = {row["group"]: row for row in ours["members"]}
    topic_id = said["topics"]["orders"][0]
    assert members.keys() == {"classic-group", "new-group", "shared"}
    assert members["classic-group"]["assignment"] == [{"topic": "orders", "topicId": None, "partitions": [0, 1, 2]}]
    for group in ("new-group", "shared"):
        (assigned,) = members[group]["assignment"]
        assert (assigned["topicId"], sorted(assigned["partitions"])) == (topic_id, [0, 1, 2])
    assert members["new-group"]["groupInstanceId"] == "instance-1"
    assert members["new-group"]["clientId"] == "client of new-group"


def test_transactional_ids_are_those_that_the_broker_has(written: Written) -> None:
    data, said = written
    rows = state(data, "transactionalIds")["transactionalIds"]
    ours = {}
    for row in rows:
        start = row["transactionStartTimestamp"]
        is_over = row["state"].startswith("Complete")
        partitions = [f"{each['topic']}-{n}" for each in row["transactionPartitions"] for n in each["partitionIds"]]
        numbers = [row["producerId"], row["producerEpoch"], row["transactionTimeoutMs"]]
        milliseconds = -1 if start is None else round(start.timestamp() * 1000)
        ours[row["transactionalId"]] = [row["state"], *numbers, milliseconds, [] if is_over else sorted(partitions)]
    assert ours == said["transactions"]


def test_topics_configs_and_the_rest_are_those_that_the_broker_has(written: Written) -> None:
    data, said = written
    ours = state(data)
    topics: dict[str, Any] = {row["topic"]: [row["topicId"], []] for row in ours["topics"]}
    for row in ours["partitions"]:
        topics[row["topic"]][1].append([row[name] for name in ("partition", "leader", "replicas", "isr")])
    assert topics == said["topics"]
    types = {"topic": "TOPIC", "group": "GROUP", "broker": "BROKER"}
    assert {
        f"{types[row['resourceType']]}|{row['resourceName']}|{row['name']}": row["value"] for row in ours["configs"]
    } == said["configs"]
    assert {row["name"]: row["featureLevel"] for row in ours["features"]} == said["features"]
    quotas: dict[str, dict[str, float]] = {}
    for row in ours["quotas"]:
        entity = sorted((each["entityType"], each["entityName"] or "null") for each in row["entity"])
        name = "{" + ", ".join("=".join(pair) for pair in entity) + "}"
        quotas.setdefault(name, {})[row["key"]] = row["value"]
    assert quotas == said["quotas"]
    assert [[value for name, value in row.items() if name != "id"] for row in ours["acls"]] == said["acls"]
    (broker,) = ours["brokers"]
    assert (broker["brokerId"], broker["fenced"], broker["inControlledShutdown"]) == (1, False, False)


def test_kafkas_own_snapshots_are_what_the_log_before_them_adds_up_to(written: Written) -> None:
    data, _ = written
    partition = data / "__cluster_metadata-0"
    bootstrap, *snapshots = sorted(partition.glob("*.checkpoint"))
    assert bootstrap.name.startswith(f"{0:020}-"), "what formatting writes since 4.4; the log repeats it"
    assert len(snapshots) > 1
    for snapshot in snapshots:
        end_offset = int(snapshot.name[:20])
        assert cluster_rows(replayed(snapshot)) == cluster_rows(replayed(partition, end_offset)), snapshot.name
