"""A progress bar on stderr, where that is a terminal: bytes done and in all, rate, time left.

There is one line, drawn by a thread of its own, and only once a command has taken a second. Whatever else goes to the
terminal is written with :func:`above_bar`, which takes the line away before: data and findings never share a line with
it. The cursor is never hidden, so that nothing is left to repair when a command is killed. With ``NO_COLOR=1``, only
text, spaces and carriage returns are written.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Lock, RLock, Thread
from time import monotonic
from typing import Any, TextIO

from brokerless.progress import Done, ignore
from brokerless.text import format_bytes

DELAY_S = 1.0
"""Commands that take less show no bar; and where data was written to the terminal, it comes back after so long."""
INTERVAL_S = 0.2
_PATIENCE_S = 2.0
"""A write to a pipe that takes longer waits for somebody who reads (``| less``), and then owns the screen."""
_WINDOW_S = 15.0
"""Seconds over which the rate is measured."""
_LONGEST_BAR, _SHORTEST_BAR = 40, 8
_ERASE = "\r\x1b[K"
_CODE = re.compile(r"\x1b\[[0-9;]*m")
_DUMB = ("", "dumb", "unknown")


@dataclass(slots=True)
class _ShownPhase:
    """The present phase of a command."""

    what: str
    total: int | None
    """All that is to be done (bytes); None if that is not known."""
    started: float
    done: int = 0


class _Bar:
    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._screen = RLock()
        self._counting = Lock()
        self._phases: list[_ShownPhase] = []
        self._samples: deque[tuple[float, int]] = deque()
        self._is_drawn = self._is_line_open = self._is_given_up = False
        self._quiet_until = monotonic() + DELAY_S
        self._kernels = 0
        self._console: Any = None
        self._is_plain = bool(os.environ.get("NO_COLOR"))
        self._drawn_columns = 0
        self._is_over = Event()
        self._thread = Thread(target=self._run, name="brokerless-progress", daemon=True)
        self._thread.start()

    @contextmanager
    def phase(self, what: str, total: int | None) -> Generator[Done]:
        with self._counting:
            phase = _ShownPhase(what, total, monotonic())
            self._phases.append(phase)
            self._samples.clear()

        def done(size: int) -> None:
            with self._counting:
                phase.done += size
                self._kernels = _compiled_kernels()

        try:
            yield done
        finally:
            with self._counting:
                self._phases.remove(phase)
                self._samples.clear()

    @contextmanager
    def above(self, data: bytes | memoryview | None, *, to_terminal: bool) -> Generator[None]:
        with self._screen:
            if to_terminal:
                self._erase()
            started = monotonic()
            yield
            if to_terminal and data is not None and len(data):
                self._quiet_until = max(self._quiet_until, monotonic() + DELAY_S)
                self._is_line_open = bytes(data[-1:]) != b"\n"
            elif not to_terminal and monotonic() - started > _PATIENCE_S:
                self._is_given_up = True
                self._erase()

    def give_up(self) -> None:
        """Takes the line away for good."""
        with self._screen:
            self._is_given_up = True
            self._erase()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(_PATIENCE_S)
        with self._screen:
            self._erase()

    def _run(self) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone
            while not self._is_over.wait(INTERVAL_S):
                with self._screen:
                    is_quiet = monotonic() >= self._quiet_until and not self._is_line_open
                    if is_quiet and not self._is_given_up and not self._is_over.is_set():
                        self._draw()

    def _draw(self) -> None:
        line = self._line()
        if not line:
            self._erase()
            return
        self._is_drawn = True
        if self._is_plain:
            self._drawn_columns, line = len(line), line.ljust(self._drawn_columns)
        self._terminal.write(f"\r{line}" if self._is_plain else f"\r{line}\x1b[K")
        self._terminal.flush()

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            with suppress(OSError, ValueError):
                self._terminal.write(f"\r{'':{self._drawn_columns}}\r" if self._is_plain else _ERASE)
                self._terminal.flush()

    def _line(self) -> str:
        with self._counting:
            phase = self._phases[-1] if self._phases else None
            kernels = self._kernels
            done = 0 if phase is None else phase.done
        now = monotonic()
        if _compiled_kernels() > kernels:
            return self._fit("compiling kernels for this machine, once: the next start finds them")
        if phase is None:
            return ""
        self._samples.append((now, done))
        while now - self._samples[0][0] > _WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()
        (since, before), spent = self._samples[0], now - phase.started
        rate = (done - before) / (now - since) if now > since else 0.0
        if phase.total is None:
            facts = [format_bytes(done), f"{format_bytes(int(rate))}/s"] if done else []
            return self._fit("  ".join([phase.what, *facts, _duration(spent)]))
        total = max(phase.total, done)
        facts = [f"{format_bytes(done)} of {format_bytes(total)}", *([f"{format_bytes(int(rate))}/s"] if done else [])]
        facts.append(f"{_duration((total - done) / rate)} left" if rate else _duration(spent))
        text = self._fit("  ".join([phase.what, *facts]))
        width = min(_LONGEST_BAR, self._columns() - len(text) - 3)
        return text if width < _SHORTEST_BAR else f"{self._bar(width, done, total)}  {text}"

    def _fit(self, text: str) -> str:
        """A line that is as wide as the terminal would wrap, and then could not be taken away."""
        return text[: self._columns() - 1]

    def _columns(self) -> int:
        columns = 0
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(self._terminal.fileno()).columns
        return columns or 80

    def _bar(self, width: int, done: int, total: int) -> str:
        """Coloured where the terminal has colours."""
        from rich.console import Console
        from rich.progress_bar import ProgressBar

        if self._console is None:
            self._console = Console(file=self._terminal, force_terminal=True)
        with self._console.capture() as captured:
            self._console.print(ProgressBar(max(total, 1), done, width), end="")
        text = str(captured.get())
        plain = _CODE.sub("", text)
        return (plain if self._is_plain else text) + " " * (width - len(plain))


_bar: _Bar | None = None


@contextmanager
def shown() -> Generator[None]:
    """Shows what :func:`progress` counts while a command runs, if stderr is a terminal that can move its cursor."""
    global _bar
    stderr: TextIO | None = sys.stderr
    if _bar is not None or stderr is None or not _is_terminal(stderr) or os.environ.get("TERM", "") in _DUMB:
        yield
        return
    _bar = _Bar(stderr)
    try:
        yield
    finally:
        bar, _bar = _bar, None
        bar.close()


@contextmanager
def progress(what: str, total: int | None = None) -> Generator[Done]:
    """A function that is called with the number of bytes done since the last call, from any thread. ``what`` is done
    (``reading``); ``total`` bytes, None if nobody knows."""
    if _bar is None:
        yield ignore
        return
    with _bar.phase(what, total) as done:
        yield done


@contextmanager
def above_bar(data: bytes | memoryview | None = None, *, to_terminal: bool = True) -> Generator[None]:
    """Write what is written within above the bar. ``data``: what goes to stdout, None for a line on stderr;
    ``to_terminal``: whether it goes to a terminal."""
    if _bar is None:
        yield
        return
    with _bar.above(data, to_terminal=to_terminal):
        yield


def end_bar() -> None:
    """Shows no bar from now on, as something else has the terminal."""
    if _bar is not None:
        _bar.give_up()


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _compiled_kernels() -> int:
    """Return how many kernels this process has compiled. Their module is not imported for that: it takes half a
    second."""
    return getattr(sys.modules.get("brokerless.format.compiler"), "compiled", 0)


def _duration(seconds: float) -> str:
    """``0:05``, ``12:34``, ``1:02:03``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
