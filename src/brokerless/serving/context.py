"""What all answers share: the topics, the groups, the advertised address, and the threads in which files are read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log.segment import Report
from brokerless.serving.access import Access
from brokerless.serving.groups.coordinator import Coordinator
from brokerless.serving.groups.subscriptions import ServedTopics
from brokerless.serving.login import Users
from brokerless.serving.protocol.tables import Api
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

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Request:
    """``host``: the client's address, as ``/127.0.0.1``. ``user``: who has logged in."""

    api: Api
    version: int
    body: dict[str, Any]
    client_id: str
    host: str
    user: str = ""


@dataclass(slots=True)
class Serving:
    """``host`` and ``port``: the address that clients are to connect to. ``users``: who may log in, None where nobody
    has to; ``access``: what they may do, everything where it is None. ``new_partitions``: those that a running broker
    makes, which are served too. ``transactional_ids``: those of the cluster, None
    before anybody asked."""

    topics: Topics
    groups: Coordinator
    report: Report
    users: Users | None = None
    access: Access | None = None
    new_partitions: NewPartitions | None = None
    skips_damage: bool = False
    host: str = ""
    port: int = 0
    transactional_ids: Mapping[str, dict[str, Any]] | None = None
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "serve"))
    _loading: asyncio.Task[None] | None = None
    _surveying: asyncio.Task[None] | None = None
    _following: asyncio.Task[None] | None = None
    _read_at: float = field(default_factory=time.monotonic)

    @property
    def node_id(self) -> int:
        return self.topics.node_id

    async def in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function in a worker thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)

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
            return await self.in_thread(self.topics.read_newer_cluster)
        return self.topics.cluster

    async def _load(self) -> None:
        try:
            await self.in_thread(self.topics.load_cluster)
            self.groups.take(await self.in_thread(self.groups.offsets.load, self.topics), ServedTopics(self.topics))
        except UnreadableError as error:
            self.report(Finding("error", Kind.UNREADABLE_FILE, error.path, message=error.reason))

    async def _survey(self) -> None:
        await self.loaded()
        for each in self.topics.partitions:
            await self.in_thread(each.survey)

    async def _follow(self, new: NewPartitions) -> None:
        await self.loaded()
        while True:
            found = await self.in_thread(new.look)
            if found:
                cluster = await self._newer_cluster()
                added = self.topics.add(found, self.report, skips_damage=self.skips_damage)
                self.topics.take_cluster(cluster)
                for each in added:
                    await self.in_thread(each.announced_epoch)
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
        self.threads.shutdown(wait=True, cancel_futures=True)
