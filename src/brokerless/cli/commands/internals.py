"""``brokerless internals``: prints Kafka's own topics, decoded."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from brokerless.cli.options import add_max_batch_bytes
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.errors import UnreadableError, UsageError
from brokerless.progress import Done
from brokerless.values import Row

if TYPE_CHECKING:
    from brokerless.api.log import Log
    from brokerless.log.directory import PartitionPath

DESCRIPTION = """\
Decodes Kafka's own topics: committed offsets, groups, transactional ids, the cluster's metadata, and what MirrorMaker
and Kafka Connect keep.

--table openTransactions answers why a consumer is stuck: each open transaction, at which read_committed ends, with its
first offset, its age, its transactional id, and the command that aborts it on a running cluster. For this table the
headers of all selected partitions are read, whichever topic they are of.

--table lag is the lag of each group: its committed offsets, from the partition that its coordinator reads,
against the ends of the logs as they are read, the largest lag first; with -t, in these topics.

These are __consumer_offsets, __transaction_state, __remote_log_metadata (the segments of tiered storage), and
__cluster_metadata (its log and its snapshots) with topics, partitions, configs, brokers and more. The tables are the
state that the records add up to; --history prints the records themselves, decoded as Kafka's dump tool does, also those
of __share_group_state. A record of an unknown type or version is reported, and --history prints its bytes.

Topics of MirrorMaker (mm2-offset-syncs.*.internal, *.checkpoints.internal) and of Connect (connect-offsets,
connect-configs, connect-status, and names that end so) are known by their names. One that has another name, such as
heartbeats, is read where -t names it, and --table what it is. Connectors' configs may hold passwords.

The last records of __cluster_metadata may not
have been committed by the quorum: its files do not say.

The exit code is 0, 1 if there is damage or a log ends within a batch, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless internals /var/lib/kafka
  brokerless internals /var/lib/kafka --table offsets --table groups
  brokerless internals /var/lib/kafka --table lag
  brokerless internals /var/lib/kafka --table openTransactions
  brokerless internals /var/lib/kafka --table partitions --json | jq 'select(.leader == -1)'
  brokerless internals /var/lib/kafka --table remoteSegments
  brokerless internals /var/lib/kafka -t heartbeats --table mirrorHeartbeats
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
    "remoteSegments",
    "mirrorOffsetSyncs",
    "mirrorCheckpoints",
    "mirrorHeartbeats",
    "connectOffsets",
    "connectConfigs",
    "connectStatus",
)
OPEN_TRANSACTIONS, LAG = "openTransactions", "lag"
OF_ALL_TOPICS = (LAG, OPEN_TRANSACTIONS)


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--table",
        action="append",
        default=[],
        choices=(*TABLES, *OF_ALL_TOPICS),
        type=_in_camel_case,
        metavar="NAME",
        help=(
            f"only this table; with --history, the topics that it is made of. There are {', '.join(TABLES)}; and "
            f"{LAG} and {OPEN_TRANSACTIONS}, of all topics"
        ),
    )
    parser.add_argument("--history", action="store_true", help="every record, in the order of the logs")
    add_max_batch_bytes(parser)


def _in_camel_case(name: str) -> str:
    """``open-transactions`` as ``openTransactions``."""
    first, *others = name.split("-")
    return first + "".join(each.capitalize() for each in others)


def run(options: Namespace, output: Output) -> None:
    if options.exclude_internal:
        raise UsageError("--exclude-internal leaves nothing to read: this command reads internal topics only")
    if options.history and OPEN_TRANSACTIONS in options.table:
        raise UsageError(f"{OPEN_TRANSACTIONS} has no --history: brokerless cat shows the records of a transaction")
    if options.history and LAG in options.table:
        raise UsageError(f"{LAG} has no --history; that of --table offsets is what groups committed")
    has_open, has_lag = OPEN_TRANSACTIONS in options.table, LAG in options.table
    has_others = not options.table or not {*OF_ALL_TOPICS}.issuperset(options.table)
    above = ""
    for log in output.open(options):
        chosen = output.chosen(log, options)
        given = _given(chosen, options)
        partitions = _internal(log, chosen, given, output) if has_others else chosen
        if not partitions:
            continue
        if len(options.paths) > 1 and not options.json:
            output.line(f"{above}{log.path}:")
        above = "\n"
        try:
            with progress("reading", sum(each.size for each in partitions)) as done:
                if options.history:
                    _history(_counted(partitions, done), given, options, output)
                elif has_others:
                    _state(_counted(partitions, done), given, options, output)
            if has_lag:
                _lag(log, chosen, options, output=output, above="\n" if has_others else "")
            if has_open:
                _open_transactions(log, chosen, options, output=output, above="\n" if has_others or has_lag else "")
        except UnreadableError as error:
            output.unreadable(error)


