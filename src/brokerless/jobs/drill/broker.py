"""Starts a broker of a Kafka directory on what a drill rebuilt, on this machine's loopback alone, and stops it.

It is one process, broker and controller, with ports that are free, and everything that it writes is in scratch. It
deletes nothing by age, and cleans nothing: what it serves is to be compared.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from brokerless.errors import ClusterError, UsageError
from brokerless.jobs.restore.live.connection import ClusterConnection, load_library
from brokerless.kafka_names import TopicPartition
from brokerless.log.storage.atomic import write_file
from brokerless.values import to_json

LOOPBACK = "127.0.0.1"
_READY_S = 300.0
_STOPPED_S = 60.0
_WAIT_S = 0.2
_NEVER = str(10**12)
"""A retention that no drill outlives (ms)."""
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": _NEVER,
    "log.retention.check.interval.ms": _NEVER,
    "offsets.retention.check.interval.ms": _NEVER,
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
_SERVER = re.compile(r"kafka_2\.[0-9]+-(?P<version>[0-9][0-9A-Za-z.-]*)\.jar")
_LOGGING = (("log4j2.yaml", "-Dlog4j2.configurationFile="), ("log4j.properties", "-Dlog4j.configuration=file:"))


@dataclass(frozen=True, slots=True)
class Kafka:
    """An installation of Kafka."""

    java: str
    """The path of the program ``java``."""
    jars: Path
    """The directory with the JARs."""
    version: str
    logging: str | None
    """The option of Java by which the broker writes its own logs; None where it is not known."""

    def command(self, properties: Path) -> list[str]:
        """Return how its server is started. Its own logs are beside ``properties``."""
        own = [f"-Dkafka.logs.dir={properties.parent}", *(() if self.logging is None else (self.logging,))]
        return [self.java, "-Xmx1g", *own, "-cp", str(self.jars / "*"), "kafka.Kafka", str(properties)]


def find_kafka(directory: str | os.PathLike[str]) -> Kafka:
    """Return what is in a directory of Kafka (with ``bin`` and ``libs``), or in its ``libs``. Raises
    :class:`UsageError` for another one, and where there is no Java."""
    load_library()
    root = Path(directory)
    root = root.parent if root.name == "bin" else root
    jars = root / "libs" if (root / "libs").is_dir() else root
    try:
        found = [match["version"] for each in jars.iterdir() if (match := _SERVER.fullmatch(each.name)) is not None]
    except OSError as error:
        raise UsageError(f"--start {directory}: {error.strerror or error}; give the directory of a Kafka") from error
    versions = [each for each in found if not each.endswith(("-sources", "-javadoc", "-test"))]
    if not versions:
        text = f"{jars} has no kafka_2.13-VERSION.jar; give the directory of a Kafka, with bin and libs"
        raise UsageError(f"--start {directory}: {text}")
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "PATH, and JAVA_HOME is not set"
        raise UsageError(f"--start {directory}: a broker needs Java, and there is none in {where}")
    config = jars.parent / "config"
    known = [f"{option}{config / name}" for name, option in _LOGGING if (config / name).is_file()]
    return Kafka(java, jars, max(versions), known[0] if known else None)


def mapping_file(directory: Path) -> Path:
    """Write which node a rebuilt cluster has: one, with free ports on the loopback."""
    with _listening() as first, _listening() as second:
        addresses = {"PLAINTEXT": first, "CONTROLLER": second}
        listeners = {name: f"{LOOPBACK}:{port}" for name, port in addresses.items()}
    path = directory / "nodes.json"
    write_file(path, to_json({"nodes": [{"id": 1, "roles": ["broker", "controller"], "listeners": listeners}]}))
    return path


@contextmanager
def _listening() -> Generator[int]:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        yield one.getsockname()[1]


@dataclass(slots=True)
class RunningBroker:
    """A broker's process."""

    process: subprocess.Popen[bytes]
    bootstrap: str
    """Its address."""
    said: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))
    """Its last lines."""

    def wait_until_ready(self, partitions: Collection[TopicPartition]) -> None:
        """Wait until it leads these partitions. Raises :class:`ClusterError` where it ends before that, or takes longer
        than :data:`_READY_S`."""
        connection, give_up = (
            ClusterConnection(self.bootstrap, client_id="brokerless-drill"),
            time.monotonic() + _READY_S,
        )
        admin = connection.create(lambda: load_library().admin.AdminClient(connection.settings()))
        while time.monotonic() < give_up:
            with suppress(subprocess.TimeoutExpired):
                code = self.process.wait(_WAIT_S)
                raise ClusterError(f"the broker ended with code {code} while it started{self._last()}")
            with suppress(load_library().KafkaException):
                metadata = admin.list_topics(timeout=5)
                if metadata.brokers and set(partitions) <= _led(metadata):
                    return
        raise ClusterError(f"the broker does not lead all partitions after {_READY_S:.0f} s{self._last()}")

    def _last(self) -> str:
        return f"; it said last: {self.said[-1]}" if self.said else ""


def _led(metadata: Any) -> set[TopicPartition]:
    return {
        (topic, number)
        for topic, each in metadata.topics.items()
        for number, partition in each.partitions.items()
        if partition.leader >= 0
    }


@contextmanager
def running(kafka: Kafka, properties: Mapping[str, str], directory: Path) -> Generator[RunningBroker]:
    """Start a broker with the settings of a rebuilt node, and stop it however this ends. ``directory``: its own.
    Raises :class:`UsageError` where Java cannot be started."""
    file = directory / "server.properties"
    settings = {**_SETTINGS, **properties}
    write_file(file, "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()).encode())
    bootstrap = settings["advertised.listeners"].partition("://")[2]
    try:
        process = subprocess.Popen(
            kafka.command(file),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
        )
    except OSError as error:
        raise UsageError(f"--start: {kafka.java} cannot be started: {error.strerror or error}") from error
    assert process.stdout is not None
    broker = RunningBroker(process, bootstrap)
    reader = threading.Thread(target=_follow, args=(process.stdout, broker.said), daemon=True)
    reader.start()
    try:
        yield broker
    finally:
        _stop(process)
        reader.join(_STOPPED_S)


def _follow(output: IO[bytes], said: deque[str]) -> None:
    """Read what a broker says, as it would wait for a reader otherwise."""
    with output:
        for line in output:
            if text := line.decode(errors="replace").strip():
                said.append(text[:500])


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.terminate()
        process.wait(_STOPPED_S)
    except BaseException as error:
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


def _escaped(value: str) -> str:
    """Return a value as Java's properties have it, which are Latin-1."""
    return "".join("\\\\" if each == "\\" else each if " " <= each <= "~" else _unicode(each) for each in value)


def _unicode(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at]:02x}{data[at + 1]:02x}" for at in range(0, len(data), 2))
