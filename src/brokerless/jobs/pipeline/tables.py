"""The tables of a pipeline: how far topics are exported, and its own tables of runs, findings and damaged ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerless.errors import Finding
from brokerless.interchange import export_state
from brokerless.interchange.export_state import ExportState
from brokerless.jobs.export.job import Export
from brokerless.jobs.pipeline.ledger import PRIVATE, DamagedRange, Ledger
from brokerless.jobs.pipeline.schemas import DAMAGED, FINDINGS, RUNS
from brokerless.jobs.pipeline.settings import Settings
from brokerless.log.storage import file_tree, paths
from brokerless.text import readable

SCHEMAS = {"findings": FINDINGS, "damaged": DAMAGED}


def export_settings(settings: Settings) -> Export:
    return Export(
        settings.by_date, settings.isolation, settings.compression, settings.file_bytes, settings.max_batch_bytes,
        decoding=settings.decoding,
    )  # fmt: skip


def load_state(settings: Settings, topic: str) -> ExportState | None:
    """How far a topic is in its table; None for one without a table. Raises as :func:`export_state.load`."""
    return export_state.load(settings.to, topic, settings.to_storage_options)


def add_run(settings: Settings, row: Mapping[str, Any]) -> None:
    """Adds a run to the table of runs."""
    _write(settings, "runs", f"run-{row['runId']}.parquet", pa.Table.from_pylist([row], RUNS))


def save_findings(settings: Settings, ledger: Ledger) -> None:
    """Makes the tables of findings and damaged ranges what the ledger has, in the order of topics."""
    entries = sorted(ledger.entries.values(), key=lambda each: (each.topic or "", each.partition or 0, each.path))
    own = [({"runId": each.runId, "topic": each.topic, "partition": each.partition}, each) for each in entries]
    rows = {
        "findings": [place | _row(found) for place, each in own for found in each.findings if found.severity != "info"],
        "damaged": [place | _row(found) for place, each in own for found in each.ranges],
    }
    for name, of_table in rows.items():
        _write(settings, name, f"{name}.parquet", pa.Table.from_pylist(of_table, SCHEMAS[name]))


def _row(value: Finding | DamagedRange) -> dict[str, Any]:
    return {name: readable(each) if isinstance(each, str) else each for name, each in asdict(value).items()}


def _write(settings: Settings, name: str, file: str, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    directory = paths.join(paths.join(settings.to, PRIVATE), name)
    file_tree.write(directory, file, sink.getvalue().to_pybytes(), settings.to_storage_options)
