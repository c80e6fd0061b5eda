"""Salvage into tables: what a consumer would get of the partitions that salvage writes, and the same report."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.golden import broker_data
from tests.jobs.salvage.test_job import DAMAGED, run
from tests.random_damage import damage_at_random

import brokerless
from brokerless.cli import main
from brokerless.errors import UnwritableError, UsageError
from brokerless.jobs.export.job import export
from brokerless.jobs.export.job import plan as plan_export
from brokerless.jobs.export.tasks import Export
from brokerless.jobs.salvage.carve import Carving, carve
from brokerless.jobs.salvage.job import Salvage, SalvageResult
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import LogConfig
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.table_formats.parquet_files import publish_file

CLEAN = broker_data("clean")
PARTITIONS = [path for path in sorted(CLEAN.glob("*-*")) if path.is_dir() and any(path.glob("*.log"))]


DEMO = Path(__file__).parents[3] / "demo" / "data"


def damaged(directory: Path, step: int, seeds: int) -> Path:
    """Some of the damaged files of the archive, and partitions of a real broker that are damaged at random."""
    for number, each in enumerate(DAMAGED[::step]):
        partition = directory / f"case-{number}"
        partition.mkdir(parents=True)
        for log in each.logs:
            shutil.copyfile(log, partition / (log.name if log.name[:20].isdigit() else f"{0:020}.log"))
    for seed in range(seeds):
        shutil.copytree(PARTITIONS[seed % len(PARTITIONS)], directory / f"seed-{seed}")
        damage_at_random(directory / f"seed-{seed}", random.Random(seed))
    return directory


COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def facts(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Records with their timestamps as they are: not all of them are dates."""
    rows: list[tuple[Any, ...]] = []
    for batch in batches:
        columns = [batch.column(name) for name in COLUMNS]
        columns[3] = columns[3].cast(pa.int64())
        rows += zip(*(column.to_pylist() for column in columns), strict=True)
    return sorted(rows, key=lambda row: row[:3])


def of_log(path: Path, starts: dict[tuple[str, int], int]) -> list[tuple[Any, ...]]:
    """What a consumer gets of a log directory, where its logs begin at ``starts``."""
    rows = facts(batch for each in brokerless.open(path).partitions for batch in each.records())
    return [row for row in rows if row[2] >= starts.get((row[0], row[1]), 0)]


def of_tables(to: Path) -> list[tuple[Any, ...]]:
    """What a reader that knows nothing of us makes of the directory."""
    return facts(ds.dataset(to, partitioning="hive").to_table().to_batches()) if any(to.rglob("*.parquet")) else []


def told(results: list[SalvageResult]) -> list[dict[str, Any]]:
    """What a report says of losses and counts."""
    return [{**asdict(replace(each, files=(), base_offsets=())), "task": each.task.name} for each in results]


MUCH = pytest.param(True, 4, marks=pytest.mark.slow(reason="much damage"))


@pytest.mark.parametrize(("partial", "step"), [(False, 20), MUCH])
def test_tables_hold_what_salvaged_partitions_hold_and_the_report_is_the_same(
    partial: bool, step: int, tmp_path: Path
) -> None:
    source = damaged(tmp_path / "source", step, 40)
    logs, log_findings = run(source, tmp_path / "logs", Salvage(partial=partial))
    tables, findings = run(source, tmp_path / "tables", Salvage(partial=partial, parquet=True))
    starts = {(each.task.topic, each.task.partition): each.start_offset for each in logs}
    wanted = of_log(tmp_path / "logs", starts)
    assert len(wanted) > 3000
    assert of_tables(tmp_path / "tables") == wanted
    assert told(tables) == told(logs)
    assert sum(len(each.losses) for each in tables) > 20
    assert bool(sum(each.partial for each in tables)) == partial
    assert findings == log_findings
    named = [path for each in tables for path in each.files]
    there = tmp_path / "tables"
    assert sorted(named) == sorted(str(path.relative_to(there)) for path in there.rglob("*.parquet"))
    assert sorted(path.name for path in there.rglob("*") if path.is_file() and path.suffix != ".parquet") == [
        "_brokerless.json"
    ] * len({each.task.topic for each in tables})


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    results, _ = run(PARTITIONS[0], tmp_path / "to", Salvage(parquet=True, dry_run=True))
    assert results[0].records
    assert not (tmp_path / "to").exists()


def test_what_is_there_is_not_written_to(tmp_path: Path) -> None:
    segments = next(path for path in PARTITIONS if path.name == "segments-0")
    run(segments, tmp_path / "to", Salvage(parquet=True))
    with pytest.raises(UsageError, match="segments-0 is in it already; write to another directory"):
        run(segments, tmp_path / "to", Salvage(parquet=True))
    (tmp_path / "files" / "topic=segments").mkdir(parents=True)
    (tmp_path / "files" / "topic=segments" / "part-0.parquet").touch()
    with pytest.raises(UsageError, match=r"there are files \(part-0.parquet\)"):
        run(segments, tmp_path / "files", Salvage(parquet=True))
    (tmp_path / "log").mkdir()
    shutil.copy(CLEAN / "meta.properties", tmp_path / "log")
    with pytest.raises(UsageError, match="is a broker's log directory"):
        run(segments, tmp_path / "log", Salvage(parquet=True))


