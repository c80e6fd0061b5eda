"""Lets one change of the disk fail in each write of Spark's sink, or the disk be full from there on, and writes again:

``python -m tests.spark.failed_sink [COUNT [SEED]]`` tries so many places, chosen by chance, all of them with 0, of a
batch query and of a streaming query, which is started again from its checkpoint. Of each:

- after the error, all rows of the query are there, or none, and no partition is cut;
- the streaming query has each row once then; the batch query those of the second write, and all or none of the first.

The errors come from ``tests/failed_writes.c`` in Spark's Python workers, which have one page in common: which change is
to fail is said there, so that one session does all runs.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

from tests.failed_writes import compiled
from tests.spark.cluster import ROOT
from tests.spark.java import java_options, submit_arguments

import brokerless
from brokerless.errors import BrokerlessError, UnreadableError

ROWS = 90
QUERIES = ("batch", "stream")


class Disk:
    """The page that says which change of the disk fails."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(4096))
        with path.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 4096)

    def set(self, place: int = 0, error: int = EIO, *, is_full: bool = False) -> None:
        self._page[:32] = struct.pack("=4q", 0, place, error, 2 if is_full else 0)

    @property
    def changes(self) -> int:
        return int(struct.unpack("=q", self._page[:8])[0])


class Sink:
    """A Spark session of its own that writes when it is asked to."""

    def __init__(self, scratch: Path, process: subprocess.Popen[str], disk: Disk) -> None:
        self._scratch, self._process, self._disk = scratch, process, disk

    def write(self, query: str, place: int = 0, error: int = EIO, *, is_full: bool = False) -> str:
        """The text of the error with which a query ended; empty for none."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._disk.set(place, error, is_full=is_full)
        self._process.stdin.write(f"{query}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ENDED "):
                return str(json.loads(line.removeprefix("ENDED ")))
        raise AssertionError("Spark ended")

    def begin(self) -> None:
        for name in ("out", "checkpoint"):
            shutil.rmtree(self._scratch / name, ignore_errors=True)

    def changes(self, query: str) -> int:
        self.begin()
        text = self.write(query)
        assert not text, text
        assert rows_of(self._scratch / "out") == Counter(dict.fromkeys(range(ROWS), 1))
        return self._disk.changes

    def differs(self, query: str, place: int, error: int, *, is_full: bool) -> str:
        """What is not as it should be after an error at a place, and the same query again; empty if all is."""
        self.begin()
        first = self.write(query, place, error, is_full=is_full)
        self._disk.set()
        try:
            after = rows_of(self._scratch / "out")
        except (BrokerlessError, AssertionError) as problem:
            return f"cannot be read after the error: {problem}; {first[-300:]}"
        if first and not is_of_disk(first):
            return f"the error says nothing of the disk: {first[-600:]}"
        second = self.write(query)
        found = rows_of(self._scratch / "out")
        counts = set(found.values())
        allowed = ({1}, {2}) if query == "batch" and first else ({2},) if query == "batch" else ({1},)
        if second or len(found) != ROWS or counts not in allowed or set(after.values()) not in (set[int](), {1}):
            text = f"rows after the error {len(after)}, then {len(found)}, each {sorted(counts)} times"
            return f"{text}; {first[-300:]}; {second[-300:]}"
        left = [each.name for each in (self._scratch / "out").iterdir() if each.name.endswith("-delete")]
        return f"left behind: {left}" if left else ""


def is_of_disk(text: str) -> bool:
    return any(os.strerror(each) in text for each in (EIO, ENOSPC))


def rows_of(directory: Path) -> Counter[int]:
    """How often each row is there. Partitions have to be without gaps."""
    found = Counter[int]()
    try:
        partitions = brokerless.open(directory).partitions
    except UnreadableError:
        if list(directory.glob("*-[0-9]")):
            raise
        return found
    for partition in partitions:
        offset = 0
        for batch in partition.records(["offset", "value"]):
            assert batch["offset"].to_pylist() == list(range(offset, offset + batch.num_rows)), "offsets have gaps"
            offset += batch.num_rows
            found.update(map(int, batch["value"].to_pylist()))
    return found


@contextmanager
def session(scratch: Path) -> Iterator[Sink]:
    """Starts the session; its Python workers have the library, and so has its JVM, which writes nothing there."""
    disk = Disk(scratch / "disk")
    shim = {
        "LD_PRELOAD": str(compiled(scratch)),
        "SHIM_PREFIX": str(scratch / "out"),
        "SHIM_CONTROL": str(scratch / "disk"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    line = [sys.executable, "-m", "tests.spark.failed_sink", "session", str(scratch)]
    environment = {**os.environ, **submit_arguments(java_options()), **shim}
    with subprocess.Popen(
        line, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        yield Sink(scratch, process, disk)
        assert process.stdin is not None
        process.stdin.close()


def serve(scratch: Path) -> None:
    """Writes a query for each line of input."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2,1]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    (scratch / "in").mkdir()
    lines = "".join(f'{{"value":"{number}"}}\n' for number in range(ROWS))
    (scratch / "in" / "rows.json").write_text(lines)
    options: Mapping[str, str] = {"topic": "t", "partitions": "3"}
    for line in sys.stdin:
        text = ""
        try:
            if line.strip() == "batch":
                rows: Any = spark.range(ROWS, numPartitions=2).selectExpr("cast(id as string) as value")
                rows.write.format("brokerless").mode("append").options(**options).save(str(scratch / "out"))
            else:
                rows = spark.readStream.schema("value string").json(str(scratch / "in"))
                own = {**options, "checkpointLocation": str(scratch / "checkpoint")}
                query = rows.writeStream.format("brokerless").options(**own).trigger(availableNow=True)
                query.start(str(scratch / "out")).awaitTermination()
        except Exception as error:
            text = str(error)
        print(f"ENDED {json.dumps(text)}", flush=True)
    spark.stop()


def failures(scratch: Path, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """The query, the place and the error of each trial, and what was wrong; empty for nothing."""
    chance = random.Random(seed)
    with session(scratch) as sink:
        for query in QUERIES:
            changes = sink.changes(query)
            places = range(1, changes + 1)
            for place in sorted(chance.sample(places, min(count, changes))) if count else places:
                for error, is_full in ((chance.choice((EIO, ENOSPC)), False), (ENOSPC, True)):
                    what = f"{query}: {os.strerror(error)} {'from' if is_full else 'at'} change {place} of {changes}"
                    yield what, sink.differs(query, place, error, is_full=is_full)


def main() -> int:
    if sys.argv[1:2] == ["session"]:
        serve(Path(sys.argv[2]))
        return 0
    count, seed = (int(each) for each in (*sys.argv[1:3], "10", "1")[:2])
    tried = wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for what, differs in failures(Path(scratch), count, seed):
            tried, wrong = tried + 1, wrong + bool(differs)
            if differs:
                print(f"{what}: {differs}", flush=True)
    print(f"{tried} places, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
