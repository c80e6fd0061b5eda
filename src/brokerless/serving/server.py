"""Listens, and answers every client in one event loop: in this thread, or in one of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Self

from brokerless.errors import BrokerlessError, UsageError
from brokerless.log.directory import LogDirectory
from brokerless.progress import Report
from brokerless.requests.serving import ServeRequest
from brokerless.serving.access import Access
from brokerless.serving.admission import Admission, Client
from brokerless.serving.certificates import DEFAULT, parse_rules
from brokerless.serving.connection import Budgets, Connection
from brokerless.serving.context import Serving
from brokerless.serving.descriptors import most_connections
from brokerless.serving.groups.coordinator import Coordinator
from brokerless.serving.groups.offsets import CommittedOffsets, read_file
from brokerless.serving.listener import Listener, listen
from brokerless.serving.login import Login, Users, read_users, users_of_cluster
from brokerless.serving.reports import Reports
from brokerless.serving.source.new_partitions import IsWanted, NewPartitions
from brokerless.serving.source.topics import Topics, load_topics
from brokerless.serving.tls import tls_context

PORT = 9092
_LAST_PORT = 65535
_SHOWN = 5
_NOT_STARTED = "nothing is served yet: use this in a with statement, or call start()"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of an endpoint. Users who log in, or where nobody logs in those with certificates, may do what the
    cluster's ACLs allow."""

    listen: tuple[str, int] = ("127.0.0.1", PORT)
    """The host and port that are listened on."""
    advertise: tuple[str, int] | None = None
    """The host and port that clients are to connect to, None for those of ``listen``."""
    offsets: str | None = None
    """A file for committed offsets."""
    skips_damage: bool = False
    is_insecure: bool = False
    """Whether anybody who reaches the host may read."""
    tls_cert: str | None = None
    """A file in PEM, which may have the key, too."""
    tls_key: str | None = None
    """A file in PEM."""
    tls_client_ca: str | None = None
    """The authorities that have signed the certificates of clients."""
    mapping_rules: str | None = None
    """Rules that make users of the names in clients' certificates."""
    users: str | None = None
    """A file of the users who may log in."""
    cluster_users: bool = False
    """Whether the users of the cluster that is served may log in."""
    super_users: Collection[str] = ()
    """Users who may do everything."""
    allows_unless_listed: bool = False
    """Whether all users may do what no ACL is about."""

    @property
    def has_logins(self) -> bool:
        return self.users is not None or self.cluster_users

    @property
    def knows_certificates(self) -> bool:
        """Whether clients are who their certificates say; with logins, these say it."""
        return self.tls_client_ca is not None and not self.has_logins


