"""Topics of a snapshot that stay in the bucket: brokers with a remote storage of its layout read them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from brokerless.clusters.disk import Disk
from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition
from brokerless.jobs.rebuild.from_bucket.plan import BucketOptions, BucketTopics, read_bucket, transaction_open
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.settings.topic import CLEANUP_POLICY, cleanup_policies
from brokerless.progress import Report


def remaining_in_bucket(
    options: BucketOptions, disks: Sequence[Disk], cluster: Cluster, report: Report
) -> BucketTopics:
    """Return what of a snapshot stays in its bucket. It is all of a topic or nothing: of those that are not compacted,
    as tiered ones cannot be (KIP-405), and not Kafka's own. Partitions begin and end as the snapshot says. Raises
    :class:`UsageError` where there are none; and as :func:`read_bucket`.

    A broker uploads nothing from an open transaction on, and consumers with ``read_committed`` got no answer where one
    was in the bucket (4.4.0). So topics with one are restored with their logs, and reported.
    """
    state = disks[0].snapshot
    assert state is not None
    known = {each.place: each for each in state.snapshot.partitions if _remains(each, cluster)}
    for each in [each for each in known.values() if each.open_transactions]:
        text = f"a transaction is open in {each.name}: its topic does not stay in the bucket, and its logs are written"
        report(transaction_open(disks[0].path, text, each.open_transactions[0].first_offset, "info"))
        known = {place: other for place, other in known.items() if other.topic_id != each.topic_id}
    if not known:
        text = "the snapshot has no topic with cleanup.policy=delete and without an open transaction; leave it out"
        raise UsageError(f"--in-bucket: {text}")
    topics = sorted({f"{each.topic}:{each.topic_id}" for each in known.values()})
    chosen = replace(options, topics=tuple(topics))
    found = read_bucket(chosen)
    partitions = tuple(_up_to_end(each, known[each.topic_id, each.partition]) for each in found.partitions)
    starts = {(each.topic, each.partition): each.start_offset for each in known.values()}
    return replace(found, options=replace(chosen, log_starts=starts), partitions=partitions)


def _remains(partition: SnapshotPartition, cluster: Cluster) -> bool:
    if cluster.topics.get(partition.topic_id) != partition.topic or names.is_internal(partition.topic):
        return False
    policy = cluster.settings_of(partition.topic).get(CLEANUP_POLICY)
    return cleanup_policies(policy) == ("delete",)


def _up_to_end(partition: BucketPartition, known: SnapshotPartition) -> BucketPartition:
    """A partition without segments, or without the last ones, ends where it did: positions of groups count on it."""
    epochs = partition.epochs or known.epochs
    return replace(partition, end_offset=max(partition.end_offset, known.end_offset), epochs=epochs)
