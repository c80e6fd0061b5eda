"""Three real Kafka brokers and controllers of their own, so that any broker can be killed while another is elected."""

from __future__ import annotations

import base64
import contextlib
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from brokerless.log.checkpoint.meta_properties import meta_properties
from brokerless.log.checkpoint.topic_ids import random_id
from tests.kafka.broker import READY_WITHIN, KafkaBroker, crashing, free_ports
from tests.kafka.jars import NEWEST, check, run

CONTROLLER = 100
SETTINGS = {
    "controller.quorum.voters": "",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "300",
    "replica.fetch.wait.max.ms": "100",
    "replica.fetch.backoff.ms": "100",
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "1",
    # On a busy machine, controllers that start side by side would elect one another again and again.
    "controller.quorum.election.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "8000",
    "initial.broker.registration.timeout.ms": "180000",
}

OF_CONTROLLERS = ("authorizer.class.name", "super.users", "delegation.token.secret.key")
"""Settings of brokers that controllers need as well."""


class Node(KafkaBroker):
    """One process of the cluster: a broker, or a controller. ``sasl``: a port on which a broker's users log in."""

    def __init__(
        self,
        directory: Path,
        node_id: int,
        port: int,
        settings: Mapping[str, str],
        version: str = NEWEST,
        sasl: int | None = None,
    ) -> None:
        self.is_controller = node_id >= CONTROLLER
        listeners = f"{'CONTROLLER' if self.is_controller else 'PLAINTEXT'}://127.0.0.1:{port}"
        if sasl is not None:
            listeners += f",SASL://127.0.0.1:{sasl}"
        everything = {
            **SETTINGS,
            **settings,
            "node.id": str(node_id),
            "process.roles": "controller" if self.is_controller else "broker",
            "listeners": listeners,
            "advertised.listeners": listeners,
        }
        super().__init__(directory, everything, version)
        self.node_id = node_id
        self.bootstrap = f"127.0.0.1:{port}"
        self.sasl = f"127.0.0.1:{sasl}"

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"node {self.node_id} ended while it started: {self.tail()}")
            with contextlib.suppress(OSError, KafkaException):
                host, port = self.bootstrap.split(":")
                socket.create_connection((host, int(port)), 1).close()
                return self.is_controller or self.node_id in self.admin().list_topics(timeout=5).brokers
            return False

        wait_for(is_ready, lambda: f"node {self.node_id} is not ready: {self.tail()}")


