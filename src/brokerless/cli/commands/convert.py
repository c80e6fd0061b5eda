"""``brokerless convert``: rewrites logs in another format, codec or batch size."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_remote
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import named_topics
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.writing import ConvertRequest, UploadRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.findings import not_written
from brokerless.views.table import format_number, format_span, segments_changed, table, where_written

if TYPE_CHECKING:
    from brokerless.jobs.convert.job import ConvertResult
    from brokerless.jobs.upload.job import UploadedPartition

DESCRIPTION = """\
Rewrites partitions in another message format, codec or batch size, as new partitions that a broker can serve.

Offsets, timestamps, keys and values never change; topic IDs, leader epochs, log start and end offsets stay. What an
older format cannot hold (headers, transactions, ...) is left out, counted and reported. Without --batch-size, batches
keep their boundaries and headers, and those that need no change are copied. Segments begin at the same offsets as
before, unless --segment-bytes is used or they would be too large; changes are reported.

Kafka's own topics (__consumer_offsets and the like) are copied unchanged unless --topic names them; KRaft's own log
(__cluster_metadata) always is. Of a whole log directory, meta.properties is copied last, so that a broker starts on the
result; several log directories get a directory of their own name each in the new one. Existing partitions are never
changed. A damaged partition is reported and not written: use brokerless salvage.

