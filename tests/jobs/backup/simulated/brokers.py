"""Brokers that work while their disks are read: a step at a time, by a seed.

They append (by producers, by transactions over partitions), roll, clean, expire, elect and truncate, move replicas
between disks, make and delete topics, and write checkpoints whenever they like. What they have acknowledged is known.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.jobs.backup.simulated.logs import TIME, Batch, ReplicaLog, Row

from brokerless.format.messages.writer import encode
from brokerless.internals.coordinators import partition_of
from brokerless.internals.messages import message
from brokerless.internals.metadata.records import encode_record

Place = tuple[str, int]
GROUPS, TRANSACTIONS, METADATA = "__consumer_offsets", "__transaction_state", "__cluster_metadata"
NODES = {1: ("a", "b"), 2: ("c",)}
DIRECTORY_IDS = {disk: f"{disk * 20}AA" for disks in NODES.values() for disk in disks}
CLUSTER_ID = "simulatedAAAAAAAAAAAAA"
NO_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
COMPACTED = ("table", GROUPS, TRANSACTIONS)
ONGOING, PREPARED, COMPLETE = 1, 2, 4


@dataclass(eq=False)
class Transaction:
    """``places``: partitions that it has. ``offsets``: of its markers. ``prepared``: the offset of its decision."""

    name: str
    producer: int
    epoch: int
    places: list[Place] = field(default_factory=list[Place])
    data: dict[Place, int] = field(default_factory=dict[Place, int])
    offsets: dict[Place, int] = field(default_factory=dict[Place, int])
    is_commit: bool = True
    prepared: int | None = None
    is_complete: bool = False


@dataclass(eq=False)
class Partition:
    """``versions``: all batches that its log has ever had; after a leader lost some, another list. ``known``: by tick,
    where the log began, how far it was committed, and where it ended. ``described``, ``removed``: offsets of the
    metadata."""

    topic: str
    topic_id: str
    number: int
    replicas: dict[int, ReplicaLog]
    leader: int
    epoch: int = 0
    versions: list[tuple[int, list[Batch]]] = field(default_factory=lambda: [(0, [])])
    known: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    described: int = 0
    removed: int = 1 << 60
    is_busy: bool = False
    is_gone: bool = False

    @property
    def place(self) -> Place:
        return self.topic, self.number

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.number}"

    @property
    def log(self) -> ReplicaLog:
        return self.replicas[self.leader]

    @property
    def committed(self) -> int:
        return min(each.whole_end for each in self.replicas.values())

    @property
    def history(self) -> list[Batch]:
        return self.versions[-1][1]


class Brokers:
    """``tick``: how many steps they have done."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.tick, self.chance = root, 0, random.Random(seed)
        self.partitions: dict[Place, Partition] = {}
        self.ever: list[Partition] = []
        self.transactions: list[Transaction] = []
        self._current: dict[str, Transaction] = {}
        self._epochs = dict.fromkeys("pqrs", 0)
        self._work: list[Iterator[None]] = []
        self._made = 0
        for node, disks in NODES.items():
            for disk in disks:
                self.disk(disk).mkdir(parents=True)
                text = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\ndirectory.id={DIRECTORY_IDS[disk]}\n"
                (self.disk(disk) / "meta.properties").write_text(text)
                (self.disk(disk) / ".lock").write_bytes(b"")
        self._metadata = [ReplicaLog(self.disk(each) / f"{METADATA}-0", NO_ID) for each in ("a", "c")]
        for each in self._metadata:
            each.make()
        self._describe("FEATURE_LEVEL_RECORD", 0, {"name": "metadata.version", "featureLevel": 27})
        for node, disks in NODES.items():
            self._describe("REGISTER_BROKER_RECORD", 3, _broker(node, [DIRECTORY_IDS[each] for each in disks]))
        for topic, count in (("plain", 3), ("table", 2), (GROUPS, 2), (TRANSACTIONS, 2)):
            self._make_topic(topic, count)
        self.checkpoint()

    def disk(self, name: str) -> Path:
        return self.root / name

    @property
    def disks(self) -> list[Path]:
        return [self.disk(each) for disks in NODES.values() for each in disks]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Do something."""
        self.tick += 1
        works: Sequence[tuple[Callable[[], object], int]] = (
            (self._produce, 8), (self._set, 8), (self._commit_position, 5), (self._transact, 24), (self._go_on, 12),
            (self._roll, 3), (self._clean, 3), (self._expire, 1), (self._replicate, 6), (self._elect, 1),
            (self._move, 1), (self._forget, 2), (self.checkpoint, 1), (self._change_topics, 1),
        )  # fmt: skip
        self.chance.choices([each for each, _ in works], [weight for _, weight in works])[0]()
        for each in self.partitions.values():
            now = (min(log.start for log in each.replicas.values()), each.committed, each.log.end)
            if not each.known or each.known[-1][1:] != now:
                each.known.append((self.tick, *now))

    # What clients do

    def _produce(self) -> None:
        partition = self._any("plain", "extra")
        producer = self.chance.choice((-1, 900))
        count = self.chance.randrange(1, 4)
        self._append(
            partition, [(None, self.chance.randbytes(20)) for _ in range(count)], producer=producer, is_half=True
        )

    def _set(self) -> None:
        partition = self._any("table")
        key, value = b"k%d" % self.chance.randrange(6), self.chance.randbytes(self.chance.randrange(1, 30))
        self._append(partition, [(key, None if self.chance.random() < 0.2 else value)], is_half=True)

    def _commit_position(self) -> None:
        group = f"group-{self.chance.randrange(3)}"
        self._append(self._groups_of(group), [self._position(group)])

    def _position(self, group: str) -> tuple[bytes, bytes]:
        partition = self._any("plain", "table")
        key = {"group": group, "topic": partition.topic, "partition": partition.number}
        value = {"offset": partition.committed, "leaderEpoch": -1, "metadata": "", "commitTimestamp": TIME}
        return b"\0\1" + encode(message("OffsetCommitKey"), 0, key), b"\0\3" + encode(
            message("OffsetCommitValue"), 3, value
        )

    def _groups_of(self, group: str) -> Partition:
        return self.partitions[GROUPS, partition_of(group, 2)]

    def _transact(self) -> None:
        name = self.chance.choice("pqrs")
        own = self._current.get(name)
        if own is None:
            number = "pqrs".index(name)
            own = self._current[name] = Transaction(name, 100 + number, self._epochs[name])
            self.transactions.append(own)
            self._add_partition(own)
        elif own.prepared is None and self.chance.random() < 0.7:
            if len(own.places) < 4 and self.chance.random() < 0.6:
                self._add_partition(own)
            self._append_in(own)
        elif own.prepared is None:
            own.is_commit = self.chance.random() < 0.7
            if name in "pq":  # KIP-890: an epoch for each transaction
                own.epoch = self._epochs[name] = own.epoch + 1
            own.prepared = self._decide(own, PREPARED if own.is_commit else PREPARED + 1)
        elif missing := [each for each in own.places if each not in own.offsets]:
            place = self.chance.choice(missing)
            partition = self.partitions.get(place)
            marker = (bytes([0, 0, 0, own.is_commit]), bytes(6))
            own.offsets[place] = -1 if partition is None else self._append(partition, [marker], own, is_marker=True)
        else:
            self._decide(own, COMPLETE if own.is_commit else COMPLETE + 1)
            own.is_complete = True
            del self._current[name]

    def _add_partition(self, own: Transaction) -> None:
        partition = self._any("plain", "table") if self.chance.random() < 0.7 else self._groups_of(f"group-{own.name}")
        if partition.place not in own.places:
            own.places.append(partition.place)
            self._decide(own, ONGOING)

    def _append_in(self, own: Transaction) -> None:
        partition = self.partitions.get(self.chance.choice(own.places))
        if partition is not None:
            row = self._position(f"group-{own.name}") if partition.topic == GROUPS else (b"t%d" % self.tick, b"in")
            own.data[partition.place] = self._append(partition, [row], own)

    def _decide(self, own: Transaction, status: int) -> int:
        places: dict[str, list[int]] = {}
        for topic, number in own.places if status < COMPLETE else ():
            places.setdefault(topic, []).append(number)
        value: dict[str, Any] = {
            "producerId": own.producer, "producerEpoch": own.epoch, "transactionTimeoutMs": 60_000,
            "transactionStatus": status, "transactionLastUpdateTimestampMs": TIME, "transactionStartTimestampMs": TIME,
            "transactionPartitions": [{"topic": each, "partitionIds": own} for each, own in places.items()],
        }  # fmt: skip
        key = b"\0\0" + encode(message("TransactionLogKey"), 0, {"transactionalId": own.name})
        partition = self.partitions[TRANSACTIONS, partition_of(own.name, 2)]
        return self._append(partition, [(key, b"\0\0" + encode(message("TransactionLogValue"), 0, value))])

    def _append(
        self,
        partition: Partition,
        rows: Sequence[tuple[bytes | None, bytes | None]],
        transaction: Transaction | None = None,
        *,
        producer: int = -1,
        is_marker: bool = False,
        is_half: bool = False,
    ) -> int:
        """Append a batch to the leader; but for producers that do not wait, to all in-sync replicas."""
        log = partition.log
        first = log.end
        numbered = tuple((first + at, *each) for at, each in enumerate(rows))
        batch = Batch(
            first, first + len(rows) - 1, numbered, partition.epoch,
            producer=producer if transaction is None else transaction.producer,
            producer_epoch=0 if transaction is None else transaction.epoch,
            is_transactional=transaction is not None, is_marker=is_marker,
        )  # fmt: skip
        partition.history.append(batch)
        log.append(batch, half=is_half and self.chance.random() < 0.3)
        if not is_half:
            self._follow(partition)
        return first

    def _follow(self, partition: Partition) -> None:
        for each in partition.replicas.values():
            if each is not partition.log:
                partition.log.complete()
                for batch in [one for one in partition.history if one.first >= each.end]:
                    each.append(batch)

    # What brokers do by themselves

    def _replicate(self) -> None:
        partition = self._some()
        for each in partition.replicas.values():
            each.complete()
        self._follow(partition)

    def _go_on(self) -> None:
        """A step of something that takes several."""
        if self._work:
            work = self.chance.choice(self._work)
            if next(work, self) is self:
                self._work.remove(work)

    def _roll(self) -> None:
        partition = self._some()
        if partition.topic != TRANSACTIONS or self.chance.random() < 0.2:
            self.chance.choice(list(partition.replicas.values())).roll()

    def _clean(self) -> None:
        partition = self._any("table", GROUPS, TRANSACTIONS)
        log = self.chance.choice(list(partition.replicas.values()))
        self._begin(partition, log.clean(lambda batches: self._kept(partition, batches)))

    def _kept(self, partition: Partition, batches: Sequence[Batch]) -> list[Batch]:
        """What the cleaner keeps: nothing is superseded within or by a transaction that is not decided."""
        undecided = {
            each.producer
            for each in self.transactions
            if partition.place in each.places and partition.place not in each.offsets
        }
        until = min(
            (each.first for each in batches if each.producer in undecided and not each.is_marker), default=1 << 60
        )
        aborted = [
            (each.producer, each.offsets[partition.place])
            for each in self.transactions
            if self._is_aborted(each, partition)
        ]
        before = {producer: sorted(end for one, end in aborted if one == producer) for producer, _ in aborted}

        def is_aborted(batch: Batch) -> bool:
            markers = [one.first for one in partition.history if one.is_marker and one.producer == batch.producer]
            end = next((each for each in markers if each > batch.first), None)
            return batch.is_transactional and end in before.get(batch.producer, [])

        dirty = [each for each in batches if each.last < until]
        last = {
            key: offset for each in dirty if not each.is_marker and not is_aborted(each) for offset, key, _ in each.rows
        }
        kept: list[Batch] = []
        for each in batches:
            if each.last >= until or each.is_marker:
                kept.append(each)
            elif not is_aborted(each):
                rows = tuple(row for row in each.rows if last[row[1]] == row[0])
                kept += [replace(each, rows=rows)] if rows else []
        return kept

    def _is_aborted(self, transaction: Transaction, partition: Partition) -> bool:
        return not transaction.is_commit and transaction.offsets.get(partition.place, -1) >= 0

    def _expire(self) -> None:
        partition = self._any("plain", "extra")
        self._begin(partition, self._expire_all(partition))

    def _expire_all(self, partition: Partition) -> Iterator[None]:
        bases = {each.segments[1].base for each in partition.replicas.values() if len(each.segments) > 1}
        if not bases or min(bases) > partition.committed:
            return
        for each in partition.replicas.values():
            if len(each.segments) > 1 and each.segments[1].base <= partition.committed:
                yield from each.expire()

    def _elect(self) -> None:
        """The other replica leads; the old leader loses what it alone had."""
        partition = self._some()
        others = [each for each in partition.replicas if each != partition.leader]
        if not others or partition.is_busy:
            return
        old, partition.leader, partition.epoch = partition.leader, others[0], partition.epoch + 1
        log = partition.log
        log.complete()
        if partition.replicas[old].end > log.end:
            partition.replicas[old].truncate(log.end)
            partition.versions.append((self.tick, [each for each in partition.history if each.last < log.end]))
        for each in partition.replicas.values():
            each.epochs = [one for one in each.epochs if one[1] < log.end] or []
            each.epochs.append((partition.epoch, log.end))
            each.write_epochs()
        row = {"partitionId": partition.number, "topicId": partition.topic_id, "leader": partition.leader}
        self._describe("PARTITION_CHANGE_RECORD", 0, row)

    def _move(self) -> None:
        """A replica goes to the other disk of its broker."""
        partition = self._some()
        if 1 in partition.replicas and not partition.is_busy:
            self._begin(partition, self._move_to_other(partition))

    def _move_to_other(self, partition: Partition) -> Iterator[None]:
        log = partition.replicas[1]
        target = self.disk("b" if log.directory.parent.name == "a" else "a")
        future = log.copy_to(target / f"{partition.name}.{self.tick:032x}-future")
        yield
        if partition.is_gone:
            shutil.rmtree(future.directory, ignore_errors=True)
            return
        shutil.rmtree(future.directory)  # it has caught up, in the same step
        future = log.copy_to(future.directory)
        partition.replicas[1] = future
        future.rename(target / partition.name)
        yield
        log.rename(log.directory.parent / f"{partition.name}.{self.tick:032x}-delete")
        yield
        shutil.rmtree(log.directory, ignore_errors=True)

    def _begin(self, partition: Partition, work: Iterator[None]) -> None:
        """Begin something that takes several steps, one at a time in each partition."""
        if partition.is_busy:
            return

        def steps() -> Iterator[None]:
            partition.is_busy = True
            yield from work
            partition.is_busy = False

        started = steps()
        if next(started, self) is not self:
            self._work.append(started)

    def _forget(self) -> None:
        for each in self.partitions.values():
            for log in each.replicas.values():
                if self.chance.random() < 0.5:
                    log.forget()

    def checkpoint(self) -> None:
        """Write checkpoints of a disk, some of them old."""
        disk = self.chance.choice(self.disks)
        logs = [(each, log) for each in self.partitions.values() for log in each.replicas.values()]
        own = [(each, log) for each, log in logs if log.directory.parent == disk]
        for name, value in (
            ("recovery-point-offset-checkpoint", lambda each, log: log.start),
            ("replication-offset-checkpoint", lambda each, log: min(each.committed, log.end)),
            ("log-start-offset-checkpoint", lambda each, log: log.start),
        ):
            if self.chance.random() < 0.7:
                lines = "".join(f"{each.topic} {each.number} {value(each, log)}\n" for each, log in own)
                (disk / f"{name}.tmp").write_text(f"0\n{len(own)}\n{lines}")
                (disk / f"{name}.tmp").rename(disk / name)

    # Topics

    def _change_topics(self) -> None:
        extra = [each for each in self.partitions.values() if each.topic.startswith("extra") and not each.is_busy]
        if extra and self.chance.random() < 0.5:
            self._delete_topic(self.chance.choice(extra))
        elif len(extra) < 3:
            self._made += 1
            self._make_topic(f"extra{self._made}", 1)

    def _make_topic(self, topic: str, count: int) -> None:
        topic_id = f"{self.chance.getrandbits(60):015x}".ljust(22, "A")
        self._describe("TOPIC_RECORD", 0, {"name": topic, "topicId": topic_id})
        if topic in COMPACTED:
            row = {"resourceType": 2, "resourceName": topic, "name": "cleanup.policy", "value": "compact"}
            self._describe("CONFIG_RECORD", 0, row)
        for number in range(count):
            nodes = self.chance.choice(((1,), (2,), (1, 2), (2, 1)))
            disks = {node: self.chance.choice(NODES[node]) for node in nodes}
            logs = {node: ReplicaLog(self.disk(disk) / f"{topic}-{number}", topic_id) for node, disk in disks.items()}
            partition = Partition(topic, topic_id, number, logs, nodes[0], described=self._metadata[0].end)
            row = {
                "partitionId": number, "topicId": topic_id, "replicas": list(nodes), "isr": list(nodes),
                "removingReplicas": [], "addingReplicas": [], "leader": nodes[0], "leaderEpoch": 0,
                "partitionEpoch": 0, "directories": ["A" * 22 for _ in nodes],
            }  # fmt: skip
            self._describe("PARTITION_RECORD", 1, row)
            for log in logs.values():
                log.make()
            self.partitions[partition.place] = partition
            self.ever.append(partition)

    def _delete_topic(self, partition: Partition) -> None:
        partition.is_gone, partition.removed = True, self._metadata[0].end
        del self.partitions[partition.place]
        self._describe("REMOVE_TOPIC_RECORD", 0, {"topicId": partition.topic_id})

        def remove() -> Iterator[None]:
            for log in partition.replicas.values():
                log.rename(log.directory.parent / f"{partition.name}.{self.tick:032x}-delete")
                yield
            for log in partition.replicas.values():
                shutil.rmtree(log.directory, ignore_errors=True)

        self._work.append(remove())

    def _describe(self, type_: str, version: int, data: dict[str, Any]) -> None:
        """A record of the cluster's metadata."""
        for log in self._metadata:
            row: Row = (log.end, None, encode_record(type_, version, data))
            log.append(Batch(log.end, log.end, (row,)))

    def _any(self, *topics: str) -> Partition:
        """A partition of these topics, ``extra`` for those that come and go."""
        found = [each for each in self.partitions.values() if each.topic in topics or each.topic[:5] in topics]
        return self.chance.choice(found)

    def _some(self) -> Partition:
        return self.chance.choice(list(self.partitions.values()))


def _broker(node: int, directories: list[str]) -> dict[str, Any]:
    return {
        "brokerId": node, "isMigratingZkBroker": False, "incarnationId": "A" * 22, "brokerEpoch": 1,
        "endPoints": [], "features": [], "rack": None, "fenced": False, "inControlledShutdown": False,
        "logDirs": directories,
    }  # fmt: skip