def options_of(request: ServeRequest) -> ServeOptions:
    """Return what was requested. Raises :class:`UsageError` for what is no address."""
    return ServeOptions(
        listen=parse_address(request.listen),
        advertise=None if request.advertise is None else parse_address(request.advertise),
        offsets=_path(request.offsets),
        skips_damage=request.skip_damaged,
        is_insecure=request.insecure,
        tls_cert=_path(request.tls_cert),
        tls_key=_path(request.tls_key),
        tls_client_ca=_path(request.tls_client_ca),
        mapping_rules=request.principal_mapping_rules,
        users=_path(request.users),
        cluster_users=request.cluster_users,
        super_users=tuple(request.super_users),
        allows_unless_listed=request.allow_everyone_if_no_acl_found,
    )


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT``, or ``[::1]:9092``. Raises :class:`UsageError`."""
    host, colon, port = text.rpartition(":")
    if colon and not host.startswith("[") and ":" in host:
        raise UsageError(f"{text!r} is not HOST:PORT; write an IPv6 address in brackets, as [::1]:{PORT}")
    if text.isdigit():
        raise UsageError(f"{text!r} has no host; write 127.0.0.1:{text}")
    if text and (not colon or text.endswith("]")):
        raise UsageError(f"{text!r} has no port; write {text}:{PORT}, or {text}:0 for any free port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not port.isascii() or not port.isdigit():
        raise UsageError(f"{text!r} is not HOST:PORT, as 127.0.0.1:{PORT} or [::1]:{PORT}")
    if int(port) > _LAST_PORT:
        raise UsageError(f"{text!r}: ports are 0 (any free one) to {_LAST_PORT}")
    return host, int(port)


def _cannot_listen(address: tuple[str, int], error: OSError) -> UsageError:
    shown = shown_address(*address)
    if error.errno == errno.EADDRINUSE:
        host = address[0]
        text = f"{shown} is in use by another program; give another port, or any free one: --listen "
        return UsageError(text + shown_address(host, 0))
    if error.errno in (errno.EACCES, errno.EPERM):
        return UsageError(f"cannot listen on {shown}: not permitted; ports from 1024 on are for everybody")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"cannot listen on {shown}: this machine has no such address; 0.0.0.0 is all that it has")
    return UsageError(f"cannot listen on {shown}: {error.strerror or error}")


def is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach an address."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def shown_address(host: str, port: int) -> str:
    """Return an address as clients take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _users(options: ServeOptions, topics: Topics) -> tuple[Users | None, Access | None]:
    """Who may log in, None where nobody has to; and what they may do, None for everything."""
    if options.users is not None:
        return read_users(options.users, has_tls=options.tls_cert is not None), None
    if not options.cluster_users and not options.knows_certificates:
        return None, None
    from brokerless.internals.metadata.cluster import cluster_of

    cluster = cluster_of(topics.metadata_from)
    users = users_of_cluster(cluster) if options.cluster_users else None
    known = {name for _, name in users or ()}
    for each in options.super_users if options.cluster_users else ():
        if each not in known:
            raise UsageError(f"--super-user {each}: the cluster has no such user ({', '.join(sorted(known)[:_SHOWN])})")
    acls = list(cluster.acls.values()) if cluster is not None else []
    has_access = acls or options.super_users
    return users, Access(acls, options.super_users, options.allows_unless_listed) if has_access else None


