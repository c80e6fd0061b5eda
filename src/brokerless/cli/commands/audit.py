"""``brokerless audit``: checks a whole log directory as a broker's start would, and says what to do."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from brokerless.cli.options import add_all, add_remote, add_severity
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UnreadableError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.checking import AuditRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from brokerless.api.log import Log
    from brokerless.clusters.start.start import StartOutcome
    from brokerless.findings import Finding
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.log.directory import PartitionPath

DESCRIPTION = """\
Everything that can be known about a log directory from its files, graded, with advice for each finding.

Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, formats, checkpoints and metadata. If
Kafka's own topics are in the directory, they are used as well: which transactional id an open transaction has, whether
the cluster knows these replicas, how far consumer groups have read. All data is read once.

With --remote, what brokers know of a tiered log's segments (__remote_log_metadata), what is in the bucket and where the
local log begins are compared: lost objects, orphans that no broker reads, uploads and deletions that did not end,
segments past their retention, and offsets that are nowhere. Nothing is deleted.

A summary comes first: what is lost, and whether a broker would start on the directory. Then findings, the worst first,
those that say the same as one; partitions in which nothing was found are shown with --all.

Grades: error (data is damaged or missing, or would be served wrongly), warning (Kafka would not have written this),
info (good to know).

The exit code is 0 if there are only infos, 1 if there are warnings or errors, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless audit /var/lib/kafka
  brokerless audit --json /var/lib/kafka | jq 'select(.severity == "error")'
  brokerless audit /var/lib/kafka --remote s3://bucket/prefix --price-per-gb 0.023
  brokerless audit /var/lib/kafka --topic orders --min-severity warning
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, AuditRequest)
    add_severity(parser)
    add_all(parser, "also partitions in which nothing was found, and each finding by itself")


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.audit.remote import check_price

    is_found = False
    logs = output.log_directories(options)
    if logs:
        check_price(options.price_per_gb, [each.directory for each in logs])
    starts = _foresee_start(logs, options)
    for number, log in enumerate(logs):
        chosen = output.chosen(log, options, shows_others=True)
        if not chosen and is_narrowed(options):
            continue
        if number and not options.json:
            output.prose("")
        is_found |= _audit(log, chosen, starts, options=options, output=output)
    output.note_findings(is_found)


def _foresee_start(logs: Sequence[Log], options: Namespace) -> Mapping[str, StartOutcome]:
    """Return what a broker's start would do; all log directories are taken as one broker's. Where some partitions are
    selected, nothing is said of what it does within them."""
    from brokerless.clusters.start.start import foresee_start
    from brokerless.jobs.audit.remote import local_part

    directories = [local_part(log.directory) for log in logs]
    with progress("a broker's start", sum(each.size for log in logs for each in log.paths)) as done:
        return foresee_start(
            directories, options.max_batch_bytes, done, with_partitions=not is_narrowed(options), version=options.kafka
        )


def _audit(
    log: Log, chosen: Sequence[PartitionPath], starts: Mapping[str, StartOutcome], options: Namespace, output: Output
) -> bool:
    """Return whether there are warnings or errors."""
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.jobs.audit.job import audit_directory, audit_partitions, errors_of
    from brokerless.jobs.audit.remote import audit_remote, has_remote, without_reported
    from brokerless.tables.read_options import bound
    from brokerless.views.audit import finding_row, partition_lines, remote_lines, remote_row, summary_lines
    from brokerless.views.findings import FindingGroups, is_at_least, root_of

    found, shown = FindingGroups(), FindingGroups(all_of_them=options.all)

    def report(finding: Finding, row: Callable[[], dict[str, Any]], count: int = 1) -> None:
        """For programs, and damage to people too."""
        found.add(finding, count)
        if options.quiet or not is_at_least(finding, options.min_severity):
            return
        shown.add(finding, count)
        if options.json:
            output.objects([row()])
            if finding.severity != "info":
                output.say(str(finding))

    def report_all(findings: Iterable[Finding], audit: PartitionAudit | None) -> None:
        left_out = {} if audit is None else dict(audit.left_out)
        for finding in findings:
            report(finding, partial(finding_row, finding, audit), 1 + left_out.pop(finding.kind, 0))

    state = load_directory_state(log.directory)
    audits: list[PartitionAudit] = []
    places = {each.place for each in chosen} if is_narrowed(options) else None
    is_compared = has_remote(log.directory)
    partitions = [without_reported(each) if is_compared else each for each in chosen]
    max_batch_bytes = bound(options.max_batch_bytes)
    total = sum(each.size for each in partitions)
    with (
        progress("reading", total) as done,
        closing(
            audit_partitions(partitions, state, max_batch_bytes, RunOptions(done, options.spark, output.say))
        ) as results,
    ):
        for audit in results:
            if isinstance(audit, UnreadableError):
                output.unreadable(audit)
            else:
                audits.append(audit)
                report_all(audit.findings, audit)
    report_all(audit_directory(log.directory, state, audits, starts.get(log.path)), None)
    remote = audit_remote(log.directory, options.price_per_gb, places, errors_of(audits))
    for each in () if remote is None else remote.findings:
        report(each.finding, partial(remote_row, each))
    if not options.json:
        is_whole = not is_narrowed(options)
        output.prose(
            *summary_lines(audits, found, starts.get(log.path), path=log.path, remote=remote, is_whole=is_whole)
        )
        output.prose(*(() if remote is None else remote_lines(remote)))
        output.prose(*(() if options.quiet else partition_lines(audits, all_of_them=options.all)))
        output.prose(*shown.lines(root_of([log.path]), has_advice=True))
    return not found.is_clean
