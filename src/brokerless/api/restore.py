"""What :func:`brokerless.restore` does: restores topics into a running cluster, or into directories of brokers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from brokerless.api.jobs import open_logs
from brokerless.errors import UsageError
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
    from brokerless.jobs.restore.disks.job import recover_disks
    from brokerless.jobs.restore.job import check_request, plan
    from brokerless.jobs.restore.source import SelectedPartitions

    targets = [os.fspath(each) for each in request.to]
    if (request.bootstrap_servers is None) == (not targets):
        raise UsageError("restore: give either bootstrap_servers or to")
    check_request(request)
    directories = open_logs(request.paths, "give at least one path", request.storage_options)
    given = [each.path for each in directories]
    everything = [each for directory in directories for each in directory.partitions]
    chosen = [each for each in everything if request.topics is None or each.topic in request.topics]
    missing = set(request.topics or ()) - {each.topic for each in chosen}
    if missing:
        raise UsageError(f"{', '.join(given)}: there is no topic {min(missing)}")
    if request.apply and targets:
        recover_disks(targets)
    planned = plan(SelectedPartitions(given, chosen, everything, sorted(request.topics or ())), request)
    return planned.apply(request.done) if request.apply else planned.plan
