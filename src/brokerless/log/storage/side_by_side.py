"""Work that waits for an object store, several pieces at once; for files of this machine, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

REQUESTS = 32
"""At once; of S3, as many connections are opened as that (``max_pool_connections``), unless a user says how many."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def side_by_side(work: Callable[[ItemT], ResultT], items: Sequence[ItemT], is_remote: bool) -> Iterator[ResultT]:
    """Yield what ``work`` gives for each item, in their order; in threads where files are remote, as a request takes
    tens of milliseconds, and nearly all of that is waiting. Raises what ``work`` raises for the first item for which it
    does.
    """
    if not is_remote or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(REQUESTS) as pool:
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
