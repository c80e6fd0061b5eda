"""Shows what is longer than the terminal page by page, as git does: with ``$BROKERLESS_PAGER``, ``$PAGER`` or ``less``,
which prints what fits and ends.

While a command runs, stdout is a :class:`PagedOutput`. What is on stderr goes through a pager that runs, as both would
be on one screen.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import RLock, current_thread, main_thread
from typing import TYPE_CHECKING, Any, BinaryIO

from brokerless.cli.progress import end_bar

if TYPE_CHECKING:
    import subprocess

_NOT_RUN = (126, 127)
"""Exit codes of a shell that could not run a command."""
_VARIABLES = ("BROKERLESS_PAGER", "PAGER")
_OPTIONS = {"LESS": "FRX", "LV": "-c"}
"""What pagers are started with, unless users have set it: what fits is printed, colours are shown, and what was shown
stays on the terminal."""
WORKING = (
    *("salvage", "carve", "merge", "trim", "rebuild", "restore", "backup"),
    *("export", "pipeline", "load", "convert", "compact", "erase", "serve"),
)
"""Commands that do more than print: they would wait for whoever reads a page."""
_ENDING = ("help", "cat", "sql", "batches", "explain", "schema", "internals", "completion")
"""Commands of which nothing is left to do once nobody reads on."""

_paged: PagedOutput | None = None
_is_off = False


class PagedOutput(io.RawIOBase):
    """The input of a pager, which starts with the first byte. After the pager has been quit, what else is written is
    lost, or :class:`BrokenPipeError` with ``ends_with_pager``."""

    def __init__(self, terminal: BinaryIO, command: list[str], *, ends_with_pager: bool) -> None:
        self._terminal, self._command, self._ends = terminal, command, ends_with_pager
        self._lock = RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self.is_quit = False
        """Whether the pager was quit while there was more to write."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    def write(self, data: Any) -> int:
        with self._lock:
            if self._process is None:
                self._start()
            self._send(data)
        return len(memoryview(data).cast("B"))

    def complain(self, text: str) -> bool:
        """A line for stderr, in its place among what is written; returns False where no pager has the terminal."""
        with self._lock:
            if self._process is None:
                return False
            self._send(f"{text}\n".encode(errors="replace"))
            return True

    def end(self) -> None:
        """Waits until the pager was quit, where one runs."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with _interrupts_left_to_pager():
            process.wait()
        if process.returncode in _NOT_RUN:
            name = next(name for name in (*_VARIABLES, "less") if name in os.environ or name == "less")
            chosen = f"{name}={os.environ.get(name, '')!r}"
            print(f"brokerless: {chosen} cannot be run; --no-pager shows all without one", file=sys.stderr, flush=True)

    def _start(self) -> None:
        import subprocess  # which nothing else of `ls` needs

        end_bar()
        environment = {**_OPTIONS, **os.environ}
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=self._terminal, env=environment)

    def _send(self, data: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if not self.is_quit:
            try:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            except BrokenPipeError:
                self.is_quit = True
        if self.is_quit and self._ends:
            raise BrokenPipeError


@contextmanager
def paged(name: str, options: Namespace | None = None) -> Generator[None]:
    """Has what a command writes to stdout go through a pager, where stdin and stdout are a terminal. Ends without
    an error where the pager was quit."""
    global _paged
    command = _pager() if _paged is None and is_for_reading(name, options) and _is_at_terminal(options) else None
    if command is None:
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    output = PagedOutput(stdout.buffer, command, ends_with_pager=ends_with_reader(name, options))
    text = io.TextIOWrapper(output, stdout.encoding, stdout.errors, write_through=True)  # type: ignore[arg-type]
    sys.stdout, _paged = text, output
    try:
        yield
        text.flush()
    except BrokenPipeError:
        if not output.is_quit:
            raise
    finally:
        sys.stdout, _paged = stdout, None
        output.end()


@contextmanager
def no_pager() -> Generator[None]:
    """Write through no pager meanwhile."""
    global _is_off
    before, _is_off = _is_off, True
    try:
        yield
    finally:
        _is_off = before


def to_pager(text: str) -> bool:
    """A line for stderr: whether it is shown by the pager that has the terminal."""
    return _paged is not None and sys.stderr.isatty() and _paged.complain(text)


def is_for_reading(name: str, options: Namespace | None) -> bool:
    """Return whether a command does nothing but print; the shell of ``sql`` does more."""
    if _is_off or getattr(options, "no_pager", False):
        return False
    if name == "sql":
        return getattr(options, "query", None) is not None or getattr(options, "file", None) is not None
    if name in WORKING:
        return getattr(options, "dry_run", False) or not getattr(options, "apply", True)
    return True


def ends_with_reader(name: str, options: Namespace | None = None) -> bool:
    """Return whether nothing is left to do for a command once nobody reads on: after a pager was quit, or ``head``."""
    return name in _ENDING or getattr(options, "follow", None) is not None


def _is_at_terminal(options: Namespace | None) -> bool:
    """Return whether somebody can turn pages: what is read may be stdin, as a pager reads the terminal itself."""
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return "-" in getattr(options, "paths", ()) or (sys.stdin is not None and sys.stdin.isatty())


def _pager() -> list[str] | None:
    """The command line of the pager that a user has chosen, or of ``less`` if that is there; None without any. An empty
    variable is for none. What is more than words is for a shell."""
    text = next((os.environ[name] for name in _VARIABLES if name in os.environ), None)
    if text is None:
        return ["less"] if shutil.which("less") else None
    text = text.strip()
    return None if text in ("", "cat") else ["sh", "-c", text]


@contextmanager
def _interrupts_left_to_pager() -> Generator[None]:
    """Ctrl-C is for the pager, which stays."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
