from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from brokerless.serving.fair_threads import ADDRESS, FairThreads, Turns


def test_addresses_come_to_their_turn_one_after_the_other() -> None:
    done: list[str] = []

    async def play() -> None:
        threads, begun, goes_on = FairThreads(1, "any"), threading.Event(), threading.Event()

        async def ask(address: str) -> None:
            ADDRESS.set(address)
            await threads.run(lambda: done.append(address))

        first = asyncio.create_task(threads.run(lambda: (begun.set(), goes_on.wait())))
        with ThreadPoolExecutor(1) as other:
            await asyncio.wrap_future(other.submit(begun.wait))
        many = [asyncio.create_task(ask("many")) for _ in range(5)]
        await asyncio.sleep(0)
        one = asyncio.create_task(ask("one"))
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(first, one, *many)
        threads.close()

    asyncio.run(play())
    assert done == ["many", "one", *["many"] * 4]


def test_what_follows_keeps_the_thread() -> None:
    async def play() -> None:
        threads, follows, goes_on = FairThreads(1, "any"), asyncio.Event(), asyncio.Event()

        async def then(result: int) -> None:
            assert result == 1
            follows.set()
            await goes_on.wait()

        first = asyncio.create_task(threads.run(lambda: 1, then))
        await follows.wait()
        second = asyncio.create_task(threads.run(lambda: 2))
        await asyncio.sleep(0)
        assert not second.done()
        goes_on.set()
        assert await asyncio.gather(first, second) == [1, 2]
        threads.close()

    asyncio.run(play())


def test_a_task_that_is_cancelled_passes_its_turn_on() -> None:
    async def play() -> None:
        turns = Turns(1)
        async with turns.turn():
            waiting = [asyncio.create_task(turns.take()) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        waiting[1].cancel()  # whose turn it is
        await asyncio.wait_for(waiting[2], 10)
        turns.pass_on()
        async with turns.turn():
            pass

    asyncio.run(play())


def test_an_error_passes_the_thread_on() -> None:
    async def play() -> None:
        threads = FairThreads(1, "any")
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
        assert await threads.run(lambda: 1) == 1
        threads.close()
        with pytest.raises(RuntimeError):
            await threads.run(lambda: 1)

    asyncio.run(play())
