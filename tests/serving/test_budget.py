from __future__ import annotations

import asyncio

from brokerless.serving.budget import FREE, AnswerShare, Budget, Share


def share(address: str, ended: list[str] | None = None) -> Share:
    ended = [] if ended is None else ended
    return Share(address, lambda: ended.append(address), asyncio.get_running_loop().time())


def test_bytes_are_taken_and_given() -> None:
    async def play() -> None:
        budget = Budget(10, 10, patience_s=60)
        first, second = share("a"), share("b")
        first.is_whole = True
        await budget.take(first, 8)
        waiting = asyncio.create_task(budget.take(second, 5))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.give(first)
        await waiting
        assert (first.taken, second.taken) == (0, 5)

    asyncio.run(play())


def test_an_address_leaves_bytes_for_others() -> None:
    async def play() -> None:
        budget = Budget(10, 6, patience_s=60)
        await budget.take(share("a"), 6)
        waiting = asyncio.create_task(budget.take(share("a"), 1))
        await budget.take(share("b"), 4)
        assert not waiting.done()
        waiting.cancel()

    asyncio.run(play())


def test_what_does_not_become_whole_gives_way() -> None:
    ended: list[str] = []

    async def play() -> None:
        budget = Budget(10, 10, patience_s=0)
        half, other = share("a", ended), share("b", ended)
        half.end = lambda: (ended.append("a"), budget.give(half))
        await budget.take(half, 8)
        await budget.take(other, 5)

    asyncio.run(play())
    assert ended == ["a"]


def test_no_more_gives_way_than_is_needed() -> None:
    ended: list[str] = []

    async def play() -> None:
        budget = Budget(10, 10, patience_s=0.001)
        for name in ("a", "b"):
            half = share(name, ended)
            half.end = lambda name=name, half=half: asyncio.get_running_loop().call_later(
                0.01, lambda: (ended.append(name), budget.give(half))
            )
            await budget.take(half, 5)
        await asyncio.gather(budget.take(share("c"), 2), budget.take(share("d"), 3))

    asyncio.run(play())
    assert len(ended) == 1


def test_who_waits_gives_way_as_well() -> None:
    async def play() -> None:
        budget = Budget(10, 10, patience_s=0.001)
        both = [share("a"), share("b")]
        for each in both:
            await budget.take(each, 5)

        async def more(of: Share) -> None:
            try:
                await budget.take(of, 5)
            finally:
                if of.has_ended:
                    budget.give(of)

        found = await asyncio.gather(*map(more, both), return_exceptions=True)
        assert {type(each) for each in found} == {type(None), ConnectionAbortedError}
        assert sum(each.taken for each in both) == 10

    asyncio.run(play())


def test_what_is_whole_does_not_give_way() -> None:
    ended: list[str] = []

    async def play() -> None:
        budget = Budget(10, 10, patience_s=0)
        whole = share("a", ended)
        await budget.take(whole, 8)
        whole.is_whole = True
        waiting = asyncio.create_task(budget.take(share("b", ended), 5))
        for _ in range(5):
            await asyncio.sleep(0)
        budget.give(whole)
        await waiting

    asyncio.run(play())
    assert ended == []


def test_a_small_answer_takes_nothing() -> None:
    async def play() -> None:
        budget = Budget(2 * FREE, 2 * FREE, patience_s=60)
        answer = AnswerShare(budget, share("a"))
        await answer.take(FREE)
        assert answer.share.taken == 0
        await answer.take(FREE + 1)
        await answer.take(FREE + 1)
        assert answer.share.taken == FREE + 1
        answer.give()
        assert answer.share.taken == 0

    asyncio.run(play())
