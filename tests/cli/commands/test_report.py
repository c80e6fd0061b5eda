"""``brokerless report`` writes a page, or the rows of its tables as JSON Lines."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import brokerless
from brokerless.cli import main
from brokerless.jobs.report import page
from brokerless.jobs.report.schemas import FIGURES

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_the_page_is_one_file(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page, "charts_script", lambda: "")  # which takes seconds to bundle
    file = tmp_path / "report.html"
    assert main(["report", str(DEMO), "-o", str(file)]) == 0
    assert capfd.readouterr().out == f"written to {file}\n"
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_text().startswith("<!doctype html>")
    brokerless.open(DEMO).report(tmp_path / "library.html")
    assert len((tmp_path / "library.html").read_text()) == len(file.read_text())


def test_json_has_the_rows_of_all_tables(capfd: pytest.CaptureFixture[str]):
    assert main(["report", str(DEMO), "--topic", "orders", "--json"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    for row in rows:
        assert [*row] == ["table", *FIGURES[row["table"]].names]
    log = brokerless.open(DEMO)
    segments = sum(len(each.segments) for each in log.topic("orders").paths)
    counts = Counter(row["table"] for row in rows)
    assert (counts["partitions"], counts["segments"]) == (3, segments)
    assert {row["topic"] for row in rows if row["table"] == "producers"} == {"orders"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(DEMO)], "report needs either -o FILE, for the page, or --json"),
        ([str(DEMO), "-o", "x.html", "--json"], "report needs either -o FILE, for the page, or --json"),
        ([str(DEMO), str(DEMO), "--json"], "report takes one PATH: a page shows one log directory"),
        ([str(DEMO / "missing"), "--json"], "missing"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]):
    assert main(["report", *arguments]) == 2
    assert message in capfd.readouterr().err


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(page, "charts_script", lambda: "")
    assert main(["report", str(DEMO), "-o", str(tmp_path / "missing" / "report.html")]) == 2
    assert "missing" in capfd.readouterr().err


def test_a_transaction_that_nobody_ends_has_the_command_beside_it(run: Run, tmp_path: Path) -> None:
    for name in ("payments-0", "__transaction_state-0", "__cluster_metadata-0"):
        shutil.copytree(DEMO / name, tmp_path / "hang" / name)
    for name in ("meta.properties",):
        shutil.copyfile(DEMO / name, tmp_path / "hang" / name)
    (log,) = (tmp_path / "hang" / "payments-0").glob("*.log")
    os.truncate(log, 53117)  # without the last marker
    rows = [row for row in run("report", "--json", tmp_path / "hang").json if row["table"] == "findings"]
    (row,) = (row for row in rows if row["kind"] == "transaction-orphaned")
    assert row["advice"].endswith("abort --topic payments --partition 0 --start-offset 1420")
    told = {row["kind"]: row["advice"] for row in run("audit", "--json", tmp_path / "hang").json}
    assert told["transaction-orphaned"] == row["advice"]


def test_it_says_when_the_last_complete_backup_was_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "charts_script", lambda: "")
    place, file = tmp_path / "backup", tmp_path / "report.html"
    brokerless.backup(DEMO, place, topics=["orders"])
    assert run("report", DEMO, "-o", file, "--backup", place).exit_code == 0
    assert '<span class="error">none</span>' in file.read_text()
    whole = brokerless.backup(DEMO, place, name="nightly").snapshot
    brokerless.open(DEMO).report(file, backup=place)
    text = file.read_text()
    assert "Last complete backup" in text
    assert f"0 hours ago, in {place}" in text
    rows = [json.loads(line) for line in run("report", DEMO, "--json", "--backup", place).out.splitlines()]
    assert rows[-1] == {
        "table": "lastBackup", "place": str(place), "snapshot": whole.id, "name": "nightly", "created": whole.created,
        "partitions": 8, "laterIncomplete": 0,
    }  # fmt: skip
    shutil.copytree(DEMO, tmp_path / "other")
    meta = tmp_path / "other" / "meta.properties"
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=another-cluster", meta.read_text()))
    refused = run("report", tmp_path / "other", "-o", file, "--backup", place)
    assert (refused.exit_code, "this is a backup of the cluster" in refused.err) == (2, True)
    assert f"{tmp_path / 'other'} is of another-cluster" in refused.err
    refused = run("report", DEMO, "-o", file, "--backup", f"{place}@nightly")
    assert refused.exit_code == 2
    assert "not one of its snapshots" in refused.err
