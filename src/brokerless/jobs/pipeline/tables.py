"""The tables of a pipeline: how far topics are exported, and its own tables of runs, findings and damaged ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokerless.bounds import MAX_INT64
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.jobs.export.plan import check_options
from brokerless.jobs.export.refusals import for_topic
from brokerless.jobs.export.tables import same_table
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.ledger import DamagedRange, Ledger
from brokerless.jobs.pipeline.maintenance import maintain_delta, maintain_iceberg
from brokerless.jobs.pipeline.recording import PRIVATE
from brokerless.jobs.pipeline.schemas import DAMAGED, FINDINGS, RUNS
from brokerless.jobs.pipeline.settings import Settings
from brokerless.log.directory import PartitionPath
from brokerless.log.storage import file_tree
from brokerless.log.storage.location import Location
from brokerless.offset_spans import union, without
from brokerless.progress import Say
from brokerless.table_formats import export_state
from brokerless.table_formats.catalog import table_name
from brokerless.table_formats.export_state import ExportState, RefusedTopicError
from brokerless.table_formats.store import TableStore, open_store
from brokerless.table_formats.types import reason_of_library
from brokerless.text import readable

SCHEMAS = {"findings": FINDINGS, "damaged": DAMAGED}
_EARLIEST = -2
_OWN = "_pipeline"
"""Added to Iceberg's namespace for the pipeline's own tables."""
_KEEP_OWN_S = 86_400
"""Older states of the pipeline's own tables say nothing that the newest does not."""


@dataclass(frozen=True, slots=True)
class LoadedStates:
    """The states of topics in their tables."""

    states: dict[str, ExportState | None]
    """How far each topic is in its table."""
    refused: dict[str, str]
    """The topics that cannot be in a table, and why."""


def export_settings(settings: Settings) -> Export:
    return Export(
        settings.by_date or settings.form != "parquet",
        settings.isolation,
        settings.compression,
        file_bytes=settings.file_bytes,
        max_batch_bytes=settings.max_batch_bytes,
        decoding=settings.decoding,
        form=settings.form,
        catalog=settings.catalog,
    )


def target_of(settings: Settings) -> Location:
    """Return what an export writes to."""
    return settings.root if settings.form == "parquet" else Location(settings.to, settings.table_options)


def load_state(settings: Settings, topic: str) -> ExportState | None:
    """Return how far a topic is in its table; None for one without a table. Raises :class:`RefusedTopicError` for a
    table that cannot be read, or is not the topic's."""
    with for_topic(topic):
        if settings.form == "parquet":
            return export_state.load(settings.root, topic)
        found = _store(settings).load(topic)
        return None if found is None else found.state


def load_states(settings: Settings, topics: Iterable[str]) -> LoadedStates:
    """Return how far topics are in their tables; and why some cannot be in one, while the others can. Raises
    :class:`UsageError` for tables that were made with other settings, also where nothing is new."""
    export = export_settings(settings)
    states: dict[str, ExportState | None] = {}
    refused: dict[str, str] = {}
    for topic in sorted(set(topics)):
        try:
            states[topic] = state = load_state(settings, topic)
            if state is not None:
                check_options(place_of(settings, topic), state, export)
        except RefusedTopicError as error:
            refused[topic] = str(error)
    names: dict[str, str] = {}
    for topic in sorted(states, key=lambda each: (states[each] is None, each)):  # one that has a table keeps it
        other = topic if settings.form == "parquet" else names.setdefault(table_name(topic).casefold(), topic)
        if other != topic:
            refused[topic] = same_table(other, topic)
    known = {topic: state for topic, state in states.items() if topic not in refused}
    return LoadedStates(known, refused)


def next_offsets(settings: Settings, partitions: Iterable[PartitionPath]) -> dict[str, dict[str, int]]:
    """Return where each partition goes on after what its table has, by topic and number, as Spark's ``startingOffsets``
    takes it; -2 (the earliest) for one of which nothing is in a table."""
    states: dict[str, ExportState | None] = {}
    found: dict[str, dict[str, int]] = {}
    for each in partitions:
        topic, number = each.place
        if topic not in states:
            states[topic] = load_state(settings, topic)
        state = states[topic]
        exported = None if state is None else state.partitions.get(number)
        found.setdefault(topic, {})[str(number)] = _EARLIEST if exported is None else exported.next_offset
    return found


def add_run(settings: Settings, row: Mapping[str, Any]) -> None:
    """Adds a run to the table of runs."""
    rows = pa.Table.from_pylist([row], RUNS)
    if settings.form == "parquet":
        _write(settings, "runs", f"run-{row['runId']}.parquet", rows)
    else:
        _own_store(settings).append_rows("runs", rows, {})