@dataclass(slots=True, repr=False)
class Server:
    """Serves log directories. It runs in a thread of its own within a with statement, or between :meth:`start` and
    :meth:`close`."""

    directories: Sequence[LogDirectory]
    options: ServeOptions
    report: Report
    hidden: frozenset[str] = frozenset()
    """Paths of partitions that are read and not served."""
    is_wanted: IsWanted | None = None
    """Which partitions are served that are made later; None for all."""
    _serving: Serving | None = None
    _thread: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _stop: asyncio.Event | None = None
    _started: threading.Event = field(default_factory=threading.Event)
    _failure: BaseException | None = None

    def __repr__(self) -> str:
        if self._serving is None or not self._serving.port:
            return f"Server({', '.join(each.path for each in self.directories)}; not started)"
        topics = self._serving.topics
        return f"Server({self.bootstrap_servers}: {len(topics.by_name)} topics, {len(topics.partitions)} partitions)"

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients. Raises :class:`UsageError` before it is served."""
        if self._serving is None or not self._serving.port:
            raise UsageError(_NOT_STARTED)
        return shown_address(self._serving.host, self._serving.port)

    @property
    def topics(self) -> Topics:
        """What is served. Raises :class:`UsageError` before it is."""
        if self._serving is None:
            raise UsageError(_NOT_STARTED)
        return self._serving.topics

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms by which users log in; none where nobody has to."""
        users = None if self._serving is None else self._serving.users
        return [] if users is None else Login(users).mechanisms

    def check(self) -> None:
        """Raise :class:`UsageError` for options that are not allowed."""
        host, port = self.options.listen
        options = self.options
        is_safe = options.tls_cert is not None and (options.has_logins or options.tls_client_ca is not None)
        if not is_loopback(host) and not is_safe and not options.is_insecure:
            raise UsageError(
                f"{shown_address(host, port)} can be reached from other machines, and whoever reaches it can read "
                "everything; give --tls-cert and --users or --tls-client-ca, or listen on 127.0.0.1 (an SSH tunnel "
                "leads there), or say --insecure"
            )
        if options.users is not None and options.cluster_users:
            raise UsageError("--users and --cluster-users exclude each other; use one of them")
        has_acls = options.cluster_users or options.knows_certificates
        if (options.super_users or options.allows_unless_listed) and not has_acls:
            text = "--super-user and --allow-everyone-if-no-acl-found need --cluster-users, or --tls-client-ca"
            raise UsageError(text)
        if options.tls_key is not None and options.tls_cert is None:
            raise UsageError("--tls-key needs --tls-cert")
        if options.tls_client_ca is not None and options.tls_cert is None:
            raise UsageError("--tls-client-ca needs --tls-cert")
        if options.mapping_rules is not None and not options.knows_certificates:
            raise UsageError("--principal-mapping-rules needs --tls-client-ca, without --users and --cluster-users")
        if self.options.offsets is not None:
            file = Path(self.options.offsets).resolve()
            for each in self.directories:
                if not each.location.is_remote and file.is_relative_to(each.location.local.resolve()):
                    raise UsageError(
                        f"{self.options.offsets} is in {each.path}, which is served: nothing is written there"
                    )
            if not os.access(file.parent, os.W_OK):
                raise UsageError(
                    f"{self.options.offsets}: nothing can be written there; give another file for --offsets"
                )
            list(read_file(file))

    async def run(self, on_ready: Callable[[Server], None]) -> None:
        """Serve until :meth:`stop` is called. ``on_ready``: called when clients are served.

        Raises :class:`UsageError` for what cannot be served, or an address that cannot be listened on."""
        self.check()
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        options, reports = self.options, Reports(self.report)
        topics = load_topics(self.directories, reports, skips_damage=options.skips_damage, hidden=self.hidden)
        path = None if options.offsets is None else Path(options.offsets)
        users, access = _users(options, topics)
        context = tls_context(options.tls_cert, options.tls_key, options.tls_client_ca)
        serving = Serving(
            topics,
            Coordinator(CommittedOffsets(reports, path)),
            reports,
            users=users,
            access=access,
            certificates=parse_rules(options.mapping_rules or DEFAULT) if options.knows_certificates else None,
            new_partitions=NewPartitions.since(self.directories, self.is_wanted),
            skips_damage=options.skips_damage,
        )
        admission, budgets = Admission(most_connections()), Budgets()

        async def answer(client: Client, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            login = None if users is None else Login(users)
            await Connection(serving, reader, writer, budgets, client=client, admission=admission, login=login).run()

        host, port = options.listen
        try:
            sockets = listen(host, port)
        except OSError as error:
            raise _cannot_listen(options.listen, error) from error
        bound: int = sockets[0].getsockname()[1]
        own = (socket.gethostname(), bound) if host in ("0.0.0.0", "::") else (host, bound)
        serving.host, serving.port = options.advertise or own
        if not serving.port:
            serving.port = bound
        self._serving = serving
        serving.start()
        listener = Listener(sockets, admission, answer, reports.out_of_files, context)
        listener.start()
        try:
            on_ready(self)
            await self._stop.wait()
        finally:
            await listener.close()
            serving.groups.close()
            await serving.close()

    def stop(self) -> None:
        """End; may be called from any thread."""
        if self._loop is not None and self._stop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stop.set)

    def wait_for_survey(self) -> None:
        """Wait until what cannot be served has been looked for in all partitions, and reported; from another thread
        than that of the server."""
        if self._loop is not None and self._serving is not None:
            asyncio.run_coroutine_threadsafe(self._serving.surveyed(), self._loop).result()

    def start(self) -> Self:
        """Serve in a thread of its own until :meth:`close` is called; return when clients are served.

        Raises :class:`UsageError` for what cannot be served, or an address that cannot be listened on."""
        if self._thread is not None:
            raise UsageError("it was started before; make another one with brokerless.serve()")
        self._thread = threading.Thread(target=self._run, name="brokerless serve", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self

    def close(self) -> None:
        """End; clients are disconnected. It may be called again."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, type_: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _run(self) -> None:
        try:
            asyncio.run(self.run(lambda _: self._started.set()))
        except (BrokerlessError, OSError) as error:
            self._failure = error
        finally:
            self._started.set()
