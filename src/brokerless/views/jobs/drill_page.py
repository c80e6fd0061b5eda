"""A page for whoever asks whether backups are tried: what a drill did, how long, what it found and did not try."""

from __future__ import annotations

import os

from brokerless.jobs.drill.results import DrillResult
from brokerless.log.storage.atomic import write_output
from brokerless.log.storage.write_errors import refuse_directory, unwritable
from brokerless.text import count_of
from brokerless.views.jobs.drill import drill_counts, drill_verdict, seconds_of
from brokerless.views.jobs.plain_page import html_table, plain_page
from brokerless.views.text import format_times

_CHECKS = ("check", "what", "result", "seconds")


def refuse_page(path: str | None) -> None:
    """Raise :class:`UnwritableError` for a path where no file can be written, before a drill begins."""
    if path is not None:
        refuse_directory(path, "a file in it, such as drill.html")


def write_drill_page(result: DrillResult, path: str | os.PathLike[str] | None) -> None:
    """Write the page to a file, in place of another one. Raises UnwritableError."""
    if path is not None:
        with unwritable(path):
            write_output(os.fspath(path), drill_page(result).encode())


def drill_page(result: DrillResult) -> str:
    """Return the page as HTML."""
    snapshot = result.snapshot
    created, began = format_times([snapshot.created, result.began])
    verdict, colour = ("The drill was clean", "holds") if result.is_clean else ("The drill was not clean", "fails")
    of = "all" if result.partitions is None else count_of(len(result.partitions), "partition")
    facts = [
        ("Snapshot", result.place),
        ("ID", snapshot.id + ("" if snapshot.name is None else f", {snapshot.name}")),
        ("Made", f"{created} by {snapshot.tool}"),
        ("Cluster", snapshot.cluster_id),
        ("Drilled", f"{began} by {result.tool}"),
        ("Took", f"{seconds_of(result.ended - result.began)} s"),
        ("Partitions", of),
        ("Broker", "none was started" if result.kafka is None else f"Kafka {result.kafka}, on this machine's loopback"),
    ]
    checks = [(each.name, drill_counts(each), drill_verdict(each), seconds_of(each.duration)) for each in result.checks]
    lost = [(each.name, text) for each in result.checks for text in each.lost]
    findings = [(finding.severity, finding.kind, str(finding)) for finding in result.findings]
    chosen = [(each,) for each in result.partitions or ()]
    body = [
        '<p class="brand">brokerless drill</p>',
        f'<h1 class="{colour}">{verdict}</h1>',
        html_table(("", ""), facts),
        "<h2>What was tried</h2>",
        html_table(_CHECKS, checks, (3,)),
        *(("<h2>Lost or different</h2>", html_table(("check", "what"), lost)) if lost else ()),
        "<h2>Findings</h2>",
        html_table(("severity", "kind", "what"), findings) if findings else "<p>None.</p>",
        "<h2>What was not tried</h2>",
        html_table(("",), [(each,) for each in result.not_tried]),
        *(("<h2>Partitions that alone were tried</h2>", html_table(("",), chosen)) if chosen else ()),
    ]
    return plain_page(verdict, body)
