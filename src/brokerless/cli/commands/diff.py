"""``brokerless diff``: compares two logs record by record, and says why they differ."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from brokerless.cli.options import add_metrics, add_remote, add_tiered, add_topics, refuse_metrics, write_metrics
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import is_topic_selected, named_topics, select
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.run.types import RunOptions
from brokerless.log.names import is_internal
from brokerless.requests.comparing import DiffRequest, ReplicasRequest
from brokerless.requests.options import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from brokerless.api.log import Log
    from brokerless.jobs.diff.pairs import Side
    from brokerless.jobs.diff.partition_diff import PartitionDiff

DESCRIPTION = """\
Whether two logs have the same records, and where not, why.

LEFT and RIGHT are log directories, partitions' directories or .log files: a broker's disk, a copy of it, a bucket, what
another command wrote. Partitions are compared by name, records by offset: batches by headers and bytes, and where those
differ, record by record. Only what both sides should have is compared, from the later log start to the earlier end.

Each difference has a cause, known by a rule. These are allowed:
  retention      before the other side's first offset
  compaction     a later record of the key is there, or its tombstone expired
  aborted        data of an aborted transaction
  control        a marker of a transaction, or another control record
  regrouped      the same records in other batches
  recompressed   the same batch in another codec or format
  restamped      the same batch with another leader epoch
  erased         removed or blanked by an erasure, whose manifest --erasure names
These are differences, unless --allow names them:
  another-topic  the topic has another ID, and is not compared
  unproven-compaction  as compaction takes records, but nothing says that the topic is compacted
  duplicate      one side has a record twice: by its producer's sequence, or next to its equal
  timestamps     another timestamp, and all else the same
  headers        other headers, and key and value the same
  schema-id      another ID of the same schema, where a key or value names one
  schema-changed  the ID of another schema, and all else the same
  lagging        after the other side's end
  order          the same records in another order
  missing        on the left only
  extra          on the right only
  changed        another key or value

Where both sides have them, the positions of groups are compared, and what the metadata has: settings, topics, ACLs,
users, quotas. A position is at the same record, earlier (records are read again), later (records are lost to the
group), past the end, or on one side only; --allow takes earlier, later, past-end and no-position.

With --offset-syncs, RIGHT has the topics of LEFT as MirrorMaker 2 wrote them, under their names or those after an
alias. Offsets are others there, so that records are compared in their order, with a window of 65,536 of them; aborted
ones, and what one side deleted at its start, are allowed. Of what is beside records, groups are compared: positions in
LEFT with those in RIGHT, by the nearest pair of offsets.

With --replicas, the replicas on the disks of one cluster are compared with each other: the one with the greatest leader
epoch, and of these the longest, with each of the others, below the least of their high watermarks. Kafka's own topics
are compared too. With --budget, a run compares so much, what differed or was compared longest ago first.

With --align key, a topic's records are paired by key, time and contents, wherever they are: for another number of
partitions, or another order. Hashes of all records are written to the temporary directory (52 bytes a record of each
side), aborted records do not count, and what only one side has is missing or extra, also in compacted topics.

A side may be a running cluster, kafka://HOST:PORT: a consumer that commits nothing reads one partition after the other
into a temporary directory (TMPDIR), and records are compared, and groups, settings, topics, ACLs and names of users.
--command-config has the settings of the client; brokerless[restore] has its library.

A side may be what export wrote: a directory of Parquet files, or tables of Iceberg or Delta. Each partition is copied
into the temporary directory while it is compared. With decoded keys and values, the other side's records are decoded
as export decodes them, by the schemas beside them or those of --schemas.

What is damaged on a side could not be compared: such offsets are named, and count as no difference of records. Kafka's
own topics are compared only where -t names them.

The exit code is 0 if both are the same, 1 if they differ or something could not be compared, and 2 for a side that
cannot be opened.
"""
EXAMPLES = """\
  brokerless diff /var/lib/kafka /mnt/copy
  brokerless diff /mnt/old-1 /mnt/new --left /mnt/old-2 /mnt/old-3 -t orders
  brokerless diff /var/lib/kafka converted --quick --json | jq 'select(.isSame | not)'
  brokerless diff /mnt/old kafka://new:9092 -t orders --command-config client.properties
  brokerless diff broker-1/orders-0 broker-2/orders-0 --allow lagging --show-keys
  brokerless diff --replicas /mnt/broker-1 /mnt/broker-2 /mnt/broker-3 --budget 50GB --state scrub
