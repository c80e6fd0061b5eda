"""A cluster by its disks: describe it, back it up, rebuild it, serve its log directories to Kafka clients."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from brokerless.api.jobs import Paths, is_chosen, list_paths, select_topics, sources_of
from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.requests.backups import (
    BackupErasureRequest,
    BackupRequest,
    CheckRequest,
    DrillRequest,
    ForgetRequest,
    JoinRequest,
    KeysRequest,
    PruneRequest,
    SealRequest,
)
from brokerless.requests.options import asks, takes
from brokerless.requests.reading import OpenRequest
from brokerless.requests.recovery import ClusterRequest, RebuildRequest, UndoRebuildRequest
from brokerless.requests.serving import ServeRequest
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.clusters.description import ClusterDescription
    from brokerless.jobs.backup.job import BackupResult
    from brokerless.jobs.backup_erasure.job import BackupErasure
    from brokerless.jobs.check.job import CheckResult
    from brokerless.jobs.check.seal import Seal
    from brokerless.jobs.drill.results import DrillResult
    from brokerless.jobs.forget.job import ForgetResult
    from brokerless.jobs.forget.prune import PruneResult
    from brokerless.jobs.rebuild.plan import Rebuild
    from brokerless.log.backups.snapshot import RunKeys, Snapshot
    from brokerless.serving.server import Server

_NO_DIRECTORIES = "give the log directories of the cluster's nodes"


@asks(ClusterRequest)
def cluster(request: ClusterRequest) -> ClusterDescription:
    """Describe the cluster that some log directories were of, as ``brokerless cluster``. Nothing is changed.

    Returns
    -------
    ClusterDescription
        ``table(name)`` is a table such as ``"topics"`` or ``"nodes"``; ``cluster_id``, ``metadata`` (the replica that
        it was read from) and ``findings`` are the rest.

    Raises
    ------
    UnreadableError
        Where the system does not read.
    UsageError
        For what is no log directory.

    Examples
    --------
    >>> import brokerless
    >>> described = brokerless.cluster("demo/data")
    >>> [row["topic"] for row in described.table("topics").to_pylist()]
    ['__consumer_offsets', '__transaction_state', 'orders', 'payments', 'users']
    """
    from brokerless.clusters.description import describe_cluster

    return describe_cluster(_directories(request.paths), max_batch_bytes=request.max_batch_bytes)


@asks(RebuildRequest)
def rebuild(request: RebuildRequest) -> Rebuild:
    """Make the log directories of a cluster again from those that are left, as ``brokerless rebuild``.

    Returns
    -------
    Rebuild
        ``cluster``, ``nodes`` and ``directories`` are what is written, ``lost`` and ``findings`` what is not.

    Raises
    ------
    UsageError
        For what cannot be made.
    UnreadableError, UnwritableError
        Where the system does not read or write.

    Examples
    --------
    >>> import brokerless
    >>> planned = brokerless.rebuild("demo/data", "/tmp/rebuilt")
    >>> [each.node_id for each in planned.nodes]
    [1]
    """
    from brokerless.jobs.rebuild.job import rebuild as run
    from brokerless.jobs.rebuild.plan import RebuildOptions
    from brokerless.log.tiered.options import with_tiered_options

    options = RebuildOptions.of(request)
    paths = [request.paths] if isinstance(request.paths, str | os.PathLike) else list(request.paths)
    is_alone = request.from_bucket is None
    paths = [] if not is_alone and not paths else list_paths(paths, _NO_DIRECTORIES)
    own = partial(with_tiered_options, key_pairs=request.key_pairs if is_alone else None, layout=None, remote=None)
    given = [own(Location(os.fspath(each), request.storage_options if is_alone else None)) for each in paths]
    directories = [open_directory(each) for each in given]
    return run(directories, options)


@asks(UndoRebuildRequest)
def undo_rebuild(request: UndoRebuildRequest) -> tuple[str, ...]:
    """Put back what a rebuild with ``data="in-place"`` replaced, by the journal in ``to``.

    Returns
    -------
    tuple of str
        The directories that were put back.

    Raises
    ------
    UsageError, UnreadableError, UnwritableError
        As for :func:`rebuild`; UsageError also if a broker has run since.
    """
    from brokerless.jobs.rebuild.in_place import undo

    return undo([each.path for each in _directories(request.paths)], os.fspath(request.to), force=request.force)


@asks(BackupRequest)
def backup(request: BackupRequest) -> BackupResult:
    """Store the disks of a cluster as a snapshot in a bucket that brokers can read, as ``brokerless backup``.

    The brokers may run meanwhile: logs are copied as they ended at one moment. One copy of each batch is stored, byte
    for byte; the next run into the same place stores what is new.

    Returns
    -------
    BackupResult
        ``snapshot``, what was stored; ``findings``, what is unexpected; ``is_complete``.

    Raises
    ------
    UsageError, UnreadableError, UnwritableError
        For what cannot be read or written; then there is no new snapshot.

    See Also
    --------
    Backup : The snapshots of a place.

    Examples
    --------
    >>> import brokerless
    >>> result = brokerless.backup("demo/data", "/tmp/backup", dry_run=True)
    >>> result.is_complete, len(result.snapshot.partitions)
    (True, 8)
    """
    from brokerless.jobs.backup.job import backup
    from brokerless.jobs.backup.options import options_of
    from brokerless.jobs.backup.plan import plan_backup
    from brokerless.jobs.run.job import with_rate
    from brokerless.jobs.run.types import RunOptions
    from brokerless.log.tiered.options import with_tiered_options

    running = with_rate(RunOptions(request.done, request.spark, processes=1), request.rate)
    given = list_paths(request.paths, "give at least one path")
    read = [
        with_tiered_options(Location(path, request.storage_options), request.key_pairs, None, request.remote)
        for path in given
    ]
    logs = [open_directory(each, request.include) for each in read]
    how = options_of(request, lambda topic, number: request.topics is None or topic in request.topics)
    sources = sources_of(logs, request.topics)
    return backup(plan_backup(sources, Location.of(request.to, request.storage_options), how), running)


class Backup:
    """A place that :func:`backup` wrote to. ``brokerless.open("URL@SNAPSHOT")`` reads one of its snapshots.

    Parameters
    ----------
    path : path or URL
        The place, or ``URL@SNAPSHOT`` for one of its snapshots: an ID or its beginning, a name, ``latest``, or a time.
    storage_options : dict, optional
        fsspec's options of a URL.

    Examples
    --------
    >>> import brokerless
    >>> backup = brokerless.Backup("s3://backup/kafka")  # doctest: +SKIP
    >>> backup.snapshots()[-1].is_complete  # doctest: +SKIP
    True
    """

    def __init__(self, path: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> None:
        request = OpenRequest(path, storage_options=storage_options)
        self._location = Location.of(request.path, request.storage_options)

    def __repr__(self) -> str:
        return f"Backup({self._location.path!r})"

    @property
    def path(self) -> str:
        """The place, as it was given."""
        return self._location.path

    def snapshots(self) -> list[Snapshot]:
        """List the snapshots, the oldest first, as ``brokerless snapshots``.

        Returns
        -------
        list of Snapshot
            With ``id``, ``name``, ``created`` (ms), ``partitions``, ``missing``, ``is_complete``.

        Raises
        ------
        UnreadableError
            Where there is no backup, or a snapshot cannot be read.
        """
        from brokerless.jobs.check.snapshots import load_snapshots

        found, findings = load_snapshots(self._location)
        if findings:
            raise UnreadableError(findings[0].file, findings[0].message)
        return ShownList(found)

    @takes(SealRequest)
    def seal(self, request: SealRequest) -> Seal:
        """Write what makes the snapshots to a file, as ``brokerless snapshots --seal``; ``check`` compares with it.

        Returns
        -------
        Seal
            ``snapshots``, each with its ``name``.

        Raises
        ------
        UsageError
            For a file that is no seal, or in the backup.
        UnreadableError, UnwritableError
            Where a snapshot cannot be read, or the system does not write.
        """
        from brokerless.jobs.check.seal import write_seal

        if request.seal is None:
            raise UsageError("seal: give the file that is written")
        return write_seal(self._location, os.fspath(request.seal))

    @takes(JoinRequest)
    def join(self, request: JoinRequest) -> Snapshot:
        """Make a snapshot of the parts of a set that are there, as ``brokerless snapshots --join``.

        Returns
        -------
        Snapshot
            ``missing`` has the partitions that no part has.

        Raises
        ------
        UsageError
            Where no host has stored a part of it.
        UnreadableError, UnwritableError
            Where there is no backup, or the system does not write.
        """
        from brokerless.jobs.backup.job import join_set

        if request.join is None:
            raise UsageError("join: give the name of the set")
        return join_set(self._location, request.join).snapshot

    @takes(CheckRequest)
    def check(self, request: CheckRequest) -> CheckResult:
        """Check that all objects that snapshots name are there, as ``brokerless check``.

        Returns
        -------
        CheckResult
            ``findings``, what is missing or differs; ``objects`` and ``size``, what is there.

        Raises
        ------
        UnreadableError
            Where there is no backup.
        """
        from brokerless.jobs.check.job import check_backup
        from brokerless.jobs.check.seal import public_keys
        from brokerless.jobs.run.job import with_rate
        from brokerless.jobs.run.types import RunOptions

        return check_backup(
            self._location, request.read, trusted=public_keys(request.trust),
            seal=None if request.seal is None else os.fspath(request.seal),
            running=with_rate(RunOptions(request.done, request.spark, processes=1), request.rate),
        )  # fmt: skip

    @takes(DrillRequest)
    def drill(self, request: DrillRequest) -> DrillResult:
        """Try whether a snapshot can be restored, as ``brokerless drill``: it is rebuilt into scratch, and checked.

        Returns
        -------
        DrillResult
            ``is_clean``; ``checks``, each with ``counts`` and ``findings``; ``not_tried``; ``as_dict()`` is the
            evidence.

        Raises
        ------
        UsageError
            Where there is no such snapshot, and for what cannot be rebuilt.
        UnreadableError, UnwritableError
            Where there is no backup, a key is missing, or the system does not read or write.
        """
        from brokerless.jobs.drill.evidence import Evidence
        from brokerless.jobs.drill.job import DrillOptions, drill
        from brokerless.jobs.run.types import RunOptions
        from brokerless.log.tiered.options import with_tiered_options

        evidence = Evidence.of(request)
        location = with_tiered_options(self._location, request.key_pairs, None, None)
        directory, is_tried = open_directory(location), None
        if request.topics is not None:
            select_topics(directory.partitions, request.topics)
            is_tried = partial(_is_of, topics=request.topics)
        result = drill(directory, DrillOptions.of(request, is_tried), RunOptions(request.done, processes=1))
        evidence.write(result, directory)
        return result

    @takes(ForgetRequest)
    def forget(self, request: ForgetRequest) -> ForgetResult:
        """Forget the snapshots that no rule keeps, as ``brokerless forget``.

        Returns
        -------
        ForgetResult
            ``decisions``, each with ``snapshot`` and ``reasons``; ``forgotten``, the IDs of the others.

        Raises
        ------
        UsageError
            Without a rule, unless the path is ``URL@SNAPSHOT``: then that snapshot is forgotten, and a rule is refused.
        UnreadableError, UnwritableError
            Where there is no backup, or the system does not read or write.
        """
        from brokerless.jobs.check.seal import public_keys
        from brokerless.jobs.forget.job import forget
        from brokerless.jobs.forget.rules import KeepRules

        trusted = public_keys(request.trust)
        return forget(self._location, KeepRules.of(request), trusted, apply=request.apply)

    @takes(PruneRequest)
    def prune(self, request: PruneRequest) -> PruneResult:
        """Remove the objects that no snapshot names, as ``brokerless prune``.

        Returns
        -------
        PruneResult
            ``objects`` and ``size`` of what no snapshot names; ``findings``, what could not be removed.

        Raises
        ------
        UnreadableError, UnwritableError
            Where there is no backup, a snapshot cannot be read, or the system does not read or write.
        """
        from brokerless.jobs.forget.prune import prune

        return prune(self._location, grace_ms=request.grace * 3_600_000, apply=request.apply)

    @takes(BackupErasureRequest)
    def erase(self, request: BackupErasureRequest) -> BackupErasure:
        """Erase records in all snapshots, as ``brokerless erase`` of a backup. Kafka's own topics have to be named.

        Returns
        -------
        BackupErasure
            ``partitions``, each with its ``selected`` records; ``findings``, what could not be read or written.

        Raises
        ------
        UsageError
            For options that exclude each other, and one snapshot of a backup.
        UnreadableError, UnwritableError
            Where there is no backup, a snapshot cannot be read, or the system does not read or write.

        See Also
        --------
        prove : Checks the manifest, and that nothing in the bucket has these records.
        """
        from brokerless.jobs.backup_erasure.job import erase_backup, options_of
        from brokerless.jobs.run.types import RunOptions

        topics = request.topics
        options = options_of(
            request, lambda topic, _: topics is None or topic in topics, lambda topic: topic in (topics or ())
        )
        return erase_backup(self._location, options, RunOptions(request.done, request.spark, processes=1))

    @takes(KeysRequest)
    def keys(self, request: KeysRequest) -> list[RunKeys]:
        """List and change the key pairs that read an encrypted backup, as ``brokerless keys``.

        Returns
        -------
        list of RunKeys
            For each run its ID, ``run``, and its ``data_keys`` by the names of key pairs.

        Raises
        ------
        UsageError
            For a backup that is not encrypted, and a key pair that cannot be removed.
        UnreadableError, UnwritableError
            Where no private key reads a run, or the system does not read or write.
        """
        from brokerless.jobs.backup.keys import change_keys
        from brokerless.log.tiered.options import load_private_keys
        from brokerless.log.tiered.writing.encryption import load_public_keys

        private = load_private_keys(request.key_pairs or {})
        return ShownList(
            change_keys(self._location, load_public_keys(request.add or {}), request.remove, private_keys=private)
        )


def _is_of(topic: str, _: int, *, topics: Collection[str]) -> bool:
    return is_chosen(topic, topics)


def _directories(paths: Paths) -> list[LogDirectory]:
    return [open_directory(Location(each)) for each in list_paths(paths, _NO_DIRECTORIES)]


@asks(ServeRequest)
def serve(request: ServeRequest) -> Server:
    """Serve log directories to every Kafka client, read-only, as ``brokerless serve``.

    Returns
    -------
    Server
        A context manager: within its block, or between ``start()`` and ``close()``, a thread answers clients at its
        ``bootstrap_servers``.

    Raises
    ------
    UsageError, UnreadableError
        For what cannot be served, and for an address that cannot be listened on; when the block is entered.

    Examples
    --------
    >>> import brokerless
    >>> with brokerless.serve("demo/data") as server:  # give bootstrap_servers to any client
    ...     print(server.bootstrap_servers)
    127.0.0.1:...
    """
    from brokerless.serving.server import Server, options_of
    from brokerless.serving.source.topics import only

    own = [Location(path, request.storage_options) for path in list_paths(request.paths, "give at least one path")]
    if request.key_pairs or request.layout is not None or request.remote is not None:
        from brokerless.log.tiered.options import with_tiered_options

        own = [with_tiered_options(each, request.key_pairs, request.layout, request.remote) for each in own]
    directories = [open_directory(each, request.include) for each in own]
    readers = [each for log in directories for each in log.partitions]
    chosen = {each.path for each in select_topics(readers, request.topics)}
    hidden: frozenset[str] = frozenset()
    for at, each in enumerate(directories):
        directories[at], others = only(each, chosen)
        hidden |= others
    return Server(
        directories,
        options_of(request),
        request.on_damage or _log,
        hidden=hidden,
        is_wanted=lambda topic, _: is_chosen(topic, request.topics),
    )


def _log(finding: Finding) -> None:
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    logging.getLogger("brokerless.serve").log(levels.get(finding.severity, logging.INFO), "%s", finding)
