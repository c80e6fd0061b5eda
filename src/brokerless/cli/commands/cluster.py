"""``brokerless cluster``: describes the cluster that some disks were of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

from brokerless.cli.options import add_max_batch_bytes, add_severity
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.errors import UsageError

DESCRIPTION = """\
What cluster these disks were of: its id, nodes, voters, topics with ids and replicas, configs, ACLs, users, groups.

Give every log directory that there is, of all nodes; nothing is changed. All is read from the replica of the cluster's
metadata with the longest valid log; any broker has one. Findings say where the disks disagree, which partitions the
metadata knows and no disk has, and which the disks have and the metadata does not know: a broker would rename those to
-stray, and delete them. JSON has a table name in each line, and all of every table.

The exit code is 0, 1 if there are warnings or errors, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless cluster /mnt/disk1 /mnt/disk2 /mnt/disk3
  brokerless cluster /mnt/disk* --json | jq 'select(.table == "topics")'
"""


def add_options(parser: ArgumentParser) -> None:
    add_severity(parser, has_summary=False)
    add_max_batch_bytes(parser)


def run(options: Namespace, output: Output) -> None:
    from brokerless.clusters.description import describe_cluster
    from brokerless.views.findings import is_at_least
    from brokerless.views.internals.cluster import cluster_lines

    if options.topic or options.partition or options.exclude_internal:
        raise UsageError("a cluster is described as a whole; leave out --topic, --partition and --exclude-internal")
    directories = [log.directory for log in output.open(options)]
    if not directories:
        return
    size = sum(each.size for directory in directories for each in directory.partitions)
    with progress("reading", size) as done:
        description = describe_cluster(directories, max_batch_bytes=options.max_batch_bytes, done=done)
    output.shown(description.findings)
    shown = [each for each in description.findings if is_at_least(each, options.min_severity)]
    description = replace(description, findings=tuple(shown))
    tables = {**description.rows, "findings": [each.as_dict() for each in description.findings]}
    output.result(({"table": name, **row} for name, rows in tables.items() for row in rows), cluster_lines(description))
