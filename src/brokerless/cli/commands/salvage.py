from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.output import FINDINGS, UNUSABLE, Output
from brokerless.cli.parser import add_max_batch_bytes, add_segment_bytes, add_spark, log_config
from brokerless.cli.progress import progress
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UsageError
from brokerless.views.table import count_of, format_bytes, segments_changed

if TYPE_CHECKING:
    from brokerless.jobs.salvage.job import SalvageResult
    from brokerless.log.directory import PartitionPath

DESCRIPTION = """\
What is sound of damaged partitions, as clean partitions of a new log directory that a broker can serve, or as tables;
and what is lost: which offsets, how many bytes, from when to when, and why.

Every batch is taken that is whole, has the right checksum and decodes, also behind damage. Offsets never change, and
what is missing stays a hole. What is there twice is taken once. Segments begin where they began, unless --segment-bytes
is given or nothing is left of one; where that changes, it is said. Nothing is written to what is read.

With --as parquet, the records that a consumer would get become Parquet files, as brokerless export writes them:
DIRECTORY/topic=NAME/*.parquet.

With --include delete, log files that wait for their deletion (*.deleted, and directories *-delete) are read as well.

With --carve, a PATH is a file of unknown content, such as the image of a disk. Batches are carved out of its bytes and
grouped by their offsets; each group becomes a partition carved-N.

The exit code is 0 if nothing is lost, 1 if something is, and 2 for a path that cannot be read.
"""
EXAMPLES = """\
  brokerless salvage /mnt/broken --to saved --dry-run
  brokerless salvage /mnt/broken --to saved
  brokerless salvage /mnt/broken --to saved --include delete,stray --json
  brokerless salvage /mnt/broken --to tables --as parquet
  brokerless salvage --carve disk.img --to carved
"""


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--to", required=True, metavar="DIRECTORY", help="log directory or URL to write to; made if it is not there")
    add("--carve", action="store_true", help="the paths are files of unknown content, such as images of disks")
    add("--as", dest="form", choices=("segments", "parquet"), default="segments", help="what is written: a log that a "
        "broker can serve (segments), or Parquet files")  # fmt: skip
    add_segment_bytes(parser, kept=True)
    add("--partial", action="store_true", help="of batches whose checksum is right, but which break off inside, take "
        "the records before (v2)")  # fmt: skip
    add("--dry-run", action="store_true", help="do everything but writing, and say what would be lost")
    add_spark(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    from brokerless.format.codecs.inflate import DEFAULT_LIMIT
    from brokerless.jobs.salvage.job import Salvage, plan, salvage
    from brokerless.views.salvage import row

    parquet = options.form == "parquet"
    if parquet and options.segment_bytes is not None:
        raise UsageError("--segment-bytes: there are no segments with --as parquet")
    if options.carve:
        return _carve(options)
    output = Output()
    logs = list(output.open(options.paths, options.include))
    chosen = {each.paths.path for log in logs for each in output.chosen(log, options)}
    if output.exit_code == UNUSABLE:
        output.say("nothing was written")
        return output.end()

    def is_chosen(partition: PartitionPath) -> bool:
        return partition.path in chosen

    config = None if options.segment_bytes is None else log_config(options)
    how = Salvage(config, options.max_batch_bytes or DEFAULT_LIMIT, options.dry_run, options.partial, parquet)
    tasks = plan([log.directory for log in logs], options.to, how, is_chosen, options.include)
    results: list[SalvageResult] = []
    total = sum(task.size for task in tasks) * (1 if options.dry_run else 2)
    with progress("reading" if options.dry_run else "reading and writing", total) as done:
        for result in salvage(tasks, output.damage, done, spark=options.spark, say=output.say):
            results.append(result)
            if result.has_other_segments:
                output.say(segments_changed(result.task.name, result.live_base_offsets, result.base_offsets))
            if options.json:
                output.objects([row(result)])
    if any(result.losses for result in results):
        output.exit_code = max(output.exit_code, FINDINGS)
    if not options.json:
        _show(output, results, options)
    return output.end()


def _carve(options: Namespace) -> int:
    from brokerless.format.codecs.inflate import DEFAULT_LIMIT
    from brokerless.jobs.salvage.carve import Carved, Carving, carve, check
    from brokerless.log.commit.partition_writer import output_directory
    from brokerless.log.storage.paths import open_file
    from brokerless.views.salvage import carved_lines, carved_row

    if is_narrowed(options) or options.include or options.partial:
        raise UsageError("--carve reads bytes: it knows no topics, partitions or states, and only whole batches")
    output = Output()
    config = log_config(options)
    limit = options.max_batch_bytes or DEFAULT_LIMIT
    to = output_directory(options.to, options.paths)
    parquet = options.form == "parquet"
    carvings = [Carving(path, to, config, limit, options.dry_run, parquet=parquet) for path in options.paths]
    total = 0
    for each in carvings:
        with open_file(each.path) as file:
            total += file.size
    check(carvings)
    found: list[Carved] = []
    with progress("reading", total) as done:
        for carved in carve(carvings, output.damage, done):
            found.append(carved)
            if options.json:
                output.objects([carved_row(carved)])
    if not options.json:
        for line in carved_lines(found):
            output.line(line)
        what = "nothing was written, as in a dry run" if options.dry_run else f"written to {options.to}"
        carved_bytes = format_bytes(sum(each.bytes for each in found))
        ending = what if found else "no batches were found"
        output.line(f"\n{count_of(len(found), 'group')}, {carved_bytes} of {format_bytes(total)}: {ending}")
    return output.end()


def _show(output: Output, results: list[SalvageResult], options: Namespace) -> None:
    from brokerless.views.salvage import loss_lines, partition_lines

    for line in partition_lines(results):
        output.line(line)
    losses = list(loss_lines([(each.task.name, loss) for each in results for loss in each.losses]))
    for line in ["", *losses] if losses else []:
        output.line(line)
    partial = sum(each.partial for each in results)
    if partial:
        output.say(f"batches of which only the first records could be saved: {partial:,}")
    what = "nothing was written, as in a dry run" if options.dry_run else f"written to {options.to}"
    partitions = count_of(len(results), "partition")
    output.line(f"\n{partitions}, {format_bytes(sum(each.bytes for each in results))}: {what}")
