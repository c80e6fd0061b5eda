from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter

from brokerless.cli.output import Output, progress
from brokerless.cli.parser import add_max_batch_bytes
from brokerless.errors import UnreadableError

DESCRIPTION = """\
Whether all is as it should be: every batch's checksum and structure, and the indexes against the log.

A finding is an error where Kafka's own reader would throw, else a warning or a note. Behind a damaged place, reading
goes on where the next batch is found. The exit code is 1 if there is an error, and 0 if not; a log that ends within a
batch is a warning, as Kafka's reader takes no notice of it.
"""
EXAMPLES = """\
  brokerless verify /var/lib/kafka && echo sound
  brokerless verify --json /var/lib/kafka | jq 'select(.severity == "error")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    output = Output()
    counts: Counter[str] = Counter()
    with progress("partitions") as done:
        for log in output.open(options.paths, options.include):
            for partition in output.chosen(log, options.topic, options.partition):
                try:
                    for finding in partition.verify(limit=options.max_batch_bytes):
                        counts[finding.severity] += 1
                        output.found(finding, options.json)
                except UnreadableError as error:
                    output.unreadable(error)
                done(1)
    if not options.json:
        output.line(f"{counts['error']} errors, {counts['warning']} warnings")
    return output.end()
