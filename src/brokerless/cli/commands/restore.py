"""``brokerless restore``: restores topics into a running cluster, or into the log directories of stopped brokers."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from brokerless.cli.options import add_remote, add_timezone
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request, request_of
from brokerless.cli.selection import named_topics
from brokerless.findings import Finding
from brokerless.requests.recovery import RestoreRequest

if TYPE_CHECKING:
    from brokerless.jobs.restore.disks.job import DiskRestore
    from brokerless.jobs.restore.live.job import LiveRestore
    from brokerless.jobs.restore.results import Restore
    from brokerless.jobs.restore.source import SelectedPartitions
    from brokerless.progress import Done, Report

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
    from brokerless.jobs.restore.source import SelectedPartitions

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
    if options.to:
        _show_and_apply(options, output, _into_disks(options, output, selected, on_damage))
    else:
        _show_and_apply(options, output, _into_cluster(options, selected, on_damage))


Planned = TypeVar("Planned", "Restore", "DiskRestore")


@dataclass(frozen=True, slots=True)
class _Job(Generic[Planned]):
    """A restore that is planned, and how it is shown and done."""

    plan: Planned
    size: int
    """Bytes that ``apply`` reads and writes."""
    apply: Callable[[Done], Planned]
    is_incomplete: Callable[[Planned], bool]
    """Returns whether something of what was done is missing."""
    plan_lines: Callable[[Planned], Iterable[str]]
    result_lines: Callable[[Planned], Iterable[str]]
    rows: Callable[[Planned], Iterable[Any]]


def _show_and_apply(options: Namespace, output: Output, job: _Job[Planned]) -> None:
    result = job.plan
    output.shown(result.findings)
    if not options.json:
        output.prose(*job.plan_lines(result))
    if options.apply:
        with progress("restoring", job.size) as done:
            result = job.apply(done)
        output.problems(result.findings[len(job.plan.findings) :])
        output.note_findings(job.is_incomplete(result))
    output.result(job.rows(result), job.result_lines(result))


def _into_disks(
    options: Namespace, output: Output, selected: SelectedPartitions, on_damage: Report
) -> _Job[DiskRestore]:
    from brokerless.jobs.restore.disks.job import DiskSettings, apply_disks, plan_disks, recover_disks
    from brokerless.views.restore.disks import disk_lines, disk_result_lines, disk_rows

    settings = DiskSettings.of(request_of(RestoreRequest, options, paths=options.paths))
    if options.apply and recover_disks(options.to):
        output.say("a restore that had been cut short was completed")
    size = sum(each.size for each in selected.partitions)
    with progress("reading", size) as done:
        planned = plan_disks(selected, options.to, settings, on_damage=on_damage, done=done)
    return _Job(
        planned,
        2 * size,
        lambda done: apply_disks(planned, settings, on_damage, done),
        is_incomplete=lambda result: any(each.lost for each in result.partitions),
        plan_lines=disk_lines,
        result_lines=disk_result_lines,
        rows=disk_rows,
    )


def _into_cluster(options: Namespace, selected: SelectedPartitions, on_damage: Report) -> _Job[Restore]:
    from brokerless.jobs.restore.live.job import apply
    from brokerless.views.restore.live import plan_lines, result_lines, rows

    planned = _plan(options, selected, on_damage)
    return _Job(
        planned.plan,
        sum(each.size for readers in planned.readers.values() for each in readers),
        lambda done: apply(planned, on_damage, done),
        is_incomplete=lambda result: any(each.reason for each in result.groups),
        plan_lines=plan_lines,
        result_lines=result_lines,
        rows=rows,
    )


def _plan(options: Namespace, selected: SelectedPartitions, on_damage: Report) -> LiveRestore:
    from brokerless.jobs.restore.live.connection import ClusterConnection, load_config
    from brokerless.jobs.restore.live.job import LiveSettings, plan_restore

    request = request_of(RestoreRequest, options, paths=options.paths)
    config = {} if options.config is None else load_config(options.config)
    settings = LiveSettings.of(request)
    with progress("reading", sum(each.size for each in selected.partitions)) as done:
        return plan_restore(
            selected, ClusterConnection(options.bootstrap_servers, config), settings, on_damage=on_damage, done=done
        )
