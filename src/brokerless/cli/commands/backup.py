"""``brokerless backup``: stores a cluster's disks as a snapshot in a bucket that brokers can read."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from brokerless.cli.options import add_all_below, add_remote, add_selection, add_tiered
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_selected
from brokerless.requests.backups import BackupRequest

DESCRIPTION = """\
Stores what the disks of a cluster have, one copy of each batch, as a snapshot in a bucket or a directory.

Give the log directories of all nodes. The cluster's metadata says which partitions there are; of the replicas of each,
the one with the history that counts is stored, as merge finds it, and what is damaged in it is taken from the others.
Of a compacted topic one replica is taken as a whole. Batches are stored byte for byte, with their offsets, leader
epochs and producers, and the metadata with topic IDs, settings, ACLs, users and groups as well.

The brokers may run meanwhile: logs are copied as they ended at one moment, with whole transactions, and no position of
a group past an end. What was deleted, made or moved meanwhile is named or found.

The next run into the same place stores what is new: a log goes on from the snapshot before if its leader epochs and the
last batch that was stored say so. What is stored is never replaced. A run that is interrupted leaves no snapshot, and
the next one does it all.

With --public-key, all that is stored is encrypted: a host that makes backups can add to one, and reads none. Give two,
and keep the private keys apart; what a run stores is read with any of them (--key-pair ID=FILE of every command). Names
of topics, offsets, sizes, times, and the IDs and sequences of producers are in clear. keys changes who reads it.

With --spark, each partition is a task of Spark, whose executors have to see the disks: of stopped brokers, or snapshots
of volumes on shared storage.

The layout is that of tiered storage (Aiven's plugin), which brokers read. URL@SNAPSHOT is a log directory for all
commands that read; snapshots lists the snapshots of a place, check tries whether all of them are there.

The exit code is 0 if the snapshot is complete, 1 if partitions are missing, offsets are lost, replicas differ, or a
transaction may not be whole, and 2 if nothing was stored.
"""
EXAMPLES = """\
  brokerless backup /mnt/b1 /mnt/b2 /mnt/b3 --to s3://backup/kafka --dry-run
  brokerless backup /mnt/b1 /mnt/b2 /mnt/b3 --to s3://backup/kafka --name nightly
  brokerless backup /mnt/b1 --to s3://backup/secret --public-key ops=ops.public.pem --public-key safe=safe.public.pem
  brokerless backup /var/lib/kafka -t orders --to /mnt/backup --json
  brokerless cat s3://backup/kafka@nightly -t orders --offset 500:503
"""


def add_paths(parser: ArgumentParser) -> None:
    help_of_path = "a log directory of a broker, one for each disk; local, a URL, or URL@SNAPSHOT of a backup"
    parser.add_argument("paths", nargs="+", metavar="PATH", help=help_of_path)
    add_all_below(parser)
    add_selection(parser)
    add_tiered(parser)


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, BackupRequest, without=("key_pairs",))


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.backup.job import backup
    from brokerless.jobs.backup.options import options_of
    from brokerless.jobs.backup.plan import plan_backup
    from brokerless.jobs.run.job import with_rate
    from brokerless.jobs.run.types import RunOptions
    from brokerless.log.storage.location import Location
    from brokerless.views.jobs.backup import backup_lines, lost_rows, partition_rows, snapshot_row

    sources = output.sources(options, "nothing was stored")
    with_rate(RunOptions(spark=options.spark), options.rate)  # what is wrong with options is said before all is read
    how = options_of(
        request_of(BackupRequest, options, paths=options.paths, key_pairs=None), partial(is_selected, options)
    )
    with progress("reading the metadata"):
        planned = plan_backup(sources, Location.of(options.to), how)
    with progress("reading" if options.dry_run else "reading and storing", planned.size) as done:
        result = backup(planned, with_rate(RunOptions(done, options.spark, output.say), options.rate))
    for finding in result.findings:
        if finding.severity != "info":
            output.say(str(finding))
    output.note_findings(not result.is_complete)
    snapshot = result.snapshot
    output.result([snapshot_row(snapshot), *partition_rows(snapshot), *lost_rows(snapshot)], backup_lines(result))
