"""``brokerless report``: one page that shows a log."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless import arrow
from brokerless.cli.options import add_jobs, add_remote
from brokerless.cli.output import UNUSABLE, Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.checking import ReportRequest
from brokerless.text import show_name

DESCRIPTION = """\
Writes one HTML page that shows a log: sizes, segments by time, throughput, batches, producers, groups, findings.

The page is a single file that loads nothing from a network. It has charts, tables to search and to sort, and what
brokerless audit finds, and what the largest topics would take in other formats and codecs. Beside findings and segments
are the commands that explain their bytes. Headers are read once for all figures, all data once by the audit. --json
prints the rows of all tables instead, each with its table's name.

With --backup, it says as well when the last complete snapshot of that backup was made.

Charts need the extra report: pip install altair vl-convert-python. Without it, the page has all but the charts.

The exit code is that of brokerless audit: 0 if there are only infos, 1 if there are warnings or errors, and 2 for a
path that cannot be opened or written.
"""
EXAMPLES = """\
  brokerless report /var/lib/kafka -o report.html
  brokerless report s3://bucket/kafka --topic orders -o orders.html
  brokerless report /var/lib/kafka -o report.html --backup s3://backup/kafka
  brokerless report /var/lib/kafka --json | jq 'select(.table == "lag" and .lag > 1000)'
"""
HAS_TABLES = False


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, ReportRequest, to=None)
    add_jobs(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.check.snapshots import last_complete
    from brokerless.jobs.report.job import LastBackup, gather, json_rows, refuse_other_cluster
    from brokerless.jobs.report.page import ReportFile, write_report
    from brokerless.log.storage.location import Location

    if len(options.paths) > 1:
        raise UsageError("report takes one PATH: a page shows one log directory")
    if (options.to is None) != options.json:
        raise UsageError("report needs either -o FILE, for the page, or --json")
    backup = None
    if options.backup is not None:
        backup = LastBackup(options.backup, *last_complete(Location.of(options.backup)))
    for log in output.open(options):
        chosen = output.chosen(log, options)
        if output.exit_code == UNUSABLE:
            continue
        if backup is not None:
            refuse_other_cluster(backup, log.directory)
        bound = options.max_batch_bytes
        with progress("reading", sum(each.size for each in chosen)) as done:
            running = RunOptions(done, say=output.say)
            if options.json:
                figures = gather(log.directory, chosen, max_batch_bytes=bound, running=running)
                output.objects(json_rows(figures))
                output.objects(() if backup is None else [backup.as_dict()])
            else:
                figures = write_report(
                    log.directory, chosen, ReportFile(options.to, backup),
                    max_batch_bytes=bound, running=running,
                )  # fmt: skip
        if not options.json:
            output.prose(f"written to {show_name(options.to)}")
        output.note_findings(bool(set(arrow.values(figures["findings"]["severity"])) - {"info"}))
