"""``brokerless audit``: checks a whole log directory as a broker's start would, and says what to do."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

from brokerless.cli.options import add_max_batch_bytes, add_severity, add_spark
from brokerless.cli.output import FINDINGS, Output
from brokerless.cli.progress import progress
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.api.log import Log
    from brokerless.api.partition import Partition
    from brokerless.findings import Finding
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.directory_state import DirectoryState

DESCRIPTION = """\
Everything that can be known about a log directory from its files, graded, with advice for each finding.

Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, formats, checkpoints and metadata. If
Kafka's own topics are in the directory, they are used as well: which transactional id an open transaction has, whether
the cluster knows these replicas, how far consumer groups have read. All data is read once.

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


def run(options: Namespace) -> int:
    from brokerless.jobs.directory_state import load_directory_state

    output = Output()
    counts: Counter[str] = Counter()
    for number, log in enumerate(output.open(options.paths, options.include)):
        chosen = output.chosen(log, options)
        if not chosen and is_narrowed(options):
            continue
        if number and not options.json:
            output.line("")
        _audit(log, chosen, load_directory_state(log.directory), options, output, counts)
    if sum(counts.values()) > counts["info"]:
        output.exit_code = max(output.exit_code, FINDINGS)
    return output.end()


def _audit(
    log: Log,
    chosen: Sequence[Partition],
    state: DirectoryState,
    options: Namespace,
    output: Output,
    counts: Counter[str],
) -> None:
    from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
    from brokerless.jobs.audit.job import audit_directory, audit_partitions
    from brokerless.views.audit import finding_lines, finding_row, partition_lines, verdict
    from brokerless.views.findings import is_at_least

    def shown(findings: Iterable[Finding]) -> list[Finding]:
        return [each for each in findings if not options.quiet and is_at_least(each, options.min_severity)]

    def report(findings: Iterable[Finding], audit: PartitionAudit | None) -> None:
        """For programs, and damage to people too."""
        for finding in shown(findings):
            output.objects([finding_row(finding, audit)])
            if finding.severity != "info":
                output.say(str(finding))

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
                continue
            audits.append(audit)
            if options.json:
                report(audit.findings, audit)
    of_directory = list(audit_directory(log.directory, state, audits))
    found = Counter(finding.severity for finding in of_directory)
    for audit in audits:
        found.update(finding.severity for finding in audit.findings)
    counts.update(found)
    if options.json:
        report(of_directory, None)
        return
    sections = [(audit.path, audit.findings, audit.left_out) for audit in audits] + [(log.path, of_directory, {})]
    if options.quiet:
        output.line(verdict(found))
        return
    for line in partition_lines(audits):
        output.line(line)
    for title, findings, left_out in sections:
        kinds = {each.kind for each in shown(findings)}
        left_out = {kind: count for kind, count in left_out.items() if kind in kinds}
        for line in finding_lines(title, shown(findings), left_out):
            output.line(line)
    output.line(f"\n{verdict(found)}")
