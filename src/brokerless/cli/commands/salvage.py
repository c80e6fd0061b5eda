"""``brokerless salvage``: writes all that is intact into a new log directory."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_remote
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.writing import SalvageRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.table import segments_changed, where_written

if TYPE_CHECKING:
    from brokerless.jobs.salvage.job import SalvageResult

DESCRIPTION = """\
Copies every intact batch of damaged partitions to new partitions, and reports what is lost.

A batch is intact if it is complete, has the right checksum and decodes, wherever the damage is. Offsets never change:
missing ones stay a gap, and duplicates are taken once. For each loss, the report has offsets, bytes, time range and
cause. A broker can serve the result. Segments begin at the same offsets as before, unless --segment-bytes is used or
nothing is left of one; changes are reported. The source is never written to. Several log directories get a directory
of their own name each in the new one.

--as parquet writes the records that a consumer would get as Parquet files, like brokerless export:
DIRECTORY/topic=NAME/*.parquet. --include delete also reads files that wait for their deletion (*.deleted, *-delete).
If not even the directories are left, only the bytes of a disk, use brokerless carve.

The exit code is 0 if nothing is lost, 1 if something is, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless salvage /mnt/broken --to saved --dry-run
  brokerless salvage /mnt/broken --to saved
  brokerless salvage /mnt/broken --to saved --include delete,stray --json
  brokerless salvage /mnt/broken --to tables --as parquet
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, SalvageRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.salvage.job import plan, salvage, settings_of
    from brokerless.views.jobs.salvage import row

    request = request_of(SalvageRequest, options, include=options.include)
    how = settings_of(request)
    sources = output.sources(options)
    planned = plan(sources, request.to, how, request.include)
    results: list[SalvageResult] = []
    total = planned.size * (1 if options.dry_run else 2)
    with progress("reading" if options.dry_run else "reading and writing", total) as done:
        for result in salvage(planned, output.damage, RunOptions(done, request.spark, output.say)):
            results.append(result)
            if result.has_other_segments:
                output.say(segments_changed(result.task.name, result.live_base_offsets, result.base_offsets))
            if options.json:
                output.objects([row(result)])
    output.note_findings(any(result.losses for result in results))
    if not options.json:
        _show(output, results, options)


def _show(output: Output, results: list[SalvageResult], options: Namespace) -> None:
    from brokerless.views.jobs.salvage import loss_lines, partition_lines

    output.prose(*partition_lines(results))
    losses = list(loss_lines([(each.task.name, loss) for each in results for loss in each.losses]))
    output.prose(*(["", *losses] if losses else ()))
    partial = sum(each.partial for each in results)
    if partial:
        output.say(f"batches of which only some records were saved: {partial:,}")
    what = where_written(options.to, dry_run=options.dry_run)
    partitions = count_of(len(results), "partition")
    output.prose(f"\n{partitions}, {format_bytes(sum(each.bytes for each in results))}: {what}")
