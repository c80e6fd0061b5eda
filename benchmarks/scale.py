"""The constants of docs/scale.md, measured on this machine: ``python -m benchmarks.scale``. One JSON line for each.

Takes some 20 minutes, 1 GB in .cache and 500,000 hard links. Each figure is of a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast
from unittest import mock

from tests.s3 import ENVIRONMENT, SERVER

from benchmarks import data
from benchmarks.jobs import GIGABYTE, linked
from benchmarks.measure import ROOT

DEEP = 50
"""About as many segments of a partition where there are many files."""
RECORDS_OF_SEGMENT = 20
"""Each some 108 bytes."""
TIMESTAMP = 1_700_000_000_000
PLANS = {
    "everything": {},
    "timestamps": {"startingTimestamp": str(TIMESTAMP + DEEP * RECORDS_OF_SEGMENT // 2)},
    "readCommitted": {"kafka.isolation.level": "read_committed"},
}
ALL_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
)
BUCKET = "bucket"
LATENCY = 0.03
"""Seconds that each request takes longer, as to a real store."""
SEGMENT_IN_S3 = 192 << 20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["requests", "planning", "reading", "clusters"], help="a part of it")
    parser.add_argument("--partitions", type=int, default=2000, help=f"of about {DEEP} segments each, for planning")
    parser.add_argument("--replicas", type=int, default=20_000, help="of one disk, for cluster, restart and rebuild")
    parser.add_argument("--gigabytes", type=int, default=10, help="to read")
    parser.add_argument("--records", type=int, default=data.RECORDS, help="of the data set that is read")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.step:
        print(json.dumps(STEPS[options.step[0]](*options.step[1:])))
        return
    data.CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data.CACHE) as scratch:
        parts = {"requests": requests, "planning": planning, "reading": reading, "clusters": clusters}
        for name, measure in parts.items():
            if options.only in (name, None):
                measure(Path(scratch) / name, options)


def requests(scratch: Path, options: argparse.Namespace) -> None:
    """What planning and reading ask an object store for."""
    log = data.segment("lz4", options.records).parent
    command = ["convert", str(log), "--to", str(scratch / "cut"), "--segment-bytes", str(SEGMENT_IN_S3)]
    subprocess.run([sys.executable, "-m", "brokerless", *command], cwd=ROOT, check=True, capture_output=True)
    (cut,) = (scratch / "cut").glob("events-*")
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=-1, stdout=-1, text=True) as server:
        assert server.stdout is not None
        endpoint = f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
        try:
            for plan in PLANS:
                print_line(f"requests-{plan}", step("ask_s3", endpoint, str(cut), plan, environment=ENVIRONMENT))
        finally:
            server.kill()


def ask_s3(endpoint: str, directory: str, plan: str) -> dict[str, Any]:
    """Requests by their name while a query is planned, and while all its tasks read."""
    import fsspec
    import s3fs.core

    from brokerless.spark.columns import choose_columns, default_schema
    from brokerless.spark.options import parse_options
    from brokerless.spark.plan import plan as plan_query
    from brokerless.spark.reader import read_split
    from brokerless.spark.split import ReadTask

    storage = {"endpoint_url": endpoint, "use_listings_cache": False}
    fs: Any = fsspec.filesystem("s3", **storage)
    if not fs.exists(BUCKET):
        fs.mkdir(BUCKET)
    sizes = {path.name: path.stat().st_size for path in Path(directory).iterdir()}
    for name in sizes:
        fs.put_file(f"{directory}/{name}", f"{BUCKET}/kafka/events-0/{name}")
    seen = Counter[str]()
    call = cast(Callable[..., Any], s3fs.core.S3FileSystem._call_s3)  # type: ignore[reportPrivateUsage]

    async def counted(self: Any, method: Any, *arguments: Any, **named: Any) -> Any:
        seen[str(method)] += 1
        await asyncio.sleep(LATENCY)
        return await call(self, method, *arguments, **named)

    parsed = parse_options({
        "path": f"s3://{BUCKET}/kafka", "storageOptions": json.dumps(storage), **PLANS[plan],
    })  # fmt: skip
    with mock.patch.object(s3fs.core.S3FileSystem, "_call_s3", counted):
        start = time.perf_counter()
        tasks = cast("list[ReadTask]", plan_query(parsed))
        seconds, planned = since(start, time.perf_counter()), dict(seen)
        seen.clear()
        columns = choose_columns(default_schema(parsed), parsed)
        for each in tasks:
            for split in each.splits:
                for _batch in read_split(split, parsed, columns):
                    pass
    logs = [size for name, size in sizes.items() if name.endswith(".log")]
    return {
        "segments": len(logs), "bytes": sum(logs), "tasks": len(tasks), "planSeconds": seconds, "planned": planned,
        "read": dict(seen),
    }  # fmt: skip


def planning(scratch: Path, options: argparse.Namespace) -> None:
    """Many small files: CPU and wall-clock seconds, and memory of a process that plans."""
    directory, first = scratch / "log", scratch / "first"
    write_segments(first)
    for number in range(options.partitions):
        shutil.copytree(first / "events-0", directory / f"events-{number}", copy_function=os.link)
    segments = options.partitions * len(list(first.glob("events-0/*.log")))
    print_line("plan-nothing", step("plan_files", str(first), "everything"))
    for plan in PLANS:
        print_line(f"plan-{plan}", {"segments": segments, **step("plan_files", str(directory), plan)})
    print_line("count-of-headers", {"segments": segments, **step("count_in_spark", str(directory))})


def write_segments(directory: Path) -> None:
    import pyarrow as pa

    import brokerless

    count = DEEP * RECORDS_OF_SEGMENT
    rows = pa.record_batch({
        "timestamp": pa.array(range(TIMESTAMP, TIMESTAMP + count), pa.timestamp("ms", "UTC")),
        "value": pa.array([b"%0100d" % each for each in range(count)], pa.binary()),
    })  # fmt: skip
    settings = brokerless.BatchSettings(batch_size=RECORDS_OF_SEGMENT * 110)
    config = brokerless.LogConfig(segment_bytes=RECORDS_OF_SEGMENT * 120)
    brokerless.load([rows], str(directory), brokerless.Routing("events", 0), settings, config)


def plan_files(directory: str, plan: str) -> dict[str, Any]:
    from brokerless.spark.options import parse_options
    from brokerless.spark.plan import plan as plan_query

    parsed = parse_options({"path": directory, **PLANS[plan]})
    figures: dict[str, Any] = {}
    for name in ("cold", "warm"):
        start, cpu = time.perf_counter(), time.process_time()
        tasks = plan_query(parsed)
        figures |= {f"{name}Seconds": since(start, time.perf_counter()), f"{name}Cpu": since(cpu, time.process_time())}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"tasks": len(tasks), **figures, "peakInMiB": peak}


def count_in_spark(directory: str) -> dict[str, Any]:
    from benchmarks.spark import session

    spark = session()
    figures: dict[str, Any] = {}
    for name in ("first", "second"):
        start = time.perf_counter()
        frame = spark.read.format("brokerless").option("table", "batches").schema("count INT").load(directory)
        (row,) = frame.groupBy().sum("count").collect()
        figures |= {"records": row[0], f"{name}Seconds": since(start, time.perf_counter())}
    return figures


def reading(scratch: Path, options: argparse.Namespace) -> None:
    """All columns of many gigabytes into Spark's sink that drops them, and what a task costs that reads next to
    nothing."""
    scratch.mkdir(parents=True)
    source = linked(scratch / "log", options.gigabytes * GIGABYTE, options.records)
    print_line("read-all-columns", step("read_in_spark", str(source), ALL_COLUMNS))
    print_line("read-value", step("read_in_spark", str(source), "value BINARY"))
    print_line("tasks", step("count_tasks", str(source)))


def read_in_spark(directory: str, schema: str) -> dict[str, Any]:
    from benchmarks.spark import TASKS, all_rows, session

    frame = session().read.format("brokerless").schema(schema).load(directory)
    all_rows(frame.limit(1000))
    start = time.perf_counter()
    rows = all_rows(frame)
    core_seconds = (time.perf_counter() - start) * TASKS
    size = sum(path.stat().st_size for path in Path(directory).rglob("*.log"))
    return {
        "bytes": size,
        "records": rows,
        "tasks": frame.rdd.getNumPartitions(),
        "seconds": round(core_seconds / TASKS, 3),
        "recordsPerSecondAndCore": round(rows / core_seconds),
        "megabytesPerSecondAndCore": round(size / 1e6 / core_seconds, 1),
    }


def count_tasks(directory: str) -> dict[str, Any]:
    """Seconds of one core for each task, by a count of headers in few tasks and in many."""
    from benchmarks.spark import TASKS, session

    spark = session()
    reader = spark.read.format("brokerless").option("table", "batches").schema("count INT")
    found: list[tuple[int, float]] = []
    for size in (1 << 30, 1 << 30, 4 << 20):
        frame = reader.option("maxPartitionBytes", size).load(directory)
        start = time.perf_counter()
        frame.groupBy().sum("count").collect()
        found.append((frame.rdd.getNumPartitions(), time.perf_counter() - start))
    (_, _), (few, quick), (many, slow) = found
    return {"few": few, "many": many, "fewSeconds": since(0, quick), "manySeconds": since(0, slow),
            "coreSecondsForEachTask": float(f"{(slow - quick) * TASKS / (many - few):.3g}")}  # fmt: skip


def clusters(scratch: Path, options: argparse.Namespace) -> None:
    """A killed broker's disk with many partitions: what it is of, what a start does, and a cluster made of it."""
    disk = write_disk(scratch / "disk", options.replicas)
    for name in ("cluster", "restart", "rebuild"):
        print_line(f"many-partitions-{name}", {"partitions": options.replicas, **step("run_on_disk", name, str(disk))})


