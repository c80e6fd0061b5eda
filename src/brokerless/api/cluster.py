"""A cluster by its disks: describe it, back it up, rebuild it, serve its log directories to Kafka clients."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

from brokerless.api.jobs import Paths, bound, is_chosen, list_paths, select_topics
from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.log.directory import LogDirectory
from brokerless.log.names import Include
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked
from brokerless.text import ShownList

if TYPE_CHECKING:
    from brokerless.clusters.description import ClusterDescription
    from brokerless.internals.groups.positions import ResetTo
    from brokerless.jobs.backup.job import BackupResult
    from brokerless.jobs.check.job import CheckResult
    from brokerless.jobs.forget.job import ForgetResult
    from brokerless.jobs.forget.prune import PruneResult
    from brokerless.jobs.rebuild.plan import Data, Quorum, Rebuild
    from brokerless.log.snapshots.snapshot import RunKeys, Snapshot
    from brokerless.serving.server import Server


@checked
def cluster(paths: Paths, *, max_batch_bytes: int | None = None) -> ClusterDescription:
    """Describe the cluster that some log directories were of, as ``brokerless cluster``. Nothing is changed.

    Parameters
    ----------
    paths : path or list of paths
        All log directories of all nodes that are left.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).

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

    return describe_cluster(_directories(paths), max_batch_bytes=max_batch_bytes)


