"""Java programs that run in a JVM that stays: starting one takes as long as most of them run."""

from __future__ import annotations

import atexit
import contextlib
import struct
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO

_running: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}


def run(java: Sequence[str], words: Sequence[str], stdin: bytes) -> subprocess.CompletedProcess[bytes]:
    """Runs a program in the JVM that the command line ``java`` (of ``java/Programs.java``) has started, or now starts.

    ``words``: a directory of classes that are loaded anew, the main class, and its arguments.
    """
    with _jvm(tuple(java)) as (to, from_):
        given = [each.encode() for each in words]
        to.write(struct.pack(">i", len(given)) + b"".join(map(_with_length, [*given, stdin])))
        to.flush()
        code, stdout, stderr = _number(from_), _bytes(from_), _bytes(from_)
    return subprocess.CompletedProcess([*java, *words], code, stdout, stderr)


@contextlib.contextmanager
def _jvm(java: tuple[str, ...]) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """One that failed, or was left in the middle, is not asked again."""
    process = _running.pop(java, None) or subprocess.Popen(java, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdin, process.stdout
    except BaseException:
        process.kill()
        process.wait()
        raise
    _running[java] = process


def _with_length(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _number(stream: IO[bytes]) -> int:
    data = stream.read(4)
    if len(data) < 4:
        raise RuntimeError("the JVM that runs Java programs ended")
    return struct.unpack(">i", data)[0]


def _bytes(stream: IO[bytes]) -> bytes:
    return stream.read(_number(stream))


@atexit.register
def _stop() -> None:
    for process in _running.values():
        process.kill()
        process.wait()
    _running.clear()