def test_a_run_that_failed_on_a_full_disk_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["salvage", str(DEMO), "--as", "parquet", "--to"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    to, committed = tmp_path / "to", list[object]()

    def full(file: Any, layout: Any) -> None:
        if len(committed) == 2:
            raise UnwritableError(f"{to}: No space left on device")
        committed.append(file)
        publish_file(file, layout)

    with monkeypatch.context() as patched:
        patched.setattr("brokerless.jobs.salvage.tables.publish_file", full)
        assert main([*command, str(to)]) == 2
    assert len(list(to.rglob("*.parquet"))) == 2
    assert main([*command, str(to)]) == 0
    assert of_tables(to) == of_tables(tmp_path / "whole")
    assert {each.name for each in to.iterdir()} == {each.name for each in (tmp_path / "whole").iterdir()}
    assert main([*command, str(to)]) == 2  # it is complete, and stays


def test_an_export_of_the_restored_log_goes_on_after_it(tmp_path: Path) -> None:
    name = "segments-0"
    shutil.copytree(CLEAN / name, tmp_path / "disk" / name)
    last = max((tmp_path / "disk" / name).glob("*.log"))
    last.unlink()
    run(tmp_path / "disk", tmp_path / "to", Salvage(parquet=True))
    offset = int(last.stem)
    assert [row[2] for row in of_tables(tmp_path / "to")] == list(range(offset))
    planned = plan_export(
        resolve(Location(str(CLEAN / name))).partitions, [str(CLEAN)], Location.of(tmp_path / "to"), Export()
    )
    list(export(planned, [].append))
    assert of_tables(tmp_path / "to") == of_log(CLEAN / name, {})


def test_batches_are_carved_into_tables(tmp_path: Path) -> None:
    chance = random.Random(3)
    image = bytearray(chance.randbytes(50_000))
    for name in ("segments-0", "txn-0", "compacted-gzip-0"):
        for log in sorted((CLEAN / name).glob("*.log")):
            image += log.read_bytes() + chance.randbytes(chance.randint(1, 5000))
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    logs = Carving(Location(str(path)), output_directory(Location.of(tmp_path / "logs")), LogConfig())
    tables = replace(logs, directory=output_directory(Location.of(tmp_path / "tables")), parquet=True)
    expected = list(carve([logs], pytest.fail))
    found = list(carve([tables], pytest.fail))
    assert [replace(each, carving=logs, files=()) for each in found] == expected
    assert of_tables(tmp_path / "tables") == of_log(tmp_path / "logs", {})
    assert [file for each in found for file in each.files] == sorted(
        str(each.relative_to(tmp_path / "tables")) for each in (tmp_path / "tables").rglob("*.parquet")
    )
    again = list(
        carve([replace(tables, dry_run=True, directory=output_directory(Location.of(tmp_path / "dry")))], pytest.fail)
    )
    assert [each.records for each in again] == [each.records for each in found]
    assert not (tmp_path / "dry").exists()


KILLED = """
import sys
from brokerless.jobs.salvage.job import Salvage, plan, salvage
from brokerless.jobs.salvage import tables
from tests.jobs.killed import REAL, kill_at_changes
from tests.sources import sources_of

source, out, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
tables.FILE_BYTES = 2000
REAL["fsync"] = lambda _: None
log = sources_of(source)
kill_at_changes(lambda to: list(salvage(plan(log, to, Salvage(parquet=True)), print)), out, kills)
"""


@pytest.mark.slow(reason="a process for each step")
def test_a_killed_run_leaves_nothing_twice_or_wrong_and_the_next_one_makes_it_good(tmp_path: Path) -> None:
    for name in ("txn-0", "txn-1"):
        shutil.copytree(CLEAN / name, tmp_path / "disk" / name)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "disk"), str(tmp_path / "out"), "16"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[3], check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert 20 < int(done.stdout) < 254, done.stdout
    wanted = of_tables(tmp_path / "out" / "whole")
    assert wanted == of_log(tmp_path / "disk", {})
    partly = 0
    for out in (tmp_path / "out").glob("[0-9]*"):
        seen = set(map(str, of_tables(out)))
        assert seen <= set(map(str, wanted))
        partly += 0 < len(seen) < len(wanted)
        if not _is_done(out):
            run(tmp_path / "disk", out, Salvage(parquet=True))
        assert of_tables(out) == wanted, out
        assert not list(out.rglob("_unfinished/*"))
    assert partly


def _is_done(out: Path) -> bool:
    """Whether the kill came behind the last change that counts."""
    notes = [path.read_text() for path in out.rglob("_brokerless.json")]
    return bool(notes) and not any("until" in note for note in notes)


def test_arrow_reads_the_types_of_an_export(tmp_path: Path) -> None:
    run(CLEAN / "segments-0", tmp_path / "to", Salvage(parquet=True))
    found = ds.dataset(tmp_path / "to", partitioning="hive").to_table()
    assert np.array_equal(found.column("offset").to_numpy(), np.arange(700))
    assert str(found.schema.field("timestamp").type) == "timestamp[ms, tz=UTC]"
