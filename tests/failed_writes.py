"""Lets one change of the disk fail in each run of each writer, or the disk be full from there on, and gives the same
command again: what is there then is what a run without an error leaves. No run prints a traceback, its own or that of
a library. A program: ``python -m tests.failed_writes [COUNT [SEED [WRITER...]]]`` tries so many places in each writer,
chosen by chance, all of them with 0, and prints what differs.

The errors come from ``failed_writes.c``, which stands before the C library's functions (``LD_PRELOAD``)."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import EIO, ENOSPC
from pathlib import Path

import pyarrow.dataset as ds
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchTableError

import brokerless
from brokerless.log.storage.location import Location
from brokerless.table_formats.store import open_store
from tests.jobs.pipeline.works import own_table

DEMO = Path(__file__).parents[1] / "demo" / "data"
RECORDS = '{"partition": 0, "key": "a", "value": "b"}\n' * 20
WRITERS: Mapping[str, tuple[str, ...]] = {
    "convert": ("convert", "DEMO", "--codec", "zstd", "--to", "OUT"),
    "compact": ("compact", "DEMO", "--now", "2026-11-24", "--to", "OUT"),
    "salvage": ("salvage", "DEMO", "--to", "OUT"),
    "merge": ("merge", "DEMO", "--to", "OUT"),
    "backup": ("backup", "DEMO", "--to", "OUT"),
    "erase": ("erase", "DEMO", "--key", "u-0048", "--to", "OUT"),
    "load": ("load", "RECORDS", "--to", "OUT", "-t", "fresh", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"),
    "trim": ("trim", "OUT", "-t", "orders", "--free", "250KB", "--apply"),
    "restore": ("restore", "DEMO", "-t", "orders", "--to", "OUT", "--replace", "--apply"),
    "rebuild": ("rebuild", "DEMO", "--to", "OUT", "--apply"),
    "export": ("export", "DEMO", "--to", "OUT", "--by-date"),
    "delta": ("export", "DEMO", "--to", "OUT", "--as", "delta"),
    "iceberg": ("export", "DEMO", "--to", "OUT", "--as", "iceberg"),
    "pipeline": ("pipeline", "DEMO", "--to", "OUT", "--as", "delta"),
    "pipeline iceberg": ("pipeline", "DEMO", "--to", "OUT"),
    "pipeline parquet": ("pipeline", "DEMO", "--to", "OUT", "--as", "parquet"),
    "sql": ("sql", "SELECT * FROM orders", "DEMO", "-o", "OUT/rows.parquet"),
    "report": ("report", "DEMO", "-o", "OUT/page.html"),
}
PARQUET, ICEBERG = ("export", "pipeline parquet"), ("iceberg", "pipeline iceberg")
TABLES = (*PARQUET, *ICEBERG, "delta", "pipeline")
"""Writers of tables, which are compared by their records: their files have names of chance."""
IN_OUT = ("sql", "report")
"""Writers of a file in a directory that is there."""
IN_PLACE = ("trim", "restore")
"""Writers that change a log directory, which is there."""
OWN = (".lock", ".brokerless-lock")


@dataclass(frozen=True)
class Failure:
    """A run of a writer whose change number ``at`` failed, and what the command that was given again left otherwise."""

    writer: str
    at: int
    error: int
    is_full: bool
    differs: str

    def __str__(self) -> str:
        where = f"from change {self.at} on" if self.is_full else f"at change {self.at}"
        return f"{self.writer}: {os.strerror(self.error)} {where}: {self.differs}"


class Trial:
    """Runs writers in a scratch directory. ``library``: the compiled ``failed_writes.c``."""

    def __init__(self, scratch: Path, library: Path) -> None:
        self._scratch, self._library = scratch, library
        (scratch / "records").write_text(RECORDS)

    def changes(self, writer: str) -> tuple[int, Mapping[str, int]]:
        """How many changes of the disk a run makes, and what it leaves."""
        log = self._scratch / "log"
        log.unlink(missing_ok=True)
        out = self._begin(writer)
        done = self._run(writer, SHIM_LOG=str(log))
        assert done.returncode in (0, 1), done.stderr
        return len(log.read_text().splitlines()), contents_of(writer, out)

    def failure(
        self, writer: str, at: int, error: int, expected: Mapping[str, int], *, is_full: bool = False
    ) -> Failure | None:
        """What differs after an error, or a disk that ``is_full`` from there on, and the same command again; None where
        all is well."""
        out = self._begin(writer)
        first = self._run(writer, SHIM_FAIL=str(at), SHIM_ERRNO=str(error), SHIM_STICKY="2" if is_full else "0")
        if "Traceback" in first.stderr or "Exception ignored" in first.stderr:
            return Failure(writer, at, error, is_full, f"a traceback: {first.stderr[-1500:]}")
        # What ended well is not begun again: trim would free as much once more.
        second = first if first.returncode == 0 else self._run(writer)
        found = contents_of(writer, out)
        if found == expected and (second.returncode in (0, 1) or first.returncode == 0):
            return None
        missing, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
        sizes = sorted(name for name in expected.keys() & found.keys() if expected[name] != found[name])
        text = f"exit codes {first.returncode}, {second.returncode}; missing {missing[:5]}, more {more[:5]}"
        text = f"{text}, other {sizes[:5]}"
        return Failure(writer, at, error, is_full, f"{text}; {first.stderr[-300:]}; {second.stderr[-300:]}")

    def _begin(self, writer: str) -> Path:
        out = self._scratch / "out"
        for each in self._scratch.glob("out*"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        if writer in IN_PLACE:
            shutil.copytree(DEMO, out)
        if writer in IN_OUT:
            out.mkdir()
        return out

    def _run(self, writer: str, **environment: str) -> subprocess.CompletedProcess[str]:
        places = {"DEMO": str(DEMO), "OUT": str(self._scratch / "out"), "RECORDS": str(self._scratch / "records")}
        words = [
            word.replace("OUT", places["OUT"]) if "OUT" in word else places.get(word, word) for word in WRITERS[writer]
        ]
        shim = {"LD_PRELOAD": str(self._library), "SHIM_PREFIX": str(self._scratch / "out"), **environment}
        return subprocess.run(
            [sys.executable, "-m", "brokerless", *words],
            env={**os.environ, **(shim if environment else {})},
            capture_output=True,
            text=True,
            check=False,
        )


def contents_of(writer: str, out: Path) -> dict[str, int]:
    """What a writer made: files by their names and sizes, or the rows of each table."""
    if writer == "backup":
        return contents_of_backup(out)
    if writer not in TABLES:
        return contents(out)
    topics = sorted({each.name.rpartition("-")[0] for each in DEMO.glob("[a-z]*-[0-9]")})
    found: dict[str, int] = {}
    for topic in topics:
        offsets = _offsets(writer, out, topic)
        found |= {topic: len(offsets), f"{topic}, each once": len(set(offsets))}
    if writer.startswith("pipeline"):
        form = "parquet" if writer in PARQUET else "iceberg" if writer in ICEBERG else "delta"
        for name in ("damaged", "findings"):
            found[f"{name} of the pipeline"] = 0
            with suppress(FileNotFoundError, NoSuchTableError, TableNotFoundError):
                found[f"{name} of the pipeline"] = len(own_table(out, name, form))
    return found


def _offsets(writer: str, out: Path, topic: str) -> list[tuple[int, int]]:
    """Partitions and offsets of the records in a topic's table, as the format's own library reads it."""
    if writer in PARQUET:
        if not (out / f"topic={topic}").is_dir():
            return []
        rows = ds.dataset(out / f"topic={topic}", format="parquet").to_table(["partition", "offset"])
        return list(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    table = open_store("iceberg" if writer in ICEBERG else "delta", Location(str(out))).open_table(topic)
    if table is None:
        return []
    rows = table.scan().to_arrow() if writer in ICEBERG else table.to_pyarrow_table()
    return [(each["partition"], each["offset"]) for each in rows["kafka"].to_pylist()]


def contents_of_backup(place: Path) -> dict[str, int]:
    """The records of each partition of the newest snapshot, and what is wrong with any: names are random."""
    log = brokerless.open(f"{place}@latest")
    found = {each.name: sum(map(len, each.records(["offset"]))) for each in log.partitions}
    return {**found, "findings": len(brokerless.Backup(place).check("all").findings)}


def contents(directory: Path) -> dict[str, int]:
    """Sizes of files by their names; of those with a time or an ID in them, and of locks, only that they are there."""
    found: dict[str, int] = {}
    for each in directory.rglob("*"):
        name = str(each.relative_to(directory))
        if each.is_file() and each.name not in OWN and "__cluster_metadata" not in name:
            is_fixed = each.suffix in (".log", ".index", ".timeindex", ".txnindex")
            found[name] = each.stat().st_size if is_fixed else 0
    return found


def compiled(directory: Path) -> Path:
    """The library that lets calls fail."""
    library, source = directory / "failed_writes.so", Path(__file__).with_suffix(".c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def failures(scratch: Path, writer: str, count: int, seed: int) -> Iterator[Failure]:
    """Tries so many places of a writer, all of them with 0, each with one error and with a disk that is full from
    there on."""
    trial, rng = Trial(scratch, compiled(scratch)), random.Random(f"{writer} {seed}")
    changes, expected = trial.changes(writer)
    places = range(1, changes + 1) if not count else sorted(rng.sample(range(1, changes + 1), min(count, changes)))
    for at in places:
        for error, is_full in ((rng.choice((EIO, ENOSPC)), False), (ENOSPC, True)):
            found = trial.failure(writer, at, error, expected, is_full=is_full)
            if found is not None:
                yield found


def main() -> None:
    count, seed = (int(each) for each in (*sys.argv[1:3], "10", "1")[:2])
    wrong = 0
    for writer in sys.argv[3:] or WRITERS:
        with tempfile.TemporaryDirectory() as scratch:
            for each in failures(Path(scratch), writer, count, seed):
                wrong += 1
                print(each, flush=True)
        print(f"{writer}: tried", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
