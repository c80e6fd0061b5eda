"""A few keys erased from a log, beside our own reading of all records of the same file."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import data
from benchmarks.loading import no_sync, settled
from benchmarks.measure import BenchmarkError, Pass, Workload, python, warm_process
from benchmarks.reading import in_python

CODECS = ("none", "lz4")
KEYS = [f"user-{number}" for number in range(150_000, 150_010)]
"""Of ten users, who have some 80 of 4 million records."""


def workloads(records: int) -> Iterator[Workload]:
    for codec in CODECS:
        for suffix, manifest in (("", "without"), ("-manifest", "with")):
            yield Workload(
                f"erase-{codec}{suffix}",
                "records/s",
                ours=functools.partial(erasing, codec, records, manifest),
                anchor="our deep read",
                theirs=in_python("read_records", codec, records),
            )


@contextlib.contextmanager
def erasing(codec: str, records: int, manifest: str) -> Iterator[Callable[[], Pass]]:
    with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
        source, to = str(data.segment(codec, records).parent), f"{scratch}/to"
        with warm_process(python(f"{__name__}:erase", source, to, manifest, str(records))) as run:
            yield lambda: settled(run, Path(to))


def erase(source: str, to: str, manifest: str, records: str) -> int:
    """All is read and written; nobody waits for the disk."""
    import brokerless

    with no_sync():
        path = f"{to}.json" if manifest == "with" else None
        if path is not None:
            Path(path).unlink(missing_ok=True)
        (result,) = brokerless.open(source).erase(to, keys=KEYS, manifest=path)
    if result.totals.records_in != int(records):
        raise BenchmarkError(f"{result.totals.records_in} records were read")
    return result.totals.records_in