With --tiered, batches stay byte for byte, and become remote segments in a bucket, as brokers with tiered storage write
them (Aiven's plugin): each segment with its log, indexes and manifest, from where the log's segments begin. Kafka's own
topics are left out unless they are named. rebuild --from-bucket makes a cluster of it.

--manifest records what was read and written in a file of JSON Lines, with sizes and SHA-256 hashes. The same command
with the same manifest resumes a run that was stopped: it skips partitions that are done and unchanged.

The exit code is 0, 1 if there is damage, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless convert /var/lib/kafka --to converted --codec zstd --dry-run
  brokerless convert /var/lib/kafka --to converted --codec zstd --level 12 --batch-size 128KiB
  brokerless convert /backup/orders-0 --to old --format v1 --codec gzip --isolation read_committed
  brokerless convert /backup -t orders --to s3://bucket/tiered --tiered
  brokerless convert /backup --to converted --codec zstd --manifest converted.jsonl --spark spark://host:7077
"""
_NAMES = ("partition", "offsets", "batches", "to", "records", "to", "size", "to")


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, ConvertRequest)
    help_of_tiered = "write remote segments of tiered storage (Aiven's plugin), byte for byte, into the bucket of --to"
    parser.add_argument("--tiered", action="store_true", help=help_of_tiered)
    fields = ("to", "segment_bytes", "dry_run", "max_batch_bytes", "spark")
    add_request(parser, UploadRequest, without=fields)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.convert.job import conversion_of, convert, opened_manifest, plan

    if options.tiered:
        _upload(options, output)
        return
    if options.compress or options.public_keys:
        raise UsageError("--compress and --public-key are for --tiered")
    request = request_of(ConvertRequest, options)
    requested = (request.message_format, request.codec, request.batch_size, request.segment_bytes)
    if all(each is None for each in requested):
        raise UsageError("nothing to convert; use --format, --codec, --batch-size or --segment-bytes")
    conversion = conversion_of(request)
    sources = output.sources(options)
    named = named_topics((each for source in sources for each in source.partitions), options)
    results: list[ConvertResult] = []
    with opened_manifest(request, conversion) as manifest:
        planned = plan(sources, request.to, conversion, named, manifest=manifest)
        if manifest is not None and planned.finished:
            count = len(planned.finished) + len(planned.tasks)
            output.say(f"{len(planned.finished):,} of {count:,} partitions are done, as {manifest.path} says")
            if options.json:
                output.objects({**manifest.recorded_task(each).result, "isFinished": True} for each in planned.finished)
        with progress("reading", planned.size) as done:
            running = RunOptions(done, request.spark, output.say)
            for result in convert(planned, output.damage, running, manifest=manifest):
                results.append(result)
                if result.has_other_segments:
                    output.say(segments_changed(result.task.name, result.task.base_offsets, result.base_offsets))
                if options.json:
                    output.objects([result.as_dict()])
    if not options.json and planned.finished and not planned.tasks:
        output.prose("nothing is left to do")
    elif not options.json:
        _show(output, results, options)


def _upload(options: Namespace, output: Output) -> None:
    """Writes remote segments, byte for byte."""
    from brokerless.jobs.upload.job import UploadOptions, plan_upload, target_of, upload

    others = (options.message_format, options.codec, options.level, options.batch_size, options.manifest)
    if any(each is not None for each in others) or options.isolation != "read_uncommitted":
        raise UsageError("--tiered writes batches byte for byte; convert them first, or leave out the other options")
    request = request_of(UploadRequest, options)
    how = UploadOptions.of(request)
    sources = output.sources(options)
    named = named_topics((each for source in sources for each in source.partitions), options)
    tasks = plan_upload(sources, target_of(request), how, named)
    results: list[UploadedPartition] = []
    with progress("reading" if how.dry_run else "reading and storing", sum(each.size for each in tasks)) as done:
        for each in upload(tasks, output.damage, RunOptions(done, request.spark, output.say)):
            results.append(each)
            if each.damages:
                output.say(not_written(each.name, each.source, each.damages))
    written = [each for each in results if not each.damages]
    cells = [_uploaded_cells(each) for each in written]
    columns = ("partition", "offsets", "records", "segments", "size", "stored")
    stored = sum(bool(each.segments) for each in written)
    what = where_written(options.to, dry_run=how.dry_run, has_any=stored > 0)
    empty = f", {len(written) - stored:,} without records" if stored < len(written) else ""
    lines = [*table(columns, cells, right=columns[2:]), "", f"{count_of(stored, 'partition')}{empty}: {what}"]
    output.result([each.as_dict() for each in results], lines)


def _uploaded_cells(each: UploadedPartition) -> list[str]:
    counts, sizes = (each.records, len(each.segments)), (each.size, each.stored_size)
    offsets = format_span(each.start_offset, each.end_offset)
    return [each.name, offsets, *map(format_number, counts), *map(format_bytes, sizes)]


def _show(output: Output, results: list[ConvertResult], options: Namespace) -> None:
    from brokerless.jobs.convert.job import LEFT_OUT

    written = [each for each in results if not each.damages]
    output.prose(*table(_NAMES, [_cells(each) for each in written], right=_NAMES[2:]))
    lost = [
        [each.task.name, format_number(count), LEFT_OUT[name]]
        for each in written
        for name, count in each.totals.lost.items()
    ]
    if lost:
        output.prose("", *table(("partition", "count", "not carried over"), lost, right=("count",)))
    if options.isolation != "read_committed" and any(each.totals.lost["transactions"] for each in written):
        output.say("aborted records, if any, are included; --isolation read_committed leaves them out")
    for each in results:
        if each.damages:
            output.say(not_written(each.task.name, each.task.source.path, each.damages))
    what = where_written(options.to, dry_run=options.dry_run, has_any=bool(written))
    before = sum(each.totals.bytes_in for each in written)
    after = sum(each.totals.bytes_out for each in written)
    partitions = count_of(len(written), "partition")
    output.prose("", f"{partitions}, {format_bytes(before)} to {format_bytes(after)}: {what}")


def _cells(each: ConvertResult) -> list[str]:
    totals = each.totals
    counts = (totals.batches_in, totals.batches_out, totals.records_in, totals.records_out)
    sizes = (totals.bytes_in, totals.bytes_out)
    offsets = format_span(each.start_offset, each.end_offset)
    return [each.task.name, offsets, *map(format_number, counts), *map(format_bytes, sizes)]
