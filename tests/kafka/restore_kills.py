"""Restores into a running broker by a command that is killed at random, and compares what consumers get.

``python -m tests.kafka.restore_kills DIRECTORY [COUNT] [VERSION]`` kills it 30 times, and prints what the
target had at each kill that the map had not; at the end, source and target are compared record by record.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import NEWEST
from tests.kafka.live import some_records
from tests.kafka.producers import Consumed, consume, produce_confluent

TOPICS = {"orders": 3, "clicks": 1}
Place = tuple[str, int]
COMMAND = (sys.executable, "-m", "brokerless", "restore")


@dataclass
class Source:
    """A copy of a broker's log directory, and what a consumer of committed records got of it."""

    path: Path
    records: dict[Place, list[Consumed]]


def write_source(broker: KafkaBroker, count: int) -> Source:
    """Writes topics with transactions of both outcomes, copies the broker's directory, and deletes the topics."""
    for topic, partitions in TOPICS.items():
        broker.create_topic(topic, partitions, retention_ms=-1, max_message_bytes=2_000_000)
    for number, outcome in enumerate(("commit", "abort", "none", "commit", "none")):
        for topic, partitions in TOPICS.items():
            records = some_records(number, count // 5, partitions, largest=1000)
            produce_confluent(broker, topic, records, "lz4", outcome)  # type: ignore[arg-type]
    return Source(broker.directory / "source", {at: consume(broker, *at, "read_committed") for at in places()})


def places() -> list[Place]:
    return [(topic, number) for topic, partitions in TOPICS.items() for number in range(partitions)]


def copy_and_delete(broker: KafkaBroker, source: Source) -> None:
    broker.copy_log_dir(source.path)
    delete_topics(broker)


def delete_topics(broker: KafkaBroker) -> None:
    admin = broker.admin()
    for done in admin.delete_topics(list(TOPICS), operation_timeout=20).values():
        done.result(30)
    while TOPICS.keys() & admin.list_topics(timeout=10).topics.keys():
        time.sleep(0.1)


def arguments(broker: KafkaBroker, source: Source, map_: Path, *more: str) -> list[str]:
    path, bootstrap = str(source.path), broker.bootstrap
    return [*COMMAND, path, "--bootstrap-servers", bootstrap, "--offset-map", str(map_), "--apply", "--json", *more]


def kill_and_finish(
    broker: KafkaBroker, source: Source, map_: Path, kills: int, rate: str, seed: int = 1
) -> tuple[list[int], list[dict[str, Any]]]:
    """Runs the command, kills it so often while it sends, and lets the last run end. The first value is how many
    records were on the target at each kill, and not in the map."""
    chance, seen = random.Random(seed), list[int]()
    journal = map_ / "journal.jsonl"
    for _ in range(kills):
        before = journal.stat().st_size if journal.exists() else 0
        process = subprocess.Popen(
            arguments(broker, source, map_, "--rate", rate), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        give_up = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < give_up:
            if journal.exists() and journal.stat().st_size > before:
                break
            time.sleep(0.01)
        time.sleep(chance.random() * 0.7)
        process.kill()
        _, error = process.communicate()
        if process.returncode != -9:
            print(f"it ended with {process.returncode} before it was killed: {error.decode()[-500:]}")
        seen.append(on_target(broker) - mapped(journal))
    done = subprocess.run(arguments(broker, source, map_, "--groups"), capture_output=True, check=False)
    if done.returncode > 1:
        raise RuntimeError(done.stderr.decode())
    return seen, [json.loads(line) for line in done.stdout.splitlines()]


def on_target(broker: KafkaBroker) -> int:
    """Offsets of the topics, as far as they are there."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "ends", "log_level": 0})
    known = consumer.list_topics(timeout=10).topics
    there = [at for at in places() if at[0] in known]
    ends = [consumer.get_watermark_offsets(TopicPartition(*at), timeout=10)[1] for at in there]
    consumer.close()
    return sum(ends)


def mapped(journal: Path) -> int:
    """Records in a map."""
    lines = journal.read_bytes().split(b"\n")[1:-1] if journal.exists() else []
    runs = (json.loads(line) for line in lines)
    return sum(each["sourceLast"] - each["sourceFirst"] + 1 for each in runs)


def differences(broker: KafkaBroker, source: Source, map_: Path) -> list[str]:
    """Where the target is not the source, record by record, or the map is not where records are."""
    found: list[str] = []
    runs = [json.loads(line) for line in (map_ / "offset-map.jsonl").read_text().splitlines()]
    for place, before in source.records.items():
        after = consume(broker, *place)
        if [contents(each) for each in before] != [contents(each) for each in after]:
            found.append(f"{place}: {len(before)} records before, {len(after)} after")
        offsets = {
            each["sourceFirst"] + n: each["targetFirst"] + n
            for each in runs
            if (each["topic"], each["partition"]) == place
            for n in range(each["sourceLast"] - each["sourceFirst"] + 1)
        }
        if offsets != {a.offset: b.offset for a, b in zip(before, after, strict=False)}:
            found.append(f"{place}: the map is another")
    return found


def contents(record: Consumed) -> tuple[Any, ...]:
    return record.key, record.value, record.headers, record.timestamp


def main(directory: Path, kills: int = 30, version: str = NEWEST) -> None:
    with KafkaBroker(directory / "broker", version=version) as broker:
        source = write_source(broker, 60_000)
        copy_and_delete(broker, source)
        seen, rows = kill_and_finish(broker, source, directory / "map", kills, "100KB")
        results = [row for row in rows if row["table"] == "partitions"]
        print(f"{kills} kills, with so many records on the target that were not in the map: {seen}")
        earlier = sum(row["sentEarlier"] for row in results)
        print(f"records: {sum(map(len, source.records.values()))}; in the map before the last run: {earlier}")
        print("\n".join(differences(broker, source, directory / "map")) or "no difference")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
