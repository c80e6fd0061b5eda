"""A restore into log directories gives its partitions their names in all of them, or in none, whatever is killed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.slow(reason="a process for each step")
def test_a_restore_that_is_killed_at_any_change_is_completed_or_begun_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.jobs.restore.disks.killed_restore", str(tmp_path), "40"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    *wrong, seen = [line for line in done.stdout.splitlines() if line]
    assert wrong == [], done.stderr
    assert sum(ast.literal_eval(seen).values()) > 3
