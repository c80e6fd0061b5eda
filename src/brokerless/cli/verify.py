from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import closing

from brokerless.cli.output import Output
from brokerless.cli.parser import add_max_batch_bytes, add_spark
from brokerless.cli.progress import progress
from brokerless.errors import UnreadableError
from brokerless.views.table import count_of

DESCRIPTION = """\
Whether all is as it should be: every batch's checksum and structure, and the indexes against the log.

A finding is an error where Kafka's own reader would throw, else a warning or a note. Behind a damaged place, reading
goes on where the next batch is found. The exit code is 1 if there is an error, and 0 if not; a log that ends within a
batch is a warning, as Kafka's reader takes no notice of it, but an end that cannot be a batch (text, say) is an error.
"""
EXAMPLES = """\
  brokerless verify /var/lib/kafka && echo sound
  brokerless verify --json /var/lib/kafka | jq 'select(.severity == "error")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_max_batch_bytes(parser)
    add_spark(parser)


def run(options: Namespace) -> int:
    from brokerless.format.compression import DEFAULT_LIMIT
    from brokerless.jobs.verify_logs import verify

    output = Output()
    counts: Counter[str] = Counter()
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
                counts[finding.severity] += 1
                output.found(finding, options.json)
    if not options.json and partitions:
        output.line(f"{count_of(counts['error'], 'error')}, {count_of(counts['warning'], 'warning')}")
    return output.end()
