from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests.golden
from tests.require import require
from tests.s3 import s3  # noqa: F401 - a fixture, of which there is to be one in a process

if TYPE_CHECKING:
    from tests.kafka.broker import KafkaBroker

# Spark's Python workers are to be this interpreter; unset, they are whatever ``python3`` is.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

SHARED = ("kafka", "spark", "spark_cluster")
"""Session fixtures that start a JVM: all tests with one of them run in one xdist worker, so that it starts once."""


@pytest.fixture(scope="session")
def golden() -> Path:
    """The unpacked golden archive; not to be written to."""
    return tests.golden.golden()


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The jars of a Kafka broker and its clients; a test with this fixture may use ``tests.kafka.oracle``."""
    from tests.kafka.jars import KafkaUnavailableError, compile_helpers, jars, java

    try:
        java()
        compile_helpers()
        return jars()
    except KafkaUnavailableError as error:
        require(False, str(error))
        raise


@pytest.fixture(scope="session")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running broker that all tests share: take topics of your own, and leave it running."""
    from tests.kafka.broker import KafkaBroker

    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))
