from __future__ import annotations

import threading
import time

import pytest

from brokerless.log.storage.side_by_side import REQUESTS, side_by_side


def test_what_is_remote_is_worked_on_at_once_and_given_in_order() -> None:
    together = threading.Barrier(REQUESTS, timeout=20)

    def work(item: int) -> int:
        together.wait()
        time.sleep(0.001 * (REQUESTS - item))
        return item

    assert list(side_by_side(work, range(REQUESTS), is_remote=True)) == list(range(REQUESTS))


def test_what_is_not_remote_is_worked_on_here_and_only_as_far_as_it_is_taken() -> None:
    seen: list[threading.Thread] = []
    given = side_by_side(lambda _: seen.append(threading.current_thread()), range(3), is_remote=False)
    next(given)
    assert seen == [threading.current_thread()]


def test_the_first_error_in_order_is_raised_and_what_has_not_begun_never_does() -> None:
    begun: list[int] = []

    def work(item: int) -> int:
        begun.append(item)
        time.sleep(0.01)
        if item in (1, 3):
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="1"):
        list(side_by_side(work, range(1000), is_remote=True))
    assert len(begun) < 1000
