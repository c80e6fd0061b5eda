"""``brokerless carve``: finds batches in any file or disk image, whatever is around them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.requests.recovery import CarveRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.table import where_written

DESCRIPTION = """\
Extracts batches from files of any content, such as the image of a disk, into new partitions.

A batch is taken if it is complete, has the right checksum and decodes, wherever in the file it begins. Batches are
grouped by their offsets, and each group becomes a partition carved-N (with --as parquet, Parquet files). The topic's
name is not in the batches; brokerless cat shows the records of a group. The source is never written to.

The exit code is 0, 1 if there is damage, and 2 for a file that cannot be opened.
"""
EXAMPLES = """\
  brokerless carve disk.img --to carved --dry-run
  brokerless carve disk.img --to carved
  brokerless carve /lost+found/* --to tables --as parquet
"""


def add_paths(parser: ArgumentParser) -> None:
    help_of_path = "a file of unknown content, such as the image of a disk; local or a URL"
    parser.add_argument("paths", nargs="+", metavar="FILE", help=help_of_path)


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, CarveRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.recovered.open_files import open_lone
    from brokerless.jobs.salvage.carve import Carved, carve, carvings_of, check
    from brokerless.views.jobs.salvage import carved_lines, carved_row

    request = request_of(CarveRequest, options, paths=options.paths)
    carvings = carvings_of(request, options.paths)
    total = 0
    for each in carvings:
        with open_lone(each.location) as file:
            total += file.size
    check(carvings)
    found: list[Carved] = []
    with progress("reading", total) as done:
        for carved in carve(carvings, output.damage, done):
            found.append(carved)
            if options.json:
                output.objects([carved_row(carved)])
    if not options.json:
        output.prose(*(carved_lines(found) if found else ()))
        what = where_written(options.to, dry_run=options.dry_run)
        carved_bytes = format_bytes(sum(each.bytes for each in found))
        ending = what if found else "no batches were found"
        output.prose(
            "\n" * bool(found) + f"{count_of(len(found), 'group')}, {carved_bytes} of {format_bytes(total)}: {ending}"
        )
