"""Accepts clients, no more than the limits allow, so that files that are read always get a descriptor."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from brokerless.errors import OutOfFilesError
from brokerless.log.storage.files import out_of_files
from brokerless.serving.admission import Admission, Client
from brokerless.serving.fair_threads import ADDRESS

STRANGER_S = 10.0
"""How long a client may take for TLS; and again for its login, or where nobody has to log in for its first request."""
READ_LIMIT = 8 << 10
"""Bytes that a connection holds before they are read."""
_BACKLOG = 1024
_ENDS_WITHIN_S = 5.0
_PAUSE_S = 0.1

Serve = Callable[[Client, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host, on one port. Raises OSError."""
    found: list[socket.socket] = []
    failed: OSError | None = None
    places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, type_, protocol, _, address in dict.fromkeys(places):
        try:
            each = socket.socket(family, type_, protocol)
        except OSError as error:  # no IPv6, say
            failed = error
            continue
        try:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound = found[0].getsockname()[1] if found else port
            each.bind((address[0], bound, *address[2:]))
            each.listen(_BACKLOG)
            each.setblocking(False)
        except OSError as error:
            failed = error
            each.close()
            continue
        found.append(each)
    if not found:
        raise failed or OSError(f"{host} has no address")
    return found


@dataclass(slots=True)
class Listener:
    """The sockets that clients connect to."""

    sockets: list[socket.socket]
    admission: Admission
    serve: Serve
    """Answers a client until it has gone."""
    report: Callable[[OutOfFilesError], None]
    """Called where no descriptor is left."""
    tls: ssl.SSLContext | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def start(self) -> None:
        """Begin to take clients."""
        for each in self.sockets:
            self._start(self._accept(each))

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDS_WITHIN_S)
        for each in self.sockets:
            each.close()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(listening)
            except OSError as error:
                reason = out_of_files(error)
                if reason is not None:
                    self.report(OutOfFilesError("", reason))
                    self.admission.make_room()
                await asyncio.sleep(_PAUSE_S)
                continue
            self._take(connection, peer)
            await asyncio.sleep(0)  # others come to their turn, however many there are

    def _take(self, connection: socket.socket, peer: Any) -> None:
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        task: asyncio.Task[None] | None = None
        client = Client(address, lambda: task.cancel() if task is not None else connection.close())
        self.admission.admit(client)
        if client.has_left:
            return
        task = self._start(self._serve(connection, client))

    async def _serve(self, connection: socket.socket, client: Client) -> None:
        ADDRESS.set(client.address)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(READ_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        limit = None if self.tls is None else STRANGER_S
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=self.tls, ssl_handshake_timeout=limit
            )
        except (OSError, asyncio.CancelledError):  # no client of TLS, say, or it gave way
            connection.close()
            self.admission.leave(client)
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self.serve(client, reader, writer)
        except asyncio.CancelledError:
            transport.abort()  # it gave way, or the server ends
        finally:
            writer.close()
            with suppress(OSError, TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(_ENDS_WITHIN_S):
                    await writer.wait_closed()
            transport.abort()
            self.admission.leave(client)
