"""A real Kafka broker (KRaft, one node) on this machine's loopback, in a directory of its own."""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from tests.archive import make_archive
from tests.kafka import broker_jvms
from tests.kafka.jars import NEWEST, archive_of, check, command, compile_helpers, run

READY_WITHIN = 90.0
STOPPED_WITHIN = 60.0

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "broker.session.timeout.ms": "4000",  # after a kill, the next start waits this long
    "broker.heartbeat.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(8 << 20),
    "log.cleaner.backoff.ms": "1000",
    # Every 500 ms, as is the default, a broker without work takes twice the processor time.
    "metadata.max.idle.interval.ms": "2000",
    "log.retention.ms": "-1",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
}
TALKATIVE = tuple(
    f"-Dorg.slf4j.simpleLogger.log.{name}=info"
    for name in ("kafka.log", "org.apache.kafka.storage.internals.log", "kafka.server.ReplicaFetcherThread")
)
"""Options for Java with which a broker says what it does to logs while it loads them, and where followers truncate."""


class KafkaBroker:
    """A broker's process and its directory. As a context manager it starts, and stops cleanly.

    ``log_dir`` is what brokerless reads; it stays there after a stop, a kill, and a restart.
    """

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, version: str = NEWEST) -> None:
        self.directory = directory
        self.version = version
        self.log_dir = directory / "data"
        self.output = directory / "broker.out"
        self.process: subprocess.Popen[bytes] | None = None
        with free_ports(2) as (port, controller_port):
            self.bootstrap = f"127.0.0.1:{port}"
            controller = f"127.0.0.1:{controller_port}"
        self.properties = directory / "server.properties"
        everything = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.log_dir),
            **(settings or {}),
        }
        directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in everything.items()))

    def __enter__(self) -> KafkaBroker:
        self.start()
        return self

    def __exit__(self, type_: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.stop()

    def format(self) -> None:
        """Makes an empty directory one of a broker; does nothing if it is one."""
        if not (self.log_dir / "meta.properties").exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            arguments = ("format", f"--cluster-id={cluster_id}", "--config", str(self.properties))
            check(run("kafka.tools.StorageTool", *arguments, version=self.version))

    def start(self) -> None:
        """Starts it, on an empty directory or on what an earlier run left, and waits until clients are served."""
        self.format()
        self.start_process()
        try:
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def start_process(self) -> None:
        """Starts it without waiting for it."""
        make_archive_of_broker(self.version)
        java, *line = command("Brokers", version=self.version, classes=compile_helpers(self.version))
        self.process = broker_jvms.start([java, *TALKATIVE, *line], self.properties, self.output)

    def wait_until_ready(self) -> None:
        give_up = time.monotonic() + READY_WITHIN
        host, port = self.bootstrap.split(":")
        while time.monotonic() < give_up:
            time.sleep(0.1)
            if self.process is None or self.process.poll() is not None:
                raise RuntimeError(f"the broker ended while it started: {self.tail()}")
            with contextlib.suppress(OSError, KafkaException):
                socket.create_connection((host, int(port)), 1).close()
                if self.admin().list_topics(timeout=5).brokers:
                    return
        raise RuntimeError(f"the broker was not ready within {READY_WITHIN:.0f} s: {self.tail()}")

    def stop(self) -> None:
        """A clean shutdown; does nothing if it does not run."""
        if self.process is None:
            return
        process, self.process = self.process, None
        try:
            if process.stdin is not None:
                broker_jvms.stop(process, STOPPED_WITHIN)
            else:
                process.terminate()
                process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the broker did not stop within {STOPPED_WITHIN:.0f} s: {self.tail()}") from None

    def kill(self) -> None:
        """As if by ``kill -9``. Where only what that leaves counts, :func:`crash` keeps the JVM."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.kill()
        process.wait()

    def tail(self) -> str:
        return self.output.read_text(errors="replace")[-3000:]

    def warnings(self) -> list[str]:
        """The lines of its output but for those that only say what it does to logs."""
        return [line for line in self.output.read_text(errors="replace").splitlines() if "] INFO " not in line]

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> None:
        """``config`` has Kafka's topic settings with ``_`` for the dots, such as ``cleanup_policy="compact"``."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin = self.admin()  # kept alive until its futures are done
        for done in admin.create_topics([topic], operation_timeout=20).values():
            done.result(30)
        self.wait_for_leaders(name, partitions)

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        give_up = time.monotonic() + READY_WITHIN
        admin = self.admin()
        while time.monotonic() < give_up:
            known = admin.list_topics(topic, timeout=5).topics[topic].partitions
            if len(known) == partitions and all(partition.leader >= 0 for partition in known.values()):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{topic} had no leaders within {READY_WITHIN:.0f} s: {self.tail()}")

    def watermarks(self, topic: str, partitions: Iterable[int] = (0,)) -> dict[int, tuple[int, int]]:
        """The log start and end offsets that clients see, as soon as the broker leads the partitions. Each is a request
        of its own: a consumer that asks for both at once gave the end for both, once in many runs."""
        admin, wanted = self.admin(), [TopicPartition(topic, each) for each in partitions]

        def ask(which: OffsetSpec) -> dict[int, int]:
            asked = admin.list_offsets(dict.fromkeys(wanted, which))
            return {each.partition: future.result(30).offset for each, future in asked.items()}

        for _ in range(100):
            with contextlib.suppress(KafkaException):
                starts, ends = ask(OffsetSpec.earliest()), ask(OffsetSpec.latest())
                return {number: (start, ends[number]) for number, start in starts.items()}
            time.sleep(0.1)
        raise RuntimeError(f"the broker does not lead {wanted}")

    def committed(self, group: str, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """What a group has committed, as soon as its coordinator has loaded it: until then librdkafka gives up with
        ``NOT_COORDINATOR`` where Java's client asks again."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        wanted, give_up = [TopicPartition(*each) for each in places], time.monotonic() + READY_WITHIN
        try:
            while True:
                try:
                    return {
                        (each.topic, each.partition): each.offset for each in consumer.committed(wanted, timeout=30)
                    }
                except KafkaException:
                    if time.monotonic() > give_up:
                        raise
                time.sleep(0.3)
        finally:
            consumer.close()

    def logs(self, topic: str, partition: int = 0) -> list[Path]:
        """The segments' ``.log`` files of a partition, oldest first."""
        return sorted((self.log_dir / f"{topic}-{partition}").glob("*.log"))

    def copy_log_dir(self, target: Path) -> Path:
        """The log directory as it is now, also of a running broker, without its lock, and without files and directories
        that a broker renames or removes between their listing and their copy: a checkpoint's next content has a name of
        its own, and the directory of a deleted topic goes after ``log.segment.delete.delay.ms``."""

        def leave_out(_directory: str, names: list[str]) -> list[str]:
            return [name for name in names if name == ".lock"]

        def copy_if_there(source: str, to: str) -> None:
            with contextlib.suppress(FileNotFoundError):
                copy_without_holes(source, to)

        try:
            shutil.copytree(self.log_dir, target, ignore=leave_out, copy_function=copy_if_there)
        except shutil.Error as error:
            failed = [(source, to, why) for source, to, why in error.args[0] if Path(source).exists()]
            if failed:
                raise shutil.Error(failed) from error
        return target


def crash(broker: KafkaBroker) -> None:
    """Leave the log directory of a running broker as ``kill -9`` does, and its JVM to the next one."""
    with crashing(broker):
        broker.stop()


@contextlib.contextmanager
def crashing(*brokers: KafkaBroker) -> Iterator[None]:
    """Brokers that run are stopped in the block, and leave their log directories as ``kill -9`` of all at its beginning
    does: these are copied while none of the processes runs, and take the place of what the stops make of them."""
    running = {each: each.process for each in brokers if each.process is not None}
    for process in running.values():
        process.send_signal(signal.SIGSTOP)
    try:
        copies = {each: each.copy_log_dir(each.directory / "crashed") for each in running}
    finally:
        for process in running.values():
            process.send_signal(signal.SIGCONT)
    yield
    for each, copy in copies.items():
        shutil.rmtree(each.log_dir)
        copy.rename(each.log_dir)


def copy_without_holes(source: str, to: str) -> None:
    """As :func:`shutil.copy2`, but for holes: the indexes of a running broker are little else, 20 MiB a partition."""
    with Path(source).open("rb") as reader, Path(to).open("wb") as writer:
        size, at = os.fstat(reader.fileno()).st_size, 0
        writer.truncate(size)
        while at < size:
            try:
                at = os.lseek(reader.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break  # there is nothing but a hole
            end = os.lseek(reader.fileno(), at, os.SEEK_HOLE)
            reader.seek(at)
            writer.seek(at)
            writer.write(reader.read(end - at))
            at = end
        writer.truncate(min(size, os.fstat(reader.fileno()).st_size))  # it may have been cut meanwhile
    shutil.copystat(source, to)


@functools.cache
def make_archive_of_broker(version: str) -> None:
    """Once for each Java and set of jars, so that all others start from it: a broker runs, and leaves its classes."""

    def run_broker(option: str) -> None:
        with tempfile.TemporaryDirectory() as directory:
            broker = KafkaBroker(Path(directory), version=version)
            broker.format()
            java, *line = command("kafka.Kafka", str(broker.properties), version=version)
            broker.process = subprocess.Popen([java, option, *line], stdout=subprocess.DEVNULL)
            try:
                broker.wait_until_ready()
                broker.create_topic("any")
            finally:
                broker.stop()

    make_archive(archive_of(version), run_broker)


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Ports of the loopback that nobody listens on; all different, and free again when the block ends."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
