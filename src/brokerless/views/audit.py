"""Formats an audit: its summary, and a line for each partition."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.clusters.start.start import StartOutcome, describe_harms, describe_retention, has_start_errors
from brokerless.findings import Finding
from brokerless.jobs.audit.advice import advice_for
from brokerless.jobs.audit.job import PartitionAudit
from brokerless.jobs.audit.remote import GIGABYTE, RemoteAudit, RemoteFinding, show_cost
from brokerless.log.settings.definitions import minor_of, versions
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.findings import SHOWN, FindingGroups, concerns_records, summary_line
from brokerless.views.table import NOTHING, format_number, format_offsets, table
from brokerless.views.text import format_times

_COLUMNS = ("partition", "segments", "batches", "records", "size", "offsets", "from", "to", "format", "verdict")
_RIGHT = ("segments", "batches", "records", "size")


def finding_row(finding: Finding, audit: PartitionAudit | None) -> dict[str, Any]:
    """Return a finding for programs; ``audit`` is None for one of the log directory as a whole."""
    place = {"topic": None if audit is None else audit.topic, "partition": None if audit is None else audit.partition}
    severities = finding.severities._asdict()
    return finding.as_dict() | place | {"severities": severities, "advice": advice_for(finding)}


def remote_row(found: RemoteFinding) -> dict[str, Any]:
    """Return a finding about remote segments for programs."""
    return finding_row(found.finding, None) | {
        "topic": found.topic,
        "topicId": found.topic_id,
        "partition": found.partition,
        "segmentId": found.segment_id,
        "objects": found.objects,
        "sizeInBytes": found.size,
        "since": found.since,
        "monthlyCost": found.monthly_cost,
    }


def remote_lines(remote: RemoteAudit) -> Iterator[str]:
    """Yield what is in the bucket: what brokers read, and what costs without being of use."""
    price = remote.price_per_gb

    def text(count: int, size: int, noun: str) -> str:
        cost = "" if price is None else f", {show_cost(size * price / GIGABYTE)} a month"
        return f"{count_of(count, noun)} ({format_bytes(size)}{cost})"

    parts: list[str] = []
    if remote.referenced or not remote.unknown:
        parts.append(f"{text(remote.referenced, remote.size, 'segment')} that brokers read")
    orphans = remote.orphans
    parts += [f"{text(len(orphans), sum(each.size for each in orphans), 'orphan')}"] * bool(orphans)
    if remote.unknown:
        parts.append(f"{text(remote.unknown, remote.unknown_size, 'segment')} whose metadata is not here")
    yield from summary_line("bucket", "; ".join(parts))


def partition_lines(audits: Sequence[PartitionAudit], *, all_of_them: bool = False) -> Iterator[str]:
    """Yield a table of partitions with warnings or errors, or of all, between empty lines."""
    shown = [each for each in audits if all_of_them or _verdict(each) != "ok"]
    starts, ends = (
        format_times([getattr(each.summary, name) for each in shown], "s")
        for name in ("min_timestamp", "max_timestamp")
    )
    if shown:
        yield ""
        yield from table(
            _COLUMNS, [_cells(audit, *times) for audit, *times in zip(shown, starts, ends, strict=True)], _RIGHT
        )
        if others := len(audits) - len(shown):
            yield f"... and {count_of(others, 'partition')} without warnings or errors (--all shows them)"
        yield ""


def summary_lines(
    audits: Sequence[PartitionAudit],
    groups: FindingGroups,
    start: StartOutcome | None,
    path: str,
    remote: RemoteAudit | None,
    *,
    is_whole: bool,
) -> Iterator[str]:
    """Yield what matters first: how much was found, whether a broker starts, and which offsets are lost. ``is_whole``:
    all of the path was read, of whose start something can be said."""
    is_changed = start is not None and bool(start.refused or start.starts_without)
    yield "ok" if groups.is_clean and not is_changed else groups.verdict()
    records = sum(each.summary.records or 0 for each in audits)
    size = format_bytes(sum(each.summary.size for each in audits))
    yield from summary_line(
        "read", f"{count_of(len(audits), 'partition')} of {path}, {count_of(records, 'record')}, {size}"
    )
    yield from summary_line("lost", _lost(audits, remote, is_ok=not groups.has_errors and not is_changed))
    if is_whole:
        yield from summary_line("start", _start(start, path, groups))
        if start is not None and (retention := describe_retention(start)):
            yield from summary_line("retention", f"{retention} ({shlex.join(['brokerless', 'restart', path])})")


def _lost(audits: Sequence[PartitionAudit], remote: RemoteAudit | None, *, is_ok: bool) -> str:
    known = {_name(each): each.missing_offsets for each in audits if each.missing_offsets}
    uncounted = [_name(each) for each in audits if not each.missing_offsets and _is_damaged(each)]
    lost = [] if remote is None else remote.lost
    if not known and not uncounted and not lost:
        return "nothing" if is_ok else "nothing on this disk; what a start does is below"
    texts: list[str] = []
    if lost:
        partitions = {f"{each.topic}-{each.partition}": None for each in lost}
        more = f" and {len(partitions) - SHOWN:,} more" if len(partitions) > SHOWN else ""
        texts.append(f"{count_of(len(lost), 'remote segment')} of {', '.join([*partitions][:SHOWN])}{more}")
    if known:
        shown = [
            f"{name} ({count:,})" if len(known) > 1 else name
            for name, count in sorted(known.items(), key=lambda each: -each[1])[:SHOWN]
        ]
        more = f" and {len(known) - SHOWN:,} more" if len(known) > SHOWN else ""
        texts.append(f"{count_of(sum(known.values()), 'offset')} of {', '.join(shown)}{more}")
    if uncounted:
        more = f" and {len(uncounted) - SHOWN:,} more" if len(uncounted) > SHOWN else ""
        texts.append(f"how many is not known of {', '.join(uncounted[:SHOWN])}{more}")
    return "; ".join(texts)


def _is_damaged(audit: PartitionAudit) -> bool:
    return any(each.severity == "error" and concerns_records(each) for each in audit.findings)


def _start(start: StartOutcome | None, path: str, groups: FindingGroups) -> str:
    if start is None:
        return "not known: only of a local log directory with its meta.properties"
    options = [] if start.version is None or start.newest is not None else ["--kafka", minor_of(start.version)]
    more = shlex.join(["brokerless", "restart", *options, path])
    if start.newest is not None:
        newest = f"{_refusal(start.newest, f'Kafka {versions()[-1]}')} ({more})"
        older = _outcome(start, path, f"Kafka {start.version}")
        return f"{older}; {newest}" if start.newest.refused else _outcome(start, path)
    who = "a broker" if start.version is None else f"Kafka {start.version}"
    if start.refused:
        return f"{_refusal(start, who)} ({more})"
    if describe_harms(start):
        return f"{_outcome(start, path, who)} ({more})"
    if has_start_errors(start):
        return f"{who} starts, with the errors that are listed below ({more})"
    return _outcome(start, path, who)


def _refusal(start: StartOutcome, who: str = "a broker") -> str:
    if start.refused == 1:
        return f"{who} does not start: {start.first_refusal}"
    return f"{who} does not start: {start.refused} causes: {start.first_refusal}"


def _outcome(start: StartOutcome, path: str, who: str = "a broker") -> str:
    text = f"{who} starts"
    if start.starts_without:
        offline = ["this directory" if each == path else show_name(each) for each in start.starts_without]
        text = f"{who} starts without {' and '.join(offline)}"
    elif start.offline:
        text = f"{who} ends, or goes on without this directory where it has another"
    if harms := describe_harms(start):
        return f"{text}: {harms}"
    return text if start.offline else f"{text}, and cuts nothing off"


def _verdict(audit: PartitionAudit) -> str:
    """``2 errors, 1 warning``, or ``ok``."""
    counts = Counter(finding.severity for finding in audit.findings)
    named = [(counts[name], name) for name in ("error", "warning")]
    return ", ".join(count_of(count, name) for count, name in named if count) or "ok"


def _cells(audit: PartitionAudit, start: str, end: str) -> list[str]:
    summary = audit.summary
    return [
        show_name(_name(audit)) + (f" ({audit.state})" if audit.state != "live" else ""),
        format_number(audit.segments),
        format_number(summary.batches),
        format_number(summary.records),
        format_bytes(summary.size),
        format_offsets(summary.first_offset, summary.last_offset),
        start,
        end,
        ",".join(f"v{magic}" for magic in audit.batches_by_magic) or NOTHING,
        _verdict(audit),
    ]


def _name(audit: PartitionAudit) -> str:
    return f"{audit.topic}-{audit.partition}" if audit.topic is not None else audit.path
