"""What :func:`brokerless.restore` does: restores topics into a running cluster, or into directories of brokers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokerless.api.jobs import open_logs
from brokerless.errors import UsageError, raise_errors
from brokerless.requests.options import asks
from brokerless.requests.recovery import RestoreRequest

if TYPE_CHECKING:
    from brokerless.jobs.restore.disks.job import DiskRestore
    from brokerless.jobs.restore.results import Restore


@asks(RestoreRequest)
def restore(request: RestoreRequest) -> Restore | DiskRestore:
    """Restore topics into a running cluster, or into the directories of stopped brokers, as ``brokerless restore``.

    Returns
    -------
    Restore or DiskRestore
        ``findings`` (with an error among them, nothing is applied), ``topics`` as they are in the source,
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
    from brokerless.jobs.restore.source import SelectedPartitions

    targets = [os.fspath(each) for each in request.to]
    if (request.bootstrap_servers is None) == (not targets):
        raise UsageError("restore: give either bootstrap_servers or to")
    settings = (
        request.config
        if isinstance(request.config, Mapping)
        else {}
        if request.config is None
        else load_config(os.fspath(request.config))
    )
    directories = open_logs(request.paths, "give at least one path", request.storage_options)
    given = [each.path for each in directories]
    everything = [each for directory in directories for each in directory.partitions]
    chosen = [each for each in everything if request.topics is None or each.topic in request.topics]
    missing = set(request.topics or ()) - {each.topic for each in chosen}
    if missing:
        raise UsageError(f"{', '.join(given)}: there is no topic {min(missing)}")
    report = request.on_damage or raise_errors
    selected = SelectedPartitions(given, chosen, everything, sorted(request.topics or ()))
    if request.bootstrap_servers is None:
        from brokerless.jobs.restore.disks.job import DiskSettings, apply_disks, plan_disks, recover_disks

        if request.apply:
            recover_disks(targets)
        how = DiskSettings.of(request)
        disks = plan_disks(selected, targets, how, on_damage=report, done=request.done)
        return apply_disks(disks, how, report, request.done) if request.apply else disks
    live = LiveSettings.of(request)
    planned = plan_restore(
        selected, ClusterConnection(request.bootstrap_servers, settings), live, on_damage=report, done=request.done
    )
    return apply_restore(planned, report, request.done) if request.apply else planned.plan
