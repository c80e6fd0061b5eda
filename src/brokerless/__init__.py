"""Reads, verifies, repairs and writes Apache Kafka's log files without a broker.

>>> import brokerless
>>> log = brokerless.open("/var/lib/kafka")
>>> for batch in log.partition("orders", 0).records(["offset", "timestamp", "value"]):
...     print(batch.num_rows)

This module is the public interface for reading and for :func:`load`; :mod:`brokerless.writing` is the one for programs
that write logs. All else may change without notice.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from brokerless import schemas
from brokerless.api.log import Log, open
from brokerless.api.partition import Partition
from brokerless.api.results import LogAudit, LogRestart
from brokerless.errors import (
    BrokerlessError,
    ClusterError,
    DamageError,
    Finding,
    JobError,
    RefusedError,
    UnreadableError,
    UnwritableError,
    UsageError,
)
from brokerless.record import Record, record_views

if TYPE_CHECKING:
    from brokerless.api.cluster import cluster, rebuild, undo_rebuild
    from brokerless.api.pipeline import next_offsets, pipeline
    from brokerless.api.restore import restore
    from brokerless.fields.field import Field
    from brokerless.fields.files import Explanation, explain
    from brokerless.interchange.table_formats.catalog import Catalog
    from brokerless.jobs.load.loader import load
    from brokerless.jobs.load.routing import Routing
    from brokerless.jobs.prove.job import Proof, prove
    from brokerless.log.config import LogConfig
    from brokerless.tables.batcher import BatchSettings
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.tables.rows import RowError
    from brokerless.typed.topic_type import Decoding

__all__ = [
    "BatchSettings",
    "BrokerlessError",
    "Catalog",
    "ClusterError",
    "DamageError",
    "Decoding",
    "Explanation",
    "Field",
    "Finding",
    "JobError",
    "Log",
    "LogAudit",
    "LogConfig",
    "LogRestart",
    "Partition",
    "Proof",
    "Record",
    "RecordFilter",
    "RefusedError",
    "Routing",
    "RowError",
    "UnreadableError",
    "UnwritableError",
    "UsageError",
    "cluster",
    "explain",
    "load",
    "next_offsets",
    "open",
    "pipeline",
    "prove",
    "rebuild",
    "record_views",
    "restore",
    "schemas",
    "undo_rebuild",
]
__version__ = "0.1.0"

_LATE = {
    "BatchSettings": "brokerless.tables.batcher",
    "Catalog": "brokerless.interchange.table_formats.catalog",
    "Decoding": "brokerless.typed.topic_type",
    "Explanation": "brokerless.fields.files",
    "Field": "brokerless.fields.field",
    "LogConfig": "brokerless.log.config",
    "RecordFilter": "brokerless.tables.record_filter",
    "Routing": "brokerless.jobs.load.routing",
    "RowError": "brokerless.tables.rows",
    "cluster": "brokerless.api.cluster",
    "explain": "brokerless.fields.files",
    "load": "brokerless.jobs.load.loader",
    "next_offsets": "brokerless.api.pipeline",
    "pipeline": "brokerless.api.pipeline",
    "Proof": "brokerless.jobs.prove.job",
    "prove": "brokerless.jobs.prove.job",
    "restore": "brokerless.api.restore",
    "rebuild": "brokerless.api.cluster",
    "undo_rebuild": "brokerless.api.cluster",
}
"""Imported when they are used: with Numba's kernels, ``import brokerless`` would take a second."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})
