from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing

from brokerless.cli.options import add_max_batch_bytes, add_severity, add_spark
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.errors import UnreadableError

DESCRIPTION = """\
Whether all is as it should be: every batch's checksum and structure, and the indexes against the log.

A finding is an error where Kafka's own reader would throw, else a warning or a note. Behind a damaged place, reading
goes on where the next batch is found. The exit code is 1 if there is an error, and 0 if not; a log that ends within a
batch is a warning, as Kafka's reader takes no notice of it, but an end that cannot be a batch (text, say) is an error.

Findings come by kind, the worst first: of each kind the first few, how many there are, and where the last one is. With
--json each is a line, as it is found.
"""
EXAMPLES = """\
  brokerless verify /var/lib/kafka && echo sound
  brokerless verify -q --min-severity warning /var/lib/kafka
  brokerless verify --json /var/lib/kafka | jq 'select(.severity == "error")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_max_batch_bytes(parser)
    add_spark(parser)
    add_severity(parser)


def run(options: Namespace) -> int:
    from brokerless.format.codecs.inflate import DEFAULT_LIMIT
    from brokerless.jobs.verify.job import verify
    from brokerless.views.findings import FindingGroups, is_at_least

    output, counted, shown = Output(), FindingGroups(), FindingGroups()
    partitions = [each.paths for each in output.partitions(options)]
    total = sum(each.size for each in partitions)
    limit = options.max_batch_bytes or DEFAULT_LIMIT
    with (
        progress("reading", total) as done,
        closing(verify(partitions, limit, spark=options.spark, done=done, say=output.say)) as findings,
    ):
        for finding in findings:
            if isinstance(finding, UnreadableError):
                output.unreadable(finding)
            else:
                counted.add(finding)
                is_shown = not options.quiet and is_at_least(finding, options.min_severity)
                output.found(finding, show=options.json and is_shown)
                if is_shown:
                    shown.add(finding)
    if not options.json and partitions:
        for line in shown.lines():
            output.line(line)
        output.line(counted.verdict())
    return output.end()
