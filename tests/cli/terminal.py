"""A pseudo-terminal on which a command runs, and what is on its screen at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import selectors
import signal
import struct
import sys
import termios
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

_DRIVER = """
import sys, time
from brokerless.cli import main, progress

progress.DELAY_S = {delay}
progress.INTERVAL_S = 0.02
phase, draw = progress._Bar.phase, progress._Bar._draw
drawn = 0

def counted(bar):
    global drawn
    draw(bar)
    drawn += 1

def watched(bar, what, total):
    # Work goes on when its progress was drawn once: neither machine nor load decides what comes.
    seen = []
    inner = phase(bar, what, total)

    class Phase:
        def __enter__(self):
            done = inner.__enter__()

            def count(size):
                done(size)
                end, until = drawn + 2, time.monotonic() + 30
                while not seen and drawn < end and time.monotonic() < until:
                    time.sleep(0.01)
                seen.append(size)
            return count

        def __exit__(self, *error):
            return inner.__exit__(*error)

    return Phase()

progress._Bar._draw = counted
if {waits}:
    progress._Bar.phase = watched
sys.exit(main(sys.argv[1:]))
"""
_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
_TEXT = re.compile(r"[^\r\n\x1b]+|\x1b")


@dataclass
class Session:
    """``sent``: all that came to the terminal, escape codes among it; ``out``: stdout, if it went elsewhere."""

    exit_code: int
    sent: str
    out: bytes

    @property
    def screen(self) -> list[str]:
        return screen(self.sent)


def on_terminal(
    *arguments: object,
    stdout_too: bool,
    environment: Mapping[str, str] = {},
    waits: bool = True,
    delay: float = 0.0,
    columns: int = 100,
    lines: int = 40,
    then: Callable[[int, str], object] = lambda process, sent: None,
    stdin: int | None = None,
    typed: Callable[[str], str] | None = None,
    is_impatient: bool = False,
    is_new: bool = False,
) -> Session:
    """Runs a command line with stderr (and stdout) as a terminal, in a copy of this process, which has loaded what a
    new one (``is_new``) loads for a second. ``then`` is called with its ID and what came so far, whenever more has
    come. ``typed``: what is typed by then; with it, stdin is the terminal as well, and its keys send signals.
    ``is_impatient``: it is asked as well when nothing has come for a second, as people press a key that did nothing."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    read_out, write_out = os.pipe()
    code = _DRIVER.format(delay=delay, waits=waits)
    own = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    settings = {name: value for name, value in os.environ.items() if name not in own}
    settings |= {"TERM": "xterm-256color"} | environment
    command = [sys.executable, "-c", code, *map(str, arguments)]
    if (process := os.fork()) == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        if typed is not None:
            stdin = theirs
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        _run(
            command,
            settings,
            (nothing if stdin is None else stdin, theirs if stdout_too else write_out, theirs),
            is_new,
        )
    os.close(theirs)
    os.close(write_out)
    parts = {mine: b"", read_out: b""}
    open_files = selectors.PollSelector()
    for file in parts:
        open_files.register(file, selectors.EVENT_READ)
    until = time.monotonic() + 120
    while open_files.get_map() and time.monotonic() < until:
        found = open_files.select(1)
        if not found and typed is not None and is_impatient:
            os.write(mine, typed(parts[mine].decode(errors="replace")).encode())
        for ready, _ in found:
            file = ready.fd
            try:
                piece = os.read(file, 1 << 16)
            except OSError:  # Linux says so when the other end of a terminal is closed
                piece = b""
            if piece:
                parts[file] += piece
                then(process, parts[mine].decode(errors="replace"))
                if typed is not None and file == mine:
                    os.write(mine, typed(parts[mine].decode(errors="replace")).encode())
            else:
                open_files.unregister(file)
    if open_files.get_map():
        os.kill(process, signal.SIGKILL)
    os.close(mine)
    os.close(read_out)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return Session(exit_code, parts[mine].decode(errors="replace"), parts[read_out])


def _run(command: list[str], environment: Mapping[str, str], files: tuple[int, int, int], is_new: bool) -> NoReturn:
    """In place of this process, which ends with it."""
    exit_code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for at, file in enumerate(files):
            os.dup2(file, at)
        if is_new:
            os.closerange(3, max(files) + 1)
            os.execve(command[0], command, environment)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["-c", *command[3:]]
        exec(command[2], {"__name__": "__main__"})
    except SystemExit as end:
        exit_code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(exit_code)


def screen(sent: str) -> list[str]:
    """The lines that stay on a terminal that was sent this, without the empty ones at the end."""
    lines, column, at = [""], 0, 0
    while at < len(sent):
        code = _CODE.match(sent, at)
        if code is not None:
            assert code[2] in "Km", f"a code that brokerless does not need: {code[0]!r}"
            if code[2] == "K":
                assert code[1] == ""
                lines[-1] = lines[-1][:column]
            at = code.end()
            continue
        text = _TEXT.match(sent, at)
        if text is not None:
            end = column + len(text[0])
            lines[-1] = lines[-1][:column].ljust(column) + text[0] + lines[-1][end:]
            column, at = end, text.end()
            continue
        if sent[at] == "\r":
            column = 0
        else:
            lines.append("")
        at += 1
    while lines and not lines[-1]:
        lines.pop()
    return lines
