"""``brokerless verify``: checks every batch and index."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing

from brokerless.cli.options import add_all, add_max_batch_bytes, add_remote, add_severity, add_spark
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.errors import UnreadableError

DESCRIPTION = """\
Checks that logs are intact: every batch's checksum and structure, and the indexes against the log.

A finding is an error where Kafka's own reader would throw; all else is a warning or an info. After a damaged place,
reading continues at the next batch. A log that ends within a batch is a warning, as Kafka's reader ignores that; an
end that cannot be a batch (text, for example) is an error.

A summary comes first, then findings, the worst first: those that say the same are one line, with a count and where the
last one is; --all gives each a line. Errors of indexes are counted apart, and come last: no record is lost by them.
With --json, each finding is a line, written when it is found.

The exit code is 0 if there is no error, 1 if there is one, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless verify /var/lib/kafka && echo intact
  brokerless verify -q --min-severity warning /var/lib/kafka
  brokerless verify --json /var/lib/kafka | jq 'select(.severity == "error")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_max_batch_bytes(parser)
    add_spark(parser)
    add_severity(parser)
    add_all(parser, "each finding by itself, up to 1,000 of a kind")


def run(options: Namespace) -> int:
    from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
    from brokerless.jobs.verify.job import verify
    from brokerless.views.findings import FindingGroups, damaged_places, is_at_least, summary_line

    output, counted, shown = Output(), FindingGroups(), FindingGroups(all_of_them=options.all)
    partitions = [each.paths for each in output.partitions(options)]
    total = sum(each.size for each in partitions)
    max_batch_bytes = options.max_batch_bytes or DEFAULT_MAX_BATCH_BYTES
    with (
        progress("reading", total) as done,
        closing(verify(partitions, max_batch_bytes, spark=options.spark, done=done, say=output.say)) as findings,
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
        output.prose(counted.verdict())
        if counted.places:
            for line in summary_line("records", f"damaged or missing in {damaged_places(counted.places)}"):
                output.prose(line)
        for line in shown.lines():
            output.prose(line)
    return output.end()
