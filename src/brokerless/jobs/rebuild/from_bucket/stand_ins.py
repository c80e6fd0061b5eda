"""Directories that stand for tiered partitions whose disks are gone, and the metadata of their remote segments.

A stand-in is empty and begins after the last remote segment, with the leader epochs before it: without these, a start
deletes the segments. Their events are there before the first start, or else the log start is moved
(``tests/kafka/test_bucket_rebuilt.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from brokerless.format.control import build_transaction_marker
from brokerless.format.write.encoder import Encoder
from brokerless.internals.remote.segment_events import events_of, metadata_partition
from brokerless.jobs.rebuild.from_bucket.partitions import BucketPartition
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import leader_epoch_checkpoint
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, write_checkpoints
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import DEFAULTS
from brokerless.log.names import REMOTE_LOG_METADATA
from brokerless.log.producer.state import load_state
from brokerless.log.storage.atomic import write_file
from brokerless.log.write.log_writer import LogWriter
from brokerless.log.write.new_partition import create_partition
from brokerless.log.write.records import append_records


@dataclass(frozen=True, slots=True)
class BucketTransaction:
    """A transaction that is open where a bucket ends."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class StandIn:
    """A partition of the bucket on a node of the rebuilt cluster."""

    partition: BucketPartition
    node_id: int
    log_start: int
    """The first offset that consumers get."""
    is_log_start_known: bool
    """Whether ``log_start`` is known, and is not only the first offset that is there."""
    transactions: tuple[BucketTransaction, ...] = ()
    """The open transactions."""
    is_ended: bool = False
    """Whether markers end the open transactions."""


@dataclass(frozen=True, slots=True)
class FromBucket:
    """What is taken of a bucket."""

    url: str
    stand_ins: tuple[StandIn, ...]
    metadata_id: str
    """The ID of the topic ``__remote_log_metadata``."""
    metadata_nodes: tuple[tuple[int, ...], ...]
    """The nodes of each partition of ``__remote_log_metadata``."""
    has_metadata: bool = False
    """Whether the cluster has that topic, to which the events are appended."""
    is_snapshot: bool = False
    """Whether the bucket is that of a backup, of which all else of the cluster is as well."""

    @property
    def limits(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Where consumers begin and end, by topic ID and partition."""
        return {
            (each.partition.topic_id, each.partition.partition): (each.log_start, each.partition.end_offset)
            for each in self.stand_ins
        }

    @property
    def largest_producer_id(self) -> int:
        """Return the largest ID of the producers that are known where the bucket ends, -1 for none: a new one with such
        an ID is refused."""
        states = (each.partition.producers for each in self.stand_ins)
        return max((int(each.producer_ids.max(initial=-1)) for each in states if each is not None), default=-1)


def write_stand_ins(found: FromBucket, node_id: int, directory: Path, now_ms: int) -> None:
    """Writes what a node has of a bucket's partitions into its new log directory, which has no mark of a clean stop
    yet. Raises OSError, UnwritableError."""
    own = [each for each in found.stand_ins if each.node_id == node_id]
    ends: dict[tuple[str, int], PartitionOffsets] = {}
    for each in own:
        place = each.partition.topic, each.partition.partition
        end = _write_partition(each, directory / names.partition_directory(*place), now_ms)
        ends[place] = PartitionOffsets(end, each.log_start, end)
    events = {} if found.has_metadata else events_in(found)
    for number, nodes in enumerate(() if found.has_metadata else found.metadata_nodes):
        if node_id in nodes:
            place = REMOTE_LOG_METADATA, number
            end = append_events(directory, place, found.metadata_id, events=events.get(number, ()), now_ms=now_ms)
            ends[place] = PartitionOffsets(end, 0, end)
    write_checkpoints(directory, ends)


def _write_partition(stand_in: StandIn, path: Path, now_ms: int) -> int:
    """Writes an empty log, or one of ABORT markers; returns its end."""
    of_bucket = stand_in.partition
    start = of_bucket.end_offset
    known = of_bucket.producers
    contents = create_partition(path, start, of_bucket.topic_id, None if known is None else load_state(known, start))
    contents.epochs = of_bucket.epochs
    with LogWriter(path, DEFAULTS, contents) as log:
        for each in stand_in.transactions if stand_in.is_ended else ():
            epoch = of_bucket.epochs[-1][0] if of_bucket.epochs else 0
            coordinator = max(each.coordinator_epoch, 0)
            marker = each.producer_id, each.producer_epoch, log.log_end_offset, now_ms, False, coordinator, epoch
            columns, header = build_transaction_marker(*marker)
            log.append(Encoder().encode(columns, np.array([0, 1]), header))
        end = log.log_end_offset
    if of_bucket.snapshot is not None:
        write_file(path / names.segment_file(start, "producer-snapshot"), of_bucket.snapshot)
    write_file(path / names.LEADER_EPOCH_CHECKPOINT, leader_epoch_checkpoint(of_bucket.epochs))
    return end


def events_in(found: FromBucket) -> Mapping[int, Sequence[tuple[int, bytes]]]:
    """Return the values of events, each with its time, by partition of the metadata."""
    events: dict[int, list[tuple[int, bytes]]] = {}
    partitions = {(each.partition.topic_id, each.partition.partition): each.partition for each in found.stand_ins}
    for each in partitions.values():
        number = metadata_partition(each.topic_id, each.partition, len(found.metadata_nodes))
        for segment in each.segments:
            events.setdefault(number, []).extend((segment.changed_at, value) for value in events_of(segment))
    return events


def append_events(
    directory: Path, place: tuple[str, int], topic_id: str, events: Sequence[tuple[int, bytes]], now_ms: int
) -> int:
    """Writes a partition of the metadata's topic, or appends to the one that is there; returns its end."""
    with open_log(directory, *place, topic_id=topic_id, at_ms=now_ms) as log:
        append_records(log, ((timestamp, None, value) for timestamp, value in events))
        return log.log_end_offset
