"""Logs that consumers read otherwise than Kafka's file reader: every command answers the same, with the same exit code.

What a consumer gets of them, and of what is written of them, is in ``tests/kafka/test_consumed_cases.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.log.odd_logs import write_odd_log

READERS = {
    "ls": ["ls", "DATA"],
    "cat": ["cat", "DATA"],
    "cat --jobs": ["cat", "DATA", "--jobs", "2"],
    "sql": ["sql", "SELECT count(*) FROM records", "DATA"],
    "sql segments": ["sql", "SELECT count(*) FROM segments", "DATA"],
}
WRITERS = {
    "export": ["export", "DATA", "--to", "OUT"],
    "salvage": ["salvage", "DATA", "--to", "OUT"],
    "merge": ["merge", "DATA", "--to", "OUT"],
    "convert": ["convert", "DATA", "--codec", "zstd", "--to", "OUT"],
    "convert --format": ["convert", "DATA", "--format", "v2", "--codec", "zstd", "--to", "OUT"],
    "compact": ["compact", "DATA", "-t", "odd", "--to", "OUT"],
}
OVERLAPPING = {
    "overlapping-batches": 40,
    "overlapping-rests": 36,
    "overlapping-wrappers": 25,
    "overlapping-segments": 40,
    "overlapping-compacted": 8,
    "overlapping-segments-of-wrappers": 10,
}
"""How many records a consumer gets."""


def words(command: list[str], data: Path, out: Path) -> list[str]:
    return [{"DATA": str(data), "OUT": str(out)}.get(each, each) for each in command]


@pytest.mark.parametrize("log", OVERLAPPING)
@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_records_that_overlap_are_left_out_and_change_the_exit_code(
    log: str, name: str, tmp_path: Path, run: Run
) -> None:
    write_odd_log(log, tmp_path / "data")
    result = run(*words({**READERS, **WRITERS}[name], tmp_path / "data", tmp_path / "out"))
    assert result.exit_code == 1
    assert "position" in result.err
    if name in WRITERS and name != "export":
        written = run("cat", tmp_path / "out", "-f", "%o %k %s\\n")
        assert (written.exit_code, len(written.lines)) == (0, OVERLAPPING[log])
        assert written.lines == run("cat", tmp_path / "data", "-f", "%o %k %s\\n").lines
    elif name.startswith("cat"):
        assert len(result.lines) == OVERLAPPING[log]


@pytest.mark.parametrize("log", ["overlapping-headers", "overlapping-headers-gzip"])
@pytest.mark.parametrize("name", [*READERS, *WRITERS])
def test_headers_that_go_on_over_other_batches_hide_nothing(log: str, name: str, tmp_path: Path, run: Run) -> None:
    write_odd_log(log, tmp_path / "data")
    result = run(*words({**READERS, **WRITERS}[name], tmp_path / "data", tmp_path / "out"))
    assert result.exit_code == 0
    if name in WRITERS and name != "export":
        written = run("cat", tmp_path / "out", "-f", "%o %k %s\n")
        assert (written.exit_code, len(written.lines)) == (0, 45)
        assert written.lines == run("cat", tmp_path / "data", "-f", "%o %k %s\n").lines
        assert not run("verify", *sorted((tmp_path / "out" / "odd-0").glob("*.log"))).lines[:-1]
    elif name.startswith("cat"):
        assert len(result.lines) == 45


@pytest.mark.parametrize("log", ["wrong-inner-crc-v0", "wrong-inner-crc-v1"])
@pytest.mark.parametrize("name", [*READERS, *WRITERS, "batches", "verify", "audit"])
def test_a_wrong_checksum_in_a_set_changes_the_exit_code(log: str, name: str, tmp_path: Path, run: Run) -> None:
    write_odd_log(log, tmp_path / "data")
    command = {**READERS, **WRITERS}.get(name, [name, "DATA"])
    result = run(*words(command, tmp_path / "data", tmp_path / "out"))
    assert result.exit_code == 1
    assert "the checksum of an inner message does not match" in result.err + result.out.decode()
