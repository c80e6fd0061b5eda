"""Files with holes, and with zeros for their end: what is in a hole is not read, of zeros no more than a window is
held, and ``ls`` looks at one window."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples import some_quick
from tests.format.twin import write_batch, write_record
from tests.require import require

CHILD = """
import contextlib, io, json, os, sys
from brokerless.cli import main

pread, preadv, done = os.pread, os.preadv, 0

def count(descriptor, length, position):
    global done
    found = pread(descriptor, length, position)
    done += len(found)
    return found

def count_into(descriptor, rooms, position):
    global done
    found = preadv(descriptor, rooms, position)
    done += found
    return found

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) >> 10

def run(holes, *arguments):
    before = memory("VmRSS")
    if holes == "unknown":
        del os.SEEK_DATA  # as where the system does not say where holes are
    code = main(arguments)
    print(json.dumps({"code": code, "read": done, "growth": memory("VmHWM") - before}), file=sys.stderr)

for command in json.loads(sys.argv[1]):
    sys.stdout = io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stderr(io.StringIO()):
        main(command)
sys.stdout = sys.__stdout__
os.pread, os.preadv = count, count_into
for line in sys.stdin:
    to, *arguments = json.loads(line)
    if not os.fork():
        with open(to, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        run(*arguments)
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""
"""Runs each command in a process of its own: a fork of one that has loaded everything, as it ran them once."""

pytestmark = pytest.mark.xdist_group("sparse")  # with one process for all

BATCH = write_batch(write_record(b"key", b"value"))
NEXT = write_batch(write_record(b"key", b"value"), base_offset=1)
COMMANDS = {
    "ls": ["ls"],
    "cat": ["cat"],
    "batches": ["batches"],
    "verify": ["verify"],
    "audit": ["audit"],
    "export": ["export", "--to", "{out}"],
    "salvage": ["salvage", "--to", "{out}"],
}


Measure = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measure]:
    """The exit code, the bytes that were read, how far resident memory grew (MiB); and what was printed."""
    require(Path("/proc/self/status").exists(), "a system that tells a process's peak of memory")
    directory = tmp_path_factory.mktemp("measured")
    printed = directory / "printed"
    log = sparse(directory, 1 << 12, (0, BATCH)).parent
    first = [[each.format(out=directory / name) for each in [*line, str(log)]] for name, line in COMMANDS.items()]
    command = [sys.executable, "-c", CHILD, json.dumps(first)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        lines, codes = process.stdin, process.stdout

        def measure(command: str, log: Path, holes: str = "known") -> tuple[dict[str, Any], str]:
            arguments = [each.format(out=log.parent.parent / "out") for each in COMMANDS[command]]
            print(json.dumps([str(printed), holes, *arguments, str(log.parent)]), file=lines, flush=True)
            code, text = codes.readline(), printed.read_text()
            assert code == "0\n", text
            return json.loads(text.splitlines()[-1]), text

        yield measure
        lines.close()


def sparse(tmp_path: Path, size: int, *parts: tuple[int, bytes]) -> Path:
    """A log of so many bytes, in which there are only these parts, by position."""
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    with log.open("wb") as file:
        for position, part in parts:
            file.seek(position)
            file.write(part)
    try:
        os.truncate(log, size)
    except OSError:
        require(False, f"a file system that has files of {size} bytes")
    return log


def knows_holes(log: Path) -> bool:
    descriptor = os.open(log, os.O_RDONLY)
    try:
        return os.lseek(descriptor, 1 << 20, os.SEEK_DATA) > 1 << 20
    except OSError:
        return True
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("size", [16 << 30, 3 << 40])
def test_a_hole_for_an_end_is_not_read(command: str, size: int, measure: Measure, tmp_path: Path) -> None:
    log = sparse(tmp_path, size, (0, BATCH))
    require(knows_holes(log), "a file system that tells where holes are")
    found, text = measure(command, log)
    assert found["read"] < 32 << 20
    assert found["growth"] < 150
    if command != "salvage":  # zeros at the end are no loss
        assert found["code"] == (command != "verify")  # which takes them for preallocated space, as the next start does
        assert "nothing but zeros from here on" in text


def test_of_zeros_at_the_end_ls_looks_at_one_window(measure: Measure, tmp_path: Path) -> None:
    log = sparse(tmp_path, 3 << 40, (0, BATCH))
    found, text = measure("ls", log, holes="unknown")
    assert found["read"] < 10 << 20
    assert found["growth"] < 32
    assert "nothing but zeros in the 8 MiB from here on" in text


@pytest.mark.parametrize("command", some_quick(["cat", "verify", "salvage"]))
def test_zeros_that_have_to_be_read_do_not_stay_in_memory(command: str, measure: Measure, tmp_path: Path) -> None:
    size = 512 << 20  # more than three times what may be held
    found, _ = measure(command, sparse(tmp_path, size, (0, BATCH)), holes="unknown")
    assert size <= found["read"] < size + (64 << 20)  # once
    assert found["growth"] < 150


def test_batches_behind_a_hole_are_found(measure: Measure, tmp_path: Path) -> None:
    at = (1 << 40) + 12345
    log = sparse(tmp_path, 2 << 40, (0, BATCH), (at, NEXT))
    require(knows_holes(log), "a file system that tells where holes are")
    found, text = measure("verify", log)
    assert found["read"] < 64 << 20
    assert f"position {at}: {at - len(BATCH)} bytes before this were skipped; batches go on here" in text
    found, text = measure("salvage", log)
    assert found["read"] < 64 << 20
    assert "0..1" in text
    found, text = measure("ls", log)
    assert found["read"] < 32 << 20
    assert found["code"] == 1


def test_a_batch_that_claims_a_hole_is_not_read(measure: Measure, tmp_path: Path) -> None:
    """Its size is all that there is of it."""
    head = bytearray(NEXT[:61])
    head[8:12] = (2**31 - 100).to_bytes(4, "big")
    log = sparse(tmp_path, 3 << 30, (0, BATCH + bytes(head)))
    for command in ("ls", "cat", "verify"):
        found, text = measure(command, log)
        assert found["code"] == 1
        assert found["growth"] < 150
    assert "a batch larger than what is read at once" in text
