from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden import broker_data


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A log of four segments, from 0, 1, 73 and 142; the first has no aborted transaction."""
    shutil.copytree(broker_data("clean"), tmp_path / "data")
    return tmp_path / "data" / "txn-1"
