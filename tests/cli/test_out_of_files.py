"""Files that cannot be opened because too many are open already are no damage: a command ends, and says why.

``python -m tests.cli.out_of_files COMMAND...`` runs any command with few descriptors.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

READ = ["ls demo/data", "audit --jobs 1 demo/data", "cat demo/data -t orders -p 0"]
WRITE = ["salvage --jobs 1 demo/data -t users --to DIRECTORY/RUN"]


@pytest.mark.parametrize("command", [*READ, *WRITE], ids=lambda each: each.partition(" ")[0])
def test_a_command_without_descriptors_finds_no_damage(command: str, tmp_path: Path) -> None:
    words = command.replace("DIRECTORY", str(tmp_path)).split()
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.out_of_files", *words], capture_output=True, text=True, check=True, cwd=ROOT
    )
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert runs[0]["code"] == 2
    assert runs[-1]["code"] == 0
    for each in runs:
        if each["code"] == 0:
            assert each["errors"] == ""
            assert each["isSame"] or command in WRITE
        else:
            assert each["code"] == 2
            assert "files open as it may (ulimit -n)" in each["errors"] or "Too many open files" in each["errors"]
