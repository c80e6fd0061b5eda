"""One client's connection: its requests are answered in their order, one after the other.

A request is read as its bytes come: what a client announces takes no memory. All connections share a budget for
requests of more than a few kB, strangers have one of their own, and a request that does not become whole gives way. So
does an answer that nobody reads. Large requests are read and answered one after the other, in a thread. Ranges of files
are sent by the kernel (``sendfile``), or read piece by piece where that is not possible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from brokerless.errors import OutOfFilesError, UnreadableError
from brokerless.findings import Kind
from brokerless.format.messages.reader import UnreadableMessageError
from brokerless.format.messages.writer import TooLargeError
from brokerless.log.live_segments import open_listed
from brokerless.log.storage.files import File, LocalFile
from brokerless.serving.access import java_address
from brokerless.serving.admission import Admission, Client
from brokerless.serving.answers.api_versions import API_VERSIONS, unknown_version
from brokerless.serving.answers.authorization import Answer, answer_allowed
from brokerless.serving.answers.dispatch import WAITING, answered, answers, logins
from brokerless.serving.answers.logins import AUTHENTICATE, HANDSHAKE, answer_authenticate, answer_handshake
from brokerless.serving.budget import FREE, AnswerShare, Budget, Share
from brokerless.serving.certificates import NotReadError
from brokerless.serving.context import IS_LARGE, SHARE, Request, Serving
from brokerless.serving.listener import STRANGER_S
from brokerless.serving.login import Login
from brokerless.serving.protocol.repeated import without_repeated
from brokerless.serving.protocol.tables import Api, Head, decode_body, decode_head
from brokerless.serving.protocol.writer import (
    LARGEST_ANSWER,
    FileRange,
    Piece,
    encode,
    in_memory,
    is_short,
    response_head,
)
from brokerless.text import format_bytes

LARGEST_REQUEST = 8 << 20
"""Bytes; a broker takes 100 MiB, for what producers send."""
LARGEST_BEFORE_LOGIN = 64 << 10
LARGEST_FIRST = 1 << 20
"""Bytes of the first request of a client, where nobody has to log in."""
FAILURE_DELAY_S = 0.1
"""``connection.failed.authentication.delay.ms``."""
_STEP = 64 << 10
"""Bytes of a request that are taken from its budget at a time."""
WHOLE_WITHIN_S, IDLE_S = 30.0, 600.0
_SENT_AT_ONCE = 1 << 20
"""Bytes of a file that are in memory where the kernel does not send them."""

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Budgets:
    """Those of all connections: for requests of clients that are known, and of strangers, and for answers."""

    requests: Budget = field(default_factory=lambda: Budget(2 * LARGEST_REQUEST, LARGEST_REQUEST, patience_s=1.0))
    of_strangers: Budget = field(default_factory=lambda: Budget(4 * LARGEST_FIRST, 2 * LARGEST_FIRST, patience_s=1.0))
    answers: Budget = field(default_factory=lambda: Budget(128 << 20, 64 << 20, patience_s=10.0))


class EndedError(Exception):
    """The connection is to be closed; the text says why."""


@dataclass(slots=True)
class Connection:
    serving: Serving
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    budgets: Budgets
    client: Client
    admission: Admission
    login: Login | None = None
    _user: str = ""
    """Who the client is by its certificate."""
    _ends: bool = False
    _until: float = 0.0
    """When a stranger's time is over, by the event loop's clock."""

    async def run(self) -> None:
        """Answer requests until the client is gone, or sends what is no request."""
        self._until = asyncio.get_running_loop().time() + STRANGER_S
        try:
            self._read_certificate()
            while await self._answer_next():
                if not self.client.is_known and self._is_logged_in:
                    self.admission.know(self.client)
        except OutOfFilesError as error:
            self.serving.report.out_of_files(error)
        except (EndedError, NotReadError, UnreadableMessageError, TimeoutError, OSError, asyncio.IncompleteReadError):
            pass  # of a client that is no client of Kafka, nothing is said

    def _read_certificate(self) -> None:
        if self.serving.certificates is not None:
            tls: Any = self.writer.get_extra_info("ssl_object")
            self._user = self.serving.certificates.user_of(tls.getpeercert(binary_form=True))

    async def _answer_next(self) -> bool:
        """Answers one request; False where the client is gone."""
        self.admission.wait(self.client)
        announced = await self._within(IDLE_S, self.reader.read(1))
        if not announced:
            return False
        share = self._share()
        answer = AnswerShare(self.budgets.answers, self._share())
        budget = self.budgets.requests if self.client.is_known else self.budgets.of_strangers
        try:
            data = await self._within(WHOLE_WITHIN_S, self._read_request(announced, budget, share))
            self.admission.answer(self.client)
            share.is_whole = answer.share.is_whole = True
            IS_LARGE.set(len(data) > FREE)
            SHARE.set(answer)
            pieces = await self._answer(decode_head(data), data)
            del data
            budget.give(share)
            answer.share.began, answer.share.is_whole = asyncio.get_running_loop().time(), False
            await self._send(pieces)
        finally:
            budget.give(share)
            answer.give()
        return not self._ends

    async def _within(self, seconds: float, work: Awaitable[ResultT]) -> ResultT:
        """Wait for what the client sends; of a stranger, not after its time is over."""
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.timeout_at(until if self.client.is_known else self._until):
            return await work

    def _share(self) -> Share:
        transport = self.writer.transport
        return Share(self.client.address, transport.abort, asyncio.get_running_loop().time())

    async def _read_request(self, announced: bytes, budget: Budget, share: Share) -> bytes:
        size = int.from_bytes(announced + await self.reader.readexactly(3), "big", signed=True)
        if not 0 <= size <= self._largest_request:
            raise EndedError(f"a request of {size} bytes")
        data = bytearray()
        while len(data) < size:
            step = min(size - len(data), _STEP if size > FREE else size)
            if size > FREE:
                await budget.take(share, step)
            data += await self.reader.readexactly(step)
        return bytes(data)

    @property
    def _largest_request(self) -> int:
        if not self._is_logged_in:
            return LARGEST_BEFORE_LOGIN
        return LARGEST_REQUEST if self.client.is_known else LARGEST_FIRST

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
        if len(data) <= FREE:
            return await self._row(api, answer, head, _wanted(api, head, data))
        if api.name in WAITING:
            return await self._row(api, answer, head, await self.serving.in_thread(_wanted, api, head, data))
        async with self.serving.turns_of_large.turn():
            return await self._row(api, answer, head, await self.serving.in_thread(_wanted, api, head, data))

    async def _row(self, api: Api, answer: Answer, head: Head, wanted: dict[str, Any]) -> list[Piece]:
        """The answer to the fields of a request."""
        user = self._user if self.login is None else self.login.user or ""
        request = Request(api, head.version, wanted, head.client_id or "", self._host(), user)
        row = await answer_allowed(self.serving, request, answer)
        if row is None:
            raise EndedError("a producer that waits for no response")
        is_flexible = head.version in api.response.flexible and head.key != API_VERSIONS
        if is_short(row):
            pieces = encode(api.response, head.version, row)
        else:  # others are answered meanwhile
            pieces = await self.serving.built(_encoded, self.serving, request, row, size=in_memory)
        return [response_head(head.correlation_id, is_flexible=is_flexible), *pieces]

    @property
    def _is_logged_in(self) -> bool:
        return self.login is None or self.login.user is not None

    async def _log_in(self, login: Login, api: Api, head: Head, data: bytes) -> list[Piece]:
        is_late = login.user is not None
        if head.version not in api.versions or (head.key == HANDSHAKE and head.version == 0 and not is_late):
            raise EndedError(f"{api.name} of version {head.version}")
        if head.key == AUTHENTICATE and not login.has_begun:
            raise EndedError("a login without a handshake")
        body = decode_body(api, head, data)
        row = answer_handshake(login, body) if head.key == HANDSHAKE else answer_authenticate(login, body)
        if row.get("errorCode") and not is_late:
            self._ends = True
            await asyncio.sleep(FAILURE_DELAY_S)
        is_flexible = head.version in api.response.flexible
        return [response_head(head.correlation_id, is_flexible=is_flexible), *encode(api.response, head.version, row)]

    def _host(self) -> str:
        peer: Any = self.writer.get_extra_info("peername")
        if not isinstance(peer, tuple) or not peer:
            return "/"
        address, _, _, scope_id = peer if len(peer) == 4 else (*peer, 0, 0)
        return f"/{java_address(address, scope_id)}"

    async def _send(self, pieces: list[Piece]) -> None:
        async with asyncio.timeout(IDLE_S) as time:
            self.writer.write(sum(map(len, pieces)).to_bytes(4, "big"))
            for piece in pieces:
                if self.writer.is_closing():  # asyncio logs what is written to who has gone
                    raise EndedError("the client has gone")
                if isinstance(piece, FileRange):
                    await self._send_range(piece)
                else:
                    self.writer.write(piece)
                time.reschedule(asyncio.get_running_loop().time() + IDLE_S)
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


def _encoded(serving: Serving, request: Request, row: dict[str, Any]) -> list[Piece]:
    api = request.api
    try:
        return encode(api.response, request.version, row)
    except TooLargeError as error:
        text = f"an answer to {api.name} was not sent, as it has more than {format_bytes(LARGEST_ANSWER)}"
        serving.report(Kind.ANSWER_TOO_LARGE.at("serve", text))
        raise EndedError(str(error)) from error


def _wanted(api: Api, head: Head, data: bytes) -> dict[str, Any]:
    return without_repeated(api, decode_body(api, head, data))


class _Descriptor:
    """A local file as ``sendfile`` takes it."""

    mode = "rb"

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.descriptor
