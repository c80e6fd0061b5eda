"""Shows what is longer than the terminal page by page, as git does: with ``$BROKERLESS_PAGER``, ``$PAGER`` or ``less``.

While a command runs, stdout is a :class:`PagedOutput`. It holds output back for a moment: if that is more than the
terminal has lines, it goes through a pager, else to the terminal, and so it does after a while where output comes
slowly. What is on stderr goes through a pager that runs, as both would be on one screen.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import RLock, Timer, current_thread, main_thread
from typing import TYPE_CHECKING, Any, BinaryIO

from brokerless.cli.progress import above_bar, end_bar

if TYPE_CHECKING:
    import subprocess

HOLDS_S = 0.2
"""Seconds for which output is held back."""
_NOT_RUN = (126, 127)
"""Exit codes of a shell that could not run a command."""
_READ_BY_NOW = 1 << 20
"""Bytes that no pipe holds: a pager that got so many runs."""
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_VARIABLES = ("BROKERLESS_PAGER", "PAGER")
_OPTIONS = {"LESS": "FRX", "LV": "-c"}
"""What pagers are started with, unless users have set it: what fits is printed, colours are shown, and what was shown
stays on the terminal."""
WORKING = (
    *("salvage", "carve", "merge", "trim", "rebuild", "restore"),
    *("export", "pipeline", "load", "convert", "compact", "erase", "serve"),
)
"""Commands that do more than print: they would wait for whoever reads a page."""
_ENDING = ("help", "cat", "sql", "batches", "explain", "schema", "internals", "completion")
"""Commands of which nothing is left to do once nobody reads on."""

_paged: PagedOutput | None = None
_is_off = False


class PagedOutput(io.RawIOBase):
    """Bytes for a terminal, or for a pager once they are too many. After the pager has been quit, what else is written
    is lost, or :class:`BrokenPipeError` with ``ends_with_pager``."""

    def __init__(self, terminal: BinaryIO, command: list[str], *, ends_with_pager: bool) -> None:
        self._terminal, self._command, self._ends = terminal, command, ends_with_pager
        self._size = shutil.get_terminal_size()
        self._lock = RLock()
        self._held = bytearray()
        self._shown = 0
        self._timer: Timer | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._is_quit = self._is_broken = False
        self._sent: bytearray | None = bytearray()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    def write(self, data: Any) -> int:
        size = len(memoryview(data).cast("B"))
        with above_bar(data), self._lock:
            if self._is_broken:
                self._terminal.write(data)
                self._terminal.flush()
            elif self._process is None:
                self._held += data
                self._begin()
            else:
                self._to_pager(data)
        return size

    @property
    def is_quit(self) -> bool:
        """Return whether a pager was quit while there was more to write."""
        return self._is_quit

    def release(self) -> None:
        """Writes what was held back to the terminal, unless a pager has it."""
        with above_bar(b"\n"), self._lock:
            if self._process is None and not self._is_broken and self._shown < len(self._held):
                self._terminal.write(self._held[self._shown :])
                self._terminal.flush()
                self._shown = len(self._held)

    def complain(self, text: str) -> bool:
        """A line for stderr, in its place among what is written; returns False where stderr is still to have it."""
        line = f"{text}\n".encode(errors="replace")
        with above_bar(line), self._lock:
            if self._process is not None:
                self._to_pager(line)
                return True
            if self._is_broken:
                return False
            self.release()
            self._held += line
            self._shown = len(self._held)
            return False

    def end(self) -> None:
        """Writes what was held back; where a pager runs, waits until it was quit."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
        process = self._process
        if process is None:
            self.release()
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        with _interrupts_left_to_pager():
            process.wait()
        if process.returncode in _NOT_RUN:
            self._print_without()

    def _begin(self) -> None:
        """Starts a pager if there is too much, else what lets nobody wait for what there is."""
        if rows_of(self._held.decode(errors="replace"), self._size.columns) >= self._size.lines:
            self._start()
        elif self._timer is None or not self._timer.is_alive():
            self._timer = Timer(HOLDS_S, self.release)
            self._timer.daemon = True
            self._timer.start()

    def _start(self) -> None:
        import subprocess  # which nothing else of `ls` needs

        end_bar()
        environment = {**_OPTIONS, **os.environ}
        held, self._held = bytes(self._held), bytearray()
        try:
            if self._command[0] == "sh":
                subprocess.run(["sh", "-n", *self._command[1:]], check=True, capture_output=True)
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=self._terminal, env=environment
            )
        except (OSError, subprocess.CalledProcessError):
            self._sent = bytearray(held)
            self._print_without()
            return
        self._to_pager(held)

    def _to_pager(self, data: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        if self._sent is not None:
            self._sent = None if len(self._sent) > _READ_BY_NOW else self._sent + data
        if not self._is_quit:
            try:
                self._process.stdin.write(data)
                self._process.stdin.flush()
            except BrokenPipeError:
                if self._process.wait() in _NOT_RUN:
                    self._print_without()
                    return
                self._is_quit = True
        if self._is_quit and self._ends:
            raise BrokenPipeError

    def _print_without(self) -> None:
        """Says that the pager cannot be run, and writes to the terminal what it should have got."""
        name = next(name for name in (*_VARIABLES, "less") if name in os.environ or name == "less")
        text = f"brokerless: {name}={os.environ.get(name, '')!r} cannot be run; this is printed without a pager"
        print(text, file=sys.stderr, flush=True)
        self._process, self._is_broken = None, True
        self._terminal.write(self._sent or b"")
        self._terminal.flush()


@contextmanager
def paged(name: str, options: Namespace | None = None) -> Generator[None]:
    """Has what a command writes to stdout go through a pager, where stdin and stdout are a terminal, and that is too
    small for it. Ends without an error where the pager was quit."""
    global _paged
    command = _pager() if _paged is None and is_for_reading(name, options) and _is_at_terminal(options) else None
    if command is None:
        yield
        return
    stdout = sys.stdout
    stdout.flush()
    output = PagedOutput(stdout.buffer, command, ends_with_pager=name in _ENDING)
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
    """Whatever is written meanwhile goes through no pager."""
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


def rows_of(text: str, columns: int) -> int:
    """Lines of a terminal that a text takes."""
    lengths = (len(_ESCAPES.sub("", line)) for line in text.split("\n"))
    return sum(max(1, -(-length // columns)) for length in lengths) - (not text or text.endswith("\n"))


def _is_at_terminal(options: Namespace | None) -> bool:
    """Return whether somebody can turn pages: what is read may be stdin, as a pager reads the terminal itself."""
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return False
    return "-" in getattr(options, "paths", ()) or (sys.stdin is not None and sys.stdin.isatty())


def _pager() -> list[str] | None:
    """The command line of the pager that a user has chosen, or of ``less`` if that is there; None without any. An empty
    variable is for none."""
    chosen = (os.environ[name] for name in _VARIABLES if name in os.environ)
    text = next(chosen, None)
    is_default, text = text is None, "less" if text is None else text.strip()
    if not text or text == "cat":
        return None
    if re.search(r"[|&;<>()$`\\\"'*?\[#~=%]", text):
        return ["sh", "-c", text]
    words = text.split()
    return None if is_default and not shutil.which(words[0]) else words


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
