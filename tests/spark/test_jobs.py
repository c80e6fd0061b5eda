"""Jobs on a session that is there: values, bytes and errors are those of one process, and what is left is cancelled."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.golden import broker_data
from tests.jobs.works import (
    Endless,
    Task,
    Waiting,
    go_on,
    kill_itself,
    objects_that_stay,
    refuse_three,
    square,
    wait_for,
)
from tests.sources import sources_of
from tests.typed.logs import write_log

import brokerless
from brokerless.errors import JobError, UsageError
from brokerless.jobs.erase.selection import Selection
from brokerless.jobs.merge.job import Merge, merge
from brokerless.jobs.merge.job import plan as plan_merge
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.on_spark import with_tries
from brokerless.jobs.run.types import RunOptions
from brokerless.jobs.salvage.job import Salvage, salvage
from brokerless.jobs.salvage.job import plan as plan_salvage
from brokerless.log import names
from brokerless.views.jobs.merge import row as merge_row
from brokerless.views.jobs.salvage import row as salvage_row


def test_values_and_bytes_are_those_of_one_process(spark: SparkSession) -> None:
    tasks = [Task(number) for number in range(50)]
    read: list[int] = []

    values = list(in_order(run(square, tasks, RunOptions(read.append, spark))))

    assert values == [number**2 for number in range(50)]
    assert sum(read) == sum(task.size for task in tasks)
    assert list(run(square, [], RunOptions(spark=spark))) == []


def test_sizes_are_those_of_one_process(spark: SparkSession) -> None:
    log = brokerless.open(broker_data("clean"))
    options: dict[str, Any] = {"message_formats": [1, 2], "codecs": ["none", "lz4"], "batch_sizes": [4096]}
    here, there = log.size(**options, full=True), log.size(**options, full=True, spark=spark)
    assert [each.as_dicts() for each in there] == [each.as_dicts() for each in here]
    assert any(each.records.bytes for each in here)
    assert log.size(**options, sample=0.5, spark=spark) == log.size(**options, sample=0.5)


def test_a_worker_does_not_look_through_what_it_loaded_after_each_task(spark: SparkSession) -> None:
    tasks = [Task(number) for number in range(6)]
    counts = [count for _, count in run(objects_that_stay, tasks, RunOptions(spark=spark))]
    assert max(counts) > 10_000


def test_values_come_while_others_run(spark: SparkSession, tmp_path: Path) -> None:
    begin, last = tmp_path / "begin", tmp_path / "last"
    begin.touch()

    values: dict[int, int] = {}
    for index, value in run(wait_for, [Waiting(last), *[Waiting(begin)] * 5], RunOptions(spark=spark.sparkContext)):
        values[index] = value
        if len(values) == 5:
            last.touch()

    assert list(values)[-1] == 0
    assert os.getpid() not in values.values()


def test_what_a_task_raises_on_purpose_is_raised_here(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"^three is not wanted$"):
        list(run(refuse_three, [Task(number) for number in range(20)], RunOptions(spark=spark)))


def test_a_worker_that_dies_on_one_machine_ends_the_job(spark: SparkSession) -> None:
    with pytest.raises(JobError, match=r"^Spark gave up: Python worker exited unexpectedly"):
        list(run(kill_itself, [Task(1), Task(2)], RunOptions(spark=spark)))


EACH_PYTHON = """
import os, sys
from brokerless.cli import main

for python in sys.argv[2:]:
    os.environ["PYSPARK_PYTHON"] = python
    print(main(["verify", sys.argv[1], "--spark", "local[1,1]"]), file=sys.stderr)
