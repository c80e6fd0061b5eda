"""Reports what a broker's start makes of a log directory, in ``restart``'s findings.

A copy of some partitions has no ``meta.properties``: of it only the placement of its replicas is asked, where the
cluster's metadata is next to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from brokerless.clusters.placement import BrokerNode
from brokerless.clusters.start.metadata_log import place_by
from brokerless.clusters.start.start import StartOutcome, foresee_start, is_started_on, start_findings
from brokerless.findings import Finding
from brokerless.jobs.audit.remote import local_part
from brokerless.log.directory import LogDirectory, metadata_of


def check_start(
    directory: LogDirectory, audited: Collection[str], start: StartOutcome | None = None
) -> Iterator[Finding]:
    """Yield the findings of a start on a log directory. ``audited``: the paths of its partitions that were
    audited; where these are not all, nothing is said of what a start does within partitions, and never within a
    directory that was not listed."""
    unlisted = tuple(f"{each.path.rstrip('/')}/" for each in directory.partitions if each.unreadable is not None)
    for finding in _of_start(directory, audited, start):
        if not unlisted or not finding.file.startswith(unlisted):
            yield finding


def _of_start(directory: LogDirectory, audited: Collection[str], start: StartOutcome | None) -> Iterator[Finding]:
    if not directory.is_local_log_directory:
        return
    if start is None and not is_started_on(directory):
        yield from _placements(directory)
        return
    if start is None:
        is_whole = {*audited} >= {each.path for each in directory.partitions}
        start = foresee_start([local_part(directory)], with_partitions=is_whole).get(directory.path)
    if start is not None:
        yield from start_findings(start)


def _placements(directory: LogDirectory) -> Iterator[Finding]:
    metadata = metadata_of(directory.partitions)
    if metadata is None:
        return
    for each in place_by(metadata, directory, BrokerNode(None, {directory.path.rstrip("/"): None})):
        if each.finding is not None:
            yield each.finding
