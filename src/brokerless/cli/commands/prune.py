"""``brokerless prune``: removes the objects of a backup that no snapshot names."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.commands.snapshots import add_paths
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.requests.backups import PruneRequest

DESCRIPTION = """\
Counts the objects of a backup that no snapshot names, as forget and interrupted runs leave them, and removes them with
--apply.

What was written within the last 48 hours stays, and so does what a snapshot names that was forgotten within them: runs
and readers that began before need it. Give a longer --grace where runs take longer. Nothing is removed while a snapshot
cannot be read, as nobody knows what it names: forget URL@SNAPSHOT takes it out. What Object Lock holds is listed with
its date, and stays until prune runs after that.

The exit code is 0, 1 if objects could not be removed, and 2 if there is no backup, or a snapshot cannot be read.
"""
EXAMPLES = """\
  brokerless prune s3://backup/kafka
  brokerless prune s3://backup/kafka --apply
"""

__all__ = ["DESCRIPTION", "EXAMPLES", "add_options", "add_paths", "run"]


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, PruneRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.forget.prune import prune
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup import prune_lines, prune_row

    with progress("listing objects"):
        result = prune(Location.of(options.paths[0]), grace_ms=options.grace * 3_600_000, apply=options.apply)
    output.problems(result.findings)
    output.note_findings(bool(result.held) and result.is_applied)
    output.result([prune_row(result)], prune_lines(result))
