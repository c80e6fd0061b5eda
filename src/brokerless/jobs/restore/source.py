"""Reads what is restored: selects partitions, measures them against a target's limits, and yields their records."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from brokerless import arrow
from brokerless.clock import milliseconds
from brokerless.errors import BrokerlessError, UsageError, raise_errors
from brokerless.format.arrays import Int64s
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.restore.results import Limits, SourcePartition
from brokerless.kafka_names import Isolation
from brokerless.log import names
from brokerless.log.directory import PartitionPath
from brokerless.log.partition import transactions_of
from brokerless.log.ranges import Range
from brokerless.log.seek import end_offset
from brokerless.progress import Done, Report, ignore
from brokerless.requests.recovery import RestoreRequest
from brokerless.tables.partition_tables import count_in_range, offset_for_time, read_batches, read_records
from brokerless.tables.read_options import ReadOptions

COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_OVERHEAD = 61 + 7 * 5
"""Bytes of a batch's header, and most of what a record takes beside key, value and headers."""


@dataclass(frozen=True, slots=True)
class SourceReading:
    """The settings of reading a source."""

    isolation: Isolation = "read_committed"
    until: int | None = None
    """A partition ends before its first record of this time (ms) or later; None for its end."""
    max_batch_bytes: int | None = None
    on_damage: Report = ignore
    done: Done = ignore

    @classmethod
    def of(cls, request: RestoreRequest) -> SourceReading:
        """Return what was requested; without ``on_damage``, the first error is raised."""
        on_damage = request.on_damage or raise_errors
        return cls(request.isolation, milliseconds(request.until), request.max_batch_bytes, on_damage, request.done)


@dataclass(frozen=True, slots=True)
class SelectedPartitions:
    """The partitions of some paths that are restored."""

    paths: Sequence[str]
    partitions: Sequence[PartitionPath]
    """The partitions to restore."""
    everything: Sequence[PartitionPath]
    """All partitions in the paths, which are read as well, as the cluster's metadata and committed offsets are in
    them."""
    named: Collection[str] = ()
    """Topics that the user has named."""


def choose_partitions(
    partitions: Iterable[PartitionPath], named: Collection[str], internal: bool = False
) -> dict[str, list[PartitionPath]]:
    """Return the partitions to restore, by topic and number. ``named``: topics that the user has named. ``internal``:
    Kafka's own topics can be restored, if they are named, but for the cluster's metadata.

    Raises :class:`UsageError` for Kafka's own topics among those, a partition that is there twice, and none."""
    found: dict[tuple[str, int], PartitionPath] = {}
    path = ""
    for each in partitions:
        path = path or each.path
        if each.topic is None or each.partition is None or each.state != "live":
            continue
        if names.is_internal(each.topic) and not (
            internal and each.topic in named and each.topic != names.CLUSTER_METADATA
        ):
            if each.topic in named:
                text = "is Kafka's own topic, which only brokers write; --groups restores committed offsets"
                raise UsageError(f"{each.path}: {each.topic} {text}")
            continue
        place = each.topic, each.partition
        if place in found:
            name = names.partition_directory(*place)
            raise UsageError(f"{each.path}: {name} is also in {found[place].path}; combine replicas with merge first")
        found[place] = each
    if not found:
        text = "there is no partition to restore; give a log directory, or partitions' directories"
        raise UsageError(f"{path}: {text}" if path else text)
    topics: dict[str, list[PartitionPath]] = {}
    for place in sorted(found):
        topics.setdefault(place[0], []).append(found[place])
    return topics


def topic_configs(cluster: Cluster | None, topic: str) -> Mapping[str, str] | None:
    """Return a topic's own settings; None where the metadata does not know it."""
    return None if cluster is None or cluster.id_of(topic) is None else cluster.settings_of(topic)


def partition_count(cluster: Cluster | None, topic: str, partitions: Sequence[PartitionPath]) -> int:
    """Return how many partitions a topic has by the metadata, or else by the last one that is there."""
    last = max((each.partition or 0) + 1 for each in partitions)
    return last if cluster is None else max(last, len(cluster.partitions_of(topic)))


def end_of(partition: PartitionPath, reading: SourceReading) -> int:
    """Return the offset before which a partition is restored."""
    end = end_offset(partition) or 0
    if reading.until is None:
        return end
    found = offset_for_time(partition, reading.until, "read_uncommitted", reading.max_batch_bytes)
    return end if found is None else found


