"""Compares two logs, or replicas: ``brokerless.diff``, ``diff_replicas``, and for tests ``assert_same_log``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from brokerless.api.jobs import select_topics
from brokerless.api.log import Log
from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
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
    from brokerless.jobs.diff.beside.groups import GroupSettings
    from brokerless.jobs.diff.beside.parts import RECORDS, compare_beside_records, requested
    from brokerless.jobs.diff.job import DiffSettings, diff_task
    from brokerless.jobs.diff.job import diff as diff_pairs
    from brokerless.jobs.diff.pairing import check_pairing, requested_pairs, requested_runs, requested_schemas
    from brokerless.jobs.diff.results import Diff
    from brokerless.jobs.diff.topics import by_key, diff_topic_task, pair_topics

    check_pairing(request)
    topics, only = request.topics, request.only
    settings = DiffSettings.of(request)
    sides = [_side(each, request.config) for each in (request.left, request.right)]
    narrowed = [
        each for side in (request.left, request.right) for each in _listed(side) if isinstance(each, Log) and each.name
    ]
    if topics is None and any(each.topic_partition is None for each in narrowed):
        topics = sorted({one.topic or "" for each in narrowed for one in each.paths})
    there = [one for each in sides for one in each.partitions]
    named = {each.path for each in select_topics(there, topics)}
    paths = {each.path for side in sides for each in side.directories}
    if topics is None:
        named = {each.path for each in there if not is_internal(each.topic) or each.path in paths}
    everything = sides
    settings = replace(settings, schemas=requested_schemas(request, (sides[0], sides[1])))
    sides = [replace(each, partitions=[one for one in each.partitions if one.path in named]) for each in sides]
    report = request.on_damage or ignore
    runs = requested_runs(request)
    only = only or ((RECORDS,) if request.offset_syncs is not None or by_key(request) else ())
    running: Any = {"spark": request.spark, "done": request.done, "processes": 1}
    has_records = RECORDS in requested(only)
    if by_key(request):
        topic_pairs = pair_topics(*sides) if has_records else ()
        results = diff_pairs(topic_pairs, settings, work=diff_topic_task, **running)
    else:
        left, right = sides
        if request.offset_syncs is not None:  # mirrors have other names
            mirrored = [one for one in everything[1].partitions if not is_internal(one.topic) or one.path in named]
            right = replace(right, partitions=mirrored)
        pairs = requested_pairs(request, (left, right), runs, report)
        results = diff_pairs(pairs if has_records else (), settings, work=diff_task, **running)
    found = _compared(results, report)
    chosen = None if topics is None else {each.topic or "" for side in sides for each in side.partitions}
    of_groups = GroupSettings(settings.allowed, chosen, settings.max_batch_bytes, runs)
    beside = compare_beside_records((sides[0], sides[1]), only, of_groups, report)
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
    results = diff_pairs(scrub.pairs, settings, work=diff_task, spark=request.spark, done=request.done, processes=1)
    found = _compared(results, request.on_damage or ignore)
    scrub.add(found)
    return Diff(ShownList(found))


def _compared(results: Iterable[PartitionDiff | UnreadableError], report: Report) -> list[PartitionDiff]:
    found: list[PartitionDiff] = []
    for each in results:
        if isinstance(each, UnreadableError):
            raise each
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


def _side(compared: Compared, config: Mapping[str, str] | str | os.PathLike[str] | None = None) -> Side:
    from brokerless.jobs.diff.pairs import Side

    client = os.fspath(config) if isinstance(config, os.PathLike) else config

    several = _listed(compared)
    if not several:
        raise UsageError("give at least one path for each side")
    directories: list[LogDirectory] = []
    partitions: list[PartitionPath] = []
    for each in several:
        log = each if isinstance(each, Log) else Log(_directory(each, client))
        one = log.topic_partition and log.paths[0]
        directories.append(LogDirectory(one.location, "partition", (one,)) if one else log.directory)
        partitions += log.paths
    return Side(directories, partitions, client)


def _directory(path: str | os.PathLike[str], client: Mapping[str, str] | str | None) -> LogDirectory:
    from brokerless.jobs.diff.exported.listing import list_tables, table_form
    from brokerless.jobs.diff.live.cluster import connect, is_live, list_partitions

    if is_live(path):
        return list_partitions(connect(str(path), client))
    form = table_form(Location.of(path))
    return open_directory(Location.of(path)) if form is None else list_tables(Location.of(path), form)


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
