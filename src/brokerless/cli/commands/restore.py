"""``brokerless restore``: restores topics into a running cluster."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.cli.options import add_max_batch_bytes
from brokerless.cli.output import FINDINGS, Output
from brokerless.cli.progress import progress
from brokerless.cli.ranges import TIME, parse_time
from brokerless.cli.selection import named_topics
from brokerless.cli.values import amount
from brokerless.errors import Finding
from brokerless.kafka_names import ISOLATION_LEVELS

if TYPE_CHECKING:
    from brokerless.jobs.restore.live.job import LiveRestore
    from brokerless.tables.partition_reader import OnDamage

DESCRIPTION = """\
Restores topics from log directories, a backup or a bucket into a running cluster, by producing. Without --apply,
nothing is changed: what would be restored is shown, and what the target would refuse, delete or change.

Keys, values, headers, timestamps, partitions and their order stay. Only committed records are sent, so that the outcome
of transactions stays, too; offsets are new. Topics that are missing are created, with the source's partitions and
settings where its cluster's metadata is beside them. The directory of --map gets the old-to-new offset map
(offset-map.parquet, offset-map.jsonl); it is also the journal by which the same command goes on after an error or a
kill: what had been on its way is found on the target, so that no record is missing or comes twice.

With --groups, the offsets that groups have committed are translated with the map, and committed for groups that have no
members and have committed nothing else there.

The exit code is 0, 1 if the source is damaged or something is to be known first, and 2 if nothing can be restored.
"""
EXAMPLES = """\
  brokerless restore /backup/kafka -t orders --bootstrap-servers broker:9092
  brokerless restore /backup/kafka -t orders --bootstrap-servers broker:9092 --map restored --groups --apply
  brokerless restore s3://backup/kafka -t 'shop-*' --bootstrap-servers broker:9093 --command-config client.properties \\
      --until 2026-11-20T12:00 --rate 10MB --map restored --apply
"""


def add_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    help_of_servers = "the cluster to restore into, as Kafka's tools take it"
    add("--bootstrap-servers", required=True, metavar="HOST:PORT", help=help_of_servers)
    help_of_config = "a properties file with a client's settings (security.protocol, sasl.jaas.config, ...)"
    add("--command-config", metavar="FILE", help=help_of_config)
    help_of_map = "directory of the offset map, and of the journal by which a restore goes on; needed for --apply"
    add("--map", metavar="DIRECTORY", help=help_of_map)
    add("--groups", action="store_true", help="also commit the groups' translated offsets")
    add("--append", action="store_true", help="restore into topics that have records already, after these")
    add("--rate", type=amount, metavar="SIZE", help="at most so many bytes in a second, as 10MB (no limit)")
    help_of_until = f"restore each partition up to its first record of this time or later: {TIME}"
    add("--until", metavar="TIME", help=help_of_until)
    help_of_isolation = "read_uncommitted also restores aborted records and open transactions (read_committed)"
    add("--isolation", choices=ISOLATION_LEVELS, default="read_committed", help=help_of_isolation)
    add("--apply", action="store_true", help="restore; without it, nothing is changed")
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    from brokerless.jobs.restore.live.job import apply
    from brokerless.views.restore.live import plan_lines, result_lines, rows

    output = Output()
    seen: set[Finding] = set()

    def on_damage(finding: Finding) -> None:
        if finding not in seen:
            seen.add(finding)
            output.damage(finding)

    planned = _plan(options, output, on_damage)
    if planned is None:
        return output.end()
    restore = planned.plan
    if any(each.severity != "info" for each in restore.findings):
        output.exit_code = max(output.exit_code, FINDINGS)
    if not options.json:
        for line in plan_lines(restore):
            output.line(line)
    if options.apply:
        with progress("restoring", _size(planned)) as done:
            restore = apply(planned, on_damage, done)
        if any(each.reason for each in restore.groups) or len(restore.findings) > len(planned.plan.findings):
            output.exit_code = max(output.exit_code, FINDINGS)
        output.problems((str(each) for each in restore.findings[len(planned.plan.findings) :]), False)
    if options.json:
        output.objects(rows(restore))
    else:
        for line in result_lines(restore):
            output.line(line)
    return output.end()


def _plan(options: Namespace, output: Output, on_damage: OnDamage) -> LiveRestore | None:
    from brokerless import clock
    from brokerless.jobs.restore.live.connection import Connection, load_config
    from brokerless.jobs.restore.live.job import LiveSettings, plan_restore
    from brokerless.jobs.restore.source import Reading

    until = None if options.until is None else parse_time(options.until, clock.now())
    config = {} if options.command_config is None else load_config(options.command_config)
    logs = list(output.open(options.paths, options.include))
    chosen = [each.paths for log in logs for each in output.chosen(log, options)]
    if not chosen or output.exit_code:
        return None
    everything = [each for log in logs for each in log.directory.partitions]
    settings = LiveSettings(
        Reading(options.isolation, until, options.max_batch_bytes),
        None if options.map is None else Path(options.map),
        options.rate, options.groups, options.append,
    )  # fmt: skip
    with progress("reading", sum(each.size for each in chosen)) as done:
        return plan_restore(
            options.paths, chosen, everything, Connection(options.bootstrap_servers, config), settings,
            named=sorted(named_topics(chosen, options)), on_damage=on_damage, done=done,
        )  # fmt: skip


def _size(planned: LiveRestore) -> int:
    return sum(each.paths.size for readers in planned.readers.values() for each in readers)