def measure(partition: PartitionPath, reading: SourceReading, limits: Limits) -> SourcePartition:
    """Reads a partition once, and counts what of it meets the limits. Damage is reported."""
    end = end_of(partition, reading)
    found = SourcePartition(*partition.place, partition.start_offset or 0, end, codec=_codec_of(partition))
    last = -1
    for batch in records(partition, reading, 0, end):
        found = _add(found, batch, limits)
        last = batch.column("offset")[batch.num_rows - 1].as_py() if batch.num_rows else last
    if last < end - 1:  # else nothing is after the last one, and transactions need not be searched again
        undecided = _undecided(partition, reading, end)
        end = end if undecided is None else undecided[0]
        found = replace(found, end_offset=end, undecided=undecided)
    if reading.until is not None:
        later = Range(end, None, None, reading.until)
        found = replace(found, late=count_in_range(partition, later, reading.isolation, reading.max_batch_bytes))
    return found


def _undecided(partition: PartitionPath, reading: SourceReading, end: int) -> tuple[int, int] | None:
    """Return where the first open transaction before ``end`` begins, and how many records there are from there on,
    which nobody who reads what is committed gets."""
    if reading.isolation != "read_committed":
        return None
    start = transactions_of(partition).last_stable_offset
    if start is None or start >= end:
        return None
    start = max(start, partition.start_offset or 0)
    return start, count_in_range(partition, Range(start, end), max_batch_bytes=reading.max_batch_bytes)


def records(partition: PartitionPath, reading: SourceReading, start: int, end: int) -> Generator[pa.RecordBatch]:
    """Yield the records to restore with ``start <= offset < end``, with :data:`COLUMNS`."""
    options = ReadOptions(
        COLUMNS, Range(start, end), reading.isolation, max_batch_bytes=reading.max_batch_bytes,
        on_damage=reading.on_damage, done=reading.done,
    )  # fmt: skip
    yield from read_records([partition], options)


def sizes_of(batch: pa.RecordBatch) -> Int64s:
    """Bytes of the key, the value and the headers of each record."""
    sizes = _lengths(batch.column("key")) + _lengths(batch.column("value"))
    headers = batch.column("headers")
    if len(headers.flatten()):
        items = headers.values
        of_items = _lengths(items.field("key")) + _lengths(items.field("value"))
        sums = np.concatenate([[0], np.cumsum(of_items)])
        ends = headers.offsets.to_numpy()
        sizes = sizes + sums[ends[1:]] - sums[ends[:-1]]
    return sizes


def _lengths(column: pa.Array) -> Int64s:
    return (
        pc.call_function("coalesce", [pc.call_function("binary_length", [column]), pa.scalar(0, pa.int32())])
        .to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )


def _add(found: SourcePartition, batch: pa.RecordBatch, limits: Limits) -> SourcePartition:
    sizes, times = sizes_of(batch), batch.column("timestamp").cast(pa.int64()).to_numpy()
    timed = times[times >= 0]
    first, last = (int(timed.min()), int(timed.max())) if len(timed) else (None, None)
    largest = found.largest
    if len(sizes) and int(sizes.max()) > largest[0]:
        largest = int(sizes.max()), batch.column("offset")[int(sizes.argmax())].as_py()
    is_expired = np.zeros(len(times), np.bool_)
    if limits.expired_before is not None:
        is_expired = (times >= 0) & (times < limits.expired_before)
    is_out = np.zeros(len(times), np.bool_)
    if limits.earliest is not None:
        is_out |= (times >= 0) & (times < limits.earliest)
    if limits.latest is not None:
        is_out |= times > limits.latest
    too_large = 0 if limits.largest is None else int((sizes + _OVERHEAD > limits.largest).sum())
    names_of_headers = batch.column("headers").flatten().field("key")
    unnameable = sum("\0" in name for name in arrow.values(names_of_headers.unique()))
    return replace(
        found,
        records=found.records + len(sizes),
        size=found.size + int(sizes.sum()),
        first_timestamp=min((each for each in (found.first_timestamp, first) if each is not None), default=None),
        last_timestamp=max((each for each in (found.last_timestamp, last) if each is not None), default=None),
        largest=largest,
        expired=(found.expired[0] + int(is_expired.sum()), found.expired[1] + int(sizes[is_expired].sum())),
        out_of_range=found.out_of_range + int(is_out.sum()),
        too_large=found.too_large + too_large,
        without_key=found.without_key + batch.column("key").null_count,
        at_zero=found.at_zero + int((times == 0).sum()),
        unnameable=found.unnameable + unnameable,
    )


def _codec_of(partition: PartitionPath) -> str:
    """Return the codec of the last batch; a source without a batch has none."""
    last = partition.segments[-1:]
    codec = "none"
    with suppress(BrokerlessError):
        for batch in read_batches([replace(partition, segments=last)], ["compression"], on_damage=ignore):
            codec = batch.column("compression")[batch.num_rows - 1].as_py() or codec
    return codec