@checked
def rebuild(
    paths: Paths,
    to: str | os.PathLike[str],
    *,
    data: Data = "copy",
    mapping: str | os.PathLike[str] | None = None,
    metadata_version: str | None = None,
    quorum: Quorum | None = None,
    state: str | os.PathLike[str] | None = None,
    without_metadata: bool = False,
    adopt: bool = False,
    cluster_id: str | None = None,
    reset_positions: ResetTo | None = None,
    from_bucket: str | os.PathLike[str] | None = None,
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    log_starts: Mapping[tuple[str, int], int] | None = None,
    abort_open_transactions: bool = False,
    topics: Collection[str] | str = (),
    apply: bool = False,
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
) -> Rebuild:
    """Make the log directories of a cluster again from those that are left, as ``brokerless rebuild``.

    Parameters
    ----------
    paths : path or list of paths
        All log directories that are left. With ``from_bucket`` none, or an old one, for what a bucket does not know.
    to : path
        Where new directories are made.
    data : {"copy", "link", "in-place"}
        Whether partitions are copied, are hard links, or stay where they are.
    mapping : path, optional
        A file with the nodes of the new cluster.
    metadata_version : str, optional
        Such as ``"4.0"``; that of the old cluster by default.
    quorum : {"static", "dynamic"}, optional
        How controllers know each other; as in the old cluster by default.
    state : path, optional
        A log, a ``.checkpoint`` or tables as JSON Lines to take the cluster's state from.
    without_metadata : bool, default False
        Take the state from directories alone.
    adopt : bool, default False
        Take topics that only the disks have, too.
    cluster_id : str, optional
        Of the new cluster; that of the old one by default.
    reset_positions : {"start", "end"}, optional
        Where positions of groups are set that are past what is left.
    from_bucket : path or URL, optional
        Only the bucket of the tiered topics is left: partitions are made of it.
    key_pairs : dict of str to path, optional
        Those of the bucket, as in :func:`open`.
    log_starts : dict of (str, int) to int, optional
        First offsets that consumers get, by topic and partition.
    abort_open_transactions : bool, default False
        End transactions that are open where the bucket ends.
    topics : str or list of str, optional
        Topics that are taken of the bucket, by names or patterns (``"click*"``), also in the place of one that was
        created again; all else is of ``paths``. ``"clicks:ID"`` is one of several topics of this name.
    apply : bool, default False
        Write; by default nothing is.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of the bucket.

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
    from brokerless.internals.metadata.versions import parse_level
    from brokerless.jobs.rebuild.job import rebuild as run
    from brokerless.jobs.rebuild.plan import RebuildOptions

    bucket = None
    if from_bucket is not None:
        from brokerless.jobs.rebuild.from_bucket.plan import BucketOptions
        from brokerless.log.tiered.options import with_tiered_options

        location = with_tiered_options(Location(os.fspath(from_bucket), storage_options), key_pairs, None, None)
        chosen = (topics,) if isinstance(topics, str) else tuple(topics)
        bucket = BucketOptions(location, dict(log_starts or {}), abort_open_transactions, chosen)
    elif log_starts or key_pairs or abort_open_transactions or topics or storage_options:
        raise UsageError("topics, log_starts, key_pairs, abort_open_transactions and storage_options need from_bucket")
    options = RebuildOptions(
        data=data,
        mapping=None if mapping is None else os.fspath(mapping),
        level=None if metadata_version is None else parse_level(metadata_version),
        quorum=quorum,
        source=None if state is None else os.fspath(state),
        without_metadata=without_metadata,
        adopt=adopt,
        cluster_id=cluster_id,
        max_batch_bytes=max_batch_bytes,
        reset_to=reset_positions,
        bucket=bucket,
    )
    is_one = isinstance(paths, str | os.PathLike)
    listed = [paths] if is_one else list(paths)
    directories = [] if bucket is not None and not listed else _directories(listed)
    return run(directories, os.fspath(to), options, apply=apply)


@checked
def undo_rebuild(paths: Paths, to: str | os.PathLike[str], *, force: bool = False) -> tuple[str, ...]:
    """Put back what a rebuild with ``data="in-place"`` replaced, by the journal in its ``to``.

    Parameters
    ----------
    paths : path or list of paths
        The directories that were changed.
    to : path
        That of the rebuild.
    force : bool, default False
        Also where brokers have run since.

    Returns
    -------
    tuple of str
        The directories that were put back.

    Raises
    ------
    UsageError, UnreadableError, UnwritableError
        As :func:`rebuild`; UsageError where a broker has run since.
    """
    from brokerless.jobs.rebuild.in_place import undo

    return undo([each.path for each in _directories(paths)], os.fspath(to), force=force)


@checked
def backup(
    paths: Paths,
    to: str | os.PathLike[str],
    *,
    topics: Collection[str] | None = None,
    name: str | None = None,
    segment_size: int | None = None,
    public_keys: Mapping[str, str | os.PathLike[str]] | None = None,
    one_key: bool = False,
    compress: bool = False,
    dry_run: bool = False,
    include: Collection[Include] | Include = (),
    max_batch_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    remote: Paths | None = None,
    done: Done = ignore,
) -> BackupResult:
    """Store the disks of a stopped cluster as a snapshot in a bucket that brokers can read, as ``brokerless backup``.

    One copy of each batch is stored, byte for byte; the next run into the same place stores what is new.

    Parameters
    ----------
    paths : path or list of paths
        The log directories of all nodes.
    to : path or URL
        The place of the backup; made by the first run, and of nothing else.
    topics : collection of str, optional
        Of these topics alone.
    name : str, optional
        A name of the snapshot, by which it is read as ``URL@NAME``.
    segment_size : int, optional
        Bytes at which stored segments end (256 MiB).
    public_keys : dict of str to path, optional
        Encrypt all that is stored for these key pairs, each of which reads it: files with public RSA keys (PEM), by
        their names. A first run decides for all whether they are encrypted.
    one_key : bool, default False
        Encrypt for one key pair, without whose private key nobody reads the backup again.
    compress : bool, default False
        Compress (zstd) the segments whose first batch is not compressed.
    dry_run : bool, default False
        Read everything, and write nothing.
    include : str or collection of str, optional
        As :func:`open` takes it, of ``paths``.
    max_batch_bytes : int, optional
        Bytes that one batch may inflate to (128 MiB).
    storage_options : dict, optional
        fsspec's options of ``paths`` and ``to`` that are URLs.
    key_pairs, remote
        As :func:`open` takes them, of ``paths``.
    done : callable, optional
        Called with the bytes that were read since the last call.

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
    from brokerless.jobs.backup.plan import DEFAULT_SEGMENT_SIZE, BackupOptions, plan_backup
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.log.tiered.options import with_tiered_options
    from brokerless.log.tiered.writing.encryption import load_public_keys

    given = list_paths(paths, "give at least one path")
    read = [with_tiered_options(Location(path, storage_options), key_pairs, None, remote) for path in given]
    logs = [open_directory(each, include) for each in read]
    there = {each.topic for log in logs for each in log.partitions}
    missing = sorted(set(topics or ()) - there)
    if missing:
        raise UsageError(f"there is no topic {missing[0]!r}; topics: {', '.join(sorted(filter(None, there)))}")
    how = BackupOptions(
        name=name,
        segment_size=DEFAULT_SEGMENT_SIZE if segment_size is None else segment_size,
        max_batch_bytes=bound(max_batch_bytes),
        dry_run=dry_run,
        is_selected=lambda topic, number: topics is None or topic in topics,
        public_keys=load_public_keys(public_keys or {}),
        one_key=one_key,
        compress=compress,
    )
    sources = [Source(log, [each for each in log.partitions if topics is None or each.topic in topics]) for log in logs]
    return backup(plan_backup(sources, Location.of(to, storage_options), how), done, processes=1)


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

    @checked
    def __init__(self, path: str | os.PathLike[str], *, storage_options: StorageOptions | None = None) -> None:
        self._location = Location.of(path, storage_options)

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

    @checked
    def check(self, read: Literal["all"] | None = None, *, done: Done = ignore) -> CheckResult:
        """Check that all objects that snapshots name are there, as ``brokerless check``.

        Parameters
        ----------
        read : {"all"}, optional
            Read all objects, and compare their bytes with the hashes in the snapshots.
        done : callable, optional
            Called with the bytes that were read since the last call.

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

        return check_backup(self._location, read, done, processes=1)

    @checked
    def forget(
        self,
        *,
        keep_last: int = 0,
        keep_hourly: int = 0,
        keep_daily: int = 0,
        keep_weekly: int = 0,
        keep_monthly: int = 0,
        keep_yearly: int = 0,
        keep_within: int = 0,
        apply: bool = False,
    ) -> ForgetResult:
        """Forget the snapshots that no rule keeps, as ``brokerless forget``.

        Parameters
        ----------
        keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly : int, default 0
            How many stay: the last ones, and the newest of so many hours, days, weeks, months and years (UTC).
        keep_within : int, default 0
            All stay that are not older than so many days.
        apply : bool, default False
            Forget them; by default nothing is changed.

        Returns
        -------
        ForgetResult
            ``decisions``, each with ``snapshot`` and ``reasons``; ``forgotten``, the IDs of the others.

        Raises
        ------
        UsageError
            For a backup without a rule, and ``URL@SNAPSHOT`` with one: without, that snapshot is forgotten.
        UnreadableError, UnwritableError
            Where there is no backup, or the system does not read or write.
        """
        from brokerless.jobs.forget.job import forget
        from brokerless.jobs.forget.rules import KeepRules

        counts = keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly
        rules = KeepRules(*counts, within_ms=keep_within * 86_400_000) if any((*counts, keep_within)) else None
        return forget(self._location, rules, apply=apply)

    @checked
    def prune(self, *, grace: int = 48, apply: bool = False) -> PruneResult:
        """Remove the objects that no snapshot names, as ``brokerless prune``.

        Parameters
        ----------
        grace : int, default 48
            How many hours what no snapshot names stays, and what was forgotten; runs may not take longer.
        apply : bool, default False
            Remove them; by default nothing is changed.

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

        return prune(self._location, grace_ms=grace * 3_600_000, apply=apply)

    @checked
    def keys(
        self,
        *,
        add: Mapping[str, str | os.PathLike[str]] | None = None,
        remove: Collection[str] = (),
        key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    ) -> list[RunKeys]:
        """List and change the key pairs that read an encrypted backup, as ``brokerless keys``.

        Parameters
        ----------
        add : dict of str to path, optional
            Key pairs that read it, too: files with public RSA keys (PEM), by their names.
        remove : collection of str, optional
            Key pairs that read it no more; the first one of a run, which manifests name, stays.
        key_pairs : dict of str to path, optional
            For ``add``: files with private keys (PEM) that read it, by the names of their key pairs.

        Returns
        -------
        list of RunKeys
            Of each run ``run``, its ID, and ``data_keys`` by the names of key pairs.

        Raises
        ------
        UsageError
            For what is no encrypted backup, and what cannot be removed.
        UnreadableError, UnwritableError
            Where no private key reads a run, or the system does not read or write.
        """
        from brokerless.jobs.backup.keys import change_keys
        from brokerless.log.tiered.options import load_private_keys
        from brokerless.log.tiered.writing.encryption import load_public_keys

        private = load_private_keys(key_pairs or {})
        return ShownList(change_keys(self._location, load_public_keys(add or {}), remove, private_keys=private))


