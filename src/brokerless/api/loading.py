"""Writes partitions of a log directory: of Arrow record batches (``brokerless.load``), or of batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from brokerless.bounds import check_arguments
from brokerless.jobs.load.loader import Loaded, Loading, load_into
from brokerless.jobs.load.routing import Routing
from brokerless.log.commit import partition_writer
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import DEFAULTS, LogConfig
from brokerless.log.producer.state import ProducerState
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, ignore
from brokerless.requests import shared
from brokerless.requests.option_types import ANY_BATCHES, BATCH_SETTINGS, FUNCTION, LOG_CONFIG, ROUTING, URL
from brokerless.requests.options import asks, given, request
from brokerless.tables.batcher import BatchSettings


@request
class LoadRequest:
    batches: Iterable[pa.RecordBatch] | pa.RecordBatch | pa.Table = given(
        ANY_BATCHES,
        "any columns of records, such as key, value and timestamp. Offsets that are given have to rise in each "
        "partition and are kept, gaps as well, and so are timestamps",
        flag=None,
        kw_only=False,
    )
    directory: str = given(URL, "the log directory", flag=None, kw_only=False)
    routing: Routing | None = given(
        ROUTING, "topic and partition of rows that do not name them", flag=None, default=None, kw_only=False
    )
    settings: BatchSettings | None = given(
        BATCH_SETTINGS, "format, codec and size of batches", flag=None, default=None, kw_only=False
    )
    config: LogConfig | None = given(
        LOG_CONFIG, "sizes of segments and indexes", flag=None, default=None, kw_only=False
    )
    storage_options: StorageOptions | None = given(shared.STORAGE_OPTIONS, default=None)
    dry_run: bool = given(shared.DRY_RUN, default=False)
    done: Done = given(FUNCTION, "called with the numbers of rows that were taken in", flag=None, default=ignore)


@asks(LoadRequest)
def load(request: LoadRequest) -> Loaded:
    """Write record batches as new partitions of a log directory, as ``brokerless load``.

    They become visible together, when all of them are written.

    Returns
    -------
    Loaded
        The partitions and how many records each has.

    Raises
    ------
    UsageError
        For an invalid setting, a partition that exists, or a directory on which a broker runs.
    RowError
        For a row that cannot become a record; nothing is written then.

    Examples
    --------
    >>> import brokerless, pyarrow as pa
    >>> rows = pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}])
    >>> loaded = brokerless.load([rows], "/tmp/loaded", brokerless.Routing(topic="letters", partition=0), dry_run=True)
    >>> sum(each.records for each in loaded.partitions)
    2
    """
    to = output_directory(Location.of(request.directory, request.storage_options), ())
    loading = Loading(
        request.routing or Routing(),
        request.settings or BatchSettings(),
        request.config or LogConfig(),
        request.dry_run,
    )
    return load_into(to, _batches(request.batches), loading, request.done)


def _batches(given: Iterable[pa.RecordBatch] | pa.RecordBatch | pa.Table) -> Iterable[pa.RecordBatch]:
    rows: Any = given  # a batch and a table can be walked, too, by their columns
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    return rows.to_batches() if isinstance(rows, pa.Table) else rows


class PartitionOutput(partition_writer.PartitionWriter):
    """Writes a new partition into a log directory: it becomes visible when it is complete, or never.

    Use it in a with statement: at the end of the block, all that was written is removed, unless :meth:`commit` or
    :meth:`finish` was called. Meanwhile the log directory is locked against brokers; several partitions may be written
    into it. A partition for a URL is written into a temporary directory (``TMPDIR``), and sent when it is complete.

    Parameters
    ----------
    directory
        The log directory, or its URL.
    topic, partition
        The partition.
    config
        The topic's settings.
    start_offset
        Where the log begins.
    topic_id
        As ``partition.metadata`` has it, random by default. A broker takes the partition only if it knows the topic by
        this ID.
    owner
        Hexadecimal digits for the name of the directory before :meth:`commit`.
    has_offsets
        Whether batches have their final offsets; otherwise they get the next ones at the commit.
    is_append
        Whether the partition may exist; what is written is then appended to it.
    base_offsets
        Where segments begin, besides those that ``config`` makes necessary.
    producers
        The producers that are known at the log's begin; it is updated by what is appended.

    Raises
    ------
    UsageError
        If the partition exists, if a broker runs on the directory, and for an invalid name.
    UnwritableError
        Where the disk fails.
    """

    @check_arguments
    def __init__(
        self,
        directory: str | Path | Destination,
        topic: str,
        partition: int,
        config: LogConfig = DEFAULTS,
        *,
        start_offset: int = 0,
        topic_id: str | None = None,
        owner: str = "",
        has_offsets: bool = True,
        is_append: bool = False,
        base_offsets: Iterable[int] = (),
        producers: ProducerState | None = None,
    ) -> None:
        place = partition_writer.NewPartition(
            directory, topic, partition, config=config, topic_id=topic_id, owner=owner, may_exist=is_append
        )
        super().__init__(
            place, start_offset=start_offset, has_offsets=has_offsets, base_offsets=base_offsets, producers=producers
        )
