from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.cli.output import FINDINGS, Output
from brokerless.cli.parser import add_max_batch_bytes, add_severity, add_spark
from brokerless.cli.progress import progress
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from brokerless.errors import Finding
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.directory_state import DirectoryState
    from brokerless.jobs.restart.job import DirectoryRestart
    from brokerless.logs import Log, Partition

DESCRIPTION = """\
Everything that the files alone tell about a log directory, graded, with what to do about it.

Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, formats, and what the log directory
notes of its partitions. If Kafka's own topics are there as well, they are asked: which transactional id an open
transaction has, whether the cluster has these replicas, how far groups have read. All data is read once.

Grades: error (data is damaged or missing, or would be served wrongly), warning (Kafka would not have written this),
info (worth knowing).

With --restart: what a broker would do to these logs if it were started now: whether it starts at all on a directory
or is refused by it (its meta.properties, checkpoints, names, KRaft's own log), which partitions become stray, which are
begun empty, which transactions its coordinator ends, and what it does to each log. Several paths are taken for the
log.dirs of one broker. Nothing is changed by asking.

The exit code is 0 if there is nothing but infos, 1 if there are warnings or errors (with --restart: if anything would
be cut, deleted, stray, refused, not served or begun empty), and 2 for a path that cannot be read.
"""
EXAMPLES = """\
  brokerless audit /var/lib/kafka
  brokerless audit --json /var/lib/kafka | jq 'select(.severity == "error")'
  brokerless audit --restart /var/lib/kafka
"""


_SHOWN = 10
"""Partitions to which a start does no harm that are shown, where there are many more."""


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--restart", action="store_true", help="what the next start of a broker (4.1) would do: bytes that it cuts, "
        "segments that it deletes, indexes that it makes anew, offsets that consumers would lose",
    )  # fmt: skip
    add_spark(parser)
    add_max_batch_bytes(parser)
    add_severity(parser)


def run(options: Namespace) -> int:
    from brokerless.jobs.directory_state import load_directory_state

    output = Output()
    counts: Counter[str] = Counter()
    if options.restart:
        _restart(list(output.open(options.paths, options.include)), options, output, counts)
    for number, log in enumerate(() if options.restart else output.open(options.paths, options.include)):
        chosen = output.chosen(log, options)
        if not chosen and is_narrowed(options):
            continue
        if number and not options.json:
            output.line("")
        _audit(log, chosen, load_directory_state(log.directory), options, output, counts)
    if sum(counts.values()) > counts["info"]:
        output.exit_code = max(output.exit_code, FINDINGS)
    return output.end()


def _audit(
    log: Log,
    chosen: Sequence[Partition],
    notes: DirectoryState,
    options: Namespace,
    output: Output,
    counts: Counter[str],
) -> None:
    from brokerless.format.codecs.inflate import DEFAULT_LIMIT
    from brokerless.jobs.audit.job import audit_directory, audit_partitions
    from brokerless.views.audit import finding_lines, finding_row, partition_lines, verdict
    from brokerless.views.findings import is_at_least

    def shown(findings: Iterable[Finding]) -> list[Finding]:
        return [each for each in findings if not options.quiet and is_at_least(each, options.min_severity)]

    def tell(findings: Iterable[Finding], audit: PartitionAudit | None) -> None:
        """For programs, and damage to people too."""
        for finding in shown(findings):
            output.objects([finding_row(finding, audit)])
            if finding.severity != "info":
                output.say(str(finding))

    audits: list[PartitionAudit] = []
    partitions = [each.paths for each in chosen]
    limit = options.max_batch_bytes or DEFAULT_LIMIT
    total = sum(each.size for each in partitions)
    with (
        progress("reading", total) as done,
        closing(audit_partitions(partitions, notes, limit, spark=options.spark, done=done, say=output.say)) as results,
    ):
        for audit in results:
            if isinstance(audit, UnreadableError):
                output.unreadable(audit)
                continue
            audits.append(audit)
            if options.json:
                tell(audit.findings, audit)
    of_directory = list(audit_directory(log.directory, notes, audits))
    found = Counter(finding.severity for finding in of_directory)
    for audit in audits:
        found.update(finding.severity for finding in audit.findings)
    counts.update(found)
    if options.json:
        tell(of_directory, None)
        return
    sections = [(audit.path, audit.findings, audit.left_out) for audit in audits] + [(log.path, of_directory, {})]
    if options.quiet:
        output.line(verdict(found))
        return
    for line in partition_lines(audits):
        output.line(line)
    for title, findings, left_out in sections:
        kinds = {each.kind for each in shown(findings)}
        left_out = {kind: count for kind, count in left_out.items() if kind in kinds}
        for line in finding_lines(title, shown(findings), left_out):
            output.line(line)
    output.line(f"\n{verdict(found)}")


