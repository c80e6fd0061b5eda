"""A pseudo-terminal on which a command runs, and what is on its screen at the end."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
    then: Callable[[subprocess.Popen[bytes], str], object] = lambda process, sent: None,
    stdin: int = subprocess.DEVNULL,
) -> Session:
    """Runs a command line with stderr (and stdout) as a terminal. ``then`` is called with what came so far, whenever
    more has come."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    read_out, write_out = os.pipe()
    code = _DRIVER.format(delay=delay, waits=waits)
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    settings |= {"TERM": "xterm-256color"} | environment
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=stdin,
        stdout=theirs if stdout_too else write_out,
        stderr=theirs,
        env=settings,
    )
    os.close(theirs)
    os.close(write_out)
    parts = {mine: b"", read_out: b""}
    open_files = set(parts)
    until = time.monotonic() + 120
    while open_files and time.monotonic() < until:
        for file in select.select(list(open_files), [], [], 1)[0]:
            try:
                piece = os.read(file, 1 << 16)
            except OSError:  # Linux says so when the other end of a terminal is closed
                piece = b""
            if piece:
                parts[file] += piece
                then(process, parts[mine].decode(errors="replace"))
            else:
                open_files.discard(file)
    if open_files:
        process.kill()
    os.close(mine)
    os.close(read_out)
    return Session(process.wait(10), parts[mine].decode(errors="replace"), parts[read_out])


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
        char = sent[at]
        at += 1
        if char == "\r":
            column = 0
        elif char == "\n":
            lines.append("")
        else:
            lines[-1] = lines[-1][:column].ljust(column) + char + lines[-1][column + 1 :]
            column += 1
    while lines and not lines[-1]:
        lines.pop()
    return lines