def write_disk(disk: Path, replicas: int) -> Path:
    """Writes the partitions as hard links to one of the demo's, all but its last segment flushed."""
    demo = ROOT / "demo" / "data"
    first = disk.parent / "first"
    shutil.copytree(demo / "users-0", first)
    disk.mkdir()
    shutil.copy(demo / "meta.properties", disk)
    for number in range(replicas):
        shutil.copytree(first, disk / f"users-{number}", copy_function=os.link)
    last = int(max(first.glob("*.log")).stem)
    lines = "".join(f"users {number} {last}\n" for number in range(replicas))
    (disk / "recovery-point-offset-checkpoint").write_text(f"0\n{replicas}\n{lines}")
    return disk


def run_on_disk(name: str, disk: str) -> dict[str, Any]:
    """Runs a command on a disk as users do."""
    from brokerless.cli import main as run

    to = f"{disk}-rebuilt"
    words = {
        "cluster": ["cluster", disk],
        "restart": ["restart", disk],
        "rebuild": ["rebuild", disk, "--to", to, "--data", "link", "--apply"],
    }
    start, cpu = time.perf_counter(), time.process_time()
    nowhere = Path(os.devnull).open("w")  # noqa: SIM115
    with nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        code = run(words[name])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures = {"seconds": since(start, time.perf_counter()), "cpu": since(cpu, time.process_time()), "peakInMiB": peak}
    return {"exitCode": code, **figures}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (ask_s3, plan_files, count_in_spark, read_in_spark, count_tasks, run_on_disk)
}


def step(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What a step prints that runs in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--step", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def since(start: float, end: float) -> float:
    return round(end - start, 3)


def print_line(name: str, figures: dict[str, Any]) -> None:
    print(json.dumps({"name": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
