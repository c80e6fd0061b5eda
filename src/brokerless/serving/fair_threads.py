"""Worker threads that the addresses of clients get in turn: many requests of one keep those of no other waiting."""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TypeVar

ADDRESS: ContextVar[str] = ContextVar("address", default="")
"""That of the client for which a task works; of what no client has requested, none."""

SWITCH_S = 0.0001
"""How long a thread of this process works before another one that waits has its turn; Python's own are 5 ms."""

ResultT = TypeVar("ResultT")


def switch_often() -> None:
    """Let the event loop have its turn soon while threads read large requests: each of its steps waits for one."""
    sys.setswitchinterval(SWITCH_S)


class Turns:
    """So many at a time; a task that comes when there are as many waits until its address has a turn."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Wait for a turn, and have it."""
        await self.take()
        try:
            yield
        finally:
            self.pass_on()

    async def take(self) -> None:
        """Wait for a turn; :meth:`pass_on` ends it."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(ADDRESS.get(), deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.pass_on()
            raise

    def pass_on(self) -> None:
        """Give a turn that has ended to the next address."""
        while self._waiting:
            address, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns  # after all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class FairThreads:
    """So many threads; a task of an event loop waits for one of them."""

    def __init__(self, count: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, name)
        self._turns = Turns(count)

    async def run(
        self, work: Callable[[], ResultT], then: Callable[[ResultT], Awaitable[None]] | None = None
    ) -> ResultT:
        """Call a function in a thread when it is the turn of the task's address. ``then`` is awaited before the thread
        is for others."""
        await self._turns.take()
        loop = asyncio.get_running_loop()
        try:
            future = self._executor.submit(work)
        except RuntimeError:  # the threads have ended
            self._turns.pass_on()
            raise
        try:
            result = await asyncio.wrap_future(future)
            if then is not None:
                await then(result)
            return result
        finally:
            if future.done():
                self._turns.pass_on()
            else:  # who waited for it has gone, and the thread works on

                def end_later(_: object) -> None:
                    with suppress(RuntimeError):  # the loop has ended
                        loop.call_soon_threadsafe(self._turns.pass_on)

                future.add_done_callback(end_later)

    def close(self) -> None:
        """End the threads, when what they do is done."""
        self._executor.shutdown(wait=True, cancel_futures=True)
