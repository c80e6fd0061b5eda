"""``brokerless audit``: checks a whole log directory as a broker's start would, and says what to do."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import TYPE_CHECKING

from brokerless.cli.options import add_all, add_max_batch_bytes, add_severity, add_spark
from brokerless.cli.output import FINDINGS, Output
from brokerless.cli.progress import progress
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from brokerless.api.log import Log
    from brokerless.api.partition import Partition
    from brokerless.findings import Finding
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.restart.start import StartOutcome

DESCRIPTION = """\
Everything that can be known about a log directory from its files, graded, with advice for each finding.

Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, formats, checkpoints and metadata. If
Kafka's own topics are in the directory, they are used as well: which transactional id an open transaction has, whether
the cluster knows these replicas, how far consumer groups have read. All data is read once.

A summary comes first: what is lost, and whether a broker would start on the directory. Then findings, the worst first,
those that say the same as one; partitions in which nothing was found are shown with --all.

Grades: error (data is damaged or missing, or would be served wrongly), warning (Kafka would not have written this),
info (good to know).

The exit code is 0 if there are only infos, 1 if there are warnings or errors, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless audit /var/lib/kafka
  brokerless audit --json /var/lib/kafka | jq 'select(.severity == "error")'
  brokerless audit /var/lib/kafka --topic orders --min-severity warning
"""


def add_options(parser: ArgumentParser) -> None:
    add_spark(parser)
    add_max_batch_bytes(parser)
    add_severity(parser)
    add_all(parser, "also partitions in which nothing was found, and each finding by itself")


def run(options: Namespace) -> int:
    output = Output()
    is_found = False
    logs = list(output.open(options))
    starts = _foresee_start(logs, options)
    for number, log in enumerate(logs):
        chosen = output.chosen(log, options)
        if not chosen and is_narrowed(options):
            continue
        if number and not options.json:
            output.prose("")
        is_found |= _audit(log, chosen, starts, options, output)
    if is_found:
        output.exit_code = max(output.exit_code, FINDINGS)
    return output.end()


def _foresee_start(logs: Sequence[Log], options: Namespace) -> Mapping[str, StartOutcome]:
    """For people, where whole log directories are read: they are taken as those of one broker."""
    from brokerless.jobs.restart.start import foresee_start

    if options.json or is_narrowed(options):
        return {}
    with progress("a broker's start", sum(each.paths.size for log in logs for each in log.partitions)) as done:
        return foresee_start([log.directory for log in logs], options.max_batch_bytes, done)


def _audit(
    log: Log, chosen: Sequence[Partition], starts: Mapping[str, StartOutcome], options: Namespace, output: Output
) -> bool:
    """Whether there are warnings or errors."""
    from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
    from brokerless.jobs.audit.job import audit_directory, audit_partitions
    from brokerless.jobs.directory_state import load_directory_state
    from brokerless.views.audit import finding_row, partition_lines, summary_lines
    from brokerless.views.findings import FindingGroups, is_at_least

    found, shown = FindingGroups(), FindingGroups(all_of_them=options.all)

    def report(findings: Iterable[Finding], audit: PartitionAudit | None) -> None:
        """For programs, and damage to people too."""
        left_out = {} if audit is None else dict(audit.left_out)
        for finding in findings:
            count = 1 + left_out.pop(finding.kind, 0)
            found.add(finding, count)
            if options.quiet or not is_at_least(finding, options.min_severity):
                continue
            shown.add(finding, count)
            if options.json:
                output.objects([finding_row(finding, audit)])
                if finding.severity != "info":
                    output.say(str(finding))

    state = load_directory_state(log.directory)
    audits: list[PartitionAudit] = []
    partitions = [each.paths for each in chosen]
    max_batch_bytes = options.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    total = sum(each.size for each in partitions)
    with (
        progress("reading", total) as done,
        closing(
            audit_partitions(partitions, state, max_batch_bytes, spark=options.spark, done=done, say=output.say)
        ) as results,
    ):
        for audit in results:
            if isinstance(audit, UnreadableError):
                output.unreadable(audit)
            else:
                audits.append(audit)
                report(audit.findings, audit)
    report(audit_directory(log.directory, state, audits), None)
    if not options.json:
        is_whole = not is_narrowed(options)
        for line in summary_lines(audits, found, starts.get(log.path), log.path, is_whole=is_whole):
            output.prose(line)
        for line in () if options.quiet else partition_lines(audits, all_of_them=options.all):
            output.prose(line)
        for line in shown.lines(f"{log.path.rstrip('/')}/", has_advice=True):
            output.prose(line)
    return not found.is_clean
