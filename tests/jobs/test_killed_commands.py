"""A command that was killed at any moment is run again, and its result is byte for byte that of one that was not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


NAMES = [
    ("load", "convert", "compact", "salvage"),
    ("merge", "carve", "carved-tables"),
    ("tables", "export", "export-by-date"),
]
"""Several in one process: until it has loaded all that they need takes as long as a command with all its kills."""


@pytest.mark.parametrize("names", NAMES, ids="+".join)
def test_a_killed_command_can_be_run_again(tmp_path: Path, names: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.jobs.killed_commands", str(tmp_path), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    counts = json.loads(seen)
    assert [name for name in names if counts[f"{name}-again"] < 4] == [], counts
