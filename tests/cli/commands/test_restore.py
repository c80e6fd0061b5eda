"""``restore`` without a cluster: what is shown, and what is refused. With real brokers: ``tests/kafka``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data
from tests.kafka.broker import free_ports

from brokerless.findings import Finding
from brokerless.jobs.restore.live import connection
from brokerless.jobs.restore.results import (
    GroupRestore,
    Restore,
    RestoredPartition,
    SourcePartition,
    TopicRestore,
)
from brokerless.views.restore.live import plan_lines, result_lines, rows

FOUND = SourcePartition("t", 0, 5, 10, records=4, size=2000, first_timestamp=0, last_timestamp=1000)
WARNING = Finding("warning", "retention-deletes", "b:1", message="records go", found="retention.ms=1")
PLAN = Restore(
    "b:1", (TopicRestore("t", (FOUND,), 1, {}, {}, False),), (WARNING,), (GroupRestore("g", "t", 0, 7, None),)
)


def test_a_dry_run_shows_what_is_there_and_what_is_to_be_known() -> None:
    lines = [*plan_lines(PLAN), *result_lines(PLAN)]
    assert lines[1].split() == [
        "t-0", "4", "2.0", "KB", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z", "5..9", "will", "be", "created",
    ]  # fmt: skip
    assert "warning: records go (retention.ms=1)" in lines
    assert lines[-1].endswith("nothing is changed yet: with --apply, this is done")


def test_a_dry_run_with_errors_says_that_nothing_would_be_restored() -> None:
    error = Finding("error", "topic-has-records", "b:1", message="t has records")
    (line,) = result_lines(replace(PLAN, findings=(WARNING, error)))
    assert line == "nothing would be restored to b:1: 1 error"


def test_an_applied_one_shows_groups_and_what_earlier_runs_did() -> None:
    groups = (GroupRestore("g", "t", 0, 7, 2), GroupRestore("h", "t", 0, 7, None, "the group is active"))
    done = Restore(
        "b:1", PLAN.topics, (), groups, (RestoredPartition("t", 0, 1, 2, 1, 0, 4),), "map", True, True, ("t",)
    )  # fmt: skip
    lines = list(result_lines(done))
    assert lines[0] == "sent now 1, by earlier runs 2, and 1 that had been on their way"
    assert lines[2].split() == ["g", "t-0", "7", "2"]
    assert lines[3].endswith("not committed: the group is active")
    found = list(rows(done))
    assert [each["table"] for each in found] == ["partitions", "groups", "groups", "restore"]
    assert (found[0]["sent"], found[0]["sentEarlier"], found[0]["foundOnTarget"]) == (1, 2, 1)


def test_a_cluster_that_nobody_reaches_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.3)
    with free_ports(1) as (port,):
        pass
    result = run("restore", broker_data("clean"), "-t", "txn", "--bootstrap-servers", f"127.0.0.1:{port}")
    assert result.exit_code == 2
    assert f"127.0.0.1:{port}" in result.err


def test_kafkas_own_topics_cannot_be_produced(run: Run) -> None:
    result = run("restore", broker_data("clean"), "-t", "__consumer_offsets", "--bootstrap-servers", "127.0.0.1:1")
    assert result.exit_code == 2
    assert "--groups restores committed offsets" in result.err


@pytest.mark.parametrize("options", [[], ["--bootstrap-servers", "127.0.0.1:1", "--command-config", "/nowhere"]])
def test_wrong_options_are_refused(run: Run, options: list[str]) -> None:
    assert run("restore", broker_data("clean"), *options).exit_code == 2


def test_what_is_no_log_is_refused(run: Run, tmp_path: Path) -> None:
    assert run("restore", tmp_path, "--bootstrap-servers", "127.0.0.1:1").exit_code == 2
