"""Reads, verifies, repairs and writes Apache Kafka's log files without a broker.

>>> import brokerless
>>> log = brokerless.open("/var/lib/kafka")
>>> for batch in log.partition("orders", 0).records(["offset", "timestamp", "value"]):
...     print(batch.num_rows)

What there is; ``help(brokerless.Log)`` and so on say more:

- read: ``open`` returns a ``Log``, whose ``topic`` and ``partition`` are logs, too; ``explain``, ``record_views``
- check: their methods ``verify``, ``audit``, ``restart``, ``size``, ``report``; ``cluster``, ``prove``
- compare: ``diff``, ``diff_replicas``, in tests ``assert_same_log``
- back up: ``backup``, and ``Backup`` for its snapshots
- serve to Kafka clients: ``serve``
- repair: their methods ``salvage``, ``trim``; ``merge``, ``carve``, ``rebuild``, ``undo_rebuild``, ``restore``
- write: their methods ``export``, ``convert``, ``compact``, ``erase``; ``load``, ``pipeline``, ``next_offsets``
- errors are a ``BrokerlessError``, damage is a ``Finding``

Public are this module, ``brokerless.schemas``, ``brokerless.internals``, ``brokerless.spark``, and for programs that
write logs ``brokerless.writing``; all other packages may change without notice.
"""

import sys

TYPE_CHECKING = False  # typing and what it imports take as long as Python's own start: no Ctrl-C is to meet them
if sys.platform == "win32":
    raise ImportError("brokerless runs on Linux and macOS, and not on Windows itself: use it in WSL")

if TYPE_CHECKING:
    from typing import Any

    from brokerless import schemas
    from brokerless.api.cluster import Backup, backup, cluster, rebuild, serve, undo_rebuild
    from brokerless.api.comparing import assert_same_log, diff, diff_replicas
    from brokerless.api.erasing import prove
    from brokerless.api.jobs import LogAudit, LogRestart
    from brokerless.api.loading import load
    from brokerless.api.log import Log, open
    from brokerless.api.pipeline import next_offsets, pipeline
    from brokerless.api.record import Record, record_views
    from brokerless.api.recovery import carve, merge
    from brokerless.api.restore import restore
    from brokerless.errors import (
        BrokerlessError,
        ClusterError,
        DamageError,
        JobError,
        OutOfFilesError,
        RefusedError,
        UnreadableError,
        UnwritableError,
        UsageError,
    )
    from brokerless.explanation.field import Field
    from brokerless.explanation.files import Explanation, explain
    from brokerless.findings import Finding, Kind
    from brokerless.jobs.diff.results import Diff
    from brokerless.jobs.load.routing import Routing
    from brokerless.jobs.prove.job import Proof
    from brokerless.log.config import LogConfig
    from brokerless.table_formats.catalog import Catalog
    from brokerless.tables.batcher import BatchSettings
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.tables.rows import RowError
    from brokerless.typed.topic_type import Decoding

__all__ = [
    "Backup",
    "BatchSettings",
    "BrokerlessError",
    "Catalog",
    "ClusterError",
    "DamageError",
    "Decoding",
    "Diff",
    "Explanation",
    "Field",
    "Finding",
    "JobError",
    "Kind",
    "Log",
    "LogAudit",
    "LogConfig",
    "LogRestart",
    "OutOfFilesError",
    "Proof",
    "Record",
    "RecordFilter",
    "RefusedError",
    "Routing",
    "RowError",
    "UnreadableError",
    "UnwritableError",
    "UsageError",
    "assert_same_log",
    "backup",
    "carve",
    "cluster",
    "diff",
    "diff_replicas",
    "explain",
    "load",
    "merge",
    "next_offsets",
    "open",
    "pipeline",
    "prove",
    "rebuild",
    "record_views",
    "restore",
    "schemas",
    "serve",
    "undo_rebuild",
]
__version__ = "0.1.0"

_MODULES = {
    "brokerless.api.cluster": ("Backup", "backup", "cluster", "rebuild", "serve", "undo_rebuild"),
    "brokerless.api.comparing": ("assert_same_log", "diff", "diff_replicas"),
    "brokerless.api.log": ("Log", "open"),
    "brokerless.api.pipeline": ("next_offsets", "pipeline"),
    "brokerless.api.erasing": ("prove",),
    "brokerless.api.recovery": ("carve", "merge"),
    "brokerless.api.restore": ("restore",),
    "brokerless.api.jobs": ("LogAudit", "LogRestart"),
    "brokerless.errors": (
        *("BrokerlessError", "ClusterError", "DamageError", "JobError"),
        *("OutOfFilesError", "RefusedError", "UnreadableError", "UnwritableError", "UsageError"),
    ),
    "brokerless.explanation.field": ("Field",),
    "brokerless.explanation.files": ("Explanation", "explain"),
    "brokerless.table_formats.catalog": ("Catalog",),
    "brokerless.findings": ("Finding", "Kind"),
    "brokerless.api.loading": ("load",),
    "brokerless.jobs.diff.results": ("Diff",),
    "brokerless.jobs.load.routing": ("Routing",),
    "brokerless.jobs.prove.job": ("Proof",),
    "brokerless.log.config": ("LogConfig",),
    "brokerless.api.record": ("Record", "record_views"),
    "brokerless.tables.batcher": ("BatchSettings",),
    "brokerless.tables.record_filter": ("RecordFilter",),
    "brokerless.tables.rows": ("RowError",),
    "brokerless.typed.topic_type": ("Decoding",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
"""Where names are, which are imported when they are first used: PyArrow alone takes 0.1 s, Numba's kernels a second."""


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name == "schemas":
        return import_module("brokerless.schemas")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__", "internals", "spark", "writing"])
