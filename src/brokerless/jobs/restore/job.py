"""Plans a restore, into a running cluster or into the log directories of stopped brokers, as it is requested."""

from __future__ import annotations

import os
from collections.abc import Mapping

from brokerless.errors import UsageError
from brokerless.jobs.restore.disks.job import PlannedDisks, plan_disks
from brokerless.jobs.restore.live.connection import ClusterConnection, load_config
from brokerless.jobs.restore.live.job import PlannedRestore, plan_restore
from brokerless.jobs.restore.source import SelectedPartitions
from brokerless.requests.recovery import RestoreRequest


def check_request(request: RestoreRequest) -> None:
    """Raises :class:`UsageError` for options that are of another target than the one that is requested."""
    of_cluster = (request.offset_map, request.groups, request.offsets, request.append, request.rate, request.config)
    if request.bootstrap_servers is None and any(of_cluster):
        others = "--offset-map, --groups, --offsets, --append, --rate and --command-config"
        raise UsageError(f"{others} go with --bootstrap-servers only")
    if request.bootstrap_servers is not None and (request.replace or request.metadata):
        raise UsageError("--replace and --metadata are for --to; leave them out")
    if request.offsets is not None and not request.groups:
        raise UsageError("--offsets needs --groups")


def plan(selected: SelectedPartitions, request: RestoreRequest) -> PlannedRestore | PlannedDisks:
    """Reads the source once, and compares it with the target; nothing is changed.

    Raises :class:`UsageError`, :class:`ClusterError`, UnreadableError."""
    if request.bootstrap_servers is None:
        return plan_disks(selected, request)
    config = request.config or {}
    config = config if isinstance(config, Mapping) else load_config(os.fspath(config))
    return plan_restore(selected, ClusterConnection(request.bootstrap_servers, config), request)
