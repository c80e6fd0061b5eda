"""Compares two logs, or replicas: ``brokerless.diff``, ``diff_replicas``, and for tests ``assert_same_log``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from brokerless.api.jobs import is_chosen, select_topics
from brokerless.api.log import Log
from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.run.job import values_or_raise
from brokerless.jobs.run.types import RunOptions
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.storage.location import Location
from brokerless.progress import Report, ignore
from brokerless.requests.comparing import DiffRequest, ReplicasRequest
from brokerless.requests.option_types import OpenedLog
from brokerless.requests.options import asks
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.diff.pairs import Side
    from brokerless.jobs.diff.partition_diff import PartitionDiff
    from brokerless.jobs.diff.results import Diff

Compared = str | os.PathLike[str] | OpenedLog | Iterable[str | os.PathLike[str] | OpenedLog]
"""One side of a comparison: a path, what :func:`brokerless.open` returned, or several of one cluster's disks."""
_SHOWN = 20


@asks(DiffRequest)
def diff(request: DiffRequest) -> Diff:
    """Compare two logs record by record, and find the cause of each difference, as ``brokerless diff``.

    Partitions are compared by name, records by offset; only what both sides should have is compared. Nothing is
    written.

    Returns
    -------
    Diff
        ``is_same``, the ``partitions`` with counts by cause, ``differences()`` as an Arrow table, the ``groups``, and
        the ``state`` that differs.

    Raises
    ------
    UsageError, UnreadableError
        For a side that cannot be read, or does not have what ``only`` names, and for an unknown cause.

    Examples
    --------
    >>> import brokerless
    >>> found = brokerless.diff("demo/replicas/broker-2", "demo/replicas/broker-3")
    >>> found.is_same
    False
    >>> found.differences().select(["firstOffset", "lastOffset", "cause"]).to_pylist()[0]
    {'firstOffset': 220, 'lastOffset': 269, 'cause': 'changed'}
    """
    from brokerless.jobs.diff.plan import plan_diff
    from brokerless.jobs.diff.results import Diff

    topics = request.topics
    is_wanted = _is_wanted(None if request.offset_syncs is not None else topics)  # mirrors have other names
    left, right = (_side(each, request.config, is_wanted) for each in (request.left, request.right))
    narrowed = [
        each for side in (request.left, request.right) for each in _listed(side) if isinstance(each, Log) and each.name
    ]
    if topics is None and any(each.topic_partition is None for each in narrowed):
        topics = sorted({one.topic or "" for each in narrowed for one in each.paths})
    there = [*left.partitions, *right.partitions]
    named = {each.path for each in select_topics(there, topics)}
    if topics is None:
        paths = {each.path for side in (left, right) for each in side.directories}
        named = {each.path for each in there if not is_internal(each.topic) or each.path in paths}
    left, right = (
        replace(each, partitions=[one for one in each.partitions if one.path in named]) for each in (left, right)
    )
    report = request.on_damage or ignore
    plan = plan_diff(request, (left, right), report, is_narrowed=topics is not None)
    found = _compared(plan.compare_records(RunOptions(request.done, request.spark, processes=1)), report)
    beside = plan.compare_others(report)
    return Diff(ShownList(found), beside.groups, beside.state)


@asks(ReplicasRequest)
def diff_replicas(request: ReplicasRequest) -> Diff:
    """Compare the replicas on the disks of one cluster with each other, as ``brokerless diff --replicas``.

    In each partition, one replica counts: the one with the greatest leader epoch, and of these the longest. All others
    are compared with it, up to the lowest of their high watermarks. Nothing is written but the state.

    Returns
    -------
    Diff
        ``partitions`` has an entry for each replica that was compared (``right``) with the one that counts (``left``).

    Raises
    ------
    UsageError, UnreadableError
        Where no partition has two replicas, for what cannot be read, and for an unknown cause.

    See Also
    --------
    diff : Compare two logs.

    Examples
    --------
    >>> import brokerless
    >>> found = brokerless.diff_replicas(["demo/replicas/broker-1", "demo/replicas/broker-2", "demo/replicas/broker-3"])
    >>> found.is_same, [each.records for each in found.partitions]
    (True, [120, 120])
    """
    from brokerless.jobs.diff.job import DiffSettings, diff_task
    from brokerless.jobs.diff.job import diff as diff_pairs
    from brokerless.jobs.diff.replicas import begin_scrub
    from brokerless.jobs.diff.results import Diff

    side = _side(request.disks)
    selected = select_topics(side.partitions, request.topics)
    path = None if request.state is None else os.fspath(request.state)
    scrub = begin_scrub(selected, request.budget, path)
    settings = DiffSettings.of(request)
    running = RunOptions(request.done, request.spark, processes=1)
    results = diff_pairs(scrub.pairs, settings, work=diff_task, running=running)
    found = _compared(results, request.on_damage or ignore)
    scrub.add(found)
    return Diff(ShownList(found))


def _compared(results: Generator[PartitionDiff | UnreadableError], report: Report) -> list[PartitionDiff]:
    found: list[PartitionDiff] = []
    for each in values_or_raise(results):
        found.append(each)
        for finding in each.findings:
            report(finding)
    return found


def _listed(compared: Compared) -> list[Any]:
    several: Any = compared  # or whatever somebody passed
    if isinstance(several, str | os.PathLike | Log):
        return [several]
    if not isinstance(several, Iterable):
        raise UsageError(f"{several!r} is no path and no log, and no list of these")
    return list(several)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _is_wanted(topics: Collection[str] | None) -> Callable[[str], bool]:
    return lambda topic: is_chosen(topic, topics)


def _side(
    compared: Compared,
    config: Mapping[str, str] | str | os.PathLike[str] | None = None,
    is_wanted: Callable[[str], bool] = bool,
) -> Side:
    from brokerless.jobs.diff.copies import list_without_segments
    from brokerless.jobs.diff.pairs import Side

    client = os.fspath(config) if isinstance(config, os.PathLike) else config
    several = _listed(compared)
    if not several:
        raise UsageError("give at least one path for each side")
    directories: list[LogDirectory] = []
    partitions: list[PartitionPath] = []
    for each in several:
        log = each
        if not isinstance(each, Log):
            log = Log(list_without_segments(each, client, is_wanted) or open_directory(Location.of(each)))
        one = log.topic_partition and log.paths[0]
        directories.append(LogDirectory(one.location, "partition", (one,)) if one else log.directory)
        partitions += log.paths
    return Side(directories, partitions, client)


def assert_same_log(left: Compared, right: Compared, *, allow: Collection[str] = ()) -> None:
    """Assert in a test that two logs have the same records, by :func:`diff`.

    Parameters
    ----------
    left, right : path, Log, or a list of these
        What is compared.
    allow : collection of str, optional
        Causes by which the logs may differ, besides those that always may.

    Raises
    ------
    AssertionError
        If they differ, with the first differences as ``brokerless diff`` prints them.
    UsageError, UnreadableError
        For a side that cannot be read, and for an unknown cause.

    Examples
    --------
    >>> import brokerless
    >>> brokerless.assert_same_log("demo/data", "demo/data")
    """
    found = diff(left, right, allow=allow)
    if not found.is_same:
        raise AssertionError("the logs differ:\n" + "\n".join(islice(found.lines(), _SHOWN)))
