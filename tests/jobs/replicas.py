"""Replication as a model: brokers that lead in turn, append, fetch, and cut off what their leader does not have.

It knows nothing of epochs but that a leader stamps them: where two logs part is found by comparing their batches.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.log.whole_batches import batch

from brokerless.log.checkpoint.leader_epochs import Epochs, assign, truncate_from_end
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.config import LogConfig

TOPIC_ID = "P4KqAlm-RcmdL3bLO8vOmg"


@dataclass(frozen=True)
class Batch:
    offset: int
    count: int
    epoch: int
    text: str

    @property
    def end(self) -> int:
        return self.offset + self.count

    def as_bytes(self) -> NDArray[np.uint8]:
        return batch(self.offset, self.count, value=self.text.encode(), epoch=self.epoch)


@dataclass
class ModelReplica:
    batches: list[Batch] = field(default_factory=list[Batch])
    epochs: Epochs = ()
    """As its ``leader-epoch-checkpoint`` has them."""

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.epochs = assign(self.epochs, batch.epoch, batch.offset)


@dataclass
class Cluster:
    replicas: list[ModelReplica] = field(default_factory=lambda: [ModelReplica() for _ in range(3)])
    leader: int = 0
    epoch: int = -1

    def elect(self, number: int, step: int = 1) -> None:
        """Clean or not."""
        self.leader, self.epoch = number, self.epoch + step
        replica = self.replicas[number]
        replica.epochs = assign(replica.epochs, self.epoch, replica.end)

    def append(self, count: int, text: str) -> None:
        """What a leader does; the same text may come again, as when a producer sends a batch to the next leader."""
        leader = self.replicas[self.leader]
        leader.append(Batch(leader.end, count, self.epoch, text))

    def fetch(self, number: int, most: int) -> None:
        """What a follower does."""
        leader, follower = self.replicas[self.leader], self.replicas[number]
        if leader is follower:
            return
        same = shared(leader, follower)
        del follower.batches[same:]
        follower.epochs = truncate_from_end(follower.epochs, follower.end)
        for each in leader.batches[same : same + most]:
            follower.append(each)

    @property
    def last(self) -> ModelReplica:
        """The one whose history counts."""
        return max(self.replicas, key=lambda each: (each.last_epoch, each.end))


def shared(one: ModelReplica, other: ModelReplica) -> int:
    """How many batches two logs begin with that are the same."""
    pairs = zip(one.batches, other.batches, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one.batches), len(other.batches)))


def random_cluster(chance: random.Random, steps: int) -> Cluster:
    """Brokers that have led in turn, of which each has fetched from time to time."""
    cluster = Cluster()
    cluster.elect(0)
    for step in range(steps):
        kind = chance.random()
        if kind < 0.5:
            text = chance.choice((f"{step} " * chance.randrange(1, 90), "the same again"))
            cluster.append(chance.randrange(1, 6), text)
        elif kind < 0.95:
            cluster.fetch(chance.randrange(3), chance.randrange(1, 12))
        else:
            cluster.elect(chance.randrange(3), chance.randrange(1, 3))
    return cluster


def write_disks(replicas: Sequence[ModelReplica], directory: Path, segment_bytes: int = 4096) -> list[Path]:
    """A log directory for each replica, with a partition ``orders-0``."""
    disks = [directory / f"disk-{number}" for number in range(len(replicas))]
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=512)
    for replica, disk in zip(replicas, disks, strict=True):
        disk.mkdir(parents=True)
        with PartitionWriter(NewPartition(disk, "orders", 0, config, topic_id=TOPIC_ID)) as output:
            for each in replica.batches:
                output.append(each.as_bytes())
            output.set_limits(0, replica.end, replica.epochs)
            output.commit()
    return disks
