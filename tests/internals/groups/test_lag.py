"""The lag of groups is what Kafka's own tool prints: the end of the log less the committed offset."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

import brokerless
from brokerless import internals
from brokerless.internals.groups.lag import lag_rows, totals

DEMO = "demo/data"
SHIPPING = {"group": "shipping", "topic": "orders", "partition": 2, "offset": 500, "endOffset": 1296, "lag": 796}


def committed(group: str, topic: str, offset: int) -> dict[str, object]:
    return {"group": group, "topic": topic, "partition": 0, "offset": offset, "commitTimestamp": None}


def test_the_largest_lag_is_first_and_a_partition_that_is_not_here_has_none() -> None:
    offsets = [committed("a", "gone", 5), committed("a", "t", 7), committed("b", "t", 2), committed("c", "t", 99)]
    rows = lag_rows(offsets, {("t", 0): 10})
    assert [(row["group"], row["topic"], row["lag"]) for row in rows] == [
        ("b", "t", 8),
        ("a", "t", 3),
        ("c", "t", 0),
        ("a", "gone", None),
    ]
    assert [*totals(rows)] == [("b", 8, 1, 0), ("a", 3, 2, 1), ("c", 0, 1, 0)]


def test_it_is_the_same_in_python_sql_and_on_the_command_line(run: Run) -> None:
    log = brokerless.open(DEMO)
    (row,) = internals.state(log.partitions, ["lag"])["lag"].to_pylist()
    assert {name: row[name] for name in SHIPPING} == SHIPPING
    assert log.dataset("lag").to_table().to_pylist() == [row]
    assert log.sql('SELECT "group", lag FROM lag').read_all().to_pylist() == [{"group": "shipping", "lag": 796}]
    (shown,) = run("internals", DEMO, "--table", "lag", "--json").json
    assert shown == {**row, "table": "lag", "commitTimestamp": 1_795_248_557_045}
    assert run("internals", DEMO, "--table", "lag", "-t", "users", "--json").json == []


def test_without_the_topic_of_offsets_it_is_an_error_and_no_empty_table(run: Run, tmp_path: Path) -> None:
    shutil.copytree(f"{DEMO}/orders-2", tmp_path / "orders-2")
    found = run("internals", tmp_path, "--table", "lag")
    assert found.exit_code == 2
    assert "there is no __consumer_offsets here" in found.err


@pytest.mark.parametrize("table", ["lagg", "openTransactions"])
def test_a_table_that_there_is_not_is_refused_with_those_that_there_are(table: str) -> None:
    with pytest.raises(brokerless.UsageError, match="lag"):
        internals.state(brokerless.open(DEMO).partitions, [table])