"""
"""Sessions one after the other, with one Java process: that takes most of the time to start."""
PYTHONS: dict[str, tuple[str | None, str]] = {
    "ends": ("exit 3", "EOFException occurred while reading the port number"),
    "talks": ("echo hello; exec sleep 1", "Bad data in pyspark.daemon's standard output"),
    "fails": (f"exec {sys.executable} -S -I -c 'raise SystemExit(1)'", "EOFException"),
    "missing": (None, "Cannot run program"),
}


def test_a_worker_that_cannot_start_is_named_with_the_reason(quick_spark: str, tmp_path: Path) -> None:
    for name, (script, _) in PYTHONS.items():
        if script is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)
    pythons = [tmp_path / name for name in PYTHONS]
    command = [sys.executable, "-c", EACH_PYTHON, str(broker_data("clean")), *map(str, pythons)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = ran.stderr.splitlines()
    assert lines[1::2] == ["2"] * len(pythons)
    for python, (_, reason), line in zip(pythons, PYTHONS.values(), lines[::2], strict=True):
        assert line.startswith(f"brokerless: Spark gave up: {reason}")
        assert line.endswith(f"executors run PYSPARK_PYTHON ({python}), which has to be a Python with brokerless in it")


def test_what_is_left_is_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.touch()

    def work(task: Waiting | Endless, done: object) -> int | None:
        return wait_for(task, print) if isinstance(task, Waiting) else go_on(task, print)

    with closing(run(work, [Waiting(go), *[Endless(tmp_path)] * 20], RunOptions(spark=spark))) as results:
        next(results)
        while not list(tmp_path.glob("*-begun")):
            time.sleep(0.01)

    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert len(list(tmp_path.glob("*-begun"))) < 20
    assert list(run(square, [Task(2)], RunOptions(spark=spark))) == [(0, 4)], "the session goes on"


def test_a_log_directory_is_compacted_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    log = brokerless.open(broker_data("clean"))
    now = 1_900_000_000_000
    there = log.compact(tmp_path / "there", now=now, from_start=True, spark=spark)
    here = log.compact(tmp_path / "here", now=now, from_start=True)
    rows = [[{**each.as_dict(), "target": None} for each in results] for results in (there, here)]
    assert rows[0] == rows[1]
    assert sum(sum(each["removed"].values()) for each in rows[0]) > 100
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_python_verifies_and_converts_on_a_session(spark: SparkSession, tmp_path: Path) -> None:
    log = brokerless.open(broker_data("unclean"))
    assert list(log.verify(spark=spark)) == list(log.verify())
    one = log.partitions[0]
    assert list(one.verify(spark=spark)) == list(one.verify())
    assert one.audit(spark=spark) == one.audit()
    (by_spark,), (here,) = (one.salvage(tmp_path / "to", dry_run=True, spark=each) for each in (spark, "none"))
    assert by_spark.losses == here.losses

    small = brokerless.open(broker_data("clean") / "edges-0")
    (there,) = small.convert(tmp_path / "there", codec="gzip", spark=spark)
    (here,) = small.convert(tmp_path / "here", codec="gzip")
    assert there.totals == here.totals
    for path in (tmp_path / "here" / "edges-0").iterdir():
        assert path.read_bytes() == (tmp_path / "there" / "edges-0" / path.name).read_bytes()


def test_records_are_erased_on_a_session_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """The same files and the same claims in the manifest; and the proof is checked there, too."""
    source = tmp_path / "from"
    for name in ("txn-0", "codec-zstd-1", "edges-0"):
        shutil.copytree(broker_data("clean") / name, source / name)
    log, where = brokerless.open(source), '"offset" % 7 < 3'
    for session, to in (("none", tmp_path / "here"), (spark, tmp_path / "there")):
        log.erase(to, where=where, manifest=f"{to}.json", spark=session)
    found = []
    for to in (tmp_path / "here", tmp_path / "there"):
        partitions = json.loads(Path(f"{to}.json").read_bytes())["partitions"]
        files = {str(path.relative_to(to)): path.read_bytes() for path in to.rglob("*") if path.is_file()}
        found.append((files, json.loads(json.dumps(partitions).replace(str(to), "to"))))
    assert found[0] == found[1]
    selection = Selection(where=where)
    here, there = (
        brokerless.prove(tmp_path / "there.json", source=source, selection=selection, spark=session)
        for session in ("none", spark)
    )
    assert there.holds
    assert (there.findings, there.as_dict()) == (here.findings, here.as_dict())
    (tmp_path / "there" / "txn-0" / "leader-epoch-checkpoint").unlink()
    assert [each.kind for each in brokerless.prove(tmp_path / "there.json", spark=spark).findings][-1] == "file-missing"


def test_fields_of_typed_values_are_blanked_and_counted_on_a_session_as_in_one_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A field that another schema's alias names; the schemas go to the tasks and come back for the manifest."""
    (tmp_path / "schemas").mkdir()
    for number, name in ((7, {"name": "mail"}), (8, {"name": "email", "aliases": ["mail"]})):
        schema = {"type": "record", "name": "P", "fields": [{**name, "type": "string"}, {"name": "n", "type": "int"}]}
        (tmp_path / "schemas" / f"{number}.avsc").write_text(json.dumps(schema))
    typed = [b"\0\0\0\0\x07\x06Ada\x02", b"\0\0\0\0\x08\x06Ada\x02"]
    records = [(b"ada", each) for each in [*typed, b'{"email": null}', b'{"name": "Ada"}']]
    source = write_log(tmp_path / "from", {"people": records, "others": records[:1]})
    found = []
    for session, to in (("none", tmp_path / "here"), (spark, tmp_path / "there")):
        results = brokerless.open(source).erase(
            to, keys=["ada"], blank_fields=["email"], schemas=tmp_path / "schemas", manifest=f"{to}.json", spark=session
        )
        counts = {each.task.topic: [one.as_dict() for one in each.totals.fields] for each in results}
        values = brokerless.open(to / "people-0").records(["value"]).read_all()["value"].to_pylist()
        found.append((counts, values, json.loads(Path(f"{to}.json").read_bytes())["schemas"]))
    assert found[0] == found[1]
    ((count,), values, schemas) = found[1][0]["people"], *found[1][1:]
    assert (count["held"], count["empty"], count["lacking"], count["firstLacking"]) == (2, 1, 1, 3)
    assert values == [*(each[:5] + b"\0\x02" for each in typed), b'{"email": null}', b'{"name": "Ada"}']
    assert len(schemas) == 3
    assert brokerless.prove(tmp_path / "there.json", source=source, spark=spark).holds


