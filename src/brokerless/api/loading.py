"""Writes Arrow record batches as partitions of a log directory (``brokerless.load``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from brokerless.jobs.load.loader import Loaded, Loading, load_into
from brokerless.jobs.load.routing import Routing
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import LogConfig
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.tables.batcher import BatchSettings


def load(
    batches: Iterable[pa.RecordBatch],
    directory: str,
    routing: Routing | None = None,
    settings: BatchSettings | None = None,
    config: LogConfig | None = None,
    *,
    storage_options: StorageOptions | None = None,
    dry_run: bool = False,
    done: Callable[[int], object] = lambda _: None,
) -> Loaded:
    """Writes record batches as new partitions of a log directory; all of them take their names when all is written.

    ``batches``: any columns that :func:`rows.normalize` takes. Offsets that are given have to rise in each partition
    and are kept, gaps as well, and so are timestamps. With ``dry_run`` all is done but writing. ``done`` is called with
    the numbers of rows that were taken in.

    Raises :class:`UsageError` for a setting that cannot be, a partition that is there, or a directory on which a broker
    runs; :class:`RowError` for a row that cannot become a record. Then nothing is left.
    """
    to = output_directory(Location.of(directory, storage_options), ())
    loading = Loading(routing or Routing(), settings or BatchSettings(), config or LogConfig(), dry_run)
    return load_into(to, batches, loading, done)
