"""Does tasks in parallel, in threads, and yields their values in the order of the tasks, in bounded memory.

For work that spends its time without Python's lock: kernels, reads, Arrow.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from typing import Generic, TypeVar

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")

MOST_WAITING = 2
"""Values of a task that wait to be taken, unless they have sizes; then it pauses. A huge one is a value of its own."""


_most: int | None = None


def limit_processors(number: int | None) -> None:
    """Sets how many tasks this process does in parallel where it would take one for each processor; None: that many."""
    global _most
    _most = number


def processors() -> int:
    """Return how many of them this process may use."""
    if _most is not None:
        return _most
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Running(Generic[TaskT, ValueT]):
    task: TaskT
    values: deque[ValueT] = field(default_factory=deque[ValueT])
    sizes: deque[int] = field(default_factory=deque[int])
    is_done: bool = False
    error: BaseException | None = None


def in_order(
    tasks: Iterator[TaskT],
    work: Callable[[TaskT], Iterator[ValueT]],
    threads: int,
    waiting: int = MOST_WAITING,
    size: Callable[[ValueT], int] = lambda _: 1,
) -> Generator[tuple[TaskT, Iterator[ValueT]]]:
    """Yields each task with the values that ``work`` makes of it, which are to be taken before the next task is.

    ``tasks`` is iterated by the caller's thread, at most one task for each thread, and one, ahead of what is yielded:
    fewer at first, as reading may end soon. ``waiting``: sizes, together, of a task's values that wait to be taken, at
    which it pauses; each counts as 1 without ``size``. Raises what ``tasks`` and ``work`` raise, in the place of what
    they would have yielded. Leaving the loop stops all threads at their next value, and waits for them.
    """
    pool = _Threads(work, threads, waiting, size)
    begun: deque[_Running[TaskT, ValueT]] = deque()
    failure: Exception | None = None
    is_last, ahead = False, 1
    try:
        while True:
            while len(begun) < ahead and not is_last:
                try:
                    begun.append(pool.begin(next(tasks)))
                except StopIteration:
                    is_last = True
                except Exception as error:  # raised after what comes before it
                    failure, is_last = error, True
            if not begun:
                break
            head = begun.popleft()
            ahead = min(2 * ahead, threads + 1)
            yield head.task, pool.values_of(head)
            del head
        if failure is not None:
            raise failure
    finally:
        pool.stop()


class _Threads(Generic[TaskT, ValueT]):
    """Threads that do tasks, those first that were begun first; each is started when there is a task for it."""

    def __init__(
        self, work: Callable[[TaskT], Iterator[ValueT]], threads: int, waiting: int, size: Callable[[ValueT], int]
    ) -> None:
        self._work, self._most, self._most_waiting, self._size = work, threads, waiting, size
        self._changed = Condition()
        self._waiting: deque[_Running[TaskT, ValueT]] = deque()
        self._threads: list[Thread] = []
        self._is_stopped = False

    def begin(self, task: TaskT) -> _Running[TaskT, ValueT]:
        running = _Running[TaskT, ValueT](task)
        with self._changed:
            self._waiting.append(running)
            self._changed.notify_all()
        if len(self._threads) < self._most:
            self._threads.append(Thread(target=self._serve, daemon=True))
            self._threads[-1].start()
        return running

    def values_of(self, running: _Running[TaskT, ValueT]) -> Iterator[ValueT]:
        """A task's values, as they are made."""
        while True:
            with self._changed:
                while not running.values and not running.is_done:
                    self._changed.wait()
                taken = [running.values.popleft()] if running.values else []
                if taken:
                    running.sizes.popleft()
                    self._changed.notify_all()
            if not taken:
                break
            yield taken.pop()  # freed as soon as the caller is done with it
        if running.error is not None:
            raise running.error

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        for each in self._threads:
            each.join()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._is_stopped:
                    self._changed.wait()
                if self._is_stopped:
                    return
                running = self._waiting.popleft()
            self._do(running)
            del running

    def _do(self, running: _Running[TaskT, ValueT]) -> None:
        try:
            for value in self._work(running.task):
                size = self._size(value)
                with self._changed:
                    running.values.append(value)
                    running.sizes.append(size)
                    del value
                    self._changed.notify_all()
                    while sum(running.sizes) >= self._most_waiting and not self._is_stopped:
                        self._changed.wait()
                    if self._is_stopped:
                        return
        except BaseException as error:  # raised by whoever takes the values
            running.error = error
        finally:
            with self._changed:
                running.is_done = True
                self._changed.notify_all()


def read_ahead(values: Callable[[], Iterator[ValueT]]) -> Generator[ValueT]:
    """Yields values that a thread makes: the next one, and one more, while the caller works on the last."""
    with closing(in_order(iter((None,)), lambda _: values(), 1, waiting=1)) as tasks:
        for _, made in tasks:
            yield from made


@dataclass(frozen=True)
class OrderedStep:
    """What one task does while no other does it, in the order of the tasks, whichever thread has come there first."""

    before: Event | None
    done: Event = field(default_factory=Event)

    @contextmanager
    def taken(self) -> Generator[None]:
        """Waits for the turn before this one to be done."""
        if self.before is not None:
            self.before.wait()
        try:
            yield
        finally:
            self.done.set()


def turns() -> Iterator[OrderedStep]:
    """One for each task that is begun, without end."""
    turn = OrderedStep(None)
    while True:
        yield turn
        turn = OrderedStep(turn.done)
