from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter

from brokerless.cli.output import FINDINGS, Output, progress
from brokerless.cli.parser import add_max_batch_bytes
from brokerless.errors import Finding, UnreadableError

DESCRIPTION = """\
Everything that the files alone tell about a log directory, graded, with what to do about it.

Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, formats, and what the log directory
notes of its partitions. All data is read once. Grades: error (data is damaged or missing, or would be served
wrongly), warning (Kafka would not have written this), info (worth knowing).

The exit code is 0 if there is nothing but infos, 1 if there are warnings or errors, and 2 for a path that cannot be
read.
"""
EXAMPLES = """\
  brokerless audit /var/lib/kafka
  brokerless audit --json /var/lib/kafka | jq 'select(.severity == "error")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    from brokerless.format.compression import DEFAULT_LIMIT
    from brokerless.jobs.audit import PartitionAudit, audit_directory, audit_partition
    from brokerless.jobs.audits.notes import load_notes
    from brokerless.views.audit import finding_lines, finding_row, partition_lines, verdict

    output = Output()
    counts: Counter[str] = Counter()
    above = ""

    def tell(finding: Finding, audit: PartitionAudit | None) -> None:
        if options.json:
            output.objects([finding_row(finding, audit)])

    with progress("partitions") as done:
        for log in output.open(options.paths, options.include):
            chosen = output.chosen(log, options.topic, options.partition)
            if not chosen and (options.topic or options.partition):
                continue
            notes = load_notes(log.directory)
            audits: list[PartitionAudit] = []
            for partition in chosen:
                lines, limit = notes.of(partition.paths), options.max_batch_bytes or DEFAULT_LIMIT
                try:
                    audits.append(audit_partition(partition.paths, lines, limit=limit))
                except UnreadableError as error:
                    output.unreadable(error)
                    continue
                for finding in audits[-1].findings:
                    tell(finding, audits[-1])
                done(1)
            of_directory = list(audit_directory(log.directory, notes, audits))
            for finding in of_directory:
                tell(finding, None)
            found = [finding for audit in audits for finding in audit.findings] + of_directory
            counts.update(finding.severity for finding in found)
            if options.json:
                continue
            for line in partition_lines(audits):
                output.line(f"{above}{line}")
                above = ""
            above = "\n"
            for audit in audits:
                if audit.findings:
                    output.line("")
                    for line in finding_lines(audit.path, audit.findings, audit.left_out):
                        output.line(line)
            if of_directory:
                output.line("")
                for line in finding_lines(log.path, of_directory, {}):
                    output.line(line)
    if counts["error"] or counts["warning"]:
        output.exit_code = max(output.exit_code, FINDINGS)
    if not options.json:
        output.line(f"\n{verdict(counts)}")
    return output.end()
