from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession
from tests.golden import all_cases
from tests.spark.cluster import Cluster, cluster
from tests.spark.java import submit_arguments


@pytest.fixture(scope="session")
def spark_cluster(quick_spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers; drivers are processes of their own, as there is one Spark session in a process. A test
    that kills a worker adds another one."""
    with cluster(tmp_path_factory.mktemp("cluster"), quick_spark) as started:
        yield started


def with_tests(path: str | None) -> str:
    """Python's path, so that Spark finds its daemon here."""
    return os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [path])])


@pytest.fixture(scope="session")
def spark(quick_spark: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session of two threads that all tests share; a test that sets its configuration sets it back."""
    directory = tmp_path_factory.mktemp("spark")
    logging = directory / "log4j2.properties"
    logging.write_text(
        "appender.none.type = Null\nappender.none.name = none\n"
        "rootLogger.level = off\nrootLogger.appenderRef.none.ref = none\n"
    )
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("brokerless tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
    )
    options = f"-Dlog4j2.configurationFile={logging} {quick_spark}"
    arguments = submit_arguments(options, **{"spark.python.daemon.module": "tests.spark.daemon"})
    with mock.patch.dict(os.environ, {**arguments, "PYTHONPATH": with_tests(os.environ.get("PYTHONPATH"))}):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def case_logs() -> list[Path]:
    """All raw files of the reading cases: 850 lone logs."""
    categories = ("formats", "articles", "specials", "framing", "damaged")
    return [log for case in all_cases() if case.category in categories for log in case.logs]
