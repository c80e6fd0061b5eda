"""What callers get while something is read or written: progress, findings, and texts for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from brokerless.findings import Finding

Done = Callable[[int], object]
"""Called with the bytes that were read, or passed over, since the last call."""
Report = Callable[[Finding], None]
"""Called with each finding, when it is found."""
Say = Callable[[str], object]
"""Called with a text for people."""
Phase = Callable[[str, int | None], AbstractContextManager[Done]]
"""Begins a part of the work, by its name and the bytes to read, where these are known."""


def ignore(*_: object) -> None:
    """Takes what nobody wants to know."""


def no_phase(_: str, __: int | None) -> AbstractContextManager[Done]:
    """Begins a part of the work that nobody wants to know of."""
    return nullcontext(ignore)


def limited(
    done: Done,
    rate: int | None,
    *,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Done:
    """Return a ``done`` that waits so long that no more than ``rate`` bytes a second are read, over any second and what
    was read at once; the same one for None. What calls it has to read in this process, one after the other: a token
    bucket of one second."""
    if rate is None:
        return done
    tokens, last = float(rate), now()

    def limit(count: int) -> None:
        nonlocal tokens, last
        done(count)
        at = now()
        tokens, last = min(tokens + (at - last) * rate, rate) - count, at
        if tokens < 0:
            sleep(-tokens / rate)

    return limit
