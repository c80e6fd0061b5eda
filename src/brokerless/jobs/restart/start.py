"""Sums up a broker's next start: does it start on these log directories, and what is lost by that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from brokerless.errors import UnreadableError
from brokerless.jobs.directory_state import load_directory_state
from brokerless.jobs.restart.directory_files import is_deleted
from brokerless.jobs.restart.job import plan_directories, plan_partition
from brokerless.jobs.restart.remote_deletions import RemoteDeletion
from brokerless.jobs.restart.results import Restart
from brokerless.jobs.run.types import Done, ignore
from brokerless.log import names
from brokerless.log.directory import LogDirectory
from brokerless.log.settings.definitions import versions
from brokerless.log.storage.paths import is_remote


@dataclass(frozen=True, slots=True)
class StartOutcome:
    """What a start comes to for one log directory. ``refused``: how many causes there are why a broker does not start,
    and ``first_refusal`` one of them; ``offline``: it starts with its other directories only. ``lost_bytes`` of log are
    cut or deleted; ``lost_records``: those that clients do not get any more; ``not_served`` partitions are stray, not
    loaded or not served, ``created`` ones begin empty. ``unknown``: how many partitions could not be read, or whether
    they are stray is not known. ``uncommitted``: how many partitions it deletes whose commit was cut short.
    ``remote_deletions``: with the node's first directory."""

    refused: int
    first_refusal: str | None
    offline: bool
    lost_bytes: int
    lost_records: int
    not_served: int
    created: int
    unknown: int
    uncommitted: int = 0
    remote_deletions: tuple[RemoteDeletion, ...] = ()
    version: str | None = None
    """The Kafka that starts where the newest does not; None for the newest."""
    newest: StartOutcome | None = None
    """What the newest makes of the directory where it does not start, and ``version`` does."""


def foresee_start(
    directories: Sequence[LogDirectory], max_batch_bytes: int | None = None, done: Done = ignore
) -> Mapping[str, StartOutcome]:
    """Sum up the start of a broker that has these log directories, for each path of a local one with a
    ``meta.properties``; all else is a copy of partitions, and has no entry. Where the newest Kafka refuses one, an
    older one that does not is assumed: its broker wrote the directory. ``done`` is called with bytes read."""
    own = {each.path: each for each in directories if is_started_on(each)}
    if not own:
        return {}
    newest = _outcomes(own, None, max_batch_bytes, done)
    if not any(each.refused for each in newest.values()):
        return newest
    for version in reversed(versions()[:-1]):
        older = _outcomes(own, version, max_batch_bytes, ignore)
        if not any(each.refused for each in older.values()):
            return {path: replace(each, version=version, newest=newest.get(path)) for path, each in older.items()}
    return newest


def _outcomes(
    own: Mapping[str, LogDirectory], version: str | None, max_batch_bytes: int | None, done: Done
) -> dict[str, StartOutcome]:
    outcomes: dict[str, StartOutcome] = {}
    for planned in plan_directories(list(own.values()), max_batch_bytes=max_batch_bytes, version=version):
        directory = own[planned.path]
        state = load_directory_state(directory)
        restarts: list[Restart] = []
        for partition in directory.partitions:
            with suppress(UnreadableError):  # which is reported of the partition
                restarts.append(plan_partition(partition, state, planned, max_batch_bytes))
            done(partition.size)
        refusals = [*map(str, planned.refused), *(each.refused for each in restarts if each.is_fatal and each.refused)]
        outcomes[planned.path] = StartOutcome(
            len(refusals),
            refusals[0] if refusals else None,
            planned.offline is not None or any(each.refused and not each.is_fatal for each in restarts),
            lost_bytes=sum(each.lost_bytes for each in restarts),
            lost_records=sum(each.lost.records for each in restarts),
            not_served=sum(bool(each.refused or each.stray or each.unserved) for each in restarts),
            created=len(planned.created),
            unknown=len(directory.partitions) - len(restarts) + (planned.unknown is not None),
            uncommitted=sum(each.is_unfinished and is_deleted(each) for each in directory.others),
            remote_deletions=planned.remote_deletions,
        )
    return outcomes


def is_started_on(directory: LogDirectory) -> bool:
    """Return whether a directory is a broker's own, by its ``meta.properties``, and local."""
    is_local = directory.kind == "log-directory" and not is_remote(directory.path)
    return is_local and any(each.name == names.META_PROPERTIES for each in directory.files.values())
