"""``brokerless pipeline``: log directories to tables, again and again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from brokerless.cli.options import (
    add_catalog,
    add_decode,
    add_max_batch_bytes,
    add_remote,
    add_spark,
    add_tiered,
    catalog,
    decoding,
)
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.values import positive, size
from brokerless.kafka_names import COMPRESSION_TYPES, ISOLATION_LEVELS

DESCRIPTION = """\
Keeps tables of what is in log directories: finds what is new, verifies it, exports it, and reports.

A PATH is a log directory, or a directory with log directories in it, such as nightly backups or the disks of several
brokers; of copies of a partition, the one that leaves least out is exported, and what is in another one later is added.
Each topic becomes a table below --to: of Iceberg or Delta, as brokerless export --as makes it, or Parquet files.
Three more tables are the figures of each run (runs), findings, and the ranges of files and offsets that no reader gets
(damaged): in the namespace kafka_pipeline, or in the directory _brokerless-pipeline, where the page report.html is.

Each run does what is new and nothing else: a segment is verified once, a record is exported once. A run that was
killed is continued by the next one. Settings may be in a YAML file, under the names of these options; those given here
come first. On a cluster: --spark, or spark-submit of brokerless/spark/pipeline.py with such a file.

The exit code is 0, 1 if this run found errors or damaged ranges for the first time, and 2 for wrong settings or a path
that cannot be opened.
"""
EXAMPLES = """\
  brokerless pipeline /var/lib/kafka --to tables
  brokerless pipeline s3://backups/kafka --to s3://lake/kafka --isolation read_committed --spark spark://host:7077
  brokerless pipeline --settings pipeline.yaml
  brokerless pipeline /var/lib/kafka --to tables --follow 60
"""


def add_paths(parser: ArgumentParser) -> None:
    help_of_path = "log directories, or directories with log directories in them; local, or URLs such as s3://bucket"
    parser.add_argument("paths", nargs="*", metavar="PATH", help=help_of_path)
    add_tiered(parser)
    add_remote(parser)


def add_options(parser: ArgumentParser) -> None:
    from brokerless.jobs.pipeline.forms import FORMS

    add = parser.add_argument
    add("--to", metavar="DIRECTORY", help="directory or URL of the tables; created if it does not exist")
    add("--settings", metavar="FILE", help="a YAML file with these options, a line each, as in file-bytes: 1GiB")
    help_of_topic = "only this topic, or topics, as 'click*' (with * ? [...]); can be repeated"
    add("-t", "--topic", action="append", default=[], metavar="NAME", help=help_of_topic)
    add("--exclude", action="append", default=[], metavar="NAME", help="not this topic, or topics; can be repeated")
    add("--as", dest="form", choices=FORMS, help=f"format of the tables (default: {FORMS[0]})")
    add_catalog(parser)
    help_of_isolation = "read_committed leaves out aborted records (default: read_uncommitted)"
    add("--isolation", choices=ISOLATION_LEVELS, help=help_of_isolation)
    add("--by-date", action="store_true", help="Parquet: a directory for each date of the records' timestamps (UTC)")
    add("--compression", choices=COMPRESSION_TYPES, help="compression within the files (default: zstd)")
    add("--file-bytes", type=size, metavar="SIZE", help="about how large a file gets (default: 256MiB)")
    add_decode(parser)
    add("--no-verify", action="store_true", help="export without verifying before")
    add("--no-report", action="store_true", help="write no page")
    add("--follow", type=positive, metavar="SECONDS", help="go on until stopped, with a run each so many seconds")
    add_spark(parser)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.pipeline.job import follow, run_pipeline
    from brokerless.jobs.pipeline.settings import load_settings, make_settings
    from brokerless.log.tiered.options import tiered_options
    from brokerless.views.findings import root_of
    from brokerless.views.jobs.pipeline import run_lines, run_objects

    found = {} if options.settings is None else load_settings(options.settings)
    storage = found.get("storage_options") or {}
    tiered = dict(options.key_pair), options.layout, options.remote
    found["storage_options"] = tiered_options(storage, *tiered)
    settings = make_settings(found | _given(options))
    every_s = options.follow or settings.follow_s
    if every_s is None:
        runs = iter([run_pipeline(settings, phase=progress, say=output.say)])
    else:
        runs = follow(settings, every_s, phase=progress, say=output.say)
    for each in runs:
        if options.json:
            output.objects(run_objects(each))
        elif every_s is None or each.is_new:
            output.prose(*run_lines(each, settings.to, root_of(settings.paths)))
        is_unread = any(found.is_unread for found in each.findings)
        output.note_findings(bool(each.counts["error"] or each.ranges or is_unread))
        output.flush()


def _given(options: Namespace) -> dict[str, Any]:
    """The settings that the command line has."""
    given: dict[str, Any] = {
        "paths": tuple(options.paths),
        "topic": tuple(options.topic),
        "exclude": tuple(options.exclude),
        "decoding": decoding(options),
        "catalog": catalog(options),
    }
    names = ("to", "form", "isolation", "by_date", "compression", "file_bytes", "spark", "max_batch_bytes")
    given |= {name: getattr(options, name) for name in names}
    given = {name: value for name, value in given.items() if value}
    given |= {name: False for name in ("verify", "report") if getattr(options, f"no_{name}")}
    return given
