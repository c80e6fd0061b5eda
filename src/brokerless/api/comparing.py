"""Compares two logs, or replicas: ``brokerless.diff``, ``diff_replicas``, and for tests ``assert_same_log``."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from brokerless.api.jobs import bound, select_topics
from brokerless.api.log import Log
from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.names import is_internal
from brokerless.log.storage.location import Location
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.jobs.diff.job import DiffSettings
    from brokerless.jobs.diff.pairs import Pair, Side
    from brokerless.jobs.diff.partition_diff import PartitionDiff
    from brokerless.jobs.diff.results import Diff
    from brokerless.jobs.run.types import Spark

Compared = str | os.PathLike[str] | Log | Iterable[str | os.PathLike[str] | Log]
"""One side of a comparison: a path, what :func:`brokerless.open` returned, or several of one cluster's disks."""
_SHOWN = 20


@checked
def diff(
    left: Compared,
    right: Compared,
    *,
    topics: Collection[str] | None = None,
    only: Collection[str] = (),
    allow: Collection[str] = (),
    limit: int | None = 10,
    show_keys: bool = False,
    quick: bool = False,
    offset_map: str | os.PathLike[str] | None = None,
    offset_syncs: str | os.PathLike[str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
    spark: Spark = "none",
) -> Diff:
    """Compare two logs record by record, and find the cause of each difference, as ``brokerless diff``.

    Partitions are compared by name, records by offset; only what both sides should have is compared. Nothing is
    written.

    Parameters
    ----------
    left, right : path, Log, or a list of these
        What is compared: several are disks of one cluster, and of several replicas that with the greatest leader epoch,
        and the longest of these, counts. What takes options to be opened is opened by :func:`open`.
    topics : collection of str, optional
        Of these topics alone, by names or patterns (``click*``). Kafka's own topics are compared only if they are named
        here, or are a side themselves.
    only : collection of str, optional
        What is compared: ``"records"``, ``"groups"``, ``"settings"``, ``"topics"``, ``"acls"``, ``"users"``,
        ``"quotas"``; by default all that both sides have. With ``topics``, of these topics.
    allow : collection of str, optional
        Causes by which the logs may differ, such as ``"lagging"``, besides those that always may.
    limit : int or None, default 10
        How many differences of a partition are listed; None for all.
    show_keys : bool, default False
        Whether these have the keys of their records, which may be personal data.
    quick : bool, default False
        Take batches whose headers are the same for the same batches. Then their bytes are not read, and damage in them
        is not found.
    offset_map : path, optional
        The directory with the offset map of a restore, of which the right side is the target: then records and groups'
        positions are compared by that, in the partitions that it has.
    offset_syncs : path, optional
        MirrorMaker 2's topic ``mm2-offset-syncs.ALIAS.internal``, or the log directory that has it, where the right
        side is a mirror of the left one: then records are compared in their order.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    on_damage : callable, optional
        Called with each :class:`Finding`.
    done : callable, optional
        Called with the bytes that were read since the last call.
    spark : str, SparkSession or SparkContext, default "none"
        A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
        default this process does it all.

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
    from brokerless.jobs.diff.mirrors import load_offset_syncs, pair_by_syncs
    from brokerless.jobs.diff.pairs import load_offset_runs, pair, pair_by_map
    from brokerless.jobs.diff.results import Diff

    if offset_map is not None and offset_syncs is not None:
        raise UsageError("give offset_map or offset_syncs, not both")
    settings = _settings(allow, limit, show_keys=show_keys, quick=quick, max_batch_bytes=max_batch_bytes)
    sides = [_side(each) for each in (left, right)]
    narrowed = [each for side in (left, right) for each in _listed(side) if isinstance(each, Log) and each.name]
    if topics is None and any(each.topic_partition is None for each in narrowed):
        topics = sorted({one.topic or "" for each in narrowed for one in each.paths})
    there = [one for each in sides for one in each.partitions]
    named = {each.path for each in select_topics(there, topics)}
    paths = {each.path for side in sides for each in side.directories}
    if topics is None:
        named = {each.path for each in there if not is_internal(each.topic) or each.path in paths}
    everything = sides
    sides = [replace(each, partitions=[one for one in each.partitions if one.path in named]) for each in sides]
    report = on_damage or ignore
    runs = None if offset_map is None else load_offset_runs(os.fspath(offset_map))
    if offset_syncs is not None:
        only = only or (RECORDS,)
        mirrored = [one for one in everything[1].partitions if not is_internal(one.topic) or one.path in named]
        syncs = load_offset_syncs(os.fspath(offset_syncs), report, settings.max_batch_bytes)
        pairs = pair_by_syncs(sides[0], replace(sides[1], partitions=mirrored), syncs)
    else:
        pairs = pair(*sides) if runs is None else pair_by_map(sides[0], sides[1], runs)
    pairs = pairs if RECORDS in requested(only) else []
    found = _compare(pairs, settings, spark, done=done, report=report)
    chosen = None if topics is None else {each.topic or "" for side in sides for each in side.partitions}
    of_groups = GroupSettings(settings.allowed, chosen, settings.max_batch_bytes, runs)
    beside = compare_beside_records((sides[0], sides[1]), only, of_groups, report)
    return Diff(ShownList(found), beside.groups, beside.state)


@checked
def diff_replicas(
    disks: Iterable[str | os.PathLike[str] | Log],
    *,
    topics: Collection[str] | None = None,
    allow: Collection[str] = (),
    limit: int | None = 10,
    show_keys: bool = False,
    quick: bool = False,
    budget: int | None = None,
    state: str | os.PathLike[str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
    spark: Spark = "none",
) -> Diff:
    """Compare the replicas on the disks of one cluster with each other, as ``brokerless diff --replicas``.

    Of each partition, the replica with the greatest leader epoch, and of these the longest, is compared with each of
    the others, below the least of their high watermarks. Nothing is written but the state.

    Parameters
    ----------
    disks : list of path or Log
        The disks of one cluster, or as many as there are.
    topics : collection of str, optional
        Of these topics alone, by names or patterns (``click*``).
    allow, limit, show_keys, quick, max_batch_bytes, on_damage, done, spark
        As those of :func:`diff`.
    budget : int, optional
        Compare so many bytes at most, and one partition at least: what differed, was never compared, or was compared
        longest ago comes first.
    state : path, optional
        The file that records when partitions were compared, for ``budget``; not in a log directory.

    Returns
    -------
    Diff
        ``partitions`` has an entry for each replica, the ``right`` one, next to the one that counts, the ``left`` one.

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
    from brokerless.jobs.diff.replicas import begin_scrub
    from brokerless.jobs.diff.results import Diff

    side = _side(disks)
    selected = select_topics(side.partitions, topics)
    path = None if state is None else os.fspath(state)
    scrub = begin_scrub(selected, budget, path)
    settings = _settings(allow, limit, show_keys=show_keys, quick=quick, max_batch_bytes=max_batch_bytes)
    found = _compare(scrub.pairs, settings, spark, done=done, report=on_damage or ignore)
    scrub.add(found)
    return Diff(ShownList(found))


def _settings(
    allow: Collection[str], limit: int | None, *, show_keys: bool, quick: bool, max_batch_bytes: int | None
) -> DiffSettings:
    from brokerless.jobs.diff.causes import allowed_causes
    from brokerless.jobs.diff.job import DiffSettings

    if limit is not None and limit < 0:
        raise UsageError(f"limit: {limit} is less than 0")
    return DiffSettings(
        allowed_causes(allow), limit, show_keys=show_keys, quick=quick, max_batch_bytes=bound(max_batch_bytes)
    )


def _compare(
    pairs: Sequence[Pair], settings: DiffSettings, spark: Spark, *, done: Done, report: Report
) -> list[PartitionDiff]:
    from brokerless.jobs.diff.job import diff as compare

    found: list[PartitionDiff] = []
    for each in compare(pairs, settings, spark=spark, done=done, processes=1):
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


def _side(compared: Compared) -> Side:
    from brokerless.jobs.diff.pairs import Side

    several = _listed(compared)
    if not several:
        raise UsageError("give at least one path for each side")
    directories: list[LogDirectory] = []
    partitions: list[PartitionPath] = []
    for each in several:
        log = each if isinstance(each, Log) else Log(open_directory(Location.of(each)))
        one = log.topic_partition and log.paths[0]
        directories.append(LogDirectory(one.location, "partition", (one,)) if one else log.directory)
        partitions += log.paths
    return Side(directories, partitions)


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
