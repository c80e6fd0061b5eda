from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.golden import all_cases
from tests.require import require
from tests.spark.cluster import Cluster, cluster

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Little compilation: the tests' queries are many and short."""


def _require_java() -> None:
    java = os.environ.get("JAVA_HOME")
    path = os.environ.get("PATH", "").split(os.pathsep)
    java_is_there = java is not None or any((Path(each) / "java").exists() for each in path)
    require(java_is_there, "Java 17 or newer, for Spark")


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers; drivers are processes of their own, as there is one Spark session in a process. A test
    that kills a worker adds another one."""
    _require_java()
    with cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session of two threads that all tests share; a test that sets its configuration sets it back."""
    _require_java()
    directory = tmp_path_factory.mktemp("spark")
    logging = directory / "log4j2.properties"
    logging.write_text(
        "appender.none.type = Null\nappender.none.name = none\n"
        "rootLogger.level = off\nrootLogger.appenderRef.none.ref = none\n"
    )
    session = (
        SparkSession.builder.master("local[2]")
        .appName("brokerless tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={logging} {QUICK_START}")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def case_logs() -> list[Path]:
    """All raw files of the reading cases: 850 lone logs."""
    categories = ("formats", "articles", "specials", "framing", "damaged")
    return [log for case in all_cases() if case.category in categories for log in case.logs]