def _given(partitions: Sequence[PartitionPath], options: Namespace) -> dict[str, str]:
    """The table of topics that ``-t`` names, where their names do not tell and one table is given."""
    from brokerless.internals.connect.topics import TABLES as CONNECT
    from brokerless.internals.entries import internal_topic

    tables = set(options.table)
    if not options.topic or len(tables) != 1 or not tables <= set(CONNECT):
        return {}
    table: str = options.table[0]
    return {each.topic: table for each in partitions if each.topic is not None and internal_topic(each) is None}


def _internal(
    log: Log, partitions: Sequence[PartitionPath], given: Mapping[str, str], output: Output
) -> list[PartitionPath]:
    from brokerless.internals.entries import internal_topic
    from brokerless.internals.records import TOPICS

    found = [each for each in partitions if internal_topic(each, given) is not None]
    if partitions and not found:
        output.unreadable(UnreadableError(log.path, f"there is no internal topic here (such as {', '.join(TOPICS)})"))
    return found


def _counted(partitions: Iterable[PartitionPath], done: Done) -> Iterator[PartitionPath]:
    for each in partitions:
        yield each
        done(each.size)


def _state(partitions: Iterable[PartitionPath], given: Mapping[str, str], options: Namespace, output: Output) -> None:
    from brokerless.internals.tables import state_rows
    from brokerless.views.internals.state import state_lines

    above = ""
    tables = [each for each in options.table if each not in OF_ALL_TOPICS] or TABLES
    rows_of = state_rows(partitions, tables, output.damage, max_batch_bytes=options.max_batch_bytes, given=given)
    for name, rows in rows_of.items():
        if options.json:
            output.objects({"table": name, **row} for row in rows)
        elif rows or options.table:
            output.line(f"{above}{name}:")
            above = "\n"
            for line in state_lines(name, rows):
                output.line(f"  {line}")


def _lag(log: Log, chosen: Sequence[PartitionPath], options: Namespace, output: Output, above: str) -> None:
    from brokerless.internals.records import CONSUMER_OFFSETS
    from brokerless.internals.tables import lag_state_rows
    from brokerless.views.internals.state import lag_lines

    if all(each.topic != CONSUMER_OFFSETS for each in log.paths):
        output.unreadable(UnreadableError(log.path, f"there is no {CONSUMER_OFFSETS} here, which has groups' offsets"))
        return
    rows = lag_state_rows(chosen, log.paths, output.damage, options.max_batch_bytes)
    nothing = "no group has committed an offset"
    output.result(*_table(LAG, rows, lag_lines(rows), above=above, nothing=nothing))


def _open_transactions(
    log: Log, chosen: Sequence[PartitionPath], options: Namespace, output: Output, above: str
) -> None:
    from brokerless.jobs.audit.open_transactions import open_transactions
    from brokerless.views.internals.state import open_transaction_lines

    with progress("reading", sum(each.size for each in chosen)) as done:
        rows = open_transactions(_counted(chosen, done), log.paths, output.damage, options.max_batch_bytes)
    lines = open_transaction_lines(rows)
    output.result(*_table(OPEN_TRANSACTIONS, rows, lines, above=above, nothing="no transaction is open"))


def _table(
    name: str, rows: Sequence[Row], lines: Iterable[str], *, above: str, nothing: str
) -> tuple[Iterable[Row], Iterable[str]]:
    """Return a table for programs, and for people: with its name, or that there is ``nothing``."""
    shown = [f"{above}{name}:", *(f"  {line}" for line in lines)] if rows else [f"{above}{nothing}"]
    return ({"table": name, **row} for row in rows), shown


def _history(partitions: Iterable[PartitionPath], given: Mapping[str, str], options: Namespace, output: Output) -> None:
    from brokerless.internals.tables import history_rows, partitions_of
    from brokerless.views.internals.state import history_json, history_line

    chosen = partitions_of(partitions, options.table, given) if options.table else partitions
    for row in history_rows(chosen, output.damage, options.max_batch_bytes, given):
        if options.json:
            output.objects([history_json(row)])
        else:
            output.line(history_line(row))
