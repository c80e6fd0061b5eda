"""``brokerless forget``: removes snapshots of a backup by rules of what stays."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from brokerless.cli.commands.snapshots import add_paths
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.requests.backups import ForgetRequest

DESCRIPTION = """\
Shows which snapshots of a backup stay by rules, and why, and forgets the others with --apply.

Days, weeks, months and years are those of UTC; of each the newest snapshot stays. What fills a place of a rule is
complete, and has no partition that ends before the end of an earlier one; snapshots of some topics (-t) fill places of
their own. The newest complete one stays always, what is newer, and for 90 days the last one of a deleted topic.
With --trust, what fills a place is signed by one of these keys (backup --sign-key).

With URL@SNAPSHOT and no rule, that one is forgotten, also if it cannot be read.

Objects stay until prune removes those that no snapshot names. Until then the two files of a snapshot are in
.brokerless/forgotten, from where they can be moved back to .brokerless/snapshots.

The exit code is 0, 1 if a snapshot cannot be read or ends too early, and 2 if there is no backup.
"""
EXAMPLES = """\
  brokerless forget s3://backup/kafka --keep-daily 7 --keep-weekly 5 --keep-monthly 12
  brokerless forget s3://backup/kafka --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --apply
  brokerless forget s3://backup/kafka@5b1f03aa --apply
"""

__all__ = ["DESCRIPTION", "EXAMPLES", "add_options", "add_paths", "run"]


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, ForgetRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.check.seal import public_keys
    from brokerless.jobs.forget.job import forget
    from brokerless.jobs.forget.rules import KeepRules
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup import forget_lines, forget_rows

    rules = KeepRules.of(request_of(ForgetRequest, options))
    with progress("listing snapshots"):
        trusted = public_keys(options.trust)
        result = forget(Location.of(options.paths[0]), rules, trusted, apply=options.apply)
    output.problems(result.findings)
    output.result(forget_rows(result), forget_lines(result))
