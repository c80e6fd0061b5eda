"""Nodes that start on rebuilt directories, and how what they serve differs from what the killed cluster served."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from brokerless.jobs.rebuild.plan import Rebuild
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.cluster import stop_in_turn
from tests.kafka.described import AUTHORIZER, COMMITTED, PASSWORD, USER, Known, ask
from tests.kafka.jars import NEWEST, compile_helpers

SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
SETTINGS = {**AUTHORIZER, "broker.session.timeout.ms": "6000", "unclean.leader.election.enable": "false"}
ALL = ("cluster_id", "topic_ids", "replicas", "configs", "acls", "users", "end_offsets", "committed", "records")
"""What :class:`Known` has that is to be the same afterwards."""


class RebuiltNode(KafkaBroker):
    """A node with the settings that ``rebuild`` prints, and whatever else the tests' brokers have."""

    def __init__(
        self, directory: Path, rebuilt: Rebuild, node_id: int, version: str = NEWEST,
        more: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        node = next(each for each in rebuilt.nodes if each.node_id == node_id)
        own = rebuilt.server_properties(node_id)
        settings = {"controller.quorum.voters": "", **SETTINGS, **(more or {}), **own}
        settings.setdefault("advertised.listeners", own["listeners"])  # of a controller alone
        super().__init__(directory / f"process-{node_id}", settings, version)
        self.node_id = node_id
        self.is_broker, self.is_controller = node.is_broker, node.is_controller
        self.log_dir = Path(own["log.dirs"])
        self.bootstrap = next((each.address for each in node.listeners if each.name == "PLAINTEXT"), "")
        self.sasl = next((each.address for each in node.listeners if each.name == "SASL"), "")


@contextmanager
def running(nodes: Sequence[RebuiltNode]) -> Generator[KafkaBroker]:
    """Starts all of them, and yields one that is a broker when all brokers are ready."""
    with ExitStack() as stack:
        for each in nodes:
            stack.callback(each.kill)
            each.start_process()
        brokers = [each for each in nodes if each.is_broker]
        for each in brokers:
            each.wait_until_ready()
        yield brokers[0]
        controllers = [each for each in nodes if each.is_controller]
        stop_in_turn([each for each in brokers if each not in controllers], controllers)


def nodes_of(directory: Path, rebuilt: Rebuild, version: str = NEWEST, **more: str) -> list[RebuiltNode]:
    settings = {name.replace("_", "."): value for name, value in more.items()}
    of_sasl = (
        {**SCRAM, **settings} if any(row.name == "SASL" for node in rebuilt.nodes for row in node.listeners) else {}
    )
    return [RebuiltNode(directory, rebuilt, each.node_id, version, of_sasl) for each in rebuilt.nodes]


def mapping(
    file: Path, brokers: Sequence[int], controllers: Sequence[int], was: Mapping[int, int] | None = None
) -> Path:
    """Writes a mapping file: nodes with free ports, some of them with both roles; brokers have a listener for users."""
    nodes: list[dict[str, Any]] = []
    numbers = sorted({*brokers, *controllers})
    with free_ports(3 * len(numbers)) as ports:
        for at, number in enumerate(numbers):
            listeners: dict[str, str] = {}
            node: dict[str, Any] = {"id": number, "roles": [], "listeners": listeners}
            if number in brokers:
                node["roles"].append("broker")
                listeners["PLAINTEXT"] = f"127.0.0.1:{ports[3 * at]}"
                listeners["SASL"] = f"127.0.0.1:{ports[3 * at + 1]}"
                node["protocols"] = {"SASL": "SASL_PLAINTEXT"}
            if number in controllers:
                node["roles"].append("controller")
                listeners["CONTROLLER"] = f"127.0.0.1:{ports[3 * at + 2]}"
            if was is not None and number in was:
                node["was"] = was[number]
            nodes.append(node)
    file.write_text(json.dumps({"nodes": nodes}))
    return file


def differences(broker: KafkaBroker, known: Known, *, compared: Sequence[str] = ALL, **expected: Any) -> list[str]:
    """Where a running cluster is not what the killed one was. ``expected``: what of it is to be something else."""
    found = Known()
    ask(broker, found)
    wrong: list[str] = []
    for name in compared:
        theirs, ours = expected.get(name, getattr(known, name)), getattr(found, name)
        if isinstance(theirs, dict):
            wrong += [
                f"{name}, {key}: {theirs.get(key)} before, {ours.get(key)} now"[:500]
                for key in theirs.keys() | ours.keys()
                if theirs.get(key) != ours.get(key)
            ]
        elif theirs != ours:
            wrong.append(f"{name}: {theirs} before, {ours} now"[:500])
    return wrong


def visible_topics(address: str) -> set[str]:
    """The topics that the user of the killed cluster sees when it logs in with its old password."""
    settings = {
        "bootstrap.servers": address, "group.id": "of-alice", "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": USER, "sasl.password": PASSWORD,
    }  # fmt: skip
    consumer = Consumer(settings)
    found = set(consumer.list_topics(timeout=60).topics)
    consumer.close()
    return found


def goes_on(broker: KafkaBroker, topic: str = "orders") -> None:
    """Writes to all replicas, commits for the old group, and ends the transaction that the killed cluster left open."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    producer.produce(topic, b"after", partition=0)
    assert not producer.flush(60)
    group = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    group.commit(offsets=[TopicPartition(*place, 1) for place in COMMITTED], asynchronous=False)
    group.close()


def complaints(nodes: Sequence[RebuiltNode]) -> list[str]:
    """What no node may have warned of or left: stray partitions, truncated logs."""
    lines = [line for each in nodes for line in each.warnings()]
    wrong = [line for line in lines if "runcat" in line or "-stray" in line or "OutOfOrder" in line]
    return wrong + [str(each) for node in nodes for each in node.log_dir.glob("*-stray")]


def use_plugins_layout(nodes: Sequence[RebuiltNode], settings: Mapping[str, str]) -> None:
    """Gives nodes a remote storage of the plugin's layout. ``settings``: ``dir`` or ``url``, and ``key``."""
    for each in nodes:
        text = each.properties.read_text().replace("=CLASS\n", "=PluginLayoutStorage\n")
        text = text.replace("=PATH\n", f"={compile_helpers(NEWEST)}/\n")
        own = {f"rsm.config.{name}": value for name, value in settings.items()}
        own |= {"remote.log.manager.task.interval.ms": "200", "log.retention.check.interval.ms": "300"}
        each.properties.write_text(text + "".join(f"{name}={value}\n" for name, value in own.items()))
