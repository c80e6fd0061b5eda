from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.jobs.trim.test_job import START, bases, write_topic

import brokerless
from brokerless.errors import UsageError


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    directory.mkdir()
    write_topic(directory, "early", 0)
    return directory


def test_a_plan_shows_what_each_segment_costs_and_changes_nothing(run: Run, logs: Path) -> None:
    result = run("trim", logs, "-t", "early", "--free", "1KB")
    assert result.exit_code == 0
    assert result.lines[0].split() == (
        ["partition", "segments", "size", "because", "offsets", "before", "from", "to", "hours", "records", "unread"]
    )
    cells = result.lines[1].split()
    assert (cells[0], cells[1], cells[-2:]) == ("early-0", "1", ["15", "0"])
    assert "1 segment of 1 partition would go" in result.out.decode()
    assert "nothing is changed yet: with --apply, this is done" in result.out.decode()
    assert bases(logs, "early") == [0, 15, 30, 45]


def test_apply_removes_them(run: Run, logs: Path) -> None:
    result = run("trim", logs, "-t", "ear*", "--before", str(START + 4_000_000), "--apply", "--json")
    partition, directory = result.json
    assert [each["baseOffset"] for each in partition["segments"]] == [0, 15]
    assert (partition["logStartOffset"], partition["newLogStartOffset"], partition["records"]) == (0, 30, 30)
    assert partition["segments"][0]["reason"] == "before"
    assert (directory["topic"], directory["isApplied"], directory["missingBytes"]) == (None, True, 0)
    assert directory["sizeInBytes"] == partition["sizeInBytes"]
    assert bases(logs, "early") == [30, 45]


def test_less_than_asked_for_is_a_finding(run: Run, logs: Path) -> None:
    result = run("trim", logs, "-t", "early", "--free", "20GB")
    assert result.exit_code == 1
    assert "less than requested: nothing else may go" in result.out.decode()


def test_where_nothing_can_go_the_exit_code_says_whether_that_is_enough(run: Run, logs: Path) -> None:
    """Of a topic with one segment nothing may go, and nothing is as old as the epoch."""
    write_topic(logs, "single", 0, segments=1)
    short = run("trim", logs, "-t", "single", "--free", "1KB")
    assert (short.exit_code, short.lines[-1]) == (1, "1.0 KB less than requested: nothing may go")
    fine = run("trim", logs, "-t", "early", "--before", "1970-01-02")
    assert (fine.exit_code, fine.lines[-1].startswith("nothing has to go")) == (0, True)


def test_free_is_text_in_python_as_well(logs: Path) -> None:
    log = brokerless.open(logs)
    assert log.trim(free="1KB", topics=["early"]) == log.trim(free=1000, topics=["early"])
    for wrong in ("much", 0, "0"):
        with pytest.raises(UsageError, match="not a number of bytes above 0"):
            log.trim(free=wrong)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "missing --free, --retention or --before; give one of them"),
        (["--free", "1GB", "--retention"], "exclude each other"),
        (["--free", "much"], "is not a number of bytes"),
        (["--before", "soon"], "is not a time"),
        (["--retention", "-t", "nothing"], "no topic nothing"),
        (["--retention", "--log-dir", "/nothing/here"], "/nothing/here"),
    ],
)
def test_a_wrong_command_line_is_answered(run: Run, logs: Path, options: list[str], error: str) -> None:
    try:
        result = run("trim", logs, *options)
        code, err = result.exit_code, result.err
    except SystemExit as exited:
        pytest.fail(f"exited with {exited}")
    assert code == 2
    assert error in err
    assert bases(logs, "early") == [0, 15, 30, 45]
