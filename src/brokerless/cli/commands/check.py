"""``brokerless check``: tries whether a backup has all that its snapshots name."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.commands.snapshots import add_paths
from brokerless.cli.options import add_metrics, refuse_metrics, write_metrics
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.requests.backups import CheckRequest

DESCRIPTION = """\
Checks that every object that the snapshots of a backup name is there, in the size that was stored.

With --read all, all objects are read, and their bytes compared with the hashes in the snapshots; of segments that are
not encrypted, the batches as well. No key is needed. With --read 50GB, a run reads so much: what was wrong first, then
what was never read, then what was read longest ago, so that a timer's runs take turns over a large backup. What was
read when is in the backup itself (.brokerless/checks), as Parquet files; this needs the right to write there.

URL is the place that backup wrote to, or URL@SNAPSHOT for one of its snapshots. Objects that no snapshot names are
counted: runs that were interrupted leave them.

With --seal, what snapshots --seal wrote has to be there, or to be forgotten, or replaced by an erasure, which is said.

The exit code is 0 if all is as it was stored, 1 if anything is missing or differs, and 2 if there is no backup.
"""
EXAMPLES = """\
  brokerless check s3://backup/kafka
  brokerless check s3://backup/kafka@latest --read all
  brokerless check s3://backup/kafka --read 50GB --metrics check.prom
  brokerless check s3://backup/kafka --read all --spark spark://host:7077
  brokerless check s3://backup/kafka --seal seal.json --trust sign.public.pem
"""

__all__ = ["DESCRIPTION", "EXAMPLES", "add_options", "add_paths", "run"]


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, CheckRequest)
    add_metrics(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.check.job import check_backup
    from brokerless.jobs.check.seal import public_keys
    from brokerless.jobs.run.job import with_rate
    from brokerless.jobs.run.types import RunOptions
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup import check_lines, check_row
    from brokerless.views.metrics import check_metrics

    refuse_metrics(options)
    with progress("reading" if options.read else "listing") as done:
        running = with_rate(RunOptions(done, options.spark, output.say), options.rate)
        result = check_backup(
            Location.of(options.paths[0]), options.read,
            seal=options.seal, trusted=public_keys(options.trust), running=running,
        )  # fmt: skip
    output.shown(result.findings)
    rows = [*(each.as_dict() for each in result.findings), check_row(result)]
    output.result(rows, check_lines(result))
    write_metrics(options, lambda: check_metrics(result, output.exit_code))
