"""One client's connection: its requests are answered in their order, one after the other.

A request is read as its bytes come: what a client announces takes no memory. All connections share a budget for
requests of more than a few kB; one that is not whole after half a minute ends its connection, so that the budget is
free again. Ranges of files are sent by the kernel (``sendfile``), or read piece by piece where that is not possible.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.internals.messages import UnreadableMessageError
from brokerless.log.live_segments import open_listed
from brokerless.log.storage.files import File, LocalFile
from brokerless.serving.answers.api_versions import API_VERSIONS, unknown_version
from brokerless.serving.answers.authorization import answer_allowed
from brokerless.serving.answers.dispatch import answered, answers, logins
from brokerless.serving.answers.logins import HANDSHAKE, answer_authenticate, answer_handshake
from brokerless.serving.context import Request, Serving
from brokerless.serving.login import Login
from brokerless.serving.protocol.tables import Api, Head, decode_body, decode_head
from brokerless.serving.protocol.writer import FileRange, Piece, encode, response_head

LARGEST_REQUEST = 16 << 20
"""Bytes; a broker takes 100 MiB, for what producers send."""
BUDGET = 32 << 20
"""Bytes of all requests together that are larger than :data:`_FREE`."""
LARGEST_BEFORE_LOGIN = 64 << 10
FAILURE_DELAY_S = 0.1
"""``connection.failed.authentication.delay.ms``."""
READ_LIMIT = 8 << 10
"""Bytes that a connection holds before they are read."""
_FREE, _STEP = 8 << 10, 64 << 10
WHOLE_WITHIN_S, IDLE_S = 30.0, 600.0
_SENT_AT_ONCE = 1 << 20
"""Bytes of a file that are in memory where the kernel does not send them."""


class Budget:
    """Bytes that requests may take, of all connections."""

    def __init__(self, size: int = BUDGET) -> None:
        self._left = size
        self._freed = asyncio.Condition()

    async def take(self, size: int) -> None:
        async with self._freed:
            await self._freed.wait_for(lambda: self._left >= size)
            self._left -= size

    async def give(self, size: int) -> None:
        async with self._freed:
            self._left += size
            self._freed.notify_all()


class EndedError(Exception):
    """The connection is to be closed; the text says why."""


@dataclass(slots=True)
class Connection:
    serving: Serving
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    budget: Budget
    login: Login | None = None
    _ends: bool = False

    async def run(self) -> None:
        """Answer requests until the client is gone, or sends what is no request."""
        try:
            while await self._answer_next():
                pass
        except (EndedError, UnreadableMessageError, TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # of a client that is no client of Kafka, nothing is said
        finally:
            self.writer.close()

    async def _answer_next(self) -> bool:
        """Answers one request; False where the client is gone."""
        async with asyncio.timeout(IDLE_S):
            announced = await self.reader.read(1)
        if not announced:
            return False
        taken = 0
        try:
            async with asyncio.timeout(WHOLE_WITHIN_S):
                size = int.from_bytes(announced + await self.reader.readexactly(3), "big", signed=True)
                if not 0 <= size <= (LARGEST_REQUEST if self._is_logged_in else LARGEST_BEFORE_LOGIN):
                    raise EndedError(f"a request of {size} bytes")
                data = bytearray()
                while len(data) < size:
                    step = min(size - len(data), _STEP)
                    if len(data) + step > _FREE:
                        await self.budget.take(step)
                        taken += step
                    data += await self.reader.readexactly(step)
            head = decode_head(bytes(data))
            pieces = await self._answer(head, bytes(data))
        finally:
            if taken:
                await self.budget.give(taken)
        await self._send(pieces)
        return not self._ends

    async def _answer(self, head: Head, data: bytes) -> list[Piece]:
        if self.login is not None and head.key in logins():
            return await self._log_in(self.login, logins()[head.key], head, data)
        found = answers().get(head.key)
        if not self._is_logged_in and head.key != API_VERSIONS:
            raise EndedError("a request before the login")
        if found is None:
            raise EndedError(f"a request of kind {head.key}")
        api, answer = found
        if head.version not in api.versions:
            if head.key != API_VERSIONS:
                raise EndedError(f"{api.name} of version {head.version}")
            body = encode(api.response, 0, unknown_version(answered()))
            return [response_head(head.correlation_id, is_flexible=False), *body]
        user = "" if self.login is None else self.login.user or ""
        request = Request(api, head.version, decode_body(api, head, data), head.client_id or "", self._host(), user)
        row = await answer_allowed(self.serving, request, answer)
        if row is None:
            raise EndedError("a producer that waits for no response")
        is_flexible = head.version in api.response.flexible and head.key != API_VERSIONS
        return [response_head(head.correlation_id, is_flexible=is_flexible), *encode(api.response, head.version, row)]

    @property
    def _is_logged_in(self) -> bool:
        return self.login is None or self.login.user is not None

    async def _log_in(self, login: Login, api: Api, head: Head, data: bytes) -> list[Piece]:
        if head.version not in api.versions or (head.key == HANDSHAKE and head.version == 0):
            raise EndedError(f"{api.name} of version {head.version}")
        body = decode_body(api, head, data)
        row = answer_handshake(login, body) if head.key == HANDSHAKE else answer_authenticate(login, body)
        if row.get("errorCode"):
            self._ends = True
            await asyncio.sleep(FAILURE_DELAY_S)
        is_flexible = head.version in api.response.flexible
        return [response_head(head.correlation_id, is_flexible=is_flexible), *encode(api.response, head.version, row)]

    def _host(self) -> str:
        peer: Any = self.writer.get_extra_info("peername")
        return f"/{peer[0]}" if isinstance(peer, tuple) and peer else "/"

    async def _send(self, pieces: list[Piece]) -> None:
        self.writer.write(sum(map(len, pieces)).to_bytes(4, "big"))
        for piece in pieces:
            if isinstance(piece, FileRange):
                await self._send_range(piece)
            else:
                self.writer.write(piece)
        await self.writer.drain()

    async def _send_range(self, piece: FileRange) -> None:
        try:
            file = await self.serving.in_thread(open_listed, piece.segment, piece.is_last)
        except UnreadableError as error:  # it was there a moment ago: the client asks again
            raise EndedError(str(error)) from error
        loop = asyncio.get_running_loop()
        with file:
            if isinstance(file, LocalFile) and self.writer.get_extra_info("sslcontext") is None:
                descriptor: Any = _Descriptor(file)
                sent = await loop.sendfile(
                    self.writer.transport, descriptor, piece.position, piece.length, fallback=False
                )
                if sent != piece.length:
                    raise EndedError(f"{piece.segment.log.path} became shorter")
            else:
                await self._copy(file, piece)

    async def _copy(self, file: File, piece: FileRange) -> None:
        at, end = piece.position, piece.position + piece.length
        while at < end:
            try:
                data = await self.serving.in_thread(file.read, at, min(_SENT_AT_ONCE, end - at))
            except UnreadableError as error:
                raise EndedError(str(error)) from error
            if not len(data):
                raise EndedError(f"{piece.segment.log.path} became shorter")
            self.writer.write(data.tobytes())
            await self.writer.drain()
            at += len(data)


class _Descriptor:
    """A local file as ``sendfile`` takes it."""

    mode = "rb"

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.descriptor
