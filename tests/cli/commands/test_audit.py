from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Partitions of a clean broker without its notes; in one of them, a segment is cut off."""
    for name in ("segments-0", "codec-lz4-1", "empty-0"):
        shutil.copytree(broker_data("clean") / name, tmp_path / name, copy_function=shutil.copyfile)
    log = tmp_path / "segments-0" / f"{169:020}.log"
    log.write_bytes(log.read_bytes()[:-1])
    return tmp_path


def test_nothing_but_infos_is_a_success(run: Run) -> None:
    result = run("audit", broker_data("clean"))
    assert result.exit_code == 0
    assert result.lines[-1] == "ok"
    assert [line for line in result.lines if "transaction of producer 1013 is open" in line]


def test_each_finding_has_its_place_its_grade_and_advice(run: Run, damaged: Path) -> None:
    result = run("audit", "--json", damaged)
    assert result.exit_code == 1
    keys = "severity kind file position offset message expected found topic partition advice"
    for finding in result.json:
        assert {*keys.split()} <= finding.keys()
        assert finding["advice"]
        assert (finding["topic"], finding["partition"]) == ("segments", 0)
    assert {(each["severity"], each["kind"]) for each in result.json} >= {
        ("error", "truncated-batch"),
        ("warning", "offset-gap"),
    }
    told = [each for each in result.json if each["severity"] != "info"]
    assert len(result.err.splitlines()) == len(told)


def test_for_people_partitions_are_a_table_and_findings_come_after(run: Run, damaged: Path) -> None:
    result = run("audit", damaged)
    assert result.exit_code == 1
    head, *rows = result.lines[:4]
    assert head.split()[-1] == "verdict"
    assert [row.split()[0] for row in rows] == ["codec-lz4-1", "empty-0", "segments-0"]
    assert rows[0].endswith("ok")
    assert "error" in rows[2]
    assert f"{damaged}/segments-0:" in result.lines
    assert run("audit", damaged, "-t", "codec-lz4").exit_code == 0


def test_partitions_are_chosen_as_elsewhere(run: Run, damaged: Path) -> None:
    assert [line.split()[0] for line in run("audit", damaged, "-p", "1").lines[1:2]] == ["codec-lz4-1"]
    assert run("audit", damaged, "-t", "nowhere").exit_code == 2


def test_an_unreadable_path_does_not_hide_the_others(run: Run, damaged: Path) -> None:
    result = run("audit", "--json", "nowhere", damaged)
    assert result.exit_code == 2
    assert result.json
