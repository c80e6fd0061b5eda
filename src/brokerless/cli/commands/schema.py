"""``brokerless schema``: lists schemas, and which topics use them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_jobs, add_max_batch_bytes, add_remote, add_schemas
from brokerless.cli.output import Output
from brokerless.cli.progress import progress

if TYPE_CHECKING:
    from brokerless.log.directory import PartitionPath

DESCRIPTION = """\
Lists the subjects of a schema registry with their versions and ids, which of them each topic's records name and how
many do, and the type that each topic's keys and values have: by their schemas, or where there are none by the values
themselves (JSON objects, text, or bytes).

The schemas are those of the topic _schemas beside the logs, or in --schemas. All records are read.

The exit code is 0, 1 if records name schemas that are not there or are damaged, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless schema /var/lib/kafka
  brokerless schema /var/lib/kafka -t orders --json | jq 'select(.table == "uses")'
  brokerless schema /backup/orders-0 --schemas schemas.jsonl
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_schemas(parser)
    add_jobs(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.typed.topic_type import Decoding
    from brokerless.typed.usage import report_schemas
    from brokerless.views.schemas import report_lines, report_rows

    partitions: list[PartitionPath] = output.partitions(options)
    decoding = Decoding(options.schemas, options.key_format or "auto", options.value_format or "auto")
    with progress("reading", sum(each.size for each in partitions)) as done:
        report = report_schemas(partitions, decoding, max_batch_bytes=options.max_batch_bytes, done=done)
    output.result(report_rows(report), report_lines(report))
    for finding in report.findings:
        output.damage(finding)
    output.problems(report.problems)
    output.note_findings(any(each["subject"] is None for each in report.uses()))
