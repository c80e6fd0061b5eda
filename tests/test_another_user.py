"""Some writers of the program ``tests.another_user``, which tries all of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.another_user import run_as_root, run_as_third
from tests.require import require


@pytest.mark.slow(reason="each is a process of its own")
@pytest.mark.parametrize("writer", ["convert", "trim", "report", "delta", "iceberg"])
def test_the_owner_opens_and_writes_what_root_wrote(writer: str, scratch: Path) -> None:
    require(os.geteuid() == 0, "only root may give files to others")
    assert run_as_root(scratch, writer, 0o077).wrong == ()


@pytest.mark.slow(reason="each is a process of its own")
@pytest.mark.parametrize("writer", ["trim", "load beside"])
def test_who_cannot_write_for_the_owner_is_refused_before_anything_is_written(writer: str, scratch: Path) -> None:
    require(os.geteuid() == 0 and shutil.which("setpriv"), "root, and setpriv of util-linux")
    assert run_as_third(scratch, writer).wrong == ()
