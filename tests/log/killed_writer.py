"""Appends to a log in a process that is killed at random moments, many times over: ``killed_writer.py DIRECTORY SEED
KILLS``. Prints what went wrong, a line for each, and at last a line with what there was to see.

It is a process of its own because it forks: a new interpreter for each kill would take most of the time.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.log.whole_batches import batch, batches, marker

import brokerless
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.write import segment_roll_kernels  # noqa: F401 - loaded before a process is killed

CONFIG = LogConfig(segment_bytes=8000, index_interval_bytes=300)
PRODUCER, TRANSACTIONAL_PRODUCER = 5, 6


def made(offset: int) -> NDArray[np.uint8]:
    """What is appended at an offset: always the same, so that what was lost is written again as it was."""
    value = b"%d" % offset * (1 + offset % 60)
    if offset % 7 == 3:
        data = batch(
            offset,
            2,
            offset,
            value,
            producer=(TRANSACTIONAL_PRODUCER, 0, offset),
            attributes=layouts.TRANSACTIONAL_BIT,
            epoch=offset // 500,
        )
        return batches(data, end_of_transaction(offset))
    return batch(offset, 3, offset, value, producer=(PRODUCER, 0, offset), epoch=offset // 500)


def end_of_transaction(offset: int) -> NDArray[np.uint8]:
    """The marker after the two records at an offset, of the same leader."""
    is_even, epoch = offset % 2 == 0, offset // 500
    return marker(offset + 2, (TRANSACTIONAL_PRODUCER, 0), commit=is_even, timestamp=offset, epoch=epoch)


def everything(until: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """All that is appended to a log up to an offset, piece by piece, and the offset of each."""
    offset = 0
    while offset < until:
        yield offset, made(offset)
        offset += 3


def append_for_ever(directory: Path, say: int) -> None:
    log = open_log(directory, "orders", 0, CONFIG)
    offset = log.log_end_offset
    os.write(say, b"opened %d\n" % offset)
    if offset % 3:
        # Killed within a write: the kernel had taken the records and not yet their marker.
        offset = log.append(end_of_transaction(offset - 2)).last_offset + 1
    while True:
        pieces = [made(at) for at in range(offset, offset + 3 * (1 + offset % 4), 3)]
        offset = log.append(batches(*pieces)).last_offset + 1
        if offset % 5 == 0:
            log.flush()
            os.write(say, b"flushed %d\n" % offset)


def wrong_records(directory: Path) -> Iterator[str]:
    """What a reader of a log that is being written to gets to see and should not."""
    found: list[Finding] = []
    partition = brokerless.open(directory).partition("orders", 0)
    expected = 0
    for records in partition.records(["offset", "value"], control=True, on_damage=found.append):
        for offset, value in zip(records["offset"].to_pylist(), records["value"].to_pylist(), strict=True):
            base = offset - offset % 3
            if offset != expected or (value != b"%d" % base * (1 + base % 60) and (base % 7, offset % 3) != (3, 2)):
                yield f"offset {offset} with {value!r}, expected offset {expected}"
            expected = offset + 1
    yield from (str(finding) for finding in found if finding.severity == "error")


def run(directory: Path, seed: int, kills: int) -> None:
    chance = random.Random(seed)
    flushed = opened = reads = while_opening = 0
    for number in range(kills):
        hear, say = os.pipe()
        child = os.fork()
        if not child:
            os.close(hear)
            try:
                append_for_ever(directory, say)
            finally:
                os._exit(1)
        os.close(say)
        said = b""
        if chance.random() < 0.8:
            # While a log is recovered, files that a reader has mapped become shorter: it waits until that is over.
            said = os.read(hear, 4096)
            if chance.random() < 0.5:
                reads += 1
                for wrong in wrong_records(directory):
                    print(wrong)
        # On a busy machine, nobody might get so far in the time that follows.
        while number % 8 == 0 and b"flushed" not in said and (piece := os.read(hear, 4096)):
            said += piece
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            print("the writer failed by itself")
        while piece := os.read(hear, 4096):
            said += piece
        os.close(hear)
        lines = [line.split() for line in said.decode().splitlines()]
        while_opening += not lines
        for what, offset in lines:
            if int(offset) < flushed:
                print(f"{flushed} was flushed, but the log {what} at {offset}")
            flushed = max(flushed, int(offset)) if what == "flushed" else flushed
            opened += what == "opened"
    with open_log(directory, "orders", 0, CONFIG) as log:
        if log.log_end_offset < flushed:
            print(f"{flushed} was flushed, but the log ends at {log.log_end_offset}")
        print(f"end {log.log_end_offset} flushed {flushed} opened {opened} reads {reads} while-opening {while_opening}")


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
