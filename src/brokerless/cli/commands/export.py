"""``brokerless export``: writes records to Parquet, Iceberg or Delta, and goes on there next time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_catalog, add_decode, add_remote, catalog, decoding
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import named_topics
from brokerless.jobs.run.types import RunOptions
from brokerless.log import names
from brokerless.requests.writing import ExportRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.table import where_written

if TYPE_CHECKING:
    from brokerless.jobs.export.commit import ExportedPartition

DESCRIPTION = """\
Writes records to Parquet files that Spark, pandas, DuckDB and others read as one table, by topic; or to tables of
Iceberg or Delta, one for each topic.

The files are DIRECTORY/topic=NAME/*.parquet; with --by-date, DIRECTORY/topic=NAME/date=2026-11-21/*.parquet (the
record's timestamp, UTC). The columns are those of a record: key and value as bytes, headers, partition, offset,
timestamp, timestampType; the topic (and date) are in the path. With --decode, key and value have the types of their
schemas, and keyRaw, keyError, valueRaw and valueError hold what could not be decoded, and why. Control records are left
out, and so are Kafka's own topics (__consumer_offsets and the like), unless --topic names them. brokerless load is the
way back.

With --as iceberg or delta, a topic's table has its name, with _ for what is no letter, digit or _. Its columns are key
and value (typed with --decode), and the struct kafka: topic, partition, offset, timestamp, timestampRaw (milliseconds,
where timestamp is null), timestampType, headers. It is partitioned by day. Each run is one commit for each topic, which
records the offsets that it covers; when a topic's schema evolves, the table's does. Iceberg's tables are in the
catalogue that --catalog and --catalog-property name as pyiceberg does, without both in DIRECTORY/catalog.db (SQLite,
named brokerless); with a catalogue that says where its tables are, --to may be left out. Delta's tables are
DIRECTORY/NAME.

Each topic's directory, or table, records what was exported: another run exports only what is new, nothing twice, and
repairs what an interrupted run left. A damaged batch is left out and reported; a later run on a copy that has it intact
fills it in.

Of several topics, one that cannot go where it should is reported, and the others go on.

The exit code is 0, 1 if there is damage or a topic is left out, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless export /var/lib/kafka --to exported --topic orders
  brokerless export /var/lib/kafka --to s3://bucket/exported --by-date --isolation read_committed
  brokerless export /var/lib/kafka --to tables --topic orders --decode
  brokerless export /var/lib/kafka --to lake --as iceberg --decode
  brokerless export /var/lib/kafka --as iceberg --catalog prod --namespace raw --topic orders --decode
  brokerless export /var/lib/kafka --to s3://bucket/lake --as delta --isolation read_committed
  brokerless export /backup/orders-0 --to exported --compression snappy --file-bytes 1GiB --dry-run
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, ExportRequest, without=("catalog",), to=None)
    add_catalog(parser)
    add_decode(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.export.job import export
    from brokerless.jobs.export.plan import plan_topics
    from brokerless.jobs.export.tasks import settings_of
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.export import exported_row

    own = catalog(options, options.as_)
    request = request_of(ExportRequest, options, catalog=own, decode=decoding(options))
    requested = settings_of(request)
    partitions = output.partitions(options)
    output.refuse_unusable("nothing was written")
    named = named_topics(partitions, options)
    internal = sorted({each.topic or "" for each in partitions if names.is_internal(each.topic)} - named)
    if internal:
        output.say(f"left out Kafka's own topics; name them with --topic to export them: {', '.join(internal)}")
        partitions = [each for each in partitions if each.topic not in internal]
    target = None if options.to is None else Location(options.to)
    planned = plan_topics(partitions, options.paths, target, export=requested, report=output.damage)
    exported: list[ExportedPartition] = []
    for (topic, partition), spans in planned.left_out.items():
        for first, after in spans:
            name, offsets = names.partition_directory(topic, partition), _offsets(first, after - 1)
            output.say(f"{name}: an earlier run left out {offsets}, and here they are damaged, too")
    if empty := planned.without_table:
        text = "there is nothing to read yet, and a table is made with the first records"
        output.say(f"no table is written of {', '.join(empty)}: {text}")
    with progress("reading", sum(task.size for task in planned.tasks)) as done:
        for each in export(planned, output.damage, RunOptions(done, request.spark, output.say)):
            exported.append(each)
            _report_left_out(output, each)
            if options.json:
                output.objects([exported_row(each, dry_run=options.dry_run)])
    if not options.json:
        _show(output, exported, planned.unchanged, options)


def _report_left_out(output: Output, each: ExportedPartition) -> None:
    name = names.partition_directory(each.topic, each.partition)
    for first, last in each.left_out:
        if last is None:
            output.say(f"{name}: nothing was exported from offset {first} on; the next run tries again from there")
        else:
            text = "are damaged and were left out; a run on an intact copy fills them in"
            output.say(f"{name}: {_offsets(first, last)} {text}")
    for first, after in each.filled:
        text = "were missing or damaged in an earlier run and are exported now"
        output.say(f"{name}: offsets {first} to {after - 1} {text}")
    if not each.left_out and each.next_offset < each.end_offset:
        output.say(f"{name}: offsets {each.next_offset} to {each.end_offset - 1} wait for an open transaction to end")


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _show(output: Output, exported: list[ExportedPartition], unchanged: int, options: Namespace) -> None:
    from brokerless.views.jobs.export import exported_lines

    if new := [each for each in exported if each.has_more or each.left_out]:
        output.prose(*exported_lines(new), "")
    records, files = sum(each.records for each in exported), sum(len(each.files) for each in exported)
    if not files:
        output.prose(f"nothing new in {count_of(unchanged + len(exported), 'partition')}, so nothing was written")
        return
    to = options.to or ", ".join(dict.fromkeys(each.table or "" for each in exported))
    what = where_written(to, dry_run=options.dry_run)
    also = f", nothing new in {count_of(unchanged, 'partition')}" if unchanged else ""
    size_text = format_bytes(sum(each.size for each in exported))
    counts = f"{count_of(records, 'record')} of {count_of(len(exported), 'partition')} in {count_of(files, 'file')}"
    output.prose(f"{counts}, {size_text}{also}: {what}")
