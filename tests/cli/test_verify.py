from __future__ import annotations

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, cases


def test_what_a_broker_left_at_a_clean_shutdown_is_sound(run: Run) -> None:
    result = run("verify", broker_data("clean"))
    assert result.exit_code == 0
    assert result.lines[-1].startswith("0 errors")


@pytest.mark.parametrize("category", ["formats", "framing", "damaged"])
def test_there_is_an_error_where_kafka_throws_first_and_else_none(run: Run, category: str) -> None:
    chosen = cases(category)
    result = run("verify", "--json", *(case.log for case in chosen))
    firsts: dict[str, int] = {}
    for finding in result.json:
        assert set(finding) >= {"severity", "kind", "file", "position", "offset", "message", "expected", "found"}
        if finding["severity"] == "error":
            firsts.setdefault(finding["file"], finding["position"])
    expected: dict[str, int] = {}
    for case in chosen:
        for line in case.expected():
            if line["type"] == "error" and line["phase"] != "recordsNonStreaming":
                expected.setdefault(str(case.log), line["position"])
    assert firsts == expected
    assert result.exit_code == (1 if expected else 0)


def test_for_people_each_finding_is_a_line(run: Run) -> None:
    result = run("verify", broker_data("unclean"))
    *findings, summary = result.lines
    assert result.exit_code == 1
    assert any(line.startswith("error ") for line in findings)
    assert summary == "1 error, 1 warning"


def test_an_unreadable_path_does_not_hide_the_others(run: Run) -> None:
    result = run("verify", "--json", "nowhere", broker_data("unclean"))
    assert result.exit_code == 2
    assert any(finding["severity"] == "error" for finding in result.json)
