"""Pairs the replicas of each partition on the disks of one cluster, and chooses which partitions a run compares.

Below the least high watermark, all replicas have the same records; what is after it, a replica may not have yet, or may
have from a leader that was replaced. Brokers write their high watermarks to ``replication-offset-checkpoint`` every
five seconds (``ReplicaManager.checkpointHighWatermarks``, 4.4.0); what is before them stays while brokers run. Of the
cluster's metadata, leader epochs say how far nodes agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from brokerless import clock
from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.diff.exported.listing import TablePartition
from brokerless.jobs.diff.live.cluster import RunningPartition
from brokerless.jobs.diff.pairs import Pair, pair_of, ranked
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.jobs.ledger import Checked, Ledger, run_id_of
from brokerless.jobs.turns import choose, open_ledger
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import load_epochs, truncation_offset
from brokerless.log.checkpoint.meta_properties import clusters_of
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.directory import PartitionPath
from brokerless.log.seek import end_offset
from brokerless.log.storage.paths import refuse_repeated
from brokerless.text import count_of

_KIND = "replicas"
_SAME, _DIFFERENT = "same", "different"
"""What the ledger has of replicas."""


@dataclass(slots=True)
class Scrub:
    """The comparison of replicas by one run."""

    pairs: list[Pair]
    """The leading replica of each chosen partition (left) with each of the others."""
    single: int
    """How many partitions have one replica only."""
    left_out: int = 0
    """How many partitions are left for later runs."""
    ledger: Ledger | None = None
    """When each partition was compared, for a run with a budget."""
    cluster_id: str = ""
    """The ID of the disks' cluster, as far as the disks say it."""

    def add(self, found: Sequence[PartitionDiff]) -> None:
        """Record what was compared. Raises :class:`UnwritableError`."""
        if self.ledger is None:
            return
        same = Counter(each.place for each in found if each.is_same)
        expected = Counter(each.place for each in self.pairs)
        now = clock.now()
        for name, count in expected.items():
            version = _SAME if same[name] == count else _DIFFERENT
            self.ledger.add(Checked(_KIND, _entry(self.cluster_id, name), version, now, run_id_of(now), *name))
        self.ledger.consolidate((), ())

    def lines(self) -> list[str]:
        """Return what was not compared, a sentence each."""
        found: list[str] = []
        if self.single:
            found.append(f"{count_of(self.single, 'partition')} with one replica on these disks: nothing to compare")
        if self.left_out:
            found.append(f"{count_of(self.left_out, 'partition')} left for the next runs by --budget")
        return found


def begin_scrub(partitions: Sequence[PartitionPath], budget: int | None, path: str | None) -> Scrub:
    """Choose what a run compares: all, or with a budget at most so many bytes, and one partition at least: first those
    that differed, then those that were never compared, then those that were compared longest ago.

    Raises :class:`UsageError` where no partition has two replicas, and as :func:`brokerless.jobs.turns.open_ledger`.
    """
    replicas: dict[TopicPartition, list[PartitionPath]] = {}
    for each in partitions:
        if isinstance(each, TablePartition):
            raise UsageError(f"{each.url}: a table has no replicas; give disks")
        if isinstance(each, RunningPartition):
            raise UsageError(f"{each.url}: a running cluster does not show its replicas; give disks")
    refuse_repeated((each.path for each in partitions), "give each disk once")
    for each in partitions:
        if each.topic is not None:
            replicas.setdefault((each.topic, each.partition or 0), []).append(each)
    several = {name: each for name, each in sorted(replicas.items()) if len(each) > 1}
    if not several:
        raise UsageError("no partition has two replicas here; give the disks of several brokers of one cluster")
    scrub = Scrub([], len(replicas) - len(several), cluster_id=_cluster_of(partitions))
    scrub.ledger = open_ledger(partitions, budget, path)
    if scrub.ledger is not None:
        chosen = _choose(several, scrub, budget or 0)
        scrub.left_out = len(several) - len(chosen)
        several = chosen
    scrub.pairs = [each for name, own in several.items() for each in _pairs(name, own)]
    return scrub


def _entry(cluster_id: str, name: TopicPartition) -> str:
    """Return what the ledger calls a partition: one directory may have the state of several clusters."""
    directory = names.partition_directory(*name)
    return f"{cluster_id}/{directory}" if cluster_id else directory


def _cluster_of(partitions: Sequence[PartitionPath]) -> str:
    """Return the ID of the cluster that disks are of; empty where none says it. Raises :class:`UsageError` where these
    are two."""
    found = clusters_of(above for each in partitions if (above := each.location.parent) is not None)
    if len(found) > 1:
        one, other = list(found.values())[:2]
        raise UsageError(f"{one} and {other} are disks of two clusters; give those of one, or compare LEFT with RIGHT")
    return next(iter(found), "")


def _choose(
    replicas: dict[TopicPartition, list[PartitionPath]], scrub: Scrub, budget: int
) -> dict[TopicPartition, list[PartitionPath]]:
    assert scrub.ledger is not None
    entries = scrub.ledger.entries

    def order(name: TopicPartition) -> tuple[int, int]:
        known = entries.get((_KIND, _entry(scrub.cluster_id, name)))
        return (1, 0) if known is None else (2 if known.version == _SAME else 0, known.verified)

    sizes = {name: sum(each.size for each in own) for name, own in replicas.items()}
    return {name: replicas[name] for name in sorted(choose(sizes, budget, order))}


def _pairs(name: TopicPartition, replicas: Sequence[PartitionPath]) -> list[Pair]:
    leading, *others = ranked(replicas)
    if name[0] == names.CLUSTER_METADATA:
        limits = [_agreed_end(leading, each) for each in others]
    else:
        limits = [each for each in map(_high_watermark, replicas) if each is not None]
    limit = min(limits) if limits else None
    return [pair_of(name, leading, each, limit=limit, is_replica=True) for each in others]


def _agreed_end(leading: PartitionPath, other: PartitionPath) -> int:
    """Return the offset up to which two nodes have the metadata of the same leaders. Of this log, no high watermark is
    recorded (``KafkaMetadataLog``, 4.4.0); what is after, a node may not have yet, or truncates when it fetches."""
    ends = [_end(each) for each in (leading, other)]
    epochs = [load_epochs(each.leader_epoch_checkpoint) for each in (leading, other)]
    agreed = truncation_offset(epochs[0], ends[0], epochs[1], ends[1])
    return min(ends) if agreed is None else min(agreed, *ends)


def _end(replica: PartitionPath) -> int:
    try:
        return end_offset(replica) or 0
    except UnreadableError:  # which is reported where it is read
        return MAX_INT64


def _high_watermark(replica: PartitionPath) -> int | None:
    try:
        return recorded_offset(replica.location, replica.topic, replica.partition, names.HIGH_WATERMARK_CHECKPOINT)
    except UnreadableError:  # then that of the other replicas counts
        return None
