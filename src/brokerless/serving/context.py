"""What all answers share: the topics, the groups, the advertised address, and the threads in which files are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.errors import OutOfFilesError, UnreadableError
from brokerless.serving.access import Access
from brokerless.serving.budget import AnswerShare
from brokerless.serving.certificates import MappingRules
from brokerless.serving.fair_threads import FairThreads, Turns
from brokerless.serving.groups.coordinator import Coordinator
from brokerless.serving.groups.subscriptions import ServedTopics
from brokerless.serving.login import Users
from brokerless.serving.protocol.errors import Error
from brokerless.serving.protocol.tables import Api
from brokerless.serving.reports import Reports
from brokerless.serving.source.new_partitions import NewPartitions
from brokerless.serving.source.topics import Topics

if TYPE_CHECKING:
    from brokerless.internals.metadata.cluster import Cluster

THREADS = 4
"""Worker threads that read files."""
FOLLOW_S = 2.0
"""How often new partitions are looked for."""
CURRENT_S = 5.0
"""How old settings may be that are answered."""
_AGAIN_S = 1.0
"""How long after descriptors ran out what is read at the start is read again."""
_UNHURRIED = 256
IS_LARGE: ContextVar[bool] = ContextVar("is_large", default=False)
"""Whether a task answers a large request: these share one thread, one after the other."""
SHARE: ContextVar[AnswerShare | None] = ContextVar("share", default=None)
"""What the answer that a task makes takes of the budget."""

NOT_READ = (UnreadableError, OutOfFilesError)

ResultT = TypeVar("ResultT")
ElementT = TypeVar("ElementT")


async def unhurried(elements: Iterable[ElementT]) -> AsyncIterator[ElementT]:
    """Yield elements one after the other; others are answered meanwhile, where there are many."""
    for number, each in enumerate(elements, 1):
        yield each
        if not number % _UNHURRIED:
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client."""

    api: Api
    version: int
    body: dict[str, Any]
    client_id: str
    host: str
    """The client's address, such as ``/127.0.0.1`` or ``/0:0:0:0:0:0:0:1``."""
    user: str = ""
    """The user who has logged in, or has a certificate."""


@dataclass(slots=True)
class Serving:
    """The state of the endpoint that all answers share."""

    topics: Topics
    groups: Coordinator
    report: Reports
    users: Users | None = None
    """The users who may log in, None where nobody has to."""
    access: Access | None = None
    """What users may do, None where they may do everything."""
    certificates: MappingRules | None = None
    """Returns the user of a certificate, where clients are identified by these."""
    new_partitions: NewPartitions | None = None
    """Partitions that a running broker makes, which are served too."""
    skips_damage: bool = False
    host: str = ""
    """The host of the address that clients are to connect to, with ``port``."""
    port: int = 0
    transactional_ids: Mapping[str, dict[str, Any]] | None = None
    """The transactional IDs of the cluster, None before a client requested them."""
    threads: FairThreads = field(default_factory=lambda: FairThreads(THREADS, "serve"))
    thread_of_large: FairThreads = field(default_factory=lambda: FairThreads(1, "serve large requests"))
    turns_of_large: Turns = field(default_factory=lambda: Turns(1))
    """Of large requests that nobody waits in, from reading them to the whole answer."""
    _loading: asyncio.Task[None] | None = None
    _surveying: asyncio.Task[None] | None = None
    _following: asyncio.Task[None] | None = None
    _read_at: float = field(default_factory=time.monotonic)

    @property
    def node_id(self) -> int:
        return self.topics.node_id

    async def in_thread(self, work: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call a function in a worker thread; for large requests, it is another one."""
        return await self._threads.run(partial(work, *arguments))

    async def built(self, work: Callable[..., ResultT], *arguments: Any, size: Callable[[ResultT], int]) -> ResultT:
        """Call a function that makes a part of an answer in a worker thread. ``size``: its bytes, which the answer's
        share takes; until they are free, the thread makes no other."""
        share = SHARE.get()
        return await self._threads.run(
            partial(work, *arguments), None if share is None else lambda result: share.take(size(result))
        )

    @property
    def _threads(self) -> FairThreads:
        return self.thread_of_large if IS_LARGE.get() else self.threads

    def not_read(self, path: str, error: UnreadableError | OutOfFilesError) -> Error:
        """Report why files were not read; return the error by which clients ask again."""
        if isinstance(error, OutOfFilesError):
            self.report.out_of_files(error)
        else:
            self.report(error.finding(path))
        return Error.KAFKA_STORAGE_ERROR

    def start(self) -> None:
        """Begin to read the cluster's metadata and the committed offsets, then to look for what cannot be served."""
        self._loading = asyncio.create_task(self._load())
        self._surveying = asyncio.create_task(self._survey())
        if self.new_partitions is not None:
            self._following = asyncio.create_task(self._follow(self.new_partitions))

    async def loaded(self) -> None:
        """Wait until the cluster's metadata and the committed offsets have been read."""
        assert self._loading is not None
        await asyncio.shield(self._loading)

    async def refreshed(self) -> None:
        """Wait until what a running broker wrote into the cluster's metadata is known, as it was some seconds ago."""
        await self.loaded()
        if self.new_partitions is None or time.monotonic() - self._read_at < CURRENT_S:
            return
        self.topics.take_cluster(await self._newer_cluster())

    async def _newer_cluster(self) -> Cluster | None:
        self._read_at = time.monotonic()
        with suppress(UnreadableError):  # it is being written; what was known of it counts
            return await self._retried(self.topics.read_newer_cluster)
        return self.topics.cluster

    async def _load(self) -> None:
        try:
            await self._retried(self.topics.load_cluster)
            self.groups.take(await self._retried(self.groups.offsets.load, self.topics), ServedTopics(self.topics))
        except UnreadableError as error:
            self.report(error.finding(error.path))

    async def _survey(self) -> None:
        await self.loaded()
        for each in self.topics.partitions:
            await self._retried(each.survey)

    async def _retried(self, work: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call a function in a thread, again where there was no descriptor for it."""
        while True:
            try:
                return await self.in_thread(work, *arguments)
            except OutOfFilesError as error:
                self.report.out_of_files(error)
                await asyncio.sleep(_AGAIN_S)

    async def _follow(self, new: NewPartitions) -> None:
        await self.loaded()
        while True:
            found = await self._retried(new.look)
            if found:
                cluster = await self._newer_cluster()
                added = self.topics.add(found, self.report, skips_damage=self.skips_damage)
                self.topics.take_cluster(cluster)
                for each in added:
                    await self._retried(each.announced_epoch)
                self.groups.topics_changed()
            await asyncio.sleep(FOLLOW_S)

    async def surveyed(self) -> None:
        """Wait until all partitions have been surveyed."""
        assert self._surveying is not None
        await asyncio.shield(self._surveying)

    async def close(self) -> None:
        """End what is being read, and the threads."""
        tasks = [each for each in (self._loading, self._surveying, self._following) if each is not None]
        for each in tasks:
            each.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for each in (self.threads, self.thread_of_large):
            each.close()
