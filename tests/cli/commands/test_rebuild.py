"""``rebuild`` prints what :func:`brokerless.rebuild` plans, and what each node's server.properties has to say."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_a_dry_run_shows_directories_topics_and_settings(run: Run, tmp_path: Path) -> None:
    result = run("rebuild", DEMO, "--to", tmp_path / "to")
    assert result.exit_code == 0
    assert result.lines[0].startswith("cluster bdhh6u6GT8yYm_jDxKDkxQ, metadata.version 4.1-IV1 (27), static quorum")
    assert "server.properties of node 1:" in result.lines
    assert f"  log.dirs={tmp_path / 'to' / 'node-1'}" in result.lines
    assert result.lines[-1] == "nothing is written without --apply"
    assert not (tmp_path / "to").exists()


def test_settings_have_absolute_paths_as_a_broker_may_start_elsewhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"  log.dirs={tmp_path / 'to' / 'node-1'}" in run("rebuild", DEMO, "--to", "to").lines
    shutil.copytree(DEMO, "disk")
    assert f"  log.dirs={tmp_path / 'disk'}" in run("rebuild", "disk", "--to", "to", "--data", "in-place").lines


def test_json_has_the_tables_that_from_takes(run: Run, tmp_path: Path) -> None:
    lines = run("rebuild", DEMO, "--to", tmp_path / "to", "--json").out
    (tmp_path / "state.jsonl").write_bytes(lines)
    arguments = ("rebuild", DEMO, "--to", tmp_path / "to", "--state", tmp_path / "state.jsonl", "--apply")
    result = run(*arguments)
    assert result.exit_code == 0
    assert result.lines[-1] == "done; start the controllers, and then the brokers"
    assert run("cluster", tmp_path / "to" / "node-1").exit_code == 0
    assert run(*arguments).exit_code == 2


def test_losses_are_an_exit_code_and_undo_says_what_it_did(run: Run, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    result = run("rebuild", disk, "--to", tmp_path / "to", "--without-metadata", "--data", "in-place", "--apply")
    assert result.exit_code == 1
    assert "  ACLs" in result.lines
    (line,) = run("rebuild", disk, "--undo", "--to", tmp_path / "to").lines
    assert line.startswith(f"{disk}: what was replaced is put back; the lock files")
    new = {each.name for each in disk.iterdir()} - {each.name for each in DEMO.iterdir()}
    assert new
    assert new <= {each for each in line.replace(";", "").split() if each.startswith(".")}


def test_mistakes_are_refused(run: Run, tmp_path: Path) -> None:
    to = ("--to", tmp_path / "to")
    assert run("rebuild", *to).exit_code == 2
    assert run("rebuild", DEMO, "/nowhere", *to).exit_code == 2
    assert run("rebuild", DEMO, *to, "--metadata-version", "9").exit_code == 2
    assert run("rebuild", DEMO, *to, "--map", "/nowhere").exit_code == 2
    assert run("rebuild", DEMO, "--undo", *to).exit_code == 2


@pytest.mark.parametrize("command", ["internals", "cluster"])
def test_a_state_may_be_all_that_is_printed_as_json(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "state.jsonl").write_bytes(run(command, DEMO, "--json").out)
    assert run("rebuild", DEMO, "--to", tmp_path / "to", "--state", tmp_path / "state.jsonl").exit_code == 0
