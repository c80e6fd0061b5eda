"""A log directory backed up for the first time, beside one read with CRC-32C and SHA-256 and a copy, which is the least
that there is to do; and again with nothing new, beside the first time."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.once import made_once

from benchmarks import data
from benchmarks.loading import no_sync, settled
from benchmarks.measure import BenchmarkError, Pass, Workload, python, warm_process

CODECS = ("none", "lz4")


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        side = functools.partial(_running, codec, records)
        yield Workload(
            f"backup-{codec}",
            "records/s",
            functools.partial(side, "back_up"),
            "one read, CRC-32C, SHA-256 and a copy",
            functools.partial(side, "hash_and_copy"),
        )
        yield Workload(
            f"backup-again-{codec}",
            "records/s",
            functools.partial(side, "back_up_again"),
            "the first backup",
            functools.partial(side, "back_up"),
        )


def disk(codec: str, records: int) -> Path:
    """A log directory with the partition of a codec alone, and its leader epochs, by which the next backup goes on.
    Made once."""
    source = data.segment(codec, records).parent

    def write(target: Path) -> None:
        shutil.copytree(source, target / source.name)
        (target / source.name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (target / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAQACAAAAAAAAAAA\nnode.id=1\n")

    return made_once(data.CACHE / f"brokers-disk-of-{source.parent.name}-{source.name}", write)


@contextlib.contextmanager
def _running(codec: str, records: int, function: str) -> Iterator[Callable[[], Pass]]:
    with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
        to = f"{scratch}/to"
        command = python(f"{__name__}:{function}", str(disk(codec, records)), to, str(records))
        with warm_process(command) as run:
            yield lambda: settled(run)


def back_up(source: str, to: str, records: str) -> int:
    """Nobody waits for the disk."""
    import brokerless

    shutil.rmtree(to, ignore_errors=True)
    with no_sync():
        result = brokerless.backup(source, to)
    stored = sum(each.records for each in result.snapshot.partitions)
    if stored != int(records):
        raise BenchmarkError(f"{stored} records were stored")
    return stored


def back_up_again(source: str, to: str, records: str) -> int:
    import brokerless

    if not Path(to).exists():
        back_up(source, to, records)
    with no_sync():
        result = brokerless.backup(source, to)
    if result.snapshot.new_size:
        raise BenchmarkError(f"{result.snapshot.new_size} bytes were new")
    return int(records)


def hash_and_copy(source: str, to: str, records: str) -> int:
    import hashlib

    import numpy as np

    from brokerless.format.crc.kernels import crc32c_ranges

    Path(to).parent.mkdir(parents=True, exist_ok=True)
    (log,) = Path(source).glob("*/*.log")
    digest, checksum, start = hashlib.sha256(), np.empty(1, np.uint32), np.zeros(1, np.int64)
    with log.open("rb") as file, Path(to).open("wb") as copy:
        while block := file.read(8 << 20):
            digest.update(block)
            crc32c_ranges(np.frombuffer(block, np.uint8), start, np.array([len(block)]), checksum)
            copy.write(block)
    return int(records)
