"""Formats an audit: a line for each partition, then the findings of each."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from brokerless.findings import Finding, Kind, advice_of
from brokerless.jobs.audit.job import PartitionAudit
from brokerless.log import names
from brokerless.text import format_bytes, show_name
from brokerless.views.findings import SEVERITIES, SHOWN
from brokerless.views.screen import colored
from brokerless.views.table import NOTHING, format_number, format_offsets, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "segments", "batches", "records", "size", "offsets", "from", "to", "format", "verdict")
_RIGHT = ("segments", "batches", "records", "size")


def finding_row(finding: Finding, audit: PartitionAudit | None) -> dict[str, Any]:
    """A finding for programs; ``audit`` is None for one of the log directory as a whole."""
    place = {"topic": None if audit is None else audit.topic, "partition": None if audit is None else audit.partition}
    command = abort_command(finding)
    advice = advice_of(finding.kind)
    return finding.as_dict() | place | {"advice": advice if command is None else f"{advice}: {command}"}


def partition_lines(audits: Sequence[PartitionAudit]) -> Iterator[str]:
    """A table of partitions."""
    starts, ends = (
        format_times([getattr(each.summary, name) for each in audits], "s")
        for name in ("min_timestamp", "max_timestamp")
    )
    return table(_COLUMNS, [_cells(audit, *times) for audit, *times in zip(audits, starts, ends, strict=True)], _RIGHT)


def finding_lines(title: str, findings: Sequence[Finding], left_out: Mapping[str, int]) -> Iterator[str]:
    """The findings of one partition or log directory, the worst first; each kind with what to do about it."""
    by_kind: dict[tuple[int, str], list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault((SEVERITIES.index(finding.severity), finding.kind), []).append(finding)
    if findings:
        yield f"\n{show_name(title)}:"
    for (_, kind), found in sorted(by_kind.items(), key=lambda each: each[0][0]):
        for finding in found[:SHOWN]:
            named = replace(finding, file=finding.file.removeprefix(f"{title}/"))
            yield f"  {colored(finding.severity, 7)}  {show_name(str(named))}"
        more = len(found) - SHOWN + left_out.get(kind, 0)
        if more > 0:
            yield f"  {'':7}  ... and {more:,} more of this kind"
        if (advice := advice_of(kind)) != "nothing":
            yield f"  {'':7}  -> {advice}"
            for command in filter(None, map(abort_command, found[:SHOWN])):
                yield f"  {'':7}     {show_name(command)}"


def abort_command(finding: Finding) -> str | None:
    """What ends a transaction that nobody ends, on a running cluster (``TransactionsCommand``, 4.4.0); None for other
    findings, and where the path does not say which partition it is."""
    if finding.kind not in (Kind.TRANSACTION_HANGING, Kind.TRANSACTION_ORPHANED) or finding.offset is None:
        return None
    place = names.parse_partition_directory(PurePosixPath(finding.file).parent.name)
    if place is None:
        return None
    of = f"--topic {shlex.quote(place.topic)} --partition {place.partition} --start-offset {finding.offset}"
    return f"kafka-transactions.sh --bootstrap-server HOST:9092 abort {of}"


def verdict(counts: Counter[str]) -> str:
    """``2 errors, 1 warning``, or ``ok``."""
    named = [(counts[name], name) for name in ("error", "warning")]
    return ", ".join(f"{count:,} {name}{'s' * (count > 1)}" for count, name in named if count) or "ok"


def _cells(audit: PartitionAudit, start: str, end: str) -> list[str]:
    summary = audit.summary
    counts = Counter(finding.severity for finding in audit.findings)
    name = f"{audit.topic}-{audit.partition}" if audit.topic is not None else audit.path
    return [
        show_name(name) + (f" ({audit.state})" if audit.state != "live" else ""),
        format_number(audit.segments),
        format_number(summary.batches),
        format_number(summary.records),
        format_bytes(summary.size),
        format_offsets(summary.first_offset, summary.last_offset),
        start,
        end,
        ",".join(f"v{magic}" for magic in audit.batches_by_magic) or NOTHING,
        verdict(counts),
    ]
