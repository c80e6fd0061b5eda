"""``brokerless verify``: checks every batch and index."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing

from brokerless import clock
from brokerless.cli.options import (
    add_all,
    add_as_it_lies,
    add_metrics,
    add_remote,
    add_severity,
    refuse_metrics,
    write_metrics,
)
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.errors import UnreadableError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.checking import VerifyRequest

DESCRIPTION = """\
Checks that logs are intact: every batch's checksum and structure, and the indexes against the log.

A finding is an error where Kafka's own reader would throw; all else is a warning or an info. After a damaged place,
reading continues at the next batch. A log that ends within a batch is a warning, as Kafka's reader ignores that; an
end that cannot be a batch (text, for example) is an error. Zeros at the end of a log that is recovered at the next
start, as no clean stop is marked, are preallocated space: an info, and exit code 0.

A summary comes first, then findings, the worst first: those that say the same are one line, with a count and where the
last one is; --all gives each a line. Errors of indexes are counted apart, and come last: no record is lost by them.
With --json, each finding is a line, written when it is found.

For a job that runs each night: --metrics also writes what was found to a file that Prometheus reads (by node_exporter's
textfile collector). The file is replaced at the end of the run.

On a disk that is too large for one night, --budget 50GB verifies so much in a run, what was verified longest ago first,
and --state names a directory that keeps which segments were, as Parquet files. A segment with errors is verified in
every run. The directory is not in a log directory, and may be in a bucket; what was done is added during the run, so
that a run that was killed is gone on with. Several runs may have one; that of a pipeline's tables
(_brokerless-pipeline/state) serves both. With --json, the last line says how far all runs together have come.

The exit code is 0 if there is no error, 1 if there is one, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless verify /var/lib/kafka && echo intact
  brokerless verify -q --min-severity warning /var/lib/kafka
  brokerless verify --json /var/lib/kafka | jq 'select(.severity == "error")'
  brokerless verify -q /var/lib/kafka --budget 50GB --state /var/lib/brokerless/verify
  brokerless verify -q /var/lib/kafka --metrics /var/lib/node_exporter/brokerless.prom
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_as_it_lies(parser)
    add_request(parser, VerifyRequest)
    add_severity(parser)
    add_all(parser, "each finding by itself, up to 1,000 of a kind")
    add_metrics(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.verify.job import verify
    from brokerless.jobs.verify.turn import begin_turn
    from brokerless.tables.read_options import bound
    from brokerless.views.findings import FindingGroups, damaged_places, is_at_least, root_of, summary_line, turn_line
    from brokerless.views.metrics import begin_run, metrics

    refuse_metrics(options)
    request = request_of(VerifyRequest, options)
    counted, shown = FindingGroups(), FindingGroups(all_of_them=options.all)
    partitions = output.partitions(options)
    turn = begin_turn(partitions, options.budget, options.state)
    total = sum(each.size for each in partitions) if turn is None else turn.chosen_bytes
    checked = begin_run(partitions, clock.now())
    max_batch_bytes = bound(request.max_batch_bytes)
    with (
        progress("reading", total) as done,
        closing(
            verify(partitions, max_batch_bytes, RunOptions(done, request.spark, output.say), turn=turn)
        ) as findings,
    ):
        for finding in findings:
            if isinstance(finding, UnreadableError):
                output.unreadable(finding)
            else:
                if options.metrics is not None:
                    checked.add(finding)
                counted.add(finding)
                is_shown = not options.quiet and is_at_least(finding, options.min_severity)
                output.found(finding, show=options.json and is_shown)
                if is_shown:
                    shown.add(finding)
    if not options.json and partitions:
        output.prose(counted.verdict())
        if counted.places:
            output.prose(*summary_line("records", f"damaged or missing in {damaged_places(counted.places)}"))
        output.prose(*shown.lines(root_of(options.paths)))
    if turn is not None:
        output.result([turn.as_dict()], [turn_line(turn)])
    checked.ended_ms, checked.exit_code, checked.unread = clock.now(), output.exit_code, output.unread
    write_metrics(options, lambda: metrics(checked))
