"""What :func:`brokerless.restore` does: restores topics into a running cluster, or into directories of brokers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.clock import Time, milliseconds
from brokerless.errors import UsageError, raise_errors
from brokerless.kafka_names import Isolation
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked

if TYPE_CHECKING:
    from brokerless.jobs.restore.disks.job import DiskRestore
    from brokerless.jobs.restore.results import Restore


@checked
def restore(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    bootstrap_servers: str | None = None,
    to: Iterable[str | os.PathLike[str]] = (),
    replace: bool = False,
    metadata: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] | str | os.PathLike[str] | None = None,
    topics: Collection[str] | None = None,
    offset_map: str | os.PathLike[str] | None = None,
    groups: bool = False,
    offsets: str | os.PathLike[str] | None = None,
    append: bool = False,
    rate: int | None = None,
    until: Time | None = None,
    isolation: Isolation = "read_committed",
    apply: bool = False,
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
) -> Restore | DiskRestore:
    """Restore topics into a running cluster, or into the directories of stopped brokers, as ``brokerless restore``.

    Parameters
    ----------
    paths : path or list of paths
        Log directories that are read.
    bootstrap_servers : str, optional
        The running cluster. Either this or ``to`` is given.
    to : list of paths, optional
        The log directories of stopped brokers.
    replace : bool, default False
        With ``to``: partitions that have records are moved aside.
    metadata : path, optional
        With ``to``: another log directory of the cluster, which is read for its metadata.
    config : dict or path, optional
        librdkafka's settings, or a properties file of Kafka's tools.
    topics : collection of str, optional
        Only these topics.
    offset_map : path, optional
        The directory of the offset map, with which a restore that was cut short goes on.
    groups : bool, default False
        Groups' committed offsets are translated and committed.
    offsets : path, optional
        A file of offsets that groups have committed later (``serve(offsets=)``).
    append : bool, default False
        Topics may have records.
    rate : int, optional
        Bytes in a second.
    until : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``, optional
        Each partition ends before its first record of this time or later.
    isolation : {"read_committed", "read_uncommitted"}
        What of transactions is sent.
    apply : bool, default False
        Do it; by default it is only planned.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of ``paths`` that are URLs.
    on_damage : callable, optional
        Called with damage of the source, and all else is restored; without it, the first error is raised.
    done : callable, optional
        Called with the bytes that were read since the last call.

    Returns
    -------
    Restore or DiskRestore
        ``findings`` (an error among them keeps it from being applied), ``topics`` as they are in the source,
        ``partitions`` once it is applied, and ``groups``.

    Raises
    ------
    ClusterError
        For what the cluster refuses.
    DamageError
        For the first damage, without ``on_damage``.
    UsageError, UnreadableError, UnwritableError
        For what cannot be done, read or written.
    """
    from brokerless.jobs.restore.live.connection import ClusterConnection, load_config
    from brokerless.jobs.restore.live.job import LiveSettings, plan_restore
    from brokerless.jobs.restore.live.job import apply as apply_restore
    from brokerless.jobs.restore.source import SelectedPartitions, SourceReading

    targets = [os.fspath(each) for each in to]
    if (bootstrap_servers is None) == (not targets):
        raise UsageError("restore: give either bootstrap_servers or to")
    given = [os.fspath(each) for each in ([paths] if isinstance(paths, str | os.PathLike) else paths)]
    settings = config if isinstance(config, Mapping) else {} if config is None else load_config(os.fspath(config))
    directories = [resolve(Location(each, storage_options), ()) for each in given]
    everything = [each for directory in directories for each in directory.partitions]
    chosen = [each for each in everything if topics is None or each.topic in topics]
    missing = set(topics or ()) - {each.topic for each in chosen}
    if missing:
        raise UsageError(f"{', '.join(given)}: there is no topic {min(missing)}")
    report = on_damage or raise_errors
    selected = SelectedPartitions(given, chosen, everything, sorted(topics or ()))
    if bootstrap_servers is None:
        from brokerless.jobs.restore.disks.job import DiskSettings, apply_disks, plan_disks, recover_disks

        if apply:
            recover_disks(targets)
        cluster = None if metadata is None else os.fspath(metadata)
        how = DiskSettings(milliseconds(until), replace, cluster, max_batch_bytes)
        disks = plan_disks(selected, targets, how, on_damage=report, done=done)
        return apply_disks(disks, how, report, done) if apply else disks
    live = LiveSettings(
        SourceReading(isolation, milliseconds(until), max_batch_bytes),
        None if offset_map is None else Path(offset_map),
        rate,
        groups=groups,
        append=append,
        offsets=None if offsets is None else os.fspath(offsets),
    )
    planned = plan_restore(selected, ClusterConnection(bootstrap_servers, settings), live, on_damage=report, done=done)
    return apply_restore(planned, report, done) if apply else planned.plan
