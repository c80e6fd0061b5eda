"""``brokerless load``: writes Parquet or JSON Lines into new partitions."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from brokerless.cli.options import (
    FORMATS,
    add_batch_settings,
    add_dry_run,
    add_json_bytes,
    add_manifest,
    add_segment_bytes,
    add_spark,
    add_to,
)
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.values import count, size, size_or_0
from brokerless.errors import UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.text import count_of, format_bytes
from brokerless.views.table import format_number, table, where_written

if TYPE_CHECKING:
    from io import BufferedReader

    from brokerless.interchange.input_files import InputFiles
    from brokerless.jobs.load.loader import BeforeCommit, Loaded, LoadedPartition
    from brokerless.log.commit.types import StagedPartition

DESCRIPTION = """\
Writes records from Parquet or JSON Lines into new partitions, which a broker can serve.

The columns (or members) are those of cat --json: value, and optionally key, headers, topic, partition, offset,
timestamp and timestampType. Offsets and timestamps are kept, including gaps; offsets have to rise within each
partition. Without them, offsets are counted and the time is now. A record without a partition goes where Kafka's
producers would send its key. Without a column for the topic (or partition), it is taken from the path, as export and
Spark write it: exported/topic=orders/date=2026-11-21/... The members file, batchPosition and sequence are ignored, and
control records are left out.

In the log directory of a stopped broker, topics get the IDs that its cluster knows. Kafka's own topics are refused
unless --topic names one; KRaft's own log (__cluster_metadata) always is. A directory in use by a broker is refused.
Partitions appear under their names only at the end: after an error, there are none. Existing ones are never changed.

The exit code is 0 if all was written, and 2 if nothing was.
"""
EXAMPLES = """\
  brokerless load orders.parquet --to restored --topic orders --partitions 12 --codec zstd
  brokerless load exported --to restored
  brokerless load exported/topic=orders exported/topic=clicks --to restored
  brokerless cat /backup/orders-0 --json | brokerless load - --to restored --codec lz4
  brokerless load events.jsonl --to restored --topic events --start-offset 1000 --dry-run
  brokerless load /lake/orders --to /restored --partitions 12 --spark spark://host:7077
