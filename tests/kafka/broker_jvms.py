"""JVMs in which brokers run one after the other: the first start in one takes four times as long as the next ones."""

from __future__ import annotations

import atexit
import contextlib
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path

_MOST_IDLE = 4
"""As many as a cluster has; one takes a quarter of a gigabyte."""
_idle: list[subprocess.Popen[bytes]] = []


def start(java: Sequence[str], properties: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start a broker in a JVM of the command line ``java`` (of ``java/Brokers.java``), in which no broker runs.

    The process is the broker's own until :func:`stop`: it can be killed, and it ends where the broker fails.
    ``output``: the file to which the broker's output is added.
    """
    process = next((each for each in reversed(_idle) if each.args == java and each.poll() is None), None)
    if process is not None:
        _idle.remove(process)
    else:
        with output.open("ab") as errors:
            process = subprocess.Popen(java, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    assert process.stdin is not None
    process.stdin.write(f"{properties}\n{output}\n".encode())
    return process


def stop(process: subprocess.Popen[bytes], within: float) -> None:
    """Shut a broker down cleanly, and keep its JVM for the next one. Does nothing if it has ended.

    Raises :class:`subprocess.TimeoutExpired` if that takes longer than ``within`` seconds.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(b"stop\n")
    if not select.select([process.stdout], [], [], within)[0]:
        raise subprocess.TimeoutExpired(process.args, within)
    if process.stdout.readline():
        _idle.append(process)
        _end(max(len(_idle) - _MOST_IDLE, 0))
    else:
        process.wait(within)


def _end(count: int) -> None:
    """End the JVMs that have been idle for longest."""
    for process in _idle[:count]:
        process.kill()
        process.wait()
    del _idle[:count]


@atexit.register
def _end_all() -> None:
    _end(len(_idle))
