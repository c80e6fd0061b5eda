"""A job's manifest: any tool can check it, and a run that was stopped is gone on with."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

from brokerless.errors import UnwritableError
from brokerless.jobs.manifest import JobManifest
from brokerless.jobs.rewrite import run as rewriting
from brokerless.log.commit.commit import commit
from brokerless.log.commit.types import StagedPartition

NAMES = ("codec-gzip-0", "edges-0", "segments-0", "txn-0")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log directory with some partitions that a broker wrote."""
    for name in NAMES:
        shutil.copytree(broker_data("clean") / name, tmp_path / "from" / name)
    (tmp_path / "from" / "meta.properties").touch()
    return tmp_path / "from"


@pytest.fixture
def arguments(source: Path, tmp_path: Path) -> Sequence[str | Path]:
    to, manifest = tmp_path / "to", tmp_path / "manifest.jsonl"
    return "convert", source, "--to", to, "--codec", "lz4", "--manifest", manifest


def lines(manifest: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in manifest.read_text().splitlines()]


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.glob("*-*/*")}


def ages(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in directory.glob("*-*") if path.is_dir()}


def stop_after(partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a job fail as a full disk would, when so many partitions have their names."""
    left = [partitions]

    def fail(directory: str, unfinished: list[StagedPartition]) -> None:
        if not left[0]:
            raise UnwritableError(f"{directory}: No space left on device")
        left[0] -= 1
        commit(directory, unfinished)

    monkeypatch.setattr(rewriting, "commit", fail)


def test_sha256sum_finds_all_files_as_they_are_recorded(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path
) -> None:
    assert run(*arguments).exit_code == 0

    head, *tasks = lines(tmp_path / "manifest.jsonl")
    assert (head["manifest"], head["job"], head["settings"]["to"]) == (1, "convert", str(tmp_path / "to"))
    assert sorted(task["task"] for task in tasks) == sorted(NAMES)
    read = [file for task in tasks for file in task["inputs"]]
    written = [file for task in tasks for file in task["outputs"]]
    sums = "".join(f"{file['sha256']}  {file['path']}\n" for file in read + written)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet"], input=sums, text=True, check=True)
    assert all(os.path.getsize(file["path"]) == file["sizeInBytes"] for file in read + written)  # noqa: PTH202
    assert {file["path"] for file in written} == {str(path) for path in (tmp_path / "to").glob("*-*/*")}
    logs = {str(path) for path in (tmp_path / "from").glob("*-*/*.log")}
    notes = {str(path) for path in (tmp_path / "from").glob("*-*/[lp]*")}
    assert {file["path"] for file in read} == logs | notes


def test_a_run_that_was_stopped_is_gone_on_with(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("convert", tmp_path / "from", "--to", tmp_path / "whole", "--codec", "lz4")
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        stopped = run(*arguments)
        assert (stopped.exit_code, "No space left on device" in stopped.err) == (2, True)
    before = ages(tmp_path / "to")
    assert len(before) == 2, "what was not committed is taken away"

    dry = run(*arguments, "--dry-run", "--json")
    assert [line.get("isFinished", False) for line in dry.json] == [True, True, False, False]
    rest = run(*arguments)

    assert rest.exit_code == 0
    assert "2 of 4 partitions are done" in rest.err
    assert rest.lines[-1].startswith("2 partitions, ")
    assert files(tmp_path / "to") == files(tmp_path / "whole")
    assert before.items() <= ages(tmp_path / "to").items(), "what was done is not done again"
    assert whole.exit_code == 0

    again = run(*arguments, "--json")
    assert [line["isFinished"] for line in again.json] == [True] * 4
    assert run(*arguments).lines == ["nothing is left to do"]
    assert ages(tmp_path / "to").keys() == set(NAMES)


@pytest.mark.slow(reason="kills a process")
def test_what_a_run_left_that_was_killed_is_removed_by_the_next(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path
) -> None:
    code = """
import os, signal, sys
from brokerless.cli import main
from brokerless.jobs.rewrite import run
run.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""
    killed = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "to").glob("*-delete"))) == 1
    assert not list((tmp_path / "to").glob("*-[0-9]"))

    rest = run(*arguments)

    assert (rest.exit_code, rest.err) == (0, "")
    assert {path.name for path in (tmp_path / "to").iterdir() if path.is_dir()} == set(NAMES)


@pytest.mark.parametrize("left", [b"", bytes(10), bytes(5) + b'"x"}\n'])
def test_a_line_that_a_stop_cut_off_is_a_task_that_is_not_done(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path, left: bytes
) -> None:
    """``left``: what a power loss leaves in place of what was not synced."""
    assert run(*arguments).exit_code == 0
    manifest = tmp_path / "manifest.jsonl"
    *_, last = lines(manifest)
    manifest.write_bytes(manifest.read_bytes()[:-10] + left)
    shutil.rmtree(tmp_path / "to" / last["task"])

    rest = run(*arguments)

    assert "3 of 4 partitions are done" in rest.err
    assert sorted(line["task"] for line in lines(manifest)[1:]) == sorted(NAMES)


def test_what_was_written_and_is_gone_is_written_again(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path
) -> None:
    assert run(*arguments).exit_code == 0
    before = files(tmp_path / "to")
    shutil.rmtree(tmp_path / "to" / "txn-0")

    assert "3 of 4 partitions are done" in run(*arguments).err
    assert files(tmp_path / "to") == before


