"""Bytes that requests or answers may take, of all clients and of one address.

What takes some and does not come to its end gives way to another one that waits: half a request, say, or an answer that
nobody reads.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

FREE = 16 << 10
"""Bytes of a request or an answer that are in no budget."""


@dataclass(slots=True, eq=False)
class Share:
    """The bytes that one request or answer takes."""

    address: str
    end: Callable[[], object]
    """Makes it give way."""
    began: float
    """When it took something last, by the event loop's clock."""
    taken: int = 0
    is_whole: bool = False
    """Whether it comes to its end by itself, and does not give way."""
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class _Waiter:
    share: Share
    size: int
    granted: asyncio.Future[None]


@dataclass(slots=True)
class Budget:
    """The bytes that all shares may take. What is returned is granted to waiters in turn: the first of each address
    comes after that of others."""

    size: int
    """Bytes in all."""
    of_address: int
    """Bytes of one address."""
    patience_s: float
    """How long a share may take before it gives way."""
    _taken: Counter[str] = field(default_factory=Counter[str])
    _total: int = 0
    _shares: dict[Share, None] = field(default_factory=dict[Share, None])
    _waiting: dict[str, dict[_Waiter, None]] = field(default_factory=dict[str, dict[_Waiter, None]])
    """By address, in the order of their turns."""
    _leaving: Share | None = None
    _timer: asyncio.TimerHandle | None = None

    async def take(self, share: Share, size: int) -> None:
        """Take bytes when they are free; a share takes no more than ``of_address`` in all.

        Raises ConnectionAbortedError where the share gives way while it waits itself."""
        if share.address not in self._waiting and self._fits(share, size):
            self._grant(share, size)
            return
        waiter = _Waiter(share, size, asyncio.get_running_loop().create_future())
        is_first = share.address not in self._waiting
        self._waiting.setdefault(share.address, {})[waiter] = None
        if is_first:
            self._make_way()
        try:
            await waiter.granted
        finally:
            self._forget(waiter)

    def give(self, share: Share) -> None:
        """Give back what a share has taken."""
        if not share.taken:
            return
        self._total -= share.taken
        self._taken[share.address] -= share.taken
        if not self._taken[share.address]:
            del self._taken[share.address]
        share.taken = 0
        self._shares.pop(share, None)
        self._grant_waiting()
        if share is self._leaving:
            self._leaving = None
            self._make_way()

    def _grant(self, share: Share, size: int) -> None:
        share.taken += size
        share.began = asyncio.get_running_loop().time()
        self._total += size
        self._taken[share.address] += size
        self._shares[share] = None

    def _grant_waiting(self) -> None:
        missed = 0
        while self._total < self.size and missed < len(self._waiting):
            address = next(iter(self._waiting))
            own = self._waiting.pop(address)
            waiter = next(iter(own))
            if self._fits(waiter.share, waiter.size):
                missed = 0
                del own[waiter]
                self._grant(waiter.share, waiter.size)
                if not waiter.granted.done():
                    waiter.granted.set_result(None)
            else:
                missed += 1
            if own:
                self._waiting[address] = own  # after all others

    def _forget(self, waiter: _Waiter) -> None:
        own = self._waiting.get(waiter.share.address, {})
        if waiter in own:
            del own[waiter]
            if not own:
                del self._waiting[waiter.share.address]
            self._grant_waiting()

    def _fits(self, share: Share, size: int) -> bool:
        return self._total + size <= self.size and self._taken[share.address] + size <= self.of_address

    def _make_way(self) -> None:
        """End a share that has had its time, if somebody waits for that; or look again when one will have."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + self.patience_s
        if self._leaving is None:  # one at a time: what it gives may be enough
            oldest = self._oldest()
            most = sorted(oldest, key=lambda each: self._taken[each], reverse=True)
            heads = [next(iter(each)) for each in self._waiting.values()]
            found = (self._first_to_end(each, oldest, most) for each in heads)
            first = min((each for each in found if each is not None), key=lambda each: each.began, default=None)
            if first is not None and first.began + self.patience_s <= loop.time():
                self._end(first)
                if self._leaving is None:  # it is gone already, and it was looked again
                    return
            elif first is not None:
                at = first.began + self.patience_s
        self._timer = loop.call_at(at, self._make_way)

    def _oldest(self) -> dict[str, list[Share]]:
        """The two shares of each address that have not come to their end for longest."""
        found: dict[str, list[Share]] = {}
        for each in self._shares:
            if not each.is_whole:
                found.setdefault(each.address, []).append(each)
        return {address: sorted(own, key=lambda each: each.began)[:2] for address, own in found.items()}

    def _first_to_end(self, waiter: _Waiter, oldest: dict[str, list[Share]], most: list[str]) -> Share | None:
        """The share that gives way next to one that waits: of the same address where that has too much, else of the one
        with most."""
        own = waiter.share.address
        has_too_much = self._taken[own] + waiter.size > self.of_address
        for address in (own,) if has_too_much else most:
            for each in oldest.get(address, ()):
                if each is not waiter.share:
                    return each
        return None

    def _end(self, share: Share) -> None:
        self._leaving = share
        share.has_ended = share.is_whole = True
        share.end()
        for each in list(self._waiting.get(share.address, ())):
            if each.share is share and not each.granted.done():
                each.granted.set_exception(ConnectionAbortedError())


@dataclass(slots=True)
class AnswerShare:
    """What one answer takes of the budget of answers."""

    budget: Budget
    share: Share

    async def take(self, size: int) -> None:
        """Take what it has come to need; small ones need none."""
        more = size - self.share.taken
        if size > FREE and more > 0:
            await self.budget.take(self.share, more)

    def give(self) -> None:
        """Give it back."""
        self.budget.give(self.share)
