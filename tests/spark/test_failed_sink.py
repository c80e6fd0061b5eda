"""A few places of the program ``tests.spark.failed_sink``, which tries any number of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.require import require
from tests.spark.failed_sink import failures


@pytest.mark.slow(reason="a Spark session of its own")
@pytest.mark.timeout(300)
def test_an_error_of_the_disk_is_reported_and_leaves_all_rows_of_a_query_or_none(
    quick_spark: str, tmp_path: Path
) -> None:
    require(shutil.which("gcc") and sys.platform == "linux", "a C compiler, and LD_PRELOAD")
    found = list(failures(tmp_path, count=2, seed=3))
    assert len(found) == 8
    assert [text for text in found if text[1]] == []
