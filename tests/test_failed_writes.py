"""A few places of the program ``tests.failed_writes``, which tries any number of them in all writers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.failed_writes import failures
from tests.require import require


@pytest.mark.slow(reason="each place is two commands")
@pytest.mark.parametrize("writer", ["convert", "trim", "delta", "pipeline", "backup"])
def test_an_error_leaves_what_the_same_command_ends(writer: str, tmp_path: Path) -> None:
    require(shutil.which("gcc") and sys.platform == "linux", "a C compiler, and LD_PRELOAD")
    assert [str(each) for each in failures(tmp_path, writer, count=2, seed=3)] == []
