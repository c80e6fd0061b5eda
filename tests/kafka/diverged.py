"""Brokers that are killed in turn, so that their copies of a topic become different logs.

``python -m tests.kafka.diverged DIRECTORY`` writes the three disks into a directory; ``demo/replicas`` was made so.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.kafka.cluster import Cluster, wait_for
from tests.kafka.producers import Record, produce_confluent

TOPIC = "orders"
REPLICAS = [[1, 2, 3], [1, 3, 2]]
LAST = 3
"""The broker that leads in the end."""
TIME = 1_763_700_000_000
_KEPT = ("meta.properties", "replication-offset-checkpoint", "recovery-point-offset-checkpoint")


def records(written: str, count: int, start: int) -> list[Record]:
    """Some for each partition; ``written`` says by whom they were taken."""
    chance = random.Random(written)
    found: list[Record] = []
    for number in range(count):
        total = chance.randrange(500, 90_000) / 100
        value = f'{{"order": {start + number}, "total": {total:.2f}, "written": "{written}"}}'.encode()
        key = b"customer-%d" % chance.randrange(60)
        found += [
            Record(key, value, (), TIME + 1000 * (start + number), partition) for partition in range(len(REPLICAS))
        ]
    return found


def diverge(cluster: Cluster) -> None:
    """Leaves the brokers killed: 1 has records that nobody else has, 2 has some that only 3 has and some that none has,
    and 3, which had less than either, was the last to lead."""
    at = 0

    def produce(written: str, count: int, codec: str, acks: int = 1) -> None:
        nonlocal at
        at += count
        settings = {"acks": acks, "batch_size": 1500, "linger_ms": 20}
        produce_confluent(cluster.alive, TOPIC, records(written, count, at), codec, **settings)

    def high_watermark_is_noted(number: int, offset: int) -> None:
        checkpoint = cluster.brokers[number].log_dir / "replication-offset-checkpoint"
        lines = {f"{TOPIC} {partition} {offset}" for partition in range(len(REPLICAS))}
        wait_for(lambda: lines <= set(checkpoint.read_text().splitlines()), checkpoint.read_text)

    cluster.create_topic(
        TOPIC, REPLICAS, internal_segment_bytes=8192, index_interval_bytes=1024, segment_index_bytes=1024
    )
    produce("on all three", 120, "none", acks=-1)
    for number in (1, 2, 3):
        high_watermark_is_noted(number, 120)
    cluster.kill(2, 3)
    produce("only on 1", 70, "none")
    cluster.kill(1)
    cluster.start(2)
    cluster.wait_for_leaders(TOPIC, [2, 2])
    produce("on 2, at first", 40, "lz4")
    cluster.start(3)
    cluster.wait_for_replicas(TOPIC, 2)
    produce("on 2 and 3", 60, "none", acks=-1)
    high_watermark_is_noted(3, 220)
    cluster.kill(3)
    cluster.wait_for_replicas(TOPIC, 1)
    produce("only on 2", 80, "zstd", acks=-1)  # what 2 takes alone is committed
    high_watermark_is_noted(2, 300)
    cluster.kill(2)
    cluster.start(3)
    cluster.wait_for_leaders(TOPIC, [3, 3])
    produce("on 3, which leads last", 50, "gzip")
    high_watermark_is_noted(3, 270)
    cluster.kill(3)


def main(target: Path) -> None:
    """Keeps the first partition alone, and what the log directories note of it."""
    with tempfile.TemporaryDirectory() as directory:
        with Cluster(Path(directory) / "cluster") as cluster:
            diverge(cluster)
            disks = cluster.disks(Path(directory) / "disks")
        for number, disk in enumerate(disks, 1):
            kept = target / f"broker-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(disk / f"{TOPIC}-0", kept / f"{TOPIC}-0")
            for name in _KEPT:
                lines = (disk / name).read_text().splitlines()
                if "checkpoint" in name:
                    lines = [line for line in lines if line.startswith(f"{TOPIC} 0 ")]
                    lines = ["0", str(len(lines)), *lines]
                (kept / name).write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
