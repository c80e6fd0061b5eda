"""A backup that is killed at any moment leaves no half of a snapshot, and the next one completes what it began."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow(reason="a run for each change to the disk")
def test_a_killed_backup_is_completed_by_the_next(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.jobs.backup.killed", str(tmp_path), "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=True)
    *wrong, counts = done.stdout.splitlines()
    assert not wrong
    kills, seen = map(int, counts.split())
    assert kills > 5
    assert seen >= 1
