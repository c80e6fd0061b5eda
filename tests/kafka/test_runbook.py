"""docs/runbook.md is true: a real broker's disk is damaged, every command of the page is run in its order, and brokers
that are started on the result serve all that salvage said, and nothing else is missing."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_STORED, Consumer, TopicPartition

from brokerless.log import names
from tests.kafka.broker import KafkaBroker, crash
from tests.kafka.jars import OLD_FORMATS, command, jars
from tests.kafka.producers import Consumed, Record, consume, produce_confluent, produce_java
from tests.test_docs import RUNBOOK, blocks, commands, matches, run

pytestmark = pytest.mark.xdist_group("runbook")

ORDERS, PAYMENTS = "orders", "payments"
PLACES = (*((ORDERS, partition) for partition in range(3)), (PAYMENTS, 0))
START = 1_767_225_600_000
TOOLS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
SHELL = {"brokerless", "cat", "chown", "cmp", "cp", "echo", "for", "grep", "mkdir", "mv", "rm", "sed", "sort", "wc"}
DELAY = "log.initial.task.delay.ms"
"""Until then, a broker deletes nothing by age. The records here are older than the retention of their topics."""

Served = dict[tuple[str, int], list[Consumed]]


@dataclass
class Machine:
    """Where the page's paths are, its brokers by their properties files, and what was served before the damage."""

    root: Path
    brokers: dict[str, KafkaBroker]
    before: Served = field(default_factory=dict)
    running: list[KafkaBroker] = field(default_factory=list)
    """As they were started; each runs on a machine of its own, as it were, and the last one is where the page is."""

    def here(self, text: str) -> str:
        """A command of the page as it is run: in this test's directories, with its ports, by this user."""
        for properties, broker in self.brokers.items():
            text = text.replace(properties, str(broker.properties))
        text = text.replace("localhost:9092", self.brokers["/etc/kafka/server.properties"].bootstrap)
        text = text.replace("localhost:9093", self.brokers["/etc/kafka/new.properties"].bootstrap)
        text = re.sub(r"(?<![\w/.-])/(mnt|srv)/", rf"{self.root}/\1/", text)
        return text.replace("kafka:kafka", f"{os.getuid()}:{os.getgid()}")

    def there(self, output: str) -> str:
        return output.replace(str(self.root), "")

    def run(self, line: str) -> tuple[int, str]:
        """The exit code of a command of the page, and what it printed, with the page's paths."""
        if (match := re.fullmatch(r"kafka-server-start\.sh -daemon (/etc/\S+)", line)) is not None:
            self.running.append(self.brokers[match[1]])
            self.running[-1].start()
            return 0, ""
        if line == "kafka-server-stop.sh":
            self.running.pop().stop()
            return 0, ""
        words = first_words(line)
        assert words <= SHELL | TOOLS.keys(), line
        if "brokerless" in words:
            code, output = run(self.here(line), self.root)
            return code, self.there(output)
        path = os.pathsep.join((str(self.root / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["sh", "-c", self.here(line)], cwd=self.root, env=os.environ | {"PATH": path, "TZ": "UTC"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, self.there(done.stdout)


def first_words(line: str) -> set[str]:
    """The programs that a line runs."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    first, is_first = set[str](), True
    for word in words:
        if word in ("|", "||", "&&", ";", "do"):
            is_first = True
        elif is_first and "=" not in word and word != "done":
            first.add(word)
            is_first = False
    return first


def make_tools(directory: Path) -> None:
    """Kafka's tools under the names that they have in Kafka's ``bin``. Those of 4.3 miss a class in 4.4's jars, which
    3.9 has (``tests.kafka.jars.TOOLS`` says why they are of 4.3); one is in none of these jars."""
    (old,) = jars(OLD_FORMATS).glob(f"kafka-clients-{OLD_FORMATS}.jar")
    directory.mkdir()
    for name, main in TOOLS.items():
        is_old = name == "kafka-configs.sh"
        line = shlex.join(command(main, version=OLD_FORMATS) if is_old else command(main, classes=old))
        (directory / name).write_text(f'#!/bin/sh\nexec {line} "$@" 2>>{shlex.quote(str(directory / "stderr"))}\n')
        (directory / name).chmod(0o755)


def fill(broker: KafkaBroker) -> None:
    """Each record of the orders has a batch of its own, so that what damage takes is the same in each run."""
    settings = {"internal_segment_bytes": 6000, "retention_ms": 7 * 86_400_000}
    broker.create_topic(ORDERS, 3, **settings)
    broker.create_topic(PAYMENTS, 1, **settings)
    orders = [
        Record(b"o-%d" % (number % 97), b"order %d, " % number + b"x" * 90, (), START + number * 1000, number % 3)
        for number in range(450)
    ]
    produce_java(broker, ORDERS, orders, batch_size=0)
    for number, transaction in enumerate(("commit", "abort", "commit")):
        payments = [Record(b"p-%d" % each, b"payment %d" % number, (), START + each) for each in range(50)]
        produce_confluent(broker, PAYMENTS, payments, "lz4", transaction)  # type: ignore[arg-type]
    group = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "shipping", "enable.auto.commit": False})
    group.commit(offsets=[TopicPartition(ORDERS, 1, 90)], asynchronous=False)
    group.close()


def log(directory: Path, partition: str, number: int) -> Path:
    return sorted((directory / partition).glob("*.log"))[number]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def damage(disk: Path) -> None:
    """A flipped bit, a segment that is cut, one that is missing with its indexes, and garbage in a checkpoint."""
    flip(log(disk, "orders-0", 1))
    os.truncate(log(disk, "orders-1", 2), 3000)
    missing = log(disk, "orders-2", 1)
    for path in missing.parent.glob(f"{missing.stem}.*"):
        path.unlink()
    (disk / names.HIGH_WATERMARK_CHECKPOINT).write_bytes(b"\x00\xffgarbage\n")


def make_replica(disk: Path) -> None:
    """Another broker's disk, without the payments, and damaged in another place."""
    properties = disk / names.META_PROPERTIES
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    flip(log(disk, "orders-0", 3))
    shutil.rmtree(disk / "payments-0")


def make_image(data: Path, image: Path) -> None:
    """Segments of one partition in a disk's blocks, with something else in between."""
    chance = random.Random(7)
    with image.open("wb") as file:
        for path in sorted(data.glob("*.log")):
            file.write(chance.randbytes(8192))
            content = path.read_bytes()
            file.write(content + bytes(-len(content) % 4096))


def make_disks(broker: KafkaBroker, mnt: Path) -> Served:
    """What the disks have that the page is about; and what was served before."""
    broker.start()
    fill(broker)
    before = {place: consume(broker, *place) for place in PLACES}
    crash(broker)
    mnt.mkdir()
    make_replica(broker.copy_log_dir(mnt / "replica"))
    make_image(broker.log_dir / "payments-0", mnt / "disk.img")
    damage(broker.copy_log_dir(mnt / "broken"))
    shutil.rmtree(broker.log_dir)
    return before


def squeezed(text: str) -> str:
    """Widths of columns come from paths, and these are others here."""
    return re.sub(r"(?<=\S) +", " ", text)


def follow(machine: Machine) -> None:
    """Runs the page's commands as ``tests.test_docs`` does, and compares what they print."""
    for block in blocks(RUNBOOK):
        if block.language != "console":
            continue
        code = 0
        for line, expected in commands(block):
            assert code == 0 or "$?" in line, "a command failed, and its exit code is not shown"
            code, output = machine.run(line.replace("$?", str(code)))
            assert matches(squeezed(output), squeezed(expected)), f"$ {line}\n{output}"
        assert code == 0, "a command failed, and its exit code is not shown"


@pytest.fixture(scope="module")
def machine(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("runbook")
    broker = KafkaBroker(root / "broker", {DELAY: "86400000"})
    other = KafkaBroker(root / "other", {"log.dirs": str(root / "srv" / "new")})
    found = Machine(root, {"/etc/kafka/server.properties": broker, "/etc/kafka/new.properties": other})
    try:
        found.before = make_disks(broker, root / "mnt")
        broker.properties.write_text(broker.properties.read_text().replace(f"{DELAY}=86400000", f"{DELAY}=500"))
        for each in (broker, other):
            each.format = lambda: None  # type: ignore[method-assign] - it would make up for what the page forgets
        make_tools(root / "bin")
        (root / "srv").mkdir()
        yield found
    finally:
        broker.stop()
        other.stop()


def test_the_runbook_leads_to_a_broker_that_serves_what_salvage_said(machine: Machine) -> None:
    follow(machine)
    said = {
        (each["topic"], each["partition"]): each
        for each in map(json.loads, (machine.root / "salvage.jsonl").read_text().splitlines())
    }
    assert sum(bool(each["losses"]) for each in said.values()) == 3
    first, second = machine.brokers.values()
    for place, before in machine.before.items():
        losses = [(each["firstOffset"], each["lastOffset"]) for each in said[place]["losses"]]
        saved = [each for each in before if not any(start <= each.offset <= end for start, end in losses)]
        assert consume(first, *place) == saved, place
        # Together the two disks and the image have all of it.
        assert consume(second, *place) == before, place
    assert [next_of_group(each, "shipping") for each in (first, second)] == [102, 90]


def next_of_group(broker: KafkaBroker, group: str) -> int:
    """The offset of the record that a group gets first, of those of orders-1."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(ORDERS, 1, OFFSET_STORED)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message.offset() or 0
