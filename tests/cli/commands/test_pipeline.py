"""`brokerless pipeline`: options, settings, exit codes, what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.cli.conftest import Run
from tests.jobs.pipeline.works import offsets, segments

import brokerless


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    segments(tmp_path / "logs" / "t-0", range(0, 50), wrong=(20,))
    return tmp_path / "logs"


def test_exit_codes_and_lines(run: Run, logs: Path, tmp_path: Path) -> None:
    first = run("pipeline", logs, "--to", tmp_path / "to", "--as", "parquet", "--no-report")
    assert first.exit_code == 1
    assert (
        f"40 records of 1 partition in 1 log directory: 1 file, {first.lines[1].split('  ')[-1]}" in first.out.decode()
    )
    assert first.lines[-1] == "1 error, 0 warnings, 1 damaged range"
    second = run("pipeline", logs, "--to", tmp_path / "to", "--as", "parquet", "--no-report")
    assert (second.exit_code, second.lines) == (0, ["nothing new in 1 partition in 1 log directory"])


def test_json_has_the_run_and_what_it_found(run: Run, logs: Path, tmp_path: Path) -> None:
    result = run("pipeline", logs, "--to", tmp_path / "to", "--no-report", "--json")
    assert [row["table"] for row in result.json] == ["runs", "exported", "damaged", "findings"]
    row, exported, damaged, finding = result.json
    assert (row["records"], row["errors"], row["damagedRanges"]) == (40, 1, 1)
    assert (exported["topic"], exported["partition"], exported["nextOffset"]) == ("t", 0, 50)
    assert (damaged["firstOffset"], damaged["lastOffset"]) == (20, 29)
    assert finding["kind"] == "checksum-mismatch"


def test_options_come_before_the_file_of_settings(run: Run, logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(f"path: {logs}\nto: {tmp_path / 'one'}\nreport: false\nspark: none\nas: parquet\n")
    assert run("pipeline", "--settings", file).exit_code == 1
    assert run("pipeline", "--settings", file, "--to", tmp_path / "two").exit_code == 1
    assert offsets(tmp_path / "one") == offsets(tmp_path / "two")
    file.write_text(f"path: {logs}\nto: {tmp_path / 'one'}\nreprot: false\n")
    wrong = run("pipeline", "--settings", file)
    assert (wrong.exit_code, wrong.out) == (2, b"")
    assert wrong.err == f"brokerless: {file}, line 3: there is no setting 'reprot'; did you mean report?\n"


def test_what_is_missing_is_a_wrong_command_line(run: Run, logs: Path, tmp_path: Path) -> None:
    assert "give PATH" in run("pipeline", "--to", tmp_path / "to").err
    assert "give --to" in run("pipeline", logs).err
    missing = run("pipeline", tmp_path / "nowhere", "--to", tmp_path / "to")
    assert (missing.exit_code, "nowhere" in missing.err) == (2, True)


def test_python_has_the_same(logs: Path, tmp_path: Path) -> None:
    found: list[brokerless.Finding] = []
    result = brokerless.pipeline(logs, tmp_path / "to", report=False, as_="parquet", on_finding=found.append)
    assert [each.kind for each in found] == ["checksum-mismatch"]
    assert result.row()["records"] == 40
    assert not brokerless.pipeline([logs], tmp_path / "to", report=False, as_="parquet").is_new
    with pytest.raises(brokerless.UsageError, match="did you mean report"):
        brokerless.pipeline(logs, tmp_path / "to", repot=False)
    with pytest.raises(brokerless.UsageError, match="as_: 'avro' is not one of parquet, iceberg, delta"):
        brokerless.pipeline(logs, tmp_path / "to", as_="avro")


def test_options_of_python_are_called_as_those_of_export(logs: Path, tmp_path: Path) -> None:
    run = brokerless.pipeline(
        logs, tmp_path / "new", report=False, as_="delta", decode="string", topic="t", verify=False
    )
    assert [each.records for each in run.exported] == [40]
    assert "valueError" in [each.name for each in DeltaTable(str(tmp_path / "new" / "t")).schema().fields]


@pytest.mark.slow
def test_following_ends_with_a_signal(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 20))
    command = [sys.executable, "-m", "brokerless", "pipeline", "logs", "--to", "to", "--no-report", "--as", "parquet"]
    with subprocess.Popen([*command, "--follow", "1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for end in (20, 40):
            segments(tmp_path / "logs" / "t-0", range(0, end))
            line = next(each for each in process.stdout if "written to to" in each)
            assert line.startswith("20 records ")
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 143
    assert offsets(tmp_path / "to") == list(range(40))
