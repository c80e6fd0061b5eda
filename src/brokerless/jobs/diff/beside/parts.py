"""Compares what two sides have beside records, as far as both have it: groups' positions, and what the metadata has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass, replace

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Kind, Severity
from brokerless.internals.metadata.cluster import Cluster
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.jobs.diff.beside.cluster_state import (
    PARTS,
    QUOTAS,
    ClusterState,
    StateDifference,
    cluster_of,
    compare_clusters,
    compared_of,
    why_unknown,
)
from brokerless.jobs.diff.beside.groups import GroupDiff, GroupSettings, compare_groups, has_groups
from brokerless.jobs.diff.live.cluster import RunningCluster
from brokerless.jobs.diff.pairs import Side
from brokerless.log import names
from brokerless.progress import Report

RECORDS, GROUPS = "records", "groups"
ONLY = (RECORDS, GROUPS, *PARTS)
"""What is compared, as ``--only`` names it."""


@dataclass(frozen=True, slots=True)
class BesideRecords:
    """What was compared: groups, and what differs of the rest."""

    groups: tuple[GroupDiff, ...] = ()
    state: tuple[StateDifference, ...] = ()


def requested(only: Collection[str], otherwise: Collection[str] = ONLY) -> frozenset[str]:
    """Return what is compared: ``only`` that, or what is ``otherwise``. Raises :class:`UsageError` for an unknown
    name."""
    unknown = next((each for each in only if each not in ONLY), None)
    if unknown is not None:
        raise UsageError(f"there is no {unknown!r} to compare; there are {', '.join(ONLY)}")
    return frozenset(only or otherwise)


def compare_beside_records(
    sides: tuple[Side, Side], parts: Set[str], settings: GroupSettings, report: Report, *, is_named: bool
) -> BesideRecords:
    """Compare what is not records, of ``parts`` what both sides have. ``is_named``: a request names them.

    Raises :class:`UnreadableError` for a side that does not have what is named. Parts of it that a running cluster does
    not tell are reported, where it tells others of them.
    """
    clusters = tuple(cluster_of(each, report) if parts - {RECORDS} else None for each in sides)
    left, right = clusters
    groups: tuple[GroupDiff, ...] = ()
    if GROUPS in parts:
        known = zip(sides, clusters, strict=True)
        lacking = next((each for each, cluster in known if not has_groups(each, cluster)), None)
        if lacking is None:
            groups = tuple(compare_groups(sides, (left, right), settings, report))
        elif is_named:
            raise _lacks(lacking, clusters, GROUPS, CONSUMER_OFFSETS)
        else:
            for each in clusters:
                if (reason := why_unknown(each, GROUPS)) is not None:
                    _say_untold(each, GROUPS, reason, report=report)
    state: tuple[StateDifference, ...] = ()
    if parts & PARTS.keys():
        if left is not None and right is not None:
            state = tuple(compare_clusters(left, right, parts, settings.topics))
        elif is_named:
            raise _lacks(sides[0] if left is None else sides[1], clusters, "", names.CLUSTER_METADATA)
        lacking_parts = {
            (part, number): reason
            for number, each in enumerate(clusters)
            for part in sorted(parts & compared_of(settings.topics))
            if (reason := why_unknown(each, part, settings.topics)) is not None
        }
        is_all = not parts - {part for part, _ in lacking_parts}
        for (part, number), reason in lacking_parts.items():
            other = clusters[1 - number]
            has_it = part != QUOTAS or (isinstance(other, Cluster) and bool(other.quotas))
            severity: Severity = "warning" if has_it else "info"
            _say_untold(
                clusters[number], part, reason, is_named=is_named, is_all=is_all, severity=severity, report=report
            )
    return BesideRecords(groups, state)


def _say_untold(
    cluster: ClusterState,
    part: str,
    reason: str,
    *,
    is_named: bool = False,
    is_all: bool = False,
    severity: Severity = "warning",
    report: Report,
) -> None:
    """Report that a part is not compared, as a running cluster does not tell it: an error where it is requested, which
    is raised where nothing else is; else of a ``severity``."""
    assert isinstance(cluster, RunningCluster)
    error = UnreadableError(cluster.url, f"{part} are not compared: {reason}", Kind.NOT_COMPARED)
    finding = error.finding(cluster.url)
    if is_named and is_all:
        raise error
    report(replace(finding, severity="error" if is_named else severity))


def _lacks(side: Side, clusters: Iterable[ClusterState], part: str, topic: str) -> UnreadableError:
    for each in clusters:
        if side.url is not None and (reason := why_unknown(each, part)) is not None:
            return UnreadableError(side.url, f"{part} cannot be compared: {reason}")
    text = f"there is no partition of {topic}, so that this cannot be compared; give all disks of this side"
    return UnreadableError(side.directories[0].path, text)