def has_findings(settings: Settings) -> bool:
    """Return whether the tables of findings and damaged ranges are there, with rows or without."""
    if settings.form == "parquet":
        return all((settings.root / PRIVATE / name / f"{name}.parquet").exists() for name in SCHEMAS)
    own = _own_store(settings)
    return all(own.open_own_table(name) is not None for name in SCHEMAS)


def save_findings(settings: Settings, ledger: Ledger) -> None:
    """Makes the tables of findings and damaged ranges what the ledger has, in the order of topics."""
    entries = sorted(ledger.entries.values(), key=lambda each: (each.topic or "", each.partition or 0, each.path))
    own = [({"runId": each.runId, "topic": each.topic, "partition": each.partition}, each) for each in entries]
    states = _known_states(settings, {each.topic or "" for each in entries if each.ranges})
    rows = {
        "findings": [place | _row(found) for place, each in own for found in each.findings if found.severity != "info"],
        "damaged": [
            place | _row(found) | {"isInTable": _is_in_table(found, states.get(each.topic or ""), each.partition)}
            for place, each in own
            for found in each.ranges
        ],
    }
    for name, of_table in rows.items():
        _replace(settings, name, pa.Table.from_pylist(of_table, SCHEMAS[name]))


def _known_states(settings: Settings, topics: Iterable[str]) -> dict[str, ExportState]:
    """Return how far topics are in their tables, of those that have one that says it."""
    found: dict[str, ExportState] = {}
    for topic in topics:
        with suppress(UsageError):
            state = load_state(settings, topic)
            found |= {} if state is None else {topic: state}
    return found


def _is_in_table(found: DamagedRange, state: ExportState | None, partition: int | None) -> bool | None:
    """Return whether a table has the offsets of a damaged range: :data:`brokerless.jobs.pipeline.schemas.DAMAGED`."""
    exported = None if state is None else state.partitions.get(partition or 0)
    if exported is None or found.firstOffset is None:
        return None
    own = (found.firstOffset, _span_end(found.lastOffset))
    left_out = [(first, _span_end(last)) for first, last in exported.left_out]
    lacking = union([*left_out, *exported.missing, *exported.filling, (exported.next_offset, _span_end(None))])
    return list(without([own], lacking)) == [own]


def _span_end(last: int | None) -> int:
    return MAX_INT64 if last is None else last + 1


def maintain(settings: Settings, topics: Iterable[str], say: Say) -> None:
    """Keeps the tables of topics that were written to healthy, and the pipeline's own: small files become larger ones,
    and what only older states of a table need is removed. Parquet files alone stay as they were written, as no commit
    would exchange them for readers. ``say`` is called for a table that this failed for; it is as it was."""
    if settings.form == "parquet":
        return
    store, own = _store(settings), _own_store(settings)
    keep_s = settings.keep_snapshots_s
    names = [(store.open_table, table_name(topic), keep_s) for topic in sorted(topics)]
    names += [(own.open_own_table, name, min(keep_s, _KEEP_OWN_S)) for name in ("runs", *SCHEMAS)]
    for open_table, name, own_keep_s in names:
        try:
            table = open_table(name)
            if table is not None and settings.form == "iceberg":
                maintain_iceberg(table, settings.file_bytes, own_keep_s)
            elif table is not None:
                maintain_delta(table, settings.file_bytes, own_keep_s)
        except Exception as error:  # another writer's commit, say; the next run tries again
            say(f"{name}: its small files and old snapshots stay for now: {reason_of_library(error)}")


def _replace(settings: Settings, name: str, rows: pa.Table) -> None:
    """Makes ``rows`` all that one of the pipeline's own tables has, in one commit."""
    if settings.form == "parquet":
        _write(settings, name, f"{name}.parquet", rows)
        return
    _own_store(settings).replace_rows(name, rows)


def place_of(settings: Settings, topic: str) -> str:
    """Return where a topic's table is, for people."""
    if settings.form == "parquet":
        return export_state.topic_directory(settings.root, topic).path
    return _store(settings).describe(topic)


def _store(settings: Settings) -> TableStore:
    assert settings.form != "parquet"
    return open_store(settings.form, target_of(settings), settings.catalog)


def _own_store(settings: Settings) -> Any:
    """Return where no topic's table can be: another namespace, or a directory of another kind of name."""
    if settings.form == "iceberg":
        catalog = replace(settings.catalog, namespace=settings.catalog.namespace + _OWN)
        return open_store("iceberg", target_of(settings), catalog)
    return open_store("delta", target_of(settings) / PRIVATE)


def _row(value: Finding | DamagedRange) -> dict[str, Any]:
    return {name: readable(each) if isinstance(each, str) else each for name, each in asdict(value).items()}


def _write(settings: Settings, name: str, file: str, rows: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    file_tree.write(settings.root / PRIVATE / name / file, sink.getvalue().to_pybytes())
