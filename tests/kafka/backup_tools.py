"""Copies the disks of three brokers under load with each backup tool, and tries what each copy restores.

``python -m tests.kafka.backup_tools DIRECTORY [ROUNDS]`` writes with idempotent and transactional producers, into
topics of which some are compacted, and meanwhile copies all disks with each tool in turn, three times. Then the
cluster is killed, each copy is restored, verified, and started, and consumers read all of it. It prints a line of JSON
for each copy. The cluster is hurried (small segments, cleaning without a pause), because a copy takes seconds.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.backup_tools import OTHERS, OURS, Tool, environment, make_place, missing, version
from tests.kafka.cluster import Cluster, Node, wait_for
from tests.kafka.load import KEYS, Load, clients, create_topics
from tests.kafka.producers import Consumed, consume

SETTINGS = {
    "log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200", "file.delete.delay.ms": "100",
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "unclean.leader.election.enable": "false",
}  # fmt: skip
WIDE = 4
"""Partitions of a compacted topic with a thousand keys each, which takes several segments once it is cleaned."""
WIDE_KEYS = 4000
BALLAST = 40
"""Megabytes of records that a copy has to read besides, of each replica."""
SETTLED_WITHIN = 60


@dataclass
class Copy:
    """A copy, and what had been acknowledged when it began. ``wide``: the newest number of each key."""

    tool: Tool
    number: int
    place: Path
    before: Load
    wide: dict[int, int]
    line: dict[str, Any]


@contextmanager
def wide_producer(bootstrap: str) -> Iterator[dict[int, int]]:
    """An idempotent producer of the wide topic, and the newest number of each key that was acknowledged."""
    acknowledged, stopped, errors = dict[int, int](), threading.Event(), list[object]()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 2})
        made = range(0)
        while not stopped.is_set():
            made = range(made.stop, made.stop + 400)
            for number in made:
                key = number * 7919 % WIDE_KEYS
                producer.produce(
                    "wide", key=b"%d" % key, value=b"%0100d" % number, partition=key % WIDE,
                    on_delivery=lambda error, _: errors.append(error) if error else None,
                )  # fmt: skip
            if producer.flush(60) or errors:
                errors.append("not all was delivered")
                return
            acknowledged.update((each * 7919 % WIDE_KEYS, each) for each in made)
            stopped.wait(0.02)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield acknowledged
    finally:
        stopped.set()
        thread.join()
    if errors:
        raise RuntimeError(str(errors[0]))


def fill(cluster: Cluster) -> None:
    """Makes the topics, and writes the ballast."""
    create_topics(cluster)
    more = {"min_insync_replicas": 2, "internal_segment_bytes": 65536}
    replicas = [[(at + each) % 3 + 1 for each in range(3)] for at in range(WIDE)]
    cluster.create_topic("wide", replicas, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, **more)
    cluster.create_topic("ballast", replicas[:2], segment_bytes=8 << 20)
    producer = Producer({"bootstrap.servers": cluster.alive.bootstrap})
    for number in range(BALLAST * 10):
        producer.produce("ballast", os.urandom(100_000), partition=number % 2)
        producer.poll(0)
        if number % 50 == 49:
            producer.flush(60)
    producer.flush(60)


def nodes(cluster: Cluster) -> list[Node]:
    return [*cluster.controllers.values(), *cluster.brokers.values()]


def copy_all(cluster: Cluster, directory: Path, rounds: int) -> list[Copy]:
    """Each tool in turn copies the disks of all nodes while clients write."""
    tools, copies = [OURS, *(each for each in OTHERS if not missing(each))], list[Copy]()
    disks = [str(each.log_dir) for each in nodes(cluster)]
    bootstrap = ",".join(each.bootstrap for each in cluster.brokers.values())
    with clients(bootstrap) as load, wide_producer(bootstrap) as wide:
        wait_for(lambda: len(wide) == WIDE_KEYS, lambda: f"{len(wide)} keys were acknowledged")
        for number in range(rounds):
            for tool in tools:
                place = directory / "places" / tool.name
                if number == 0:
                    make_place(tool, place)
                records, transactions = len(load.acknowledged["plain"]), len(load.ended)
                load.wait_for(records + 200, transactions + 20)
                line = {"tool": version(tool) if tool is not OURS else tool.name, "round": number}
                copies.append(Copy(tool, number, place, load.copy(), dict(wide), line))
                start = time.monotonic()
                done = subprocess.run(
                    tool.copy(disks, place, number), env=environment(place), capture_output=True, check=False
                )
                line |= {"seconds": round(time.monotonic() - start, 1), "exitCode": done.returncode}
                if done.returncode:
                    line["complaint"] = done.stderr.decode(errors="replace")[-300:]
    return copies


def restore(copy: Copy, cluster: Cluster, to: Path) -> None:
    """Puts what a copy has where the nodes' disks were. Raises :class:`subprocess.CalledProcessError`."""
    to.mkdir(parents=True)
    if copy.tool.restore is None:
        url = f"{copy.place}/stored@run-{copy.number}"
        command = [sys.executable, "-m", "brokerless", "rebuild", url, "--to", str(to), "--spread", "--apply", "--json"]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode > 1:
            done.check_returncode()
        rows = (json.loads(line) for line in done.stdout.splitlines())
        copy.line["rebuild"] = dict(
            Counter(row.get("kind", "lost") for row in rows if row["table"] in ("findings", "lost"))
        )
        restored = {node.log_dir: to / f"node-{node.node_id}" for node in nodes(cluster)}
    else:
        for command in copy.tool.restore(copy.place, copy.number):
            subprocess.run(command, check=True, capture_output=True, cwd=to, env=environment(copy.place))
        restored = {node.log_dir: to / node.log_dir.relative_to("/") for node in nodes(cluster)}
    for log_dir, found in restored.items():
        shutil.rmtree(log_dir, ignore_errors=True)
        shutil.move(found, log_dir)


