"""What :func:`brokerless.restore` does: restores topics into a running cluster, or into directories of brokers."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from brokerless.clock import Time, milliseconds
from brokerless.errors import UsageError, raise_errors, renamed
from brokerless.kafka_names import Isolation
from brokerless.log.directory import resolve
from brokerless.log.read_progress import Done, ignore
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.tables.partition_reader import OnDamage

if TYPE_CHECKING:
    from brokerless.jobs.restore.disks.job import DiskRestore
    from brokerless.jobs.restore.results import Restore


@renamed(map="offset_map")
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
    on_damage: OnDamage | None = None,
    done: Done = ignore,
) -> Restore | DiskRestore:
    """Restores topics from log directories into a running cluster, or into the log directories of stopped brokers
    (``to``), as ``brokerless restore``; without ``apply``, it says what would be done.

    ``replace``, ``metadata``: with ``to``, partitions with records are moved aside, and another log directory of the
    cluster is read for its metadata. All of the others but ``topics``, ``until``, ``apply``, ``max_batch_bytes``,
    ``storage_options`` and ``on_damage`` are for running clusters.

    ``config``: librdkafka's settings, or the path of a properties file of Kafka's tools. ``topics``: only these.
    ``offset_map``: the directory of the offset map, with which a restore that was cut short goes on. ``groups``:
    groups' committed offsets are translated and committed. ``offsets``: a file of those that they have committed
    later (``serve(offsets=)``). ``append``: topics may have records. ``rate``: bytes in a second. ``until``: each
    partition ends before its first record of this time or later. ``max_batch_bytes``: what one batch may inflate to
    (128 MiB). ``storage_options``: of ``paths`` that are URLs. ``on_damage`` is called with damage of the source,
    and all else is restored; without it, the first error is raised as :class:`DamageError`.

    The result has ``findings`` (an error among them keeps it from being applied), ``topics`` (as they are in the
    source), ``partitions`` once it is applied, and ``groups``. Raises :class:`ClusterError`,
    :class:`UsageError`, :class:`UnreadableError`, :class:`UnwritableError`.
    """
    from brokerless.jobs.restore.live.connection import Connection, load_config
    from brokerless.jobs.restore.live.job import LiveSettings, plan_restore
    from brokerless.jobs.restore.live.job import apply as apply_restore
    from brokerless.jobs.restore.source import Reading, SelectedPartitions

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
        from brokerless.jobs.restore.disks.job import DiskSettings, apply_disks, plan_disks, settle_disks

        if apply:
            settle_disks(targets)
        cluster = None if metadata is None else os.fspath(metadata)
        how = DiskSettings(milliseconds(until), replace, cluster, max_batch_bytes)
        disks = plan_disks(selected, targets, how, report, done)
        return apply_disks(disks, how, report, done) if apply else disks
    live = LiveSettings(
        Reading(isolation, milliseconds(until), max_batch_bytes),
        None if offset_map is None else Path(offset_map),
        rate,
        groups,
        append,
        None if offsets is None else os.fspath(offsets),
    )
    planned = plan_restore(selected, Connection(bootstrap_servers, settings), live, report, done)
    return apply_restore(planned, report, done) if apply else planned.plan