"""
LISTED = 10


def add_paths(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "left",
        nargs="?",
        metavar="LEFT",
        help="a log directory, a partition's directory, or a .log file; local, or a URL; or kafka://HOST:PORT",
    )
    add("right", nargs="?", metavar="RIGHT", help="what it is compared with")
    add_topics(parser)
    add_tiered(parser)
    parser.set_defaults(include=(), exclude_internal=False)


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    for side in ("left", "right"):
        help_of_more = (
            f"other disks of the {side} side's cluster; of several replicas, that with the greatest leader epoch "
            "counts, and of these the longest"
        )
        add(f"--{side}", dest=f"more_{side}", action="extend", nargs="+", default=[], metavar="PATH", help=help_of_more)
    help_of_replicas = (
        "in place of LEFT and RIGHT: compare the replicas on these disks of one cluster, below the least high "
        "watermark of each partition"
    )
    add("--replicas", nargs="+", metavar="DISK", help=help_of_replicas)
    of_both = [name for name, _, _ in options_of(DiffRequest)]
    add_request(parser, ReplicasRequest, without=of_both)
    add_request(parser, DiffRequest)
    add_metrics(parser)
    add_remote(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.diff.beside.parts import BesideRecords
    from brokerless.jobs.diff.plan import plan_diff
    from brokerless.jobs.diff.results import Diff
    from brokerless.views.jobs.diff import lines, rows_beside
    from brokerless.views.metrics import diff_metrics

    request = request_of(DiffRequest, options, left=options.left or (), right=options.right or ())
    refuse_metrics(options)
    if options.replicas is not None:
        _compare_replicas(options, request, output)
        return
    _refuse_mixture(options)
    sides = _sides(options, output)
    output.refuse_unusable("nothing was compared")
    plan = plan_diff(request, sides, output.damage, is_narrowed=bool(options.topic), numbers=options.partition)
    found = _compare(plan.compare_records, plan.size, options, output)
    try:
        beside = plan.compare_others(output.damage)
    except UnreadableError as error:
        output.unreadable(error)
        if not found:
            output.say("nothing was compared")
            return
        beside = BesideRecords()
    compared = Diff(found, beside.groups, beside.state)
    output.note_findings(not compared.is_same)
    if plan.pairs and not (found or compared.groups or compared.state):
        output.say("nothing was compared")
    else:
        output.result(rows_beside(compared), lines(compared))
    write_metrics(options, lambda: diff_metrics(compared, output.exit_code))


def _compare(
    compare: Callable[[RunOptions], Generator[PartitionDiff | UnreadableError]],
    size: int,
    options: Namespace,
    output: Output,
) -> list[PartitionDiff]:
    """Compare what is ``size`` bytes; with JSON, each partition is written when it was compared."""
    from brokerless.views.jobs.diff import row

    found: list[PartitionDiff] = []
    with (
        progress("comparing", size) as done,
        closing(compare(RunOptions(done, options.spark, output.say))) as results,
    ):
        for each in results:
            if isinstance(each, UnreadableError):
                output.unreadable(each)
                continue
            found.append(each)
            output.note_findings(not each.is_same)
            for finding in each.findings:
                output.say(str(finding))
            if options.json:
                output.objects([row(each)])
    return found


def _compare_replicas(options: Namespace, request: DiffRequest, output: Output) -> None:
    from brokerless.jobs.diff.job import DiffSettings, diff, diff_task
    from brokerless.jobs.diff.replicas import begin_scrub
    from brokerless.jobs.diff.results import Diff
    from brokerless.views.jobs.diff import lines
    from brokerless.views.metrics import diff_metrics

    unfit = ("left", "right", "more_left", "more_right", "only", "offset_map", "offset_syncs", "erasure")
    if any(getattr(options, each) for each in unfit):
        raise UsageError("--replicas is about the disks of one cluster; give no other side, parts or offsets")
    logs = _open(options.replicas, options, output)
    selected, missing = select([one for each in logs for one in each.paths], options)
    if missing is not None:
        output.unreadable(UnreadableError("", missing))
    output.refuse_unusable("nothing was compared")
    scrub = begin_scrub(selected, options.budget, options.state)
    size = sum(each.size for one in scrub.pairs for each in one.partitions)
    compare = partial(diff, scrub.pairs, DiffSettings.of(request), work=diff_task)
    found = _compare(lambda running: compare(running=running), size, options, output)
    scrub.add(found)
    compared = Diff(found)
    output.note_findings(not compared.is_same)
    for line in scrub.lines():
        output.say(line)
    output.result((), lines(compared))
    write_metrics(options, lambda: diff_metrics(compared, output.exit_code))


def _refuse_mixture(options: Namespace) -> None:
    if options.right is None:
        raise UsageError("give LEFT and RIGHT, or --replicas DISK...")
    if options.budget is not None or options.state is not None:
        raise UsageError("--budget and --state are for --replicas")


def _sides(options: Namespace, output: Output) -> tuple[Side, Side]:
    """Open both sides, and select their partitions; a topic that neither has is reported."""
    from brokerless.jobs.diff.pairs import Side

    paths = [options.left, *options.more_left], [options.right, *options.more_right]
    left, right = (_open(each, options, output) for each in paths)
    found, missing = select([one for each in (*left, *right) for one in each.paths], options)
    if missing is not None:
        output.unreadable(UnreadableError("", missing))
    named = named_topics(found, Namespace(paths=[*paths[0], *paths[1]], topic=options.topic))
    chosen = {id(each) for each in found if not is_internal(each.topic) or each.topic in named}

    def side(logs: list[Log]) -> Side:
        partitions = [one for each in logs for one in each.paths if id(one) in chosen]
        return Side([each.directory for each in logs], partitions, options.config)

    return side(left), side(right)


def _open(paths: list[str], options: Namespace, output: Output) -> list[Log]:
    """Open the paths of a side. A bucket of remote segments is for local paths, not for one that is a bucket."""
    import brokerless
    from brokerless.jobs.diff.copies import list_without_segments
    from brokerless.log.storage.paths import is_remote

    def is_wanted(topic: str) -> bool:
        return options.offset_syncs is not None or is_topic_selected(options, topic)  # mirrors have other names

    logs: list[Log] = []
    for path in paths:
        directory = list_without_segments(path, options.config, is_wanted)
        if directory is not None:
            logs.append(brokerless.Log(directory))
            continue
        remote = None if is_remote(path) else options.remote
        logs += output.open(Namespace(**{**vars(options), "paths": [path], "remote": remote}))
    return logs
