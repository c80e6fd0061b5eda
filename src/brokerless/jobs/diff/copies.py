"""Copies partitions that have no segments (of running clusters, and of tables) into a temporary directory, for as long
as they are compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa

from brokerless.errors import UnreadableError, UnwritableError
from brokerless.jobs.diff.copied_partition import CopiedPartition
from brokerless.jobs.diff.exported.decoding import SIDES
from brokerless.jobs.diff.exported.listing import TablePartition, list_tables, table_form
from brokerless.jobs.diff.exported.rows import CopyNotes, table_rows
from brokerless.jobs.diff.exported.value_hashes import ValueHasher
from brokerless.jobs.diff.live.cluster import ClientConfig, RunningPartition, connect, is_live, list_partitions
from brokerless.jobs.diff.live.copy import consumed, consumed_unaborted
from brokerless.jobs.load.loader import Loading, load_into
from brokerless.jobs.load.routing import Routing
from brokerless.log import names
from brokerless.log.commit.partition_writer import scratch_directory
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.seek import end_offset
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.tables.batcher import BatchSettings
from brokerless.tables.rows import RowError


def list_without_segments(
    path: str | os.PathLike[str], client: ClientConfig, is_wanted: Callable[[str], bool]
) -> LogDirectory | None:
    """Return the partitions of a running cluster, or of tables that ``export`` wrote; None for a path of anything else.
    ``is_wanted``: of which topics partitions are to be found that only rows have.

    Raises :class:`ClusterError`, and as :func:`list_tables`."""
    if is_live(path):
        return list_partitions(connect(str(path), client))
    location = Location.of(path)
    form = table_form(location)
    return None if form is None else list_tables(location, form, is_wanted)


def at_hand(
    partition: PartitionPath, stack: ExitStack, hasher: ValueHasher, *, has_aborted: bool = True
) -> PartitionPath:
    """Return a partition that can be read: its copy, if it has no segments, until ``stack`` ends. ``hasher``: of
    decoded values, of which the copy has hashes. ``has_aborted``: whether the copy of a running partition has aborted
    records too, which nobody can tell from others there. Raises :class:`ClusterError`, and UnreadableError, also where
    the temporary directory (``TMPDIR``) has no room."""
    if isinstance(partition, RunningPartition):
        to = scratch_directory(stack)
        with consumed(partition) if has_aborted else consumed_unaborted(partition) as source:
            copied = _written(partition, source.batches(), to)
            return replace(copied, begin=max(source.begin(), partition.begin))
    if isinstance(partition, TablePartition):
        notes = CopyNotes(scratch_directory(stack), hasher)
        rows = table_rows(partition, scratch_directory(stack), notes)
        try:
            copied = _written(partition, rows, scratch_directory(stack))
            end = max(partition.end, end_offset(copied) or 0)  # others may have added rows
            undecoded = {} if partition.decoded is None else {name: notes.undecoded(name) for name in SIDES}
            return replace(
                copied, end=end, unread=tuple(sorted(notes.unread)), repeated=notes.repeated, undecoded=undecoded
            )
        except RowError as error:
            raise UnreadableError(partition.url, f"these are no rows of an export: {error}") from error
    return partition


def _written(partition: CopiedPartition, batches: Iterator[pa.RecordBatch], to: Path) -> CopiedPartition:
    """Return the partition with its records as segments in a directory; without any, where there are none."""
    topic, number = partition.place
    routing = Routing(topic, number, start_offset=partition.begin, topic_id=partition.topic_id)
    try:
        load_into(Destination.of(to), batches, Loading(routing, BatchSettings("lz4")))
    except UnwritableError as error:
        text = f"its copy cannot be written to the temporary directory {to.parent}: {error}"
        raise UnreadableError(partition.url, f"{text}; set TMPDIR to a directory with more room") from error
    own = to / names.partition_directory(topic, number)
    if not own.exists():  # nothing came
        return partition
    (copied,) = resolve(Location(str(own))).partitions
    known = {each.name: getattr(copied, each.name) for each in fields(PartitionPath)}
    return replace(partition, **known)
