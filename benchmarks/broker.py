"""A real broker on this machine, and its log directory, which brokerless reads beside it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.kafka.broker import KafkaBroker

from benchmarks.data import CACHE, CODECS, events
from benchmarks.jvm import command

DEFAULTS = {"num.network.threads": "3", "num.io.threads": "8"}
"""Kafka's own, where the tests' broker has less."""


def with_events(records: int) -> KafkaBroker:
    """A broker, not running, with the data set's topics (``events-lz4``): copies of its files, and its own indexes."""
    data = events(records)
    directory = data.with_name(f"broker-{data.name}")
    broker = KafkaBroker(directory, DEFAULTS)
    if not (directory / "ready").exists():
        shutil.rmtree(directory)
        broker = KafkaBroker(directory, DEFAULTS)
        with broker:
            for codec in CODECS:
                broker.create_topic(f"events-{codec}")
        for codec in CODECS:
            put_segment(data / f"events-{codec}-0", broker.log_dir / f"events-{codec}-0")
        start(broker)
        broker.stop()
        (directory / "ready").touch()
    return broker


@contextlib.contextmanager
def serving(records: int) -> Iterator[KafkaBroker]:
    """The broker with the data set's topics, running."""
    broker = with_events(records)
    try:
        start(broker)
        yield broker
    finally:
        broker.stop()


@contextlib.contextmanager
def empty(topic: str, partitions: int = 1) -> Iterator[KafkaBroker]:
    """A broker with nothing but an empty topic; its oldest segments go while new ones are written."""
    CACHE.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=CACHE))
    broker = KafkaBroker(directory, DEFAULTS | {"log.retention.bytes": "1", "log.retention.check.interval.ms": "2000"})
    try:
        start(broker)
        broker.create_topic(topic, partitions)
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(directory)


def put_segment(source: Path, partition: Path) -> None:
    """Puts a segment in the place of a stopped broker's empty one; without indexes, its next start makes them."""
    for file in partition.iterdir():
        if file.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            file.unlink()
    for file in source.glob("*.log"):
        shutil.copyfile(file, partition / file.name)


def start(broker: KafkaBroker) -> None:
    """Starts it with all of Java's compilers, unlike in tests."""
    broker.format()
    with broker.output.open("ab") as output:
        line = command("kafka.Kafka", str(broker.properties))
        broker.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    broker.wait_until_ready()
