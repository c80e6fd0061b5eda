"""``brokerless restore``: restores topics into a running cluster, or into the log directories of stopped brokers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import Any

from brokerless.cli.options import add_remote, add_timezone
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import named_topics
from brokerless.findings import Finding
from brokerless.requests.recovery import RestoreRequest

DESCRIPTION = """\
Restores topics from log directories, a backup or a bucket: into a running cluster, by producing (--bootstrap-servers),
or into the log directories of its stopped brokers (--to). Without --apply, nothing is changed: what would be restored
is shown, and what the target would refuse, delete or change.

Into a running cluster: keys, values, headers, timestamps, partitions and their order stay. Only committed records are
sent, so that the outcome of transactions stays, too; offsets are new. Topics that are missing are created, with the
source's partitions and settings where its cluster's metadata is beside them. The directory of --offset-map gets the
map of old to new offsets (offset-map.parquet, offset-map.jsonl); it is also the journal by which the same command goes
on after an error or a kill: what had been on its way is found on the target, so that no record is missing or comes
twice.

With --groups, the offsets that groups have committed are translated with the map, and committed for groups that have no
members and have committed nothing else there. With --offsets, what groups have committed to serve comes before.

Into log directories: batches and offsets stay, all replicas are the same, byte for byte, with the topic ID that the
cluster's metadata knows, leader epochs that it allows, and checkpoints, so that brokers start without recovery or
truncation. Give the directories of all brokers with replicas. The topic has to exist there; partitions with records are
refused, or moved aside with --replace. After a kill, the same command completes it, or begins again. Committed offsets
come with -t __consumer_offsets, if that has as many partitions.

The exit code is 0, 1 if the source is damaged or something is to be known first, and 2 if nothing can be restored.
"""
EXAMPLES = """\
  brokerless restore /backup/kafka -t orders --bootstrap-servers broker:9092
  brokerless restore /backup/kafka -t orders --bootstrap-servers broker:9092 --offset-map restored --groups --apply
  brokerless restore s3://backup/kafka -t 'shop-*' --bootstrap-servers broker:9093 --command-config client.properties \\
      --until 2026-11-20T12:00 --rate 10MB --offset-map restored --apply
  brokerless restore /backup/kafka -t orders --to /mnt/broker1 --to /mnt/broker2 --to /mnt/broker3 --replace --apply
"""


def add_options(parser: ArgumentParser) -> None:
    add_remote(parser)
    add_request(parser, RestoreRequest, one_of=("bootstrap_servers", "to"))
    add_timezone(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.jobs.restore.disks.job import recover_disks
    from brokerless.jobs.restore.job import check_request, plan
    from brokerless.jobs.restore.source import SelectedPartitions
    from brokerless.views.restore import disks, live

    seen: set[Finding] = set()

    def on_damage(finding: Finding) -> None:
        if finding not in seen:
            seen.add(finding)
            output.damage(finding)

    logs = list(output.open(options))
    chosen = [each for log in logs for each in output.chosen(log, options)]
    if not chosen or output.exit_code:
        return
    everything = [each for log in logs for each in log.directory.partitions]
    selected = SelectedPartitions(options.paths, chosen, everything, sorted(named_topics(chosen, options)))
    request = request_of(RestoreRequest, options, paths=options.paths, on_damage=on_damage)
    check_request(request)
    if options.to and options.apply and recover_disks(options.to):
        output.say("a restore that had been cut short was completed")
    with progress("reading", sum(each.size for each in chosen)) as done:
        planned = plan(selected, replace(request, done=done))
    view: Any = disks if options.to else live
    result = planned.plan
    output.shown(result.findings)
    if not options.json:
        output.prose(*view.plan_lines(result))
    if options.apply:
        with progress("restoring", planned.size) as done:
            result = planned.apply(done)
        output.problems(result.findings[len(planned.plan.findings) :])
        output.note_findings(not result.is_whole)
    output.result(view.rows(result), view.result_lines(result))
