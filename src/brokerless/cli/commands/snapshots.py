"""``brokerless snapshots``: lists the snapshots of a backup."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from brokerless.cli.options import add_metrics, refuse_metrics, write_metrics
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.errors import UsageError
from brokerless.requests.backups import JoinRequest, SealRequest
from brokerless.text import count_of

DESCRIPTION = """\
Lists the snapshots of a backup, the newest last: when, of how many partitions, how large, and what is missing.

URL is the place that backup wrote to, or URL@SNAPSHOT for one of its snapshots: an ID or its beginning, a name, latest,
or a time, which is the last one before that.

--offsets lists where each partition begins and ends, --lost what no disk had: of the last snapshot, unless URL names
another.

--seal writes what makes the snapshots to a file, to be kept where the bucket's writers have no access.

Sets that wait for the parts of some hosts (backup --leader-only --set) are named on stderr; --join makes a snapshot of
the parts that are there, and names which partitions it lacks.

The exit code is 0, 1 if a snapshot cannot be read, and 2 if there is no backup.
"""
EXAMPLES = """\
  brokerless snapshots s3://backup/kafka
  brokerless snapshots s3://backup/kafka@nightly --offsets
  brokerless snapshots /mnt/backup@2026-11-27 --lost --json
  brokerless snapshots s3://backup/kafka --seal seal.json
  brokerless snapshots s3://backup/kafka --metrics snapshots.prom
"""


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs=1, metavar="URL", help="a backup, or URL@SNAPSHOT")
    parser.set_defaults(topic=[], partition=[], exclude_internal=False, include=())


def add_options(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    help_of_offsets = "the partitions of one snapshot, with their first and last offsets"
    what.add_argument("--offsets", action="store_true", help=help_of_offsets)
    what.add_argument("--lost", action="store_true", help="what one snapshot lacks: lost offsets, missing partitions")
    add_request(parser, SealRequest)
    add_request(parser, JoinRequest)
    add_metrics(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.backup.sets.joining import open_sets
    from brokerless.jobs.check.snapshots import load_snapshots
    from brokerless.log.storage.location import Location
    from brokerless.log.tiered.detection import backup_at
    from brokerless.views.jobs import backup as view
    from brokerless.views.metrics import snapshots_metrics

    refuse_metrics(options)
    if options.seal is not None:
        from brokerless.jobs.check.seal import write_seal

        if options.offsets or options.lost or options.metrics:
            raise UsageError("--seal writes a file of its own; --offsets, --lost and --metrics do not go with it")
        with progress("reading snapshots"):
            sealed = write_seal(Location.of(options.paths[0]), options.seal)
        row = {"seal": options.seal, "snapshots": len(sealed.snapshots)}
        text = f"{count_of(len(sealed.snapshots), 'snapshot')} sealed in {options.seal}; keep it elsewhere"
        output.result([row], [text])
        return
    if options.join is not None:
        _join(options, output)
        return
    is_one = options.offsets or options.lost
    if is_one and options.metrics is not None:
        raise UsageError("--metrics is about all snapshots; leave out --offsets or --lost")
    with progress("listing snapshots"):
        snapshots, findings = load_snapshots(Location.of(options.paths[0]), only_last=is_one)
    output.problems(findings)
    if is_one:
        of_one = (view.partition_rows, view.offset_lines) if options.offsets else (view.lost_rows, view.lost_lines)
        for each in snapshots:
            output.result(of_one[0](each), of_one[1](each))
    else:
        rows = map(view.snapshot_row, snapshots)
        output.result(rows, view.snapshot_lines(snapshots))
        place, chosen = backup_at(Location.of(options.paths[0]))
        for name, joined in open_sets(place, snapshots) if chosen is None else ():
            output.say(view.set_line(name, joined))
    write_metrics(options, lambda: snapshots_metrics(snapshots, output.exit_code))


def _join(options: Namespace, output: Output) -> None:
    from brokerless.jobs.backup.job import join_set
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup import set_line, snapshot_row

    if options.offsets or options.lost or options.metrics:
        raise UsageError("--join writes a snapshot; --offsets, --lost and --metrics do not go with it")
    with progress("reading parts"):
        joined = join_set(Location.of(options.paths[0]), options.join)
    output.problems(joined.findings)
    row, line = snapshot_row(joined.snapshot), set_line(options.join, replace(joined, awaited=()))
    output.result([row], [line])
