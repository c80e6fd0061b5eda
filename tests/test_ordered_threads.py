"""Values come in the order of the tasks, in bounded memory; errors in their place; threads end with the loop."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from brokerless.ordered_threads import OrderedStep, in_order, read_ahead, turns


def slow_first(task: int) -> Iterator[str]:
    for value in range(3):
        time.sleep(0.01 if task % 3 == 0 else 0)
        yield f"{task}.{value}"


def take_all(results: Iterator[tuple[Any, Iterator[Any]]], found: list[Any]) -> None:
    for _, values in results:
        found.extend(values)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_values_come_in_order(threads: int) -> None:
    found = [(task, list(values)) for task, values in in_order(iter(range(20)), slow_first, threads)]
    assert found == [(task, [f"{task}.{value}" for value in range(3)]) for task in range(20)]


def test_tasks_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)

    def work(task: int) -> Iterator[int]:
        if task:  # the first one is alone, as reading may end with it
            both.wait()
        yield task

    assert [list(values) for _, values in in_order(iter(range(5)), work, 2)] == [[0], [1], [2], [3], [4]]


def test_neither_tasks_nor_values_run_far_ahead() -> None:
    begun: list[int] = []
    made: list[tuple[int, int]] = []

    def tasks() -> Iterator[int]:
        for task in range(100):
            begun.append(task)
            yield task

    def work(task: int) -> Iterator[int]:
        for value in range(100):
            made.append((task, value))
            yield value

    with closing(in_order(tasks(), work, 4)) as results:
        for task, values in results:
            for value in values:
                assert len(begun) <= task + 1 + 5
                assert sum(each[0] == task for each in made) <= value + 4
            if task == 10:
                break
    assert len(begun) < 20


def test_a_task_pauses_by_the_sizes_of_what_waits() -> None:
    made: list[int] = []

    def work(_: None) -> Iterator[bytes]:
        for value in range(20):
            made.append(value)
            yield bytes(5 if value < 10 else 100)

    with closing(in_order(iter([None]), work, 1, waiting=15, size=len)) as results:
        for _, values in results:
            for value, _ in enumerate(values):
                waiting = 3 if value < 7 else 1
                until = time.monotonic() + 30
                while len(made) < min(value + 1 + waiting, 20) and time.monotonic() < until:
                    time.sleep(0.001)
                assert min(value + 1 + waiting, 20) <= len(made) <= value + 1 + 3
    assert len(made) == 20


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_in_its_place(threads: int) -> None:
    def work(task: int) -> Iterator[int]:
        yield task
        if task == 5:
            raise ValueError("five")
        yield -task

    found: list[int] = []
    with pytest.raises(ValueError, match="five"):
        take_all(in_order(iter(range(20)), work, threads), found)
    assert found == [0, 0, 1, -1, 2, -2, 3, -3, 4, -4, 5]


def test_an_error_of_the_tasks_comes_after_those_before_it() -> None:
    def tasks() -> Iterator[int]:
        yield from range(4)
        raise OSError("gone")

    found: list[str] = []
    with pytest.raises(OSError, match="gone"):
        take_all(in_order(tasks(), slow_first, 8), found)
    assert found[-1] == "3.2"


def test_leaving_the_loop_ends_all_threads() -> None:
    before = set(threading.enumerate())
    results = in_order(iter(range(1000)), slow_first, 8)
    for _ in range(5):
        next(results)
    assert set(threading.enumerate()) - before
    results.close()
    assert not set(threading.enumerate()) - before


def test_read_ahead_makes_two_values_beyond_the_one_that_is_taken() -> None:
    made: list[int] = []

    def values() -> Iterator[int]:
        for value in range(20):
            made.append(value)
            yield value

    with closing(read_ahead(values)) as ahead:
        for value in ahead:
            until = time.monotonic() + 30
            while len(made) < min(value + 2, 20) and time.monotonic() < until:
                time.sleep(0.001)
            assert value + 2 <= len(made) <= value + 3 or len(made) == 20
    assert made == list(range(20))


def test_read_ahead_raises_an_error_after_the_values_before_it() -> None:
    def values() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    ahead = read_ahead(values)
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="two"):
        next(ahead)


def test_read_ahead_that_is_closed_ends_its_thread_and_the_values() -> None:
    before, closed = set(threading.enumerate()), list[bool]()

    def values() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    ahead = read_ahead(values)
    next(ahead)
    ahead.close()
    assert closed == [True]
    assert not set(threading.enumerate()) - before


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="Windows")
def test_ctrl_c_while_a_value_is_waited_for_ends_all_threads() -> None:
    before, main = set(threading.enumerate()), threading.main_thread().ident
    assert main is not None

    def work(_: int) -> Iterator[int]:
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.05)
        yield 1

    with pytest.raises(KeyboardInterrupt):
        take_all(in_order(iter(range(3)), work, 2), [])
    gc.collect()
    assert not set(threading.enumerate()) - before


def test_turns_are_taken_in_the_order_of_the_tasks() -> None:
    taken: list[int] = []

    def work(task: tuple[int, OrderedStep]) -> Iterator[int]:
        number, turn = task
        time.sleep(0.01 if number % 3 == 0 else 0)
        with turn.taken():
            taken.append(number)
        yield number

    numbered = zip(range(30), turns(), strict=False)
    assert [list(values) for _, values in in_order(numbered, work, 4)] == [[each] for each in range(30)]
    assert taken == list(range(30))


def test_a_turn_that_fails_is_done() -> None:
    def work(task: tuple[int, OrderedStep]) -> Iterator[int]:
        with task[1].taken():
            if task[0] == 2:
                raise ValueError("the third one")
        yield task[0]

    found: list[int] = []
    with pytest.raises(ValueError, match="the third one"):
        take_all(in_order(zip(range(9), turns(), strict=False), work, 3), found)
    assert found == [0, 1]
