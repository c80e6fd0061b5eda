"""A pipeline that is killed at any moment is continued by the next run: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow(reason="killed five times, and run again")
@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_a_run_after_a_kill_completes_the_tables(form: str) -> None:
    """At random moments: ``python -m tests.jobs.pipeline.killed 50``."""
    command = [sys.executable, "-m", "tests.jobs.pipeline.killed", "0", "1", form]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {f"{form}-killed": 5}  # else it has lines with what was wrong