def verified(cluster: Cluster) -> dict[str, int]:
    """Counts the findings of ``brokerless verify`` in all brokers' directories, by severity and kind."""
    disks = [str(each.log_dir) for each in cluster.brokers.values()]
    command = [sys.executable, "-m", "brokerless", "verify", "--json", "--all", "--jobs", "1", *disks]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == 2:
        raise RuntimeError(done.stderr.decode())
    found = (json.loads(line) for line in done.stdout.splitlines())
    return dict(Counter(f"{each['severity']} {each['kind']}" for each in found if "severity" in each))


def start(cluster: Cluster) -> tuple[int, list[str]]:
    """Starts all nodes. Returns how many brokers serve, and what the others said last."""
    said = list[str]()
    for each in nodes(cluster):
        each.start_process()
    for each in nodes(cluster):
        try:
            each.wait_until_ready()
        except RuntimeError as error:
            said.append(str(error)[-300:])
            each.kill()
    return sum(each.process is not None for each in cluster.brokers.values()), said


def end_transactions(cluster: Cluster) -> list[str]:
    """The transactional producers begin again, which aborts what they had open. Returns what is then still open."""
    left = list[str]()
    for name in ("a", "b"):
        producer = Producer({"bootstrap.servers": cluster.alive.bootstrap, "transactional.id": name, "log_level": 0})
        try:
            producer.init_transactions(SETTLED_WITHIN)
        except KafkaException as error:
            left.append(f"producer {name}: {error}")
    admin, places = cluster.admin(), [TopicPartition(topic, 0) for topic in ("left", "right")]

    def ends(level: IsolationLevel) -> list[int]:
        asked = admin.list_offsets(dict.fromkeys(places, OffsetSpec.latest()), isolation_level=level)
        return [asked[each].result(30).offset for each in places]

    def is_settled() -> bool:
        with suppress(KafkaException):
            return ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED)
        return False

    try:
        wait_for(is_settled, lambda: "a transaction stays open")
    except RuntimeError as error:
        left.append(str(error))
    return left


