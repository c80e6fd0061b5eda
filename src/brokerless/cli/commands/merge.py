"""``brokerless merge``: makes one log directory out of several replicas'."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from brokerless.cli.options import add_remote
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.jobs.run.types import RunOptions
from brokerless.requests.recovery import MergeRequest
from brokerless.text import count_of, format_bytes
from brokerless.views.table import where_written

if TYPE_CHECKING:
    from brokerless.jobs.merge.job import MergeResult

DESCRIPTION = """\
Combines the replicas of each partition, from several brokers' disks, into one log that a broker can serve.

Each PATH is a broker's log directory, or one partition's directory. As in replication, the replica with the greatest
leader epoch, and among these the longest, has the history that counts. What another replica has after the offset up to
which both agree is what it would truncate as a follower: it is left out and reported. Where the leading replica is
damaged, the same batches are taken from the others. Offsets never change, and the sources are never written to.

Records that are not known to be committed (by recorded high watermarks, or because most replicas have them) are
included and reported; --committed-only leaves them out.

If all replicas are of one broker, its meta.properties is copied too, so that a broker starts on the result; else copy
that of the node that is to serve it.

The exit code is 0 if the result is complete, 1 if anything is lost or replicas diverge, and 2 for a path that cannot be
opened.
"""
EXAMPLES = """\
  brokerless merge /disks/broker-1 /disks/broker-2 /disks/broker-3 --to merged --dry-run
  brokerless merge /disks/broker-1 /disks/broker-2 /disks/broker-3 --to merged
  brokerless merge /disks/*/orders-0 --to merged --committed-only --json
  brokerless merge /disks/* --to /nfs/merged --spark spark://host:7077
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, MergeRequest)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.merge.job import Merge, merge, plan
    from brokerless.views.jobs.merge import row

    sources = output.sources(options)
    request = request_of(MergeRequest, options, paths=options.paths)
    planned = plan(sources, request.to, Merge.of(request))
    results: list[MergeResult] = []
    written = 0 if options.dry_run else sum(max(replica.size for replica in task.replicas) for task in planned.tasks)
    total = planned.size + written
    with progress("reading" if options.dry_run else "reading and writing", total) as done:
        for result in merge(planned, output.replica_damage, RunOptions(done, request.spark, output.say)):
            results.append(result)
            if options.json:
                output.objects([row(result)])
    output.note_findings(not all(result.is_whole for result in results))
    if not options.json:
        _show(output, results, options)


def _show(output: Output, results: list[MergeResult], options: Namespace) -> None:
    from brokerless.views.jobs.merge import divergence_lines, partition_lines, replica_lines
    from brokerless.views.jobs.salvage import loss_lines

    losses = [(each.task.name, loss) for each in results for loss in each.losses]
    for lines in (partition_lines(results), replica_lines(results), divergence_lines(results), loss_lines(losses)):
        shown = list(lines)
        output.prose(*([*shown, ""] if shown else ()))
    what = where_written(options.to, dry_run=options.dry_run)
    partitions = count_of(len(results), "partition")
    output.prose(f"{partitions}, {format_bytes(sum(each.bytes for each in results))}: {what}")
