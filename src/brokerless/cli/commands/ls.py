"""``brokerless ls``: lists the partitions of a log directory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.options import add_as_it_lies, add_max_batch_bytes, add_remote, add_timezone
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.selection import is_narrowed
from brokerless.text import show_name

DESCRIPTION = """\
A line for each partition: its segments, records, bytes, offsets, times, message formats and codecs.

Only batch headers are read, so gigabytes take a moment. Records are counted as the headers declare them, without
control records and from the log start offset on: as many as brokerless cat prints. Segments, batches and bytes are
those of the files. --include deleted also counts deleted records; with it, and with --include delete, segments that
wait for their deletion (*.deleted) have lines of their own. Of a deleted topic, --include delete shows what is still
there, and how long it stays. A last line says what is left out: partitions whose
directories are future, delete or stray.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless ls /var/lib/kafka
  brokerless ls /var/lib/kafka --include delete
  brokerless ls --segments /var/lib/kafka/orders-0
  brokerless ls --topics --json /var/lib/kafka | jq .sizeInBytes
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_as_it_lies(parser)
    by = parser.add_mutually_exclusive_group()
    by.add_argument("--segments", dest="by", action="store_const", const="segment", help="a line for each segment")
    by.add_argument("--topics", dest="by", action="store_const", const="topic", help="a line for each topic")
    parser.set_defaults(by="partition")
    add_timezone(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.views import listing

    above = ""
    logs = [(log, output.chosen(log, options)) for log in output.open(options)]
    with progress("reading headers", sum(each.size for _, partitions in logs for each in partitions)) as done:
        for log, partitions in logs:
            if not partitions and is_narrowed(options):
                continue
            rows = listing.rows(
                partitions,
                options.by,
                output.damage,
                output.unreadable_within,
                done,
                deleted=not {"delete", "deleted"}.isdisjoint(options.include),
                max_batch_bytes=options.max_batch_bytes,
            )
            if options.json:
                output.objects(rows)
                continue
            if len(options.paths) > 1:
                output.prose(f"{above}{show_name(log.path)}:")
                above = "\n"
            output.prose(*listing.lines(rows, options.by, options.timezone))
            output.prose(*listing.deletion_lines((each for each in partitions), options.timezone))
            if not is_narrowed(options):
                output.prose(*listing.left_out_lines(log.directory))