def _restart(logs: list[Log], options: Namespace, output: Output, counts: Counter[str]) -> None:
    from brokerless.jobs.directory_state import load_directory_state
    from brokerless.jobs.restart.job import plan_directories
    from brokerless.views.restart import directory_lines, directory_row

    directories = {each.path: each for each in plan_directories([log.directory for log in logs])}
    is_whole = not is_narrowed(options)
    for number, log in enumerate(logs):
        chosen = output.chosen(log, options)
        if not chosen and not is_whole:
            continue
        if number and not options.json:
            output.line("")
        directory = directories.get(log.path)
        _restart_partitions(chosen, directory, load_directory_state(log.directory), options, output, counts)
        if directory is None:
            continue
        counts["changed"] += bool(directory.refused) if not is_whole else not directory.is_harmless
        if options.json and _is_shown(directory.is_harmless, options):
            output.objects([directory_row(directory)])
        elif not options.json and _is_shown(directory.is_harmless, options):
            for line in directory_lines(directory, {each.paths.path for each in chosen}):
                output.line(line)


def _restart_partitions(
    chosen: Sequence[Partition],
    directory: DirectoryRestart | None,
    notes: DirectoryState,
    options: Namespace,
    output: Output,
    counts: Counter[str],
) -> None:
    from brokerless.jobs.directory_state import running_broker
    from brokerless.jobs.restart.job import Restart, plan_restart
    from brokerless.views.restart import detail_lines, partition_lines, row
    from brokerless.views.table import count_of

    running = running_broker(notes)
    if running is not None:
        text = "a broker is running on this directory; this is what its next start would do if it were killed now"
        output.say(f"{running}: {text} (after a clean stop it cuts nothing; ask again then)")
    restarts: list[Restart] = []
    with progress("reading", sum(each.paths.size for each in chosen)) as done:
        for partition in chosen:
            paths = partition.paths
            try:
                restart = plan_restart(paths, notes.of(paths), clean=notes.was_clean, directory=directory)
            except UnreadableError as error:
                (output.unreadable_within if Path(partition.path).is_dir() else output.unreadable)(error)
            else:
                restarts.append(restart)
                counts["info" if restart.is_harmless else "changed"] += 1
                if options.json and _is_shown(restart.is_harmless, options):
                    output.objects([row(restart)])
            done(partition.paths.size)
    if options.quiet and not options.json:
        changed = sum(not restart.is_harmless for restart in restarts)
        output.line(f"{count_of(len(restarts), 'partition')}, {changed:,} of them changed")
    elif not options.json:
        harmless = [number for number, each in enumerate(restarts) if each.is_harmless]
        first = set(harmless[: _SHOWN if len(harmless) > 2 * _SHOWN else None] if _is_shown(True, options) else ())
        alike = [restarts[number] for number in harmless if first and number not in first]
        shown = [each for number, each in enumerate(restarts) if not each.is_harmless or number in first]
        for line in partition_lines(shown):
            output.line(line)
        if alike:
            rebuilt = sum(len(each.rebuilt) for each in alike)
            output.line(f"... and {len(alike):,} more partitions that lose nothing; indexes rebuilt: {rebuilt:,}")
        for restart in shown:
            for line in detail_lines(restart):
                output.line(line)


def _is_shown(is_harmless: bool, options: Namespace) -> bool:
    """What a start does no harm to is worth knowing, no more; all else is an error."""
    return not options.quiet and not (is_harmless and options.min_severity != "info")
