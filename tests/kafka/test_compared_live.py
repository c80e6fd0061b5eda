"""``diff`` of the disks of a cluster with a running one: the records of the one are those of the other, to its last
offset; what was changed while it ran is found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import brokerless
from brokerless.errors import ClusterError, UnreadableError, UsageError
from brokerless.jobs.diff import copies
from brokerless.jobs.diff.live import cluster, copy
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.kafka import live
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.producers import Record, produce_confluent
from tests.kafka.test_restored_live import add_login

pytestmark = pytest.mark.xdist_group("compared-live")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": "100",
}
GROUP = {("live-mixed", 0): 11, ("live-mixed", 1): 30, ("live-transactions", 0): 20}


@dataclass(frozen=True)
class Running:
    """A broker, and a copy of its disk from before anything was changed."""

    broker: KafkaBroker
    disk: Path
    login: str
    """A listener that asks for a password; its user may do nothing."""

    @property
    def url(self) -> str:
        return f"kafka://{self.broker.bootstrap}"


@pytest.fixture(scope="module")
def running(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("compared-live")
    broker = KafkaBroker(directory / "broker", SETTINGS)
    with free_ports(1) as (port,):
        login = f"127.0.0.1:{port}"
    add_login(broker, login)
    with broker:
        live.write_everything(broker)
        broker.create_topic("empty", 1)
        broker.create_topic("cleaned", 1, cleanup_policy="compact", retention_ms=7)
        produce_confluent(broker, "cleaned", keyed(range(40)), "none")
        commit(broker, GROUP)
        add_acl(broker, "clicks", "User:ann")
        add_user(broker, "ann")
        broker.copy_log_dir(directory / "disk")
        yield Running(broker, directory / "disk", login)


def keyed(numbers: range) -> list[Record]:
    return [Record(f"key-{each % 5}".encode(), b"value", (), live.TIME + each) for each in numbers]


def commit(broker: KafkaBroker, positions: dict[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(*at, offset) for at, offset in positions.items()], asynchronous=False)
    consumer.close()


def wait(admin: AdminClient, what: str, *arguments: Any) -> None:
    """Waits until a change was made; the client has to live until then."""
    for done in getattr(admin, what)(*arguments).values():
        done.result(30)


def add_acl(broker: KafkaBroker, topic: str, principal: str, operation: AclOperation = AclOperation.READ) -> None:
    own = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.PREFIXED, principal, "*", operation, AclPermissionType.ALLOW
    )
    wait(broker.admin(), "create_acls", [own])


def add_user(broker: KafkaBroker, name: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    wait(broker.admin(), "alter_user_scram_credentials", [UserScramCredentialUpsertion(name, info, b"secret", b"salt")])


def set_topic(broker: KafkaBroker, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    wait(broker.admin(), "incremental_alter_configs", [resource])


def partition(found: brokerless.Diff, topic: str) -> Any:
    (own,) = [each for each in found.partitions if each.topic == topic]
    return own


def test_a_disk_is_the_same_as_its_running_broker_from_either_side(running: Running) -> None:
    sides = [running.disk, running.url]
    for left, right in (sides, sides[::-1]):
        findings: list[brokerless.Finding] = []
        found = brokerless.diff(left, right, on_damage=findings.append)
        assert found.is_same, list(found.lines())
        assert {each.name.rpartition("/")[2] for each in found.partitions} >= {"live-segments-0", "empty-0"}
        others = sum(each.records - each.same - each.causes.get("control", 0) for each in found.partitions)
        assert (others, sum(each.same for each in found.partitions) > 2000) == (0, True)
        assert [(each.group, each.same, each.positions) for each in found.groups] == [("readers", 3, 3)]
        assert {str(each.kind) for each in findings} == {"not-compared"}  # quotas
        assert partition(found, "live-transactions").causes["control"] > 5, "a consumer does not get markers"


def test_aborted_records_count_on_neither_side_where_keys_pair_them(running: Running) -> None:
    """What is open comes from both, and what is after it."""
    own: dict[str, Any] = {"topics": ["live-transactions"], "only": ["records"]}
    kept = partition(brokerless.diff(running.disk, running.disk, align="key", **own), "live-transactions")
    every = partition(brokerless.diff(running.disk, running.url, **own), "live-transactions")
    committed = brokerless.open(running.disk).records(topics=own["topics"], isolation="read_committed").read_all()
    assert committed.num_rows < kept.same < every.same
    for left, right in ((running.disk, running.url), (running.url, running.disk)):
        found = brokerless.diff(left, right, align="key", **own)
        assert (found.is_same, partition(found, "live-transactions").same) == (True, kept.same), list(found.lines())


def test_a_running_broker_is_the_same_as_itself(running: Running) -> None:
    assert brokerless.diff(running.url, running.url, topics=["live-mixed", "cleaned"]).is_same


def test_the_command_compares_what_is_selected_and_leaves_nothing_behind(
    running: Running,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = run("diff", running.disk, running.url, "-t", "live-mixed", "--only", "records")
    assert (done.exit_code, done.lines[-1]) == (0, "2 partitions: the same")
    assert running.url in run("diff", running.disk, running.url, "-t", "empty", "--json").out.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_not_there_or_no_address_is_one_sentence(
    running: Running,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("brokerless.jobs.restore.live.connection.TIMEOUT_S", 2.0)
    with pytest.raises(ClusterError, match="no broker answers here"):
        brokerless.diff(running.disk, "kafka://127.0.0.1:1")
    with pytest.raises(UsageError, match="a login is not a part of the address") as refused_login:
        brokerless.diff(running.disk, "kafka://user:secret@host:9092")
    assert "secret" not in str(refused_login.value)
    with pytest.raises(UsageError, match="a running cluster is a side by itself"):
        brokerless.diff(running.disk, [running.url, running.disk])
    replicas = run("diff", "--replicas", running.disk, running.url)
    assert (replicas.exit_code, "does not show its replicas" in replicas.err) == (2, True)
    for url in ("kafka://", "kafka://host:9092/orders"):
        with pytest.raises(UsageError, match="this is no address; give kafka://HOST:PORT"):
            brokerless.diff(running.disk, url)
    other = run("cat", running.url)
    assert (other.exit_code, "which diff alone reads" in other.err) == (2, True)
    refused = run("diff", running.disk, running.url, "--only", "quotas")
    assert refused.exit_code == 2
    assert "quotas are not compared: confluent-kafka does not ask a running cluster for quotas" in refused.err


def test_what_restore_sent_is_the_same_by_its_offset_map_and_one_record_less_is_not(
    running: Running, tmp_path: Path
) -> None:
    rows = [
        {
            "topic": "sent",
            "partition": each % 2,
            "offset": 3 * each,
            "timestamp": live.TIME + each,
            "key": b"%d" % each,
            "value": b"v",
        }
        for each in range(500)
    ]
    brokerless.load([pa.RecordBatch.from_pylist(rows)], str(tmp_path / "old"))
    by: Any = {"offset_map": tmp_path / "map"}
    brokerless.restore(tmp_path / "old", bootstrap_servers=running.broker.bootstrap, apply=True, **by)
    found = brokerless.diff(tmp_path / "old", running.url, **by)
    assert found.is_same, list(found.lines())
    assert [each.same for each in found.partitions] == [250, 250]
    wait(running.broker.admin(), "delete_records", [TopicPartition("sent", 0, 1)])
    found = brokerless.diff(tmp_path / "old", running.url, **by)
    assert [(each.causes or {}).get("retention", 0) for each in found.partitions] == [1, 0]
    wait(running.broker.admin(), "delete_topics", ["sent"])


def test_records_that_do_not_come_are_an_error_of_their_partition(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy, "_SILENCE_S", 1.0)
    listing = cluster.list_partitions

    def further(*arguments: Any) -> Any:
        from dataclasses import replace

        found = listing(*arguments)
        listed: Any = found.partitions
        return replace(found, partitions=tuple(replace(each, end=each.end + 1) for each in listed))

    monkeypatch.setattr(copies, "list_partitions", further)
    with pytest.raises(UnreadableError, match=r"live-mixed-0.*no record came for 1 s after offset"):
        brokerless.diff(running.disk, running.url, topics=["live-mixed"])


def test_what_a_user_may_not_know_is_named_and_never_a_difference(
    running: Running,
    run: Run,
    tmp_path: Path,
) -> None:
    """The user may read a topic, and describe another one, whose records are not waited for."""
    add_acl(running.broker, "live-mixed", "User:ann")
    add_acl(running.broker, "empty", "User:ann")
    add_acl(running.broker, "cleaned", "User:ann", AclOperation.DESCRIBE)
    config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = f'sasl.jaas.config={module} required username="ann" password="right";'
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n{login}\n")
    before = ("diff", running.disk, f"kafka://{running.login}", "--command-config", config)
    read = run(*before, "-t", "live-mixed", "-t", "empty")
    assert (read.exit_code, read.lines[-1]) == (0, "3 partitions: the same")
    assert "groups are not compared: the client's user may not describe the cluster (ACL)" in read.err
    assert "settings are not compared: the client's user may not describe those of empty, live-mixed (ACL)" in read.err
    for part in ("groups", "settings", "acls", "users"):
        refused = run(*before, "--only", part)
        assert (refused.exit_code, refused.out) == (2, b""), part
        assert "the client's user may not describe" in refused.err
    denied = run(*before, "-t", "cleaned", "--only", "records")
    assert (denied.exit_code, denied.out) == (2, b"")
    assert "Topic authorization failed" in denied.err
    assert denied.err.splitlines()[-1] == "nothing was compared"
    hidden = run(*before, "-t", "live-segments", "--only", "records")
    assert (hidden.exit_code, "on the left only" in hidden.out.decode()) == (1, False)
    assert "live-segments-0: this client may not describe the topic on the right" in hidden.out.decode()
    config.write_text("s3cret\n")
    refused = run(*before)
    assert (refused.exit_code, "a line is not NAME=VALUE" in refused.err, "s3cret" in refused.err) == (2, True, False)


def test_a_topic_that_is_made_again_while_it_is_read_is_no_mixture_of_both(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, listing = running.broker, cluster.list_partitions
    broker.create_topic("twice", 1)
    produce_confluent(broker, "twice", keyed(range(10)), "none")

    def made_again(*arguments: Any) -> Any:
        found = listing(*arguments)
        wait(broker.admin(), "delete_topics", ["twice"])
        while "twice" in broker.admin().list_topics(timeout=10).topics:
            pass
        broker.create_topic("twice", 1)
        produce_confluent(broker, "twice", keyed(range(20)), "none")
        return found

    disk = str(broker.log_dir / "twice-0")
    monkeypatch.setattr(copies, "list_partitions", made_again)
    with pytest.raises(UnreadableError, match="twice-0: the topic was deleted or made again while it was read"):
        brokerless.diff(disk, running.url, topics=["twice"], only=["records"], allow=["another-topic"])
    wait(broker.admin(), "delete_topics", ["twice"])


def test_what_was_changed_since_is_found_and_nothing_else(running: Running) -> None:
    """The last test, as it changes the cluster: more records, fewer at the start, cleaned keys, a group that went on
    and one that is new, settings, ACLs and users."""
    broker = running.broker
    produce_confluent(broker, "live-mixed", live.some_records(900, 6, 1), "lz4")
    wait(broker.admin(), "delete_records", [TopicPartition("live-segments", 0, 100)])
    commit(broker, {("live-mixed", 0): 31, ("live-mixed", 1): 2})
    set_topic(broker, "live-mixed", "retention.ms", "5000")
    add_acl(broker, "orders", "User:bob")
    add_user(broker, "bob")
    found = brokerless.diff(running.disk, running.url)
    assert not found.is_same
    assert {(str(each.name).rpartition("/")[2], each.missing, each.extra) for each in found.partitions
            if not each.is_same} == {("live-mixed-0", 0, 6)}  # fmt: skip
    assert partition(found, "live-segments").causes["retention"] == 100
    (group,) = found.groups
    assert {(each.partition, each.cause, each.records) for each in group.differences} == {
        (0, "later", 20), (1, "earlier", 28),
    }  # fmt: skip
    assert [str(each) for each in found.state] == [
        "setting live-mixed: retention.ms is 5000 on the right, not set on the left",
        "acl ALLOW DESCRIBE on TOPIC cleaned (PREFIXED) to User:ann from *: on the right only",
        "acl ALLOW READ on TOPIC empty (PREFIXED) to User:ann from *: on the right only",
        "acl ALLOW READ on TOPIC live-mixed (PREFIXED) to User:ann from *: on the right only",
        "acl ALLOW READ on TOPIC orders (PREFIXED) to User:bob from *: on the right only",
        "user bob (SCRAM-SHA-256): on the right only",
    ]
    allowed = brokerless.diff(running.disk, running.url, topics=["live-mixed"], allow=["lagging"], only=["records"])
    assert allowed.is_same