def _directories(paths: Paths) -> list[LogDirectory]:
    return [
        open_directory(Location(each)) for each in list_paths(paths, "give the log directories of the cluster's nodes")
    ]


@checked
def serve(
    paths: Paths,
    *,
    topics: Collection[str] | str | None = None,
    listen: str = "127.0.0.1:0",
    advertise: str | None = None,
    offsets: str | os.PathLike[str] | None = None,
    skip_damaged: bool = False,
    insecure: bool = False,
    tls_cert: str | os.PathLike[str] | None = None,
    tls_key: str | os.PathLike[str] | None = None,
    tls_client_ca: str | os.PathLike[str] | None = None,
    principal_mapping_rules: str | None = None,
    users: str | os.PathLike[str] | None = None,
    cluster_users: bool = False,
    super_users: Collection[str] = (),
    allow_everyone_if_no_acl_found: bool = False,
    include: Collection[Include] | Include = (),
    storage_options: StorageOptions | None = None,
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    layout: str | None = None,
    remote: Paths | None = None,
    on_damage: Report | None = None,
) -> Server:
    """Serve log directories to every Kafka client, read-only, as ``brokerless serve``.

    Parameters
    ----------
    paths : path or list of paths
        Log directories or partitions' directories, local or URLs; several disks of one broker, or of several.
    topics : str or list of str, optional
        Only these topics, by names or patterns (``orders*``); groups go on where they stopped all the same.
    listen, advertise : str
        ``HOST:PORT``; port 0 is any free one. ``advertise``: what clients are to connect to, if that is another
        address.
    offsets : path, optional
        A file in which offsets that groups commit are kept, too.
    skip_damaged : bool
        Whether consumers go on at the next intact batch where one is damaged.
    insecure : bool
        Whether an address may be listened on that other machines reach.
    tls_cert, tls_key : path, optional
        Files in PEM, to listen over TLS; the key may be in the first.
    tls_client_ca : path, optional
        A file of authorities in PEM: only who has a certificate of these may read, what the cluster's ACLs allow, or
        with ``users`` and ``cluster_users`` log in.
    principal_mapping_rules : str, optional
        What makes users of the names in certificates, as ``ssl.principal.mapping.rules`` of a broker.
    users : path, optional
        A file of users (``name:password`` a line): only these may read, by SCRAM or, with TLS, PLAIN.
    cluster_users : bool
        Whether the cluster's own users may read, and nobody else, by SCRAM with their passwords, what its ACLs allow.
    super_users : list of str
        Users of the cluster, or of certificates, who may read everything.
    allow_everyone_if_no_acl_found : bool
        Whether what no ACL is about is for all users of the cluster, or with certificates, and not for super users
        alone.
    include, storage_options, key_pairs, layout, remote
        As :func:`brokerless.open` takes them.
    on_damage : callable, optional
        Called with each :class:`Finding`, once, in a thread of the server. Without it they are logged
        (``brokerless.serve``); either way clients get an error (CORRUPT_MESSAGE).

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
    from brokerless.serving.server import ServeOptions, Server, parse_address
    from brokerless.serving.source.topics import only

    own = [Location(path, storage_options) for path in list_paths(paths, "give at least one path")]
    if key_pairs or layout is not None or remote is not None:
        from brokerless.log.tiered.options import with_tiered_options

        own = [with_tiered_options(each, key_pairs, layout, remote) for each in own]
    directories = [open_directory(each, include) for each in own]
    readers = [each for log in directories for each in log.partitions]
    chosen = {each.path for each in select_topics(readers, topics)}
    hidden: frozenset[str] = frozenset()
    for at, each in enumerate(directories):
        directories[at], others = only(each, chosen)
        hidden |= others
    options = ServeOptions(
        listen=parse_address(listen),
        advertise=None if advertise is None else parse_address(advertise),
        offsets=_path(offsets),
        skips_damage=skip_damaged,
        is_insecure=insecure,
        tls_cert=_path(tls_cert),
        tls_key=_path(tls_key),
        tls_client_ca=_path(tls_client_ca),
        mapping_rules=principal_mapping_rules,
        users=_path(users),
        cluster_users=cluster_users,
        super_users=tuple(super_users),
        allows_unless_listed=allow_everyone_if_no_acl_found,
    )
    return Server(
        directories, options, on_damage or _log, hidden=hidden, is_wanted=lambda topic, _: is_chosen(topic, topics)
    )


def _log(finding: Finding) -> None:
    levels = {"error": logging.ERROR, "warning": logging.WARNING}
    logging.getLogger("brokerless.serve").log(levels.get(finding.severity, logging.INFO), "%s", finding)


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)