"""
_PATHS_HELP = (
    "a Parquet file, a file of JSON Lines, or a directory of such files, local or a URL; - for JSON Lines from stdin"
)
_TOPIC_HELP = "the topic of all records, whatever their column says; required if there is no such column or path"
_TOPIC_ID_HELP = (
    "the topic's ID, as kafka-topics --describe shows it (that of its existing partitions, of the cluster's metadata "
    "in the directory, or of an export; else a random one)"
)
_PARTITIONS_HELP = "how many partitions the topic has, for records without a partition (1)"
_TASK = "load"
_COLUMNS = ("partition", "records", "size", "offsets")
_OF_NO_BROKER = (
    "has no meta.properties and no metadata of a cluster, so no broker starts on it. To serve these partitions, create "
    "the topics on a cluster, stop its broker, move their empty partitions away, and load into its log directory, "
    "where topics get the IDs that the cluster knows"
)
_TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
_MAX_LINE_HELP = (
    "how long one line of JSON may be, as 500MB or 1GiB (64MiB); a longer one is refused, as it would fill the memory"
)


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="FILE", help=_PATHS_HELP)


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add_to(parser)
    add("-t", "--topic", metavar="NAME", help=_TOPIC_HELP)
    add("--topic-id", metavar="ID", help=_TOPIC_ID_HELP)
    number = parser.add_mutually_exclusive_group()
    number.add_argument("-p", "--partition", type=count, metavar="N", help="the partition of all records")
    number.add_argument("--partitions", type=count, metavar="N", help=_PARTITIONS_HELP)
    help_of_size = "batch.size of the producer; 0 for one record per batch (default: 16KiB)"
    add_batch_settings(parser, codec="none", message_format="v2", batch_size=help_of_size)
    add_segment_bytes(parser)
    add("--index-interval-bytes", type=size_or_0, metavar="SIZE", help="index.interval.bytes (default: 4KiB)")
    help_of_type = "message.timestamp.type, if there is no such column (default: CreateTime)"
    add("--timestamp-type", choices=_TIMESTAMP_TYPES, default="CreateTime", help=help_of_type)
    add("--timestamp", type=count, metavar="MS", help="for records without one, in ms since 1970 (now, if "
        "there is no such column; a null in the column is refused without this)")  # fmt: skip
    add(
        "--start-offset",
        type=count,
        default=0,
        metavar="N",
        help="the first offset, if there is no such column (default: 0)",
    )
    add_json_bytes(parser)
    add("--max-line-bytes", type=size, metavar="SIZE", help=_MAX_LINE_HELP)
    add_dry_run(parser)
    add_manifest(parser)
    add_spark(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.interchange.input_files import InputFiles
    from brokerless.jobs.load.job import load_files
    from brokerless.jobs.load.loader import Loading
    from brokerless.jobs.load.routing import Routing
    from brokerless.log.commit.partition_writer import allow_many_files
    from brokerless.log.config import LogConfig
    from brokerless.log.storage.location import Location
    from brokerless.tables.batcher import BATCH_SIZE, BatchSettings

    allow_many_files()
    sizes = {"segment_bytes": options.segment_bytes, "index_interval_bytes": options.index_interval_bytes}
    config = LogConfig(**{name: value for name, value in sizes.items() if value is not None})
    settings = BatchSettings(
        options.codec,
        options.level,
        BATCH_SIZE if options.batch_size is None else options.batch_size,
        message_format=FORMATS.index(options.format),
        message_timestamp_type=options.timestamp_type,
    )
    placement = Routing(
        options.topic,
        options.partition,
        options.partitions,
        start_offset=options.start_offset,
        timestamp=options.timestamp,
        topic_id=options.topic_id,
    )
    stdin = cast("BufferedReader | None", getattr(sys.stdin, "buffer", None))
    inputs = InputFiles(options.paths, options.bytes, stdin, options.max_line_bytes)
    with (
        _recorded(options, inputs, (placement, settings, config)) as before_commit,
        progress("reading", inputs.size) as done,
    ):
        if isinstance(before_commit, list):
            rows = ({**each, "isFinished": True} for each in before_commit)
            output.result(rows, ["nothing is left to do"])
            return
        loaded = load_files(
            inputs,
            Location(options.to),
            Loading(placement, settings, config, options.dry_run),
            RunOptions(done, options.spark, output.say),
            before_commit=before_commit,
        )
    if loaded.control_records:
        output.say(f"{loaded.control_records} control records were left out")
    if loaded.unknown:
        output.say(
            f"the cluster's metadata in {options.to} does not know {', '.join(loaded.unknown)}: a broker makes "
            "them strays and does not serve them. Create the topics on the cluster first, with as many partitions"
        )
    if options.json:
        output.objects(map(_as_dict, loaded.partitions))
        return
    _show(output, loaded, options)


def _show(output: Output, loaded: Loaded, options: Namespace) -> None:
    rows = [_cells(each) for each in loaded.partitions]
    output.prose(*table(_COLUMNS, rows, right=("records", "size")))
    what = where_written(options.to, dry_run=options.dry_run, has_any=bool(rows))
    records, partitions = sum(each.records for each in loaded.partitions), len(loaded.partitions)
    output.prose(f"{count_of(records, 'record')} in {count_of(partitions, 'partition')}: {what}")
    if rows and _is_of_no_broker(options):
        output.prose(f"{options.to} {_OF_NO_BROKER}")


def _is_of_no_broker(options: Namespace) -> bool:
    return not options.dry_run and not (Location(options.to) / names.META_PROPERTIES).exists()


@contextmanager
def _recorded(
    options: Namespace, inputs: InputFiles, how: tuple[Any, ...]
) -> Generator[BeforeCommit | list[dict[str, Any]] | None]:
    """A function that records in the manifest, if there is one, what is read and written; or the partitions of an
    earlier run that loaded the same."""
    from brokerless.interchange.input_files import STDIN
    from brokerless.jobs.load.loader import LoadSettings
    from brokerless.jobs.manifest import JobManifest, ManifestTask, describe_directory, describe_file, entry_of
    from brokerless.log.commit.partition_writer import output_directory
    from brokerless.log.storage.paths import full_path

    if options.manifest is None:
        yield None
        return
    if STDIN in inputs.files:
        raise UsageError("--manifest cannot resume from stdin; use files")
    to = output_directory(Location.of(options.to))
    entries = [entry_of(Location(path)) for path in inputs.files]
    settings = LoadSettings(full_path(options.to), options.bytes, *how)
    with JobManifest.open(options.manifest, "load", settings, dry_run=options.dry_run) as manifest:

        def before_commit(loaded: Loaded, partitions: Sequence[StagedPartition]) -> None:
            written = [file for each in partitions for file in describe_directory(to, each.directory, each.name)]
            result = {"partitions": [_as_dict(each) for each in loaded.partitions]}
            manifest.add(ManifestTask(_TASK, tuple(map(describe_file, entries)), tuple(written), result))

        if manifest.is_done(_TASK, entries):
            partitions = manifest.recorded_task(_TASK).result.get("partitions")  # anything may be in a manifest
            yield [each for each in partitions if isinstance(each, dict)] if isinstance(partitions, list) else []
            return
        change = manifest.change(_TASK, entries)
        if change is not None:
            raise UsageError(
                f"{change}, since these were loaded, as {manifest.path} says; load them into another directory with "
                f"another manifest, or remove the partitions that it lists from {options.to} to load them again"
            )
        yield before_commit


def _cells(each: LoadedPartition) -> list[str]:
    size, offsets = format_bytes(each.size_in_bytes), f"{each.first_offset}..{each.last_offset}"
    return [f"{each.topic}-{each.partition}", format_number(each.records), size, offsets]


def _as_dict(each: LoadedPartition) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "records": each.records,
        "firstOffset": each.first_offset,
        "lastOffset": each.last_offset,
        "sizeInBytes": each.size_in_bytes,
    }