def test_an_input_is_as_it_was_if_its_content_is(run: Run, arguments: Sequence[str | Path], tmp_path: Path) -> None:
    assert run(*arguments).exit_code == 0
    (log, *_) = (tmp_path / "from" / "txn-0").glob("*.log")
    os.utime(log, (1, 1))
    assert "4 of 4 partitions are done" in run(*arguments).err

    data = bytearray(log.read_bytes())
    data[17] ^= 1
    log.write_bytes(data)
    changed = run(*arguments)
    assert changed.exit_code == 2
    assert f"remove {tmp_path / 'to' / 'txn-0'}" in changed.err


def test_another_job_or_another_file_is_not_gone_on_with(
    run: Run, arguments: Sequence[str | Path], tmp_path: Path
) -> None:
    assert run(*arguments).exit_code == 0
    manifest = tmp_path / "manifest.jsonl"
    other = run(*arguments, "--level", "9")
    assert (other.exit_code, "other settings" in other.err) == (2, True)

    begun = manifest.read_bytes()
    manifest.write_bytes(begun.replace(b'"max_batch_bytes"', b'"limit"'))
    other = run(*arguments)
    assert (other.exit_code, "another version of brokerless" in other.err) == (2, "load" not in arguments)
    manifest.write_bytes(begun)

    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n")
    refused = run(*arguments[:-1], notes)
    assert (refused.exit_code, "is not a manifest" in refused.err) == (2, True)
    assert notes.read_text() == "my notes\n"

    broken = manifest.read_bytes().replace(b'"inputs"', b'"outputs"')
    manifest.write_bytes(broken)
    refused = run(*arguments)
    assert (refused.exit_code, "line 2" in refused.err) == (2, True)
    assert manifest.read_bytes() == broken


def test_one_run_at_a_time_writes_a_manifest(run: Run, arguments: Sequence[str | Path], tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Settings:
        to: str

    with JobManifest.open(str(tmp_path / "manifest.jsonl"), "convert", Settings("to")):
        refused = run(*arguments)
    assert (refused.exit_code, "another run is writing" in refused.err) == (2, True)


def test_a_dry_run_writes_no_manifest(run: Run, arguments: Sequence[str | Path], tmp_path: Path) -> None:
    assert run(*arguments, "--dry-run").exit_code == 0
    assert not (tmp_path / "manifest.jsonl").exists()


def test_what_was_loaded_is_recorded_and_not_loaded_twice(run: Run, source: Path, tmp_path: Path) -> None:
    records = tmp_path / "records.jsonl"
    records.write_bytes(run("cat", source, "-t", "edges", "-t", "txn", "--json").out)
    arguments = ("load", records, "--to", tmp_path / "to", "--manifest", tmp_path / "manifest.jsonl")

    first = run(*arguments)

    assert first.exit_code == 0
    head, task = lines(tmp_path / "manifest.jsonl")
    assert (head["job"], task["task"]) == ("load", "load")
    assert [file["path"] for file in task["inputs"]] == [str(records)]
    sums = "".join(f"{file['sha256']}  {file['path']}\n" for file in task["inputs"] + task["outputs"])
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet"], input=sums, text=True, check=True)
    assert {file["path"] for file in task["outputs"]} == {str(path) for path in (tmp_path / "to").glob("*-*/*")}
    before = ages(tmp_path / "to")
    assert (run(*arguments).lines, ages(tmp_path / "to")) == (["nothing is left to do"], before)
    assert run(*arguments, "--json").json == [{**each, "isFinished": True} for each in task["result"]["partitions"]]
    refused = run("load", "-", *arguments[2:])
    assert (refused.exit_code, "stdin" in refused.err) == (2, True)


def test_what_changed_since_it_was_loaded_is_reported(run: Run, tmp_path: Path) -> None:
    records, to = tmp_path / "records", tmp_path / "to"
    records.mkdir()
    first = records / "1.jsonl"
    first.write_text('{"value": "a"}\n')
    arguments = ("load", records, "--to", to, "-t", "t", "--manifest", tmp_path / "manifest.jsonl")
    assert run(*arguments).exit_code == 0
    first.write_text('{"value": "a"}\n{"value": "b"}\n')
    grown = run(*arguments)
    assert grown.exit_code == 2
    assert f"{first} has 30 bytes now, and had 15, since these were loaded" in grown.err
    assert f"or remove the partitions that it lists from {to} to load them again" in grown.err
    first.write_text('{"value": "b"}\n')
    assert f"{first} has another content now" in run(*arguments).err
    first.write_text('{"value": "a"}\n')
    (records / "2.jsonl").write_text('{"value": "c"}\n')
    assert f"{records / '2.jsonl'} is new" in run(*arguments).err
    first.unlink()
    assert f"{first} is not read any more" in run(*arguments).err
    shutil.rmtree(to / "t-0")
    assert run(*arguments).exit_code == 0
    assert run("cat", to, "-f", "%s").out == b"c"


def test_a_manifest_in_a_directory_that_is_not_there_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text('{"value": "a"}\n')
    manifest = tmp_path / "nowhere" / "manifest.jsonl"
    arguments = ("load", tmp_path / "records.jsonl", "--to", tmp_path / "to", "-t", "t", "--manifest", manifest)
    for more in ((), ("--dry-run",)):
        refused = run(*arguments, *more)
        assert refused.exit_code == 2
        assert f"there is no directory {manifest.parent}; make it" in refused.err
    assert not (tmp_path / "to").exists()
