"""``brokerless batches``: lists the batches of a log by their headers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.options import add_max_batch_bytes, add_remote
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.errors import UnreadableError
from brokerless.text import show_name

DESCRIPTION = """\
Batch headers, in file order. In message formats v0 and v1, every message and wrapper message is a batch.

All batches of the files are listed, including those before the log start offset. A batch with a wrong checksum is
listed, and counts as damage.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless batches /var/lib/kafka/orders-0
  brokerless batches --json /var/lib/kafka/orders-0 | jq 'select(.isTransactional) | .producerId'
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.interchange import jsonl_writer
    from brokerless.tables.partition_tables import read_batches
    from brokerless.views import headers

    partitions = output.partitions(options)
    with progress("reading", sum(each.size for each in partitions)) as done:
        for partition in partitions:
            file = None
            try:
                for batch in read_batches(
                    [partition], max_batch_bytes=options.max_batch_bytes, on_damage=output.damage, done=done
                ):
                    if not options.json and batch["file"][0].as_py() != file:
                        file = batch["file"][0].as_py()
                        output.prose(f"{show_name(file)}:")
                        output.write([headers.names()])
                    output.write(jsonl_writer.rows(batch) if options.json else headers.lines(batch))
            except UnreadableError as error:
                output.unreadable(error)
    left_out = headers.left_out()
    if left_out and not options.json:
        output.prose(f"(--wide shows {', '.join(left_out)} as well)")
