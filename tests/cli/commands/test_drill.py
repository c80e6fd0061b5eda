"""``drill``: exit codes, what is printed, what programs get."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.jobs.backup.disks import DEMO
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless.cli.commands import drill
from brokerless.cli.parser import Command
from brokerless.jobs.drill.results import DrillResult
from brokerless.views.jobs.drill import drill_lines


def test_the_help_has_the_exit_codes() -> None:
    command: Command = drill
    assert "The exit code is 0" in command.DESCRIPTION


def test_a_clean_drill_says_what_it_tried(run: Run, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly")
    result = run("drill", tmp_path / "backup", "--evidence", tmp_path / "drill.json")
    assert result.exit_code == 0
    assert "is read, the latest" in result.err
    text = result.out.decode()
    assert "offsets    7 partitions, 5,617 records: starts, ends and numbers of records as in the snapshot" in text
    assert "not tried: a start of a real broker" in text
    assert text.splitlines()[-1].startswith("clean; ")
    evidence = json.loads((tmp_path / "drill.json").read_text())
    assert (evidence["name"], evidence["isClean"]) == ("nightly", True)


def test_what_is_missing_is_named_and_the_exit_code_is_1(run: Run, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly")
    next((tmp_path / "backup").glob("orders-*/0/*.log")).unlink()
    result = run("drill", f"{tmp_path / 'backup'}@nightly", "--evidence", tmp_path / "drill.json")
    assert result.exit_code == 1
    text = result.out.decode()
    assert "  lost     offsets 0..1264 of orders-0: not in the backup" in text
    assert text.splitlines()[-1].startswith("not clean: rebuild, offsets; ")
    own = run("drill", f"{tmp_path / 'backup'}@nightly", "--json")
    assert own.exit_code == 1
    (row,) = (json.loads(line) for line in own.out.decode().splitlines())
    written = json.loads((tmp_path / "drill.json").read_text())
    assert row.keys() == written.keys()
    assert [each["isClean"] for each in row["checks"]] == [False, True, True, False, True]


def test_partitions_are_chosen_as_for_all_commands(run: Run, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly")
    place = f"{tmp_path / 'backup'}@nightly"
    result = run("drill", place, "-t", "orders", "-t", "__consumer*", "-p", "0", "--json")
    assert result.exit_code == 0
    (row,) = (json.loads(line) for line in result.out.decode().splitlines())
    assert row["partitions"] == ["__consumer_offsets-0", "orders-0"]
    assert row["notTried"][0].startswith("5 of the 7 partitions of the snapshot")
    missing = run("drill", place, "-t", "order")
    assert (missing.exit_code, missing.out) == (2, b"")
    assert "no topic order (did you mean orders?)" in missing.err


def test_a_key_is_given_as_to_all_commands(run: Run, tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly", public_keys=public)
    place = f"{tmp_path / 'backup'}@nightly"
    assert run("drill", place, "--key-pair", f"safe={private['safe']}").exit_code == 0
    without = run("drill", place)
    assert (without.exit_code, without.out) == (2, b"")
    assert "--key-pair ops=FILE" in without.err


def test_what_is_no_backup_cannot_be_read(run: Run, tmp_path: Path) -> None:
    assert run("drill", DEMO).exit_code == 2
    assert run("drill", tmp_path / "nothing").exit_code == 2


def test_where_the_rebuilt_cluster_is_left_is_said(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup")
    result: DrillResult = brokerless.Backup(tmp_path / "backup").drill(scratch=tmp_path / "scratch")
    assert f"the rebuilt cluster is in {tmp_path / 'scratch'}" in list(drill_lines(result))


def test_a_page_has_what_was_tried_and_what_was_not(run: Run, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly")
    page = tmp_path / "drill.html"
    assert run("drill", f"{tmp_path / 'backup'}@nightly", "--html", page).exit_code == 0
    text = page.read_text()
    assert '<h1 class="holds">The drill was clean</h1>' in text
    assert "starts, ends and numbers of records as in the snapshot" in text
    assert text.index("What was not tried") < text.index("a start of a real broker")
    next((tmp_path / "backup").glob("orders-*/0/*.log")).unlink()
    assert run("drill", f"{tmp_path / 'backup'}@nightly", "--html", page).exit_code == 1
    text = page.read_text()
    assert '<h1 class="fails">The drill was not clean</h1>' in text
    assert "offsets 0..1264 of orders-0: not in the backup" in text
