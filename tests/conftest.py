from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import tests.golden

# Spark's Python workers are to be this interpreter; unset, they are whatever ``python3`` is.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

SHARED = ("kafka", "spark")
"""Session fixtures that start a JVM: all tests with one of them run in one xdist worker, so that it starts once."""


@pytest.fixture(scope="session")
def golden() -> Path:
    """The unpacked golden archive; not to be written to."""
    return tests.golden.golden()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for name in SHARED:
            if name in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group(name))
