"""Logs of a real broker without the marker of an aborted transaction, which the transaction index still has.

``python -m tests.kafka.gone_markers`` records them anew, with what a broker's consumers get of them, in
``tests/log/producer/gone_markers``.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import check, run
from tests.kafka.producers import consume, transactional_id
from tests.kafka.tiered import wait_for

RECORDED = Path(__file__).parents[1] / "log" / "producer" / "gone_markers"
TOPICS = ("followed", "last", "rolled", "segment")
"""The producer goes on with a transaction that it commits; it does not; the marker is in a later segment than the data;
and that segment has no log any more."""
ROLLED = ("rolled", "segment")
SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot")
TIME = 1_700_000_000_000
MARKER = 4
TEN_YEARS = 10 * 365 * 24 * 3600 * 1000


@dataclass
class Writer:
    """A transactional producer and one without transactions, which write to one partition."""

    broker: KafkaBroker
    topic: str

    def __post_init__(self) -> None:
        conf = {"bootstrap.servers": self.broker.bootstrap, "log_level": 3, "linger.ms": 20}
        self.plain = Producer(conf)
        self.producer = Producer({**conf, "transactional.id": transactional_id(), "transaction.timeout.ms": 600_000})
        self.producer.init_transactions(30)

    def end(self, name: str, count: int) -> None:
        """Write records, and flush them, in a transaction that is to be ended."""
        self.producer.begin_transaction()
        for number in range(count):
            self._produce(self.producer, b"%s %d" % (name.encode(), number))

    def write(self, size: int = 5) -> None:
        self._produce(self.plain, b"plain".ljust(size, b"."))

    def wait_for(self, marker: int) -> None:
        """Wait until the marker is there, which the coordinator writes after its answer."""
        wait_for(lambda: self.broker.watermarks(self.topic)[0][1] == marker + 1, "a marker")

    def _produce(self, producer: Producer, value: bytes) -> None:
        producer.produce(self.topic, partition=0, value=value, timestamp=TIME)
        assert producer.flush(60) == 0


def create_topics(broker: KafkaBroker) -> None:
    for topic in TOPICS:
        size = {"internal_segment_bytes": 2000} if topic in ROLLED else {}
        broker.create_topic(topic, segment_ms=TEN_YEARS, **size)  # markers have the time of the clock


def write(broker: KafkaBroker) -> None:
    """Write each topic's log, with all markers: an aborted transaction at the offsets 0 to 2, its marker after a record
    of others, and (but for ``last``) a committed one after it."""
    create_topics(broker)
    for topic in TOPICS:
        writer, large = Writer(broker, topic), 1700 if topic in ROLLED else 5
        writer.end("aborted", 3)
        writer.write(large)
        writer.producer.abort_transaction(30)
        writer.wait_for(MARKER)
        writer.write(large)
        if topic != "last":
            writer.end("committed", 2)
            writer.producer.commit_transaction(30)
            writer.wait_for(8)
            writer.write()


def batches(log: Path) -> list[tuple[int, int, int]]:
    """Base offsets, positions and ends (bytes) of a log's batches."""
    data, at, found = log.read_bytes(), 0, []
    while at < len(data):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append((int.from_bytes(data[at : at + 8], "big"), at, end))
        at = end
    return found


def take_out(partition: Path, topic: str) -> None:
    """Take the marker at :data:`MARKER` out of the log; of ``segment``, all of the log that has it."""
    log = [path for path in sorted(partition.glob("*.log")) if int(path.stem) <= MARKER][-1]
    if topic == "segment":
        log.unlink()
        return
    data = log.read_bytes()
    (place,) = [each[1:] for each in batches(log) if each[0] == MARKER]
    log.write_bytes(data[: place[0]] + data[place[1] :])


def consumed(broker: KafkaBroker, topic: str, start: int = 0) -> list[int]:
    """Return the offsets that Kafka's consumer gets with read_committed."""
    answer = check(run("Consume", broker.bootstrap, topic, "0", "read_committed", str(start), helper=True))
    *records, _ = [json.loads(line) for line in answer.splitlines()]
    return [each["offset"] for each in records]


def ask(broker: KafkaBroker) -> dict[str, Any]:
    """Return what consumers get of each topic."""
    ends = {topic: broker.watermarks(topic)[0] for topic in TOPICS}
    return {
        topic: {
            "start": ends[topic][0],
            "end": ends[topic][1],
            "kafka": consumed(broker, topic, ends[topic][0]),
            "kafka_after_marker": consumed(broker, topic, MARKER + 1),
            "librdkafka": [each.offset for each in consume(broker, topic, isolation="read_committed")],
        }
        for topic in TOPICS
    }


def damaged(directory: Path) -> KafkaBroker:
    """A stopped broker whose logs lack the markers."""
    broker = KafkaBroker(directory)
    with broker:
        write(broker)
    for topic in TOPICS:
        take_out(broker.log_dir / f"{topic}-0", topic)
    return broker


def record() -> None:
    shutil.rmtree(RECORDED, ignore_errors=True)
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        broker = damaged(Path(scratch) / "broker")
        for topic in TOPICS:
            target = RECORDED / f"{topic}-0"
            target.mkdir(parents=True)
            for path in (broker.log_dir / f"{topic}-0").iterdir():
                shutil.copyfile(path, target / path.name)
        for start in ("clean", "unclean"):
            if start == "unclean":
                (broker.log_dir / ".kafka_cleanshutdown").unlink()
                (broker.log_dir / "recovery-point-offset-checkpoint").unlink()
            with broker:
                answers[start] = ask(broker)
            answers[start]["left"] = sorted(
                f"{path.parent.name}/{path.name} {path.stat().st_size}"
                for topic in TOPICS
                for path in (broker.log_dir / f"{topic}-0").glob("*.txnindex")
            )
    (RECORDED / "consumed.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    record()
