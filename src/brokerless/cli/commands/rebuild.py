"""``brokerless rebuild``: makes a cluster's log directories again from what is left of its disks."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from brokerless.cli.options import add_severity, add_timezone
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.errors import UsageError
from brokerless.requests.recovery import RebuildRequest

DESCRIPTION = """\
Makes formatted, consistent log directories of the disks of a cluster, with which its brokers and controllers start.

Give every log directory that is left, of all nodes. The cluster's state is taken from the replica of its metadata with
the longest valid log (any broker has one), cut after its last valid batch; where there is none, from the directories of
partitions and their partition.metadata alone, and what is lost is listed; or, with --state, from a log, a snapshot, or
tables as internals --json and this command's --json print them, edited as needed.

Without --apply nothing is written: topics, directories, losses and the settings of each node are shown. With it, DIR
gets a directory node-N for each node, with meta.properties, a snapshot of the metadata with the voters, and the
partitions: copied, linked (flushed segments are hard links), or left in place. In place only the metadata and
meta.properties are replaced, what was there is saved in DIR, and --undo puts it back. After a kill, the same command
begins again; what it has changed in place is to be undone first.

A mapping file names the nodes of the new cluster where they are not those of the disks:
  {"nodes": [{"id": 1, "was": 3, "roles": ["broker", "controller"], "disks": ["/mnt/disk3"], "rack": "a",
              "listeners": {"PLAINTEXT": "kafka1:9092", "CONTROLLER": "kafka1:9093"}}]}

Positions of groups past the end of what is left of a partition are listed as lost; --reset-positions sets them to its
end or start.

A snapshot of a backup (URL@SNAPSHOT) is all disks of a cluster: one node gets all of its partitions, or, with --spread,
each node that had replicas gets these again. Offsets that the backup does not have intact are listed as lost. With
--until, partitions end before their first record of a time or later, but for those of Kafka's own topics; with
--offsets, at the end offsets of a file, as snapshots --offsets --json prints them. With --in-bucket, the topics that
are not compacted stay where they are: brokers with tiered storage serve them from there.

With --from-bucket, only the bucket of the tiered topics is left: each of their partitions begins after its last remote
segment, with the metadata of these segments, so that a broker serves them all. What a bucket does not know is listed as
lost, or taken from an old log directory, if one is given as DISK: log starts, settings, ACLs, groups. Copy the bucket
before a start.

The exit code is 0, 1 if anything is lost or there are warnings or errors, and 2 if nothing can be done.
"""
EXAMPLES = """\
  brokerless rebuild /mnt/disk1 /mnt/disk2 /mnt/disk3 --to /srv/rebuilt
  brokerless rebuild /mnt/disk* --to /srv/rebuilt --map nodes.json --data link --apply
  brokerless rebuild /mnt/disk* --to /srv/rebuilt --json > state.jsonl
  brokerless rebuild /mnt/disk* --to /srv/rebuilt --state state.jsonl --metadata-version 4.0 --apply
  brokerless rebuild /mnt/disk* --to /srv/rebuilt --reset-positions end --apply
  brokerless rebuild /mnt/disk* --to /srv/rebuilt --undo
  brokerless rebuild s3://backup/kafka@nightly --to /srv/rebuilt --spread --apply
  brokerless rebuild s3://backup/kafka@nightly --to /srv/rebuilt --spread --until 2026-11-28T01:30Z --apply
  brokerless rebuild s3://backup/kafka@nightly --to /srv/rebuilt --offsets vector.jsonl --apply
  brokerless rebuild s3://backup/kafka@nightly --to /srv/rebuilt --in-bucket --copy-to s3://kafka/tiered --apply
  brokerless rebuild --from-bucket s3://bucket/prefix --to /srv/rebuilt --log-start orders-0=212 --apply
"""


def add_paths(parser: ArgumentParser) -> None:
    help_of_paths = "a log directory of a node of the old cluster, local; all are needed; or URL@SNAPSHOT of a backup"
    parser.add_argument("paths", nargs="*", metavar="DISK", help=help_of_paths)
    parser.set_defaults(topic=[], partition=[], exclude_internal=False, include=())


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, RebuildRequest, without=("from_bucket",))
    help_of_bucket = "the bucket of the tiered topics, where it is all that is left of them"
    parser.add_argument("--from-bucket", action="append", metavar="URL", help=help_of_bucket)
    help_of_undo = "put back what --data in-place replaced, by the journal in the directory of --to"
    parser.add_argument("--undo", action="store_true", help=help_of_undo)
    help_of_force = "with --undo: also where brokers have run since"
    parser.add_argument("--force", action="store_true", help=help_of_force)
    add_timezone(parser)
    add_severity(parser, has_summary=False)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.rebuild.in_place import undo
    from brokerless.jobs.rebuild.job import rebuild
    from brokerless.jobs.rebuild.plan import RebuildOptions
    from brokerless.log import names
    from brokerless.views.findings import is_at_least
    from brokerless.views.internals.rebuild import rebuild_lines, rebuild_rows

    if not options.paths and options.from_bucket is None:
        raise UsageError("give the log directories of the old cluster's nodes")
    if options.undo:
        for each in undo(options.paths, options.to, force=options.force):
            locks = f"{names.LOCK} and {names.COMMIT_LOCK}"
            output.prose(f"{each}: what was replaced is put back; the lock files {locks} stay, and may be removed")
        return
    if len(options.from_bucket or ()) > 1:
        raise UsageError("--from-bucket is given twice; copy the objects of both into one, under their names")
    bucket = options.from_bucket[0] if options.from_bucket else None
    request = request_of(RebuildRequest, options, paths=options.paths, from_bucket=bucket)
    keys = options.key_pairs if bucket is None else ()  # those of a bucket are no keys of the disks beside it
    directories = [log.directory for log in output.open(options, keys)]
    if len(directories) < len(options.paths):
        return  # what cannot be opened is no disk that may be left out
    chosen = RebuildOptions.of(request)
    size = sum(each.size for directory in directories for each in directory.partitions) if options.apply else None
    with progress("writing" if options.apply else "reading", size) as done:
        rebuilt = rebuild(directories, chosen, done)
    output.shown(rebuilt.findings)
    output.note_findings(bool(rebuilt.lost))
    shown = [each for each in rebuilt.findings if is_at_least(each, options.min_severity)]
    rebuilt = replace(rebuilt, findings=tuple(shown))
    output.result(rebuild_rows(rebuilt), rebuild_lines(rebuilt))
