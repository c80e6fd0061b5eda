"""``brokerless internals``: prints Kafka's own topics, decoded."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from brokerless.cli.options import add_max_batch_bytes
from brokerless.cli.output import Output
from brokerless.cli.progress import Done, progress
from brokerless.errors import UnreadableError, UsageError

if TYPE_CHECKING:
    from brokerless.api.log import Log
    from brokerless.api.partition import Partition

DESCRIPTION = """\
Decodes Kafka's own topics: committed offsets, groups, transactional ids, and the cluster's metadata.

These are __consumer_offsets, __transaction_state, and __cluster_metadata (its log and its snapshots) with topics,
partitions, configs, brokers and more. The tables are the state that the records add up to; --history prints the records
themselves, decoded as Kafka's dump tool does, also those of __share_group_state and __remote_log_metadata. A record of
an unknown type or version is reported, and --history prints its bytes. The last records of __cluster_metadata may not
have been committed by the quorum: its files do not say.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless internals /var/lib/kafka
  brokerless internals /var/lib/kafka --table offsets --table groups
  brokerless internals /var/lib/kafka --table partitions --json | jq 'select(.leader == -1)'
  brokerless internals /var/lib/kafka/__consumer_offsets-7 --history --json | jq .payload
"""
TABLES = (
    "offsets",
    "groups",
    "members",
    "transactionalIds",
    "topics",
    "partitions",
    "configs",
    "brokers",
    "controllers",
    "features",
    "quotas",
    "acls",
    "users",
    "tokens",
    "producerIds",
)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        choices=TABLES,
        metavar="NAME",
        help=f"only this table of the state; can be repeated. There are {', '.join(TABLES)}",
    )
    parser.add_argument("--history", action="store_true", help="every record, in the order of the logs")
    add_max_batch_bytes(parser)


def run(options: Namespace) -> int:
    if options.history and options.table:
        raise UsageError("--table and --history exclude each other; use one of them")
    if options.exclude_internal:
        raise UsageError("--exclude-internal leaves nothing to read: this command reads internal topics only")
    output = Output()
    above = ""
    for log in output.open(options.paths, options.include):
        partitions = _internal(log, output.chosen(log, options), output)
        if not partitions:
            continue
        if len(options.paths) > 1 and not options.json:
            output.line(f"{above}{log.path}:")
        above = "\n"
        try:
            with progress("reading", sum(each.paths.size for each in partitions)) as done:
                read = _history if options.history else _state
                read(_counted(partitions, done), options, output)
        except UnreadableError as error:
            output.unreadable(error)
    return output.end()


def _internal(log: Log, partitions: Sequence[Partition], output: Output) -> list[Partition]:
    from brokerless.internals.entries import internal_topic
    from brokerless.internals.records import TOPICS

    found = [each for each in partitions if internal_topic(each) is not None]
    if partitions and not found:
        output.unreadable(UnreadableError(log.path, f"there is no internal topic here (such as {', '.join(TOPICS)})"))
    return found


def _counted(partitions: Iterable[Partition], done: Done) -> Iterator[Partition]:
    for each in partitions:
        yield each
        done(each.paths.size)


def _state(partitions: Iterable[Partition], options: Namespace, output: Output) -> None:
    from brokerless.internals.tables import state_rows
    from brokerless.views.internals.state import state_lines

    above = ""
    for name, rows in state_rows(partitions, options.table or TABLES, output.damage, options.max_batch_bytes).items():
        if options.json:
            output.objects({"table": name, **row} for row in rows)
        elif rows or options.table:
            output.line(f"{above}{name}:")
            above = "\n"
            for line in state_lines(name, rows):
                output.line(f"  {line}")


def _history(partitions: Iterable[Partition], options: Namespace, output: Output) -> None:
    from brokerless.internals.tables import history_rows
    from brokerless.views.internals.state import history_json, history_line

    for row in history_rows(partitions, output.damage, options.max_batch_bytes):
        if options.json:
            output.objects([history_json(row)])
        else:
            output.line(history_line(row))
