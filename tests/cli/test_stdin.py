"""The path - is a log from stdin: in a process of its own, as a shell starts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden import broker_data

LOG = broker_data("clean") / "segments-0" / f"{0:020}.log"


def piped(*arguments: str, data: bytes | None = None, file: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "brokerless", *arguments]
    if file is None:
        return subprocess.run(command, input=data, capture_output=True, timeout=120)
    with file.open("rb") as stdin:
        return subprocess.run(command, stdin=stdin, capture_output=True, timeout=120)


def test_a_pipe_and_a_file_have_the_records_of_the_log() -> None:
    expected = [json.loads(line) for line in piped("cat", "--json", str(LOG)).stdout.splitlines()]
    assert expected
    for result in (piped("cat", "--json", "-", data=LOG.read_bytes()), piped("cat", "--json", "-", file=LOG)):
        assert (result.returncode, result.stderr) == (0, b"")
        assert [json.loads(line) for line in result.stdout.splitlines()] == [
            {**each, "file": "-", "topic": None, "partition": None} for each in expected
        ]


@pytest.mark.parametrize("command", ["ls", "batches", "verify", "audit"])
def test_other_commands_read_it_as_well(command: str) -> None:
    data = LOG.read_bytes()
    result = piped(command, "-", data=data)
    assert result.returncode == 0, result.stderr
    assert piped(command, "-", data=data[:-1]).returncode == (0 if command == "verify" else 1)


def test_an_empty_pipe_is_an_empty_log_and_a_file_named_so_is_a_file(tmp_path: Path) -> None:
    result = piped("cat", "-", data=b"")
    assert (result.returncode, result.stdout) == (0, b"")
    command = [sys.executable, "-m", "brokerless", "ls", "./-"]
    (tmp_path / "-").write_bytes(LOG.read_bytes())
    result = subprocess.run(command, cwd=tmp_path, input=b"", capture_output=True, timeout=120)
    assert result.returncode == 0
    assert b"./-" in result.stdout