class Cluster:
    """Brokers 1, 2 and 3. As a context manager all start, and all that still run are stopped or killed at its end.

    ``controllers``: how many. ``is_dynamic``: they are in the metadata (KIP-853), and not in each node's settings.
    ``has_sasl``: brokers have a listener on which users log in, which ``settings`` are to describe. ``session_ms``:
    after how long without a word of a broker controllers give to others what it leads.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        controllers: int = 1,
        is_dynamic: bool = False,
        has_sasl: bool = False,
        session_ms: int | None = None,
        version: str = NEWEST,
    ) -> None:
        self.is_dynamic = is_dynamic
        numbers = range(CONTROLLER, CONTROLLER + controllers)
        with free_ports(6 + controllers) as ports:
            addresses = {number: f"127.0.0.1:{port}" for number, port in zip(numbers, ports[6:], strict=True)}
            quorum = (
                {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": ",".join(addresses.values())}
                if is_dynamic
                else {"controller.quorum.voters": ",".join(f"{at}@{address}" for at, address in addresses.items())}
            )
            self.brokers = {
                number: Node(
                    directory / f"broker-{number}", number, ports[number - 1], {**(settings or {}), **quorum}, version,
                    ports[number + 2] if has_sasl else None,
                )
                for number in (1, 2, 3)
            }  # fmt: skip
            own = {name: value for name, value in (settings or {}).items() if name in OF_CONTROLLERS}
            own |= {} if session_ms is None else {"broker.session.timeout.ms": str(session_ms)}
            self.controllers = {
                number: Node(directory / f"controller-{number}", number, ports[6 + at], {**own, **quorum}, version)
                for at, number in enumerate(numbers)
            }

    def __enter__(self) -> Cluster:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in self.brokers.values():  # a JVM each would take seconds
            node.log_dir.mkdir(parents=True)
            (node.log_dir / "meta.properties").write_bytes(meta_properties(cluster_id, node.node_id, random_id()))
        voters = ",".join(f"{at}@{each.bootstrap}:{random_id()}" for at, each in self.controllers.items())
        how = ("--initial-controllers", voters) if self.is_dynamic else ()
        try:
            for node in self.controllers.values():
                arguments = ("format", f"--cluster-id={cluster_id}", "--config", str(node.properties), *how)
                check(run("kafka.tools.StorageTool", *arguments, version=node.version))
                node.start_process()
            for node in self.controllers.values():
                node.wait_until_ready()
            self.start(*self.brokers)
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, type_: type[BaseException] | None, *_: object) -> None:
        self._stop_all() if type_ is None else self.kill_all()

    def _stop_all(self) -> None:
        stop_in_turn([*self.brokers.values()], [*self.controllers.values()])

    def kill_all(self) -> None:
        self.kill(*self.brokers)
        for each in self.controllers.values():
            each.kill()

    def crash(self) -> None:
        """Leave all directories as ``kill -9`` of all nodes at one moment does."""
        with crashing(*self.brokers.values(), *self.controllers.values()):
            self._stop_all()

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.brokers[number].start_process()
        for number in numbers:
            self.brokers[number].wait_until_ready()

    def stop(self, *numbers: int) -> None:
        for number in numbers:
            self.brokers[number].stop()

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self.brokers[number].kill()

    @property
    def alive(self) -> Node:
        return next(each for each in self.brokers.values() if each.process is not None)

    def admin(self) -> AdminClient:
        return self.alive.admin()

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], **config: object) -> None:
        """``replicas``: of each partition, the brokers that have it, its first leader first."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(
            name, num_partitions=len(replicas), replica_assignment=list(map(list, replicas)), config=settings
        )
        admin = self.admin()
        for done in admin.create_topics([topic], operation_timeout=20).values():
            done.result(30)
        self.wait_for_leaders(name, [each[0] for each in replicas])

    def wait_for_leaders(self, topic: str, leaders: Sequence[int]) -> None:
        self._wait_for_partitions(topic, lambda found: [each.leader for each in found] == list(leaders))

    def wait_for_replicas(self, topic: str, count: int) -> None:
        """Until as many replicas of each partition are in sync."""
        self._wait_for_partitions(topic, lambda found: all(len(each.isrs) == count for each in found))

    def _wait_for_partitions(self, topic: str, is_so: Callable[[list], bool]) -> None:
        admin = self.admin()
        last: list = []

        def is_there() -> bool:
            with contextlib.suppress(KafkaException):
                known = admin.list_topics(topic, timeout=5).topics[topic].partitions
                last[:] = [known[number] for number in sorted(known)]
                return bool(last) and is_so(last)
            return False

        wait_for(is_there, lambda: f"{topic}: {[(each.leader, each.isrs) for each in last]}; {self.alive.tail()}")

    def disks(self, target: Path) -> list[Path]:
        """Copies of the brokers' log directories as they are now."""
        return [each.copy_log_dir(target / f"disk-{number}") for number, each in self.brokers.items()]


def stop_in_turn(brokers: Sequence[KafkaBroker], controllers: Sequence[KafkaBroker]) -> None:
    """Stop the nodes of a cluster, so that others start in their JVMs. ``controllers``: also those that are brokers."""
    *first, last = controllers
    for each in (*brokers, *first):
        each.stop()
    last.kill() if first else last.stop()  # the last one of several would wait for a minute


def wait_for(is_so: Callable[[], bool], complaint: Callable[[], str]) -> None:
    give_up = time.monotonic() + READY_WITHIN
    while not is_so():
        if time.monotonic() > give_up:
            raise RuntimeError(complaint())
        time.sleep(0.1)
