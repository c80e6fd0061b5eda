"""``brokerless restart``: predicts what a broker does with a log directory at its next start."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.cli.options import add_severity
from brokerless.cli.output import Output
from brokerless.cli.progress import progress
from brokerless.cli.requests import add_request
from brokerless.cli.selection import is_narrowed
from brokerless.errors import UnreadableError
from brokerless.requests.checking import RestartRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from brokerless.api.log import Log
    from brokerless.clusters.directory_state import DirectoryState
    from brokerless.clusters.start.results import DirectoryRestart
    from brokerless.log.directory import PartitionPath

DESCRIPTION = """\
What a broker would do to these logs if it started now: a dry run of Kafka's own recovery. Nothing is changed.

For each partition: the bytes that it would cut, the segments that it would delete, the indexes that it would rebuild,
and the offsets that consumers would lose. For the directory: whether the broker starts on it at all or is refused (by
meta.properties, checkpoints, names, or KRaft's own log), which partitions become stray, which begin empty, which
transactions the coordinator ends, and which positions of groups are past the end of a partition then. Several paths are
taken as the log.dirs of one broker. What retention deletes soon after a start, as records are old, is said as well; it
does not change the exit code.

Of tiered topics: which remote segments it would delete from the bucket, and which log starts it would move, as it knows
no remote segments before them.

Settings and records in the cluster's metadata are checked as the Kafka that starts checks them.

The exit code is 0 if nothing would be lost, 1 if anything would be cut, deleted, stray, refused, not served or begun
empty, if positions are past an end, or if that is not known, and 2 for a path that cannot be opened.
"""
EXAMPLES = """\
  brokerless restart /var/lib/kafka
  brokerless restart /disk1/kafka /disk2/kafka --min-severity error
  brokerless restart /var/lib/kafka --json | jq 'select(.lostBytes > 0)'
"""


_SHOWN = 10
"""Partitions to which a start does no harm that are shown, where there are many more."""


def add_options(parser: ArgumentParser) -> None:
    add_request(parser, RestartRequest)
    add_severity(parser)


def run(options: Namespace, output: Output) -> None:
    local = Namespace(**{**vars(options), "remote": None})  # the bucket is counted, and not read
    output.note_findings(_show_directories(output.log_directories(local), options, output))


def _show_directories(logs: list[Log], options: Namespace, output: Output) -> bool:
    """Return whether a start would change anything."""
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.clusters.start.directories import plan_directories
    from brokerless.clusters.start.remote_deletions import deletion_line
    from brokerless.clusters.start.remote_log_starts import log_start_line
    from brokerless.text import count_of, show_name
    from brokerless.views.restart import directory_lines, directory_row

    paths = [log.directory for log in logs]
    planned = plan_directories(
        paths, max_batch_bytes=options.max_batch_bytes, version=options.kafka, bucket=options.remote
    )
    directories = {each.path: each for each in planned}
    remote = [each for directory in planned for each in directory.remote_deletions]
    moved = [each for directory in planned for each in directory.remote_log_starts]
    if remote and not options.json:
        output.prose(f"{show_name(deletion_line(remote))}\n")
    if moved and not options.json:
        output.prose(f"{show_name(log_start_line(moved))}\n")
    is_whole = not is_narrowed(options)
    is_changed = False
    for number, log in enumerate(logs):
        chosen = output.chosen(log, options, shows_others=True)
        if not chosen and not is_whole:
            continue
        if number and not options.json:
            output.prose("")
        directory = directories.get(log.path)
        changed, total, ends = _show_partitions(
            chosen, directory, load_directory_state(log.directory), options=options, output=output
        )
        is_changed |= changed > 0
        if directory is not None:
            is_changed |= bool(directory.refused) if not is_whole else not directory.is_harmless
            if options.json and _is_shown(directory.is_harmless, options):
                output.objects([directory_row(directory)])
            elif not options.json and _is_shown(directory.is_harmless, options):
                output.prose(*directory_lines(directory, {each.path for each in chosen}))
        if not options.json:
            ends |= directory is not None and bool(directory.refused)
            refused = "; a broker does not start on this directory" if ends else ""
            verdict = f"{count_of(total, 'partition')}, {changed:,} of them changed{refused}"
            output.prose(verdict if options.quiet else f"\n{verdict}")
    return is_changed


def _show_partitions(
    chosen: Sequence[PartitionPath],
    directory: DirectoryRestart | None,
    state: DirectoryState,
    options: Namespace,
    output: Output,
) -> tuple[int, int, bool]:
    """Shows partitions; returns how many a start would change, of how many, and whether a broker ends at one."""
    from brokerless.clusters.directory_state import running_broker
    from brokerless.clusters.start.job import plan_partition
    from brokerless.clusters.start.results import Restart
    from brokerless.views.restart import detail_lines, partition_lines, row

    running = running_broker(state)
    if running is not None:
        text = "a broker is running on this directory; this is what a start would do if it were killed now"
        output.say(f"{running}: {text} (after a clean stop it cuts nothing; run this again then)")
    restarts: list[Restart] = []
    with progress("reading", sum(each.size for each in chosen)) as done:
        for partition in chosen:
            paths = partition
            try:
                restart = plan_partition(paths, state, directory, options.max_batch_bytes)
            except UnreadableError as error:
                within = partition.path not in options.paths or Path(partition.path).is_dir()
                (output.unreadable_within if within else output.unreadable)(error)
            else:
                restarts.append(restart)
                if options.json and _is_shown(restart.is_harmless, options):
                    output.objects([row(restart)])
            done(partition.size)
    if not options.json and not options.quiet:
        harmless = [number for number, each in enumerate(restarts) if each.is_harmless]
        first = set(harmless[: _SHOWN if len(harmless) > 2 * _SHOWN else None] if _is_shown(True, options) else ())
        alike = [restarts[number] for number in harmless if first and number not in first]
        shown = [each for number, each in enumerate(restarts) if not each.is_harmless or number in first]
        output.prose(*partition_lines(shown))
        if alike:
            rebuilt = sum(len(each.rebuilt) for each in alike)
            output.prose(f"... and {len(alike):,} more partitions that lose nothing; indexes rebuilt: {rebuilt:,}")
            expiring = sum(each.retention is not None for each in alike)
            if expiring:
                output.prose(f"... of {expiring:,} of them, retention deletes segments some minutes later")
        for restart in shown:
            output.prose(*detail_lines(restart))
    changed = sum(not restart.is_harmless for restart in restarts)
    return changed, len(restarts), any(restart.is_fatal for restart in restarts)


def _is_shown(is_harmless: bool, options: Namespace) -> bool:
    """Return what a start does no harm to is worth knowing, no more; all else is an error."""
    return not options.quiet and not (is_harmless and options.min_severity != "info")