def test_segments_begin_where_they_did_also_on_a_session(spark: SparkSession, tmp_path: Path) -> None:
    source = broker_data("clean") / "segments-0"
    here = [path.name for path in sorted(source.glob("*.log"))]
    plan = plan_salvage(sources_of(source), tmp_path / "salvaged", Salvage())
    list(salvage(plan, print, RunOptions(spark=spark)))
    list(brokerless.open(source).convert(tmp_path / "converted", codec="zstd", spark=spark))
    for to in ("salvaged", "converted"):
        assert [path.name for path in sorted((tmp_path / to / source.name).glob("*.log"))] == here


def test_partitions_are_salvaged_and_merged_on_a_session(spark: SparkSession, tmp_path: Path) -> None:
    disks = [tmp_path / "disk", tmp_path / "another"]
    for disk in disks:
        for name in ("segments-0", "txn-0", "txn-1"):
            shutil.copytree(broker_data("clean") / name, disk / name)
        max((disk / "txn-1").glob("*.log")).write_bytes(b"lost")
    min((disks[0] / "segments-0").glob("*.log")).unlink()

    logs = sources_of(*disks)
    for where, session in (("here", "none"), ("there", spark)):
        to = tmp_path / where
        saved = plan_salvage(logs[:1], to / "tables", Salvage(parquet=True))
        told = [salvage_row(each) for each in salvage(saved, print, RunOptions(spark=session))]
        merged = [
            merge_row(each) for each in merge(plan_merge(logs, to / "logs", Merge()), print, RunOptions(spark=session))
        ]
        (to / "told").write_text(json.dumps([told, merged]).replace(str(to), "to"))
    here, there = (
        {
            path.relative_to(tmp_path / each): sorted(path.read_bytes().splitlines())
            if path.name in names.OFFSET_CHECKPOINTS  # they are noted in the order in which they were done
            else path.read_bytes()
            for path in (tmp_path / each).rglob("*")
            if path.is_file()
        }
        for each in ("here", "there")
    )
    assert here == there
    assert len([path for path in here if path.suffix in (".parquet", ".log")]) > 5


def test_a_master_beside_a_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="a Spark session runs in this process already"):
        list(run(square, [Task(1)], RunOptions(spark="local[2]")))


@pytest.mark.parametrize(
    ("master", "started"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://there:7077", "spark://there:7077"),
    ],
)
def test_tasks_are_tried_as_often_as_on_a_cluster(master: str, started: str) -> None:
    assert with_tries(master) == started


def test_an_interrupt_while_spark_starts_leaves_no_process(quick_spark: str, tmp_path: Path) -> None:
    """PySpark makes a directory when it starts a JVM, which looks there for whom to answer."""
    command = [sys.executable, "-m", "brokerless", "verify", str(broker_data("clean")), "--spark", "local[1]"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE) as job:
        until = time.monotonic() + 60
        while not any(path.is_dir() for path in tmp_path.iterdir()):
            assert time.monotonic() < until
            assert job.poll() is None
            time.sleep(0.01)
        os.killpg(job.pid, signal.SIGINT)
        _, told = job.communicate(timeout=60)
    assert (job.returncode, told) == (130, b"")
    while is_there(job.pid):
        assert time.monotonic() < until, "a process of the job is still there"
        time.sleep(0.1)


def is_there(process_group: int) -> bool:
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True


def test_runs_with_a_budget_verify_the_same_segments_as_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """What was verified is recorded by the driver, whoever read it."""
    log = brokerless.open(broker_data("clean") / "segments-0")
    verified: list[list[set[str]]] = []
    for place in (spark, "none"):
        state, runs = tmp_path / f"{len(verified)}", list[set[str]]()
        for _ in range(2):
            assert [
                each for each in log.verify(budget=20_000, state=state, spark=place) if each.severity != "info"
            ] == []
            (own,) = state.glob("*.parquet")
            runs.append({*pq.read_table(own)["path"].to_pylist()})
        verified.append(runs)
    assert verified[0] == verified[1]
    assert verified[0][0] < verified[0][1]
