"""Questions to 4,000,000 lz4 records: ``brokerless sql`` from its start to its end, and in Python in a process that has
asked before, beside a warm Spark that asks the broker; and beside Kafka's dump tool with grep."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Generator, Iterator

from tests.kafka.jars import HELPERS, NEWEST, dump_tool

from benchmarks.broker import serving
from benchmarks.commands import BROKERLESS
from benchmarks.data import segment
from benchmarks.jvm import command
from benchmarks.measure import (
    WARM_UP_SECONDS_OF_SPARK,
    BenchmarkError,
    Pass,
    Workload,
    cold_process,
    python,
    warm_process,
)
from benchmarks.spark import CONNECTOR, TASKS, served

KEY = "user-4711"
BY_HOUR = "SELECT date_trunc('hour', timestamp) AS hour, count(*) AS records FROM records GROUP BY hour ORDER BY hour"
FIND = f"SELECT * FROM records WHERE key = '{KEY}'"


def workloads(records: int) -> Iterator[Workload]:
    for name, query in (("count-by-hour", BY_HOUR), ("find-key", FIND)):
        for is_warm in (False, True):
            yield Workload(
                name=f"sql-{name}{'-warm' if is_warm else ''}",
                unit="s",
                ours=asking_warm(query, records) if is_warm else asking(query, records),
                anchor=f"spark-sql-kafka {CONNECTOR}, kafka {NEWEST}, warm",
                theirs=asking_spark(name.replace("-", "_"), records),
                runs=3,
                cores=TASKS,
                seconds=0,
                warm_up=WARM_UP_SECONDS_OF_SPARK,
            )
    yield Workload(
        name="sql-find-key-grep",
        unit="s",
        ours=asking(FIND, records),
        anchor=f"kafka-dump-log {NEWEST} | grep",
        theirs=lambda: cold_process(["sh", "-c", f"{shlex.join(dumping(records))} | grep -F 'key: {KEY} '"]),
        runs=3,
        cores=TASKS,
        seconds=0,
        warm_up=0,
    )


def dumping(records: int) -> list[str]:
    return command("Dump", dump_tool(), str(segment("lz4", records)), "--print-data-log", sources=HELPERS)


def asking(query: str, records: int) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
    return lambda: cold_process([*BROKERLESS, "sql", query, str(segment("lz4", records)), "--json"])


def asking_warm(query: str, records: int) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
    return lambda: warm_process(python(f"{__name__}:ask", str(segment("lz4", records)), query))


def asking_spark(query: str, records: int) -> Callable[[], contextlib.AbstractContextManager[Callable[[], Pass]]]:
    @contextlib.contextmanager
    def ready() -> Generator[Callable[[], Pass]]:
        with (
            serving(records) as broker,
            warm_process(python(f"{__name__}:{query}", broker.bootstrap, "events-lz4")) as run,
        ):
            yield run

    return ready


def ask(path: str, query: str) -> int:
    import brokerless

    return answered(brokerless.open(path).sql(query).read_all().num_rows)


def count_by_hour(servers: str, topic: str) -> int:
    from pyspark.sql import functions as f

    hours = served(servers, topic).groupBy(f.date_trunc("hour", "timestamp").alias("hour")).count().orderBy("hour")
    return answered(len(hours.collect()))


def find_key(servers: str, topic: str) -> int:
    return answered(len(served(servers, topic).where(f"key = CAST('{KEY}' AS BINARY)").collect()))


def answered(rows: int) -> int:
    """One answer, if there is one."""
    if not rows:
        raise BenchmarkError("the query has no rows")
    return 1