def compared(cluster: Cluster, copy: Copy) -> dict[str, object]:
    """Counts what consumers of committed records do not get that was acknowledged, or get otherwise."""
    unserved = list[str]()

    def read(topic: str, partition: int = 0) -> list[Consumed]:
        try:
            return consume(cluster.alive, topic, partition, "read_committed")
        except (RuntimeError, KafkaException) as error:
            unserved.append(f"{topic}-{partition}: {error}"[:200])
            return []

    plain = [int(each.value or b"0") for each in read("plain")]
    table = [(int(each.key or b"0"), int(each.value or b"0")) for each in read("table")]
    wide = [(int(r.key or b"0"), int(r.value or b"0")) for each in range(WIDE) for r in read("wide", each)]
    left, right = ([each.value or b"" for each in read(topic)] for topic in ("left", "right"))
    acknowledged = {int(each) for each in copy.before.acknowledged["plain"]}
    numbers = [int(each) for each in copy.before.acknowledged["table"]]
    newest = {each % KEYS: each for each in numbers}
    committed = {value for value, is_committed in copy.before.ended.items() if is_committed}
    aborted = copy.before.ended.keys() - committed
    return {
        "acknowledged": len(acknowledged) + len(newest) + len(copy.wide) + 2 * len(committed),
        "missing": {
            "plain": len(acknowledged - set(plain)),
            "table": missing_keys(newest, table),
            "wide": missing_keys(copy.wide, wide),
            "left": len(committed - set(left)),
            "right": len(committed - set(right)),
        },
        "ballastMissing": BALLAST * 10 - len(read("ballast")) - len(read("ballast", 1)),
        "twice": sum(len(each) - len(set(each)) for each in (plain, table, wide, left, right)),
        "outOfOrder": descents(plain) + keyed_descents(table) + keyed_descents(wide),
        "halfTransactions": len(set(left) ^ set(right)),
        "abortedSeen": len(aborted & {*left, *right}),
        "unserved": unserved,
    }


def missing_keys(newest: dict[int, int], found: list[tuple[int, int]]) -> int:
    """Counts keys whose newest value is an earlier one than was acknowledged."""
    got = dict(found)
    return sum(got.get(key, -1) < number for key, number in newest.items())


def descents(numbers: list[int]) -> int:
    return sum(after < before for before, after in itertools.pairwise(numbers))


def keyed_descents(found: list[tuple[int, int]]) -> int:
    values = dict[int, list[int]]()
    for key, number in found:
        values.setdefault(key, []).append(number)
    return sum(map(descents, values.values()))


def try_copy(cluster: Cluster, copy: Copy, to: Path) -> dict[str, Any]:
    """Restores a copy, and returns what was found."""
    line = copy.line
    try:
        restore(copy, cluster, to)
    except subprocess.CalledProcessError as error:
        return line | {"restore": f"exit code {error.returncode}: {error.stderr.decode(errors='replace')[-300:]}"}
    line["verify"] = verified(cluster)
    try:
        line["brokers"], line["startErrors"] = start(cluster)
        if line["brokers"]:
            line["transactions"] = end_transactions(cluster)
            line |= compared(cluster, copy)
    finally:
        cluster.kill_all()
    return line


def main(directory: Path, rounds: int = 3, show: Callable[[str], object] = print) -> None:
    directory = directory.resolve()
    for each in OTHERS:
        if programs := missing(each):
            show(f"{each.name} is left out: {programs} not installed")
    with Cluster(directory / "cluster", SETTINGS) as cluster:
        fill(cluster)
        copies = copy_all(cluster, directory, rounds)
        cluster.kill_all()
        for at, copy in enumerate(copies):
            show(json.dumps(try_copy(cluster, copy, directory / f"restored-{at}")))
            shutil.rmtree(directory / f"restored-{at}", ignore_errors=True)
        for each in nodes(cluster):
            each.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]), show=lambda line: print(line, flush=True))
