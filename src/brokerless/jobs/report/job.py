"""Gathers all figures of a report: those of the batch headers, what an audit found, and the lag of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from brokerless import arrow
from brokerless.arrow import table_of
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.start import StartOutcome, foresee_start
from brokerless.errors import UsageError
from brokerless.findings import Finding, describe_kinds, harm_of
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.internals.tables import lag_state_rows
from brokerless.jobs.audit.advice import advice_for
from brokerless.jobs.audit.job import PartitionAudit, audit_directory, audit_partitions
from brokerless.jobs.audit.remote import local_part
from brokerless.jobs.report.figures import Figures, read_figures
from brokerless.jobs.report.page_rows import read_settings
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.report.topic_sizes import topic_sizes_table
from brokerless.jobs.run.job import values_or_raise
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log.backups.snapshot import Snapshot
from brokerless.log.checkpoint.meta_properties import clusters_of
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.settings.topic import TopicSettings
from brokerless.progress import ignore
from brokerless.values import Row


@dataclass(frozen=True, slots=True)
class LastBackup:
    """The last complete snapshot of a backup."""

    place: str
    snapshot: Snapshot | None
    """The snapshot; None if none is complete."""
    later: int
    """How many newer snapshots lack something, or cannot be read."""

    def as_dict(self) -> Row:
        """Return the row of ``--json``."""
        own = self.snapshot
        return {
            "table": "lastBackup",
            "place": self.place,
            "snapshot": None if own is None else own.id,
            "name": None if own is None else own.name,
            "created": None if own is None else own.created,
            "partitions": 0 if own is None else len(own.partitions),
            "laterIncomplete": self.later,
        }


def refuse_other_cluster(backup: LastBackup, directory: LogDirectory) -> None:
    """Raise :class:`UsageError` where a backup is of another cluster than a log directory, by ``meta.properties``."""
    known = None if backup.snapshot is None else backup.snapshot.cluster_id
    own = clusters_of(above for each in directory.partitions if (above := each.location.parent) is not None)
    if known is not None and own and known not in own:
        ids = ", ".join(own)
        raise UsageError(f"{backup.place}: this is a backup of the cluster {known}, and {directory.path} is of {ids}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome that the page says first."""

    lost_offsets: int
    """How many offsets are in no intact batch."""
    uncounted: int
    """In how many damaged partitions that is not known."""
    start: StartOutcome | None
    """The outcome of a broker's start; None where that is not known."""
    settings: Mapping[str, TopicSettings] = field(default_factory=dict[str, TopicSettings])
    """Of topics."""
    backup: LastBackup | None = None
    """The last backup of the cluster, if a backup was named."""


def sum_up(
    directory: LogDirectory,
    audits: Sequence[PartitionAudit],
    start: StartOutcome | None,
    backup: LastBackup | None = None,
) -> Outcome:
    """Return what was lost by the audits of partitions, and what a start comes to."""
    damaged = [each for each in audits if any(_is_loss(one) for one in each.findings)]
    return Outcome(
        sum(each.missing_offsets or 0 for each in audits),
        sum(not each.missing_offsets for each in damaged),
        start,
        settings=read_settings(directory.partitions),
        backup=backup,
    )


def _is_loss(finding: Finding) -> bool:
    return finding.severity == "error" and describe_kinds()[finding.kind].concerns == "records"


def gather(
    directory: LogDirectory,
    partitions: Sequence[PartitionPath],
    *,
    max_batch_bytes: int | None = None,
    running: RunOptions = HERE,
) -> Figures:
    """Return the figures of :func:`gather_audited` without the audits."""
    return gather_audited(directory, partitions, max_batch_bytes=max_batch_bytes, running=running)[0]


def gather_audited(
    directory: LogDirectory,
    partitions: Sequence[PartitionPath],
    *,
    max_batch_bytes: int | None = None,
    running: RunOptions = HERE,
) -> tuple[Figures, list[PartitionAudit], StartOutcome | None]:
    """All tables of :data:`brokerless.jobs.report.schemas.FIGURES` of some partitions of a log directory.

    The headers are read once for all figures, all data again by the audit, and a sample of the largest topics for
    their sizes in other formats; a broker's start is planned once, if these are all partitions. What cannot be opened
    is a finding, but for a lone file: that is raised as :class:`UnreadableError`.
    ``done`` of ``running`` is called with the bytes that were audited.
    """
    figures = read_figures(partitions, on_damage=ignore, on_unreadable=ignore, max_batch_bytes=max_batch_bytes)
    state = load_directory_state(directory)
    bound = max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    audits = list(values_or_raise(audit_partitions(partitions, state, bound, running)))
    is_whole = len(audits) == len(directory.partitions)
    start = foresee_start([local_part(directory)]).get(directory.path) if is_whole else None
    of_directory = list(audit_directory(directory, state, audits, start))
    figures["findings"] = findings_table(audits, of_directory)
    figures["transactions"] = transactions_table(audits)
    figures["topicSizes"] = topic_sizes_table(directory, partitions, bound, replace(running, done=ignore))
    figures["lag"] = lag_table(partitions)
    return {name: figures[name] for name in FIGURES}, audits, start


def findings_table(audits: Iterable[PartitionAudit], of_directory: Iterable[Finding]) -> pa.Table:
    """All findings, the worst first, with what to do."""
    found = [
        ({"topic": audit.topic, "partition": audit.partition}, each) for audit in audits for each in audit.findings
    ]
    found += [({"topic": None, "partition": None}, each) for each in of_directory]
    found.sort(key=lambda each: harm_of(each[1].severity, each[1].kind))
    rows = [place | each.as_dict() | {"advice": advice_for(each)} for place, each in found]
    return table_of(rows, FIGURES["findings"])


def transactions_table(audits: Iterable[PartitionAudit]) -> pa.Table:
    """Return how many transactions ended in which way, for each partition that has any."""
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "committed": each.committed,
            "aborted": each.aborted,
            "open": len(each.open),
            "withoutData": each.transactions_without_data,
        }
        for each in audits
    ]
    has_any = [row for row in rows if any(row[name] for name in ("committed", "aborted", "open", "withoutData"))]
    return table_of(has_any, FIGURES["transactions"])


def lag_table(partitions: Sequence[PartitionPath]) -> pa.Table:
    """Return how far each group's committed offsets are from the ends of those partitions that are here, the largest
    first."""
    return table_of(lag_state_rows(partitions, partitions, ignore), FIGURES["lag"])


def json_rows(figures: Figures) -> Iterable[Row]:
    """Yield the rows of all tables for programs, each with its table's name; times in ms."""
    for name, table in figures.items():
        for row in arrow.rows(table):
            yield {"table": name, **row}
