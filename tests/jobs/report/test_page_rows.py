"""Rows of the page that are in no figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless import arrow
from brokerless.arrow import table_of
from brokerless.jobs.report.chart_rows import MOST_LANES, damaged_partitions, timeline_rows
from brokerless.jobs.report.figures import Figures
from brokerless.jobs.report.job import gather
from brokerless.jobs.report.page_rows import (
    MOST_PLACES,
    finding_rows,
    policy_text,
    read_settings,
    retention_text,
    topic_rows,
)
from brokerless.jobs.report.schemas import FIGURES
from brokerless.jobs.run.types import ALONE
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"


@pytest.fixture(scope="module")
def figures() -> Figures:
    return gather(resolve(Location(str(DEMO))), resolve(Location(str(DEMO))).partitions, running=ALONE)


def topics(figures: Figures) -> list[dict[str, Any]]:
    return topic_rows(arrow.rows(figures["partitions"]), arrow.rows(figures["lag"]))


def test_topics_add_up_their_partitions_and_have_the_largest_lag(figures: Figures):
    rows = {row["topic"]: row for row in topics(figures)}
    log = brokerless.open(DEMO)
    assert rows.keys() == {each.name for each in log.topics}
    assert [row["sizeInBytes"] for row in topics(figures)] == sorted(
        (sum(each.paths[0].size for each in topic) for topic in log.topics), reverse=True
    )
    assert (rows["orders"]["partitions"], rows["orders"]["records"], rows["orders"]["lag"]) == (3, 3796, 796)
    assert rows["users"]["lag"] is None


@pytest.mark.parametrize(
    ("settings", "policy", "retention"),
    [
        (None, "unknown", "unknown"),
        ((None, None, None), "delete (default)", "7 days (default)"),
        (("compact", "1000", None), "compact", "all keys"),
        (("compact,delete", "86400000", None), "compact,delete", "1 day"),
        (("compact, delete", "86400000", None), "compact, delete", "1 day"),
        (("delete", "-1", "-1"), "delete", "unlimited"),
        (("delete", "7200000", "5000000"), "delete", "2 hours, 5.0 MB"),
        (("delete", "1500", "x"), "delete", "1,500 ms, x"),
        (("delete", "soon", None), "delete", "soon"),
        (("", "1000", None), "none", "all records"),
    ],
)
def test_policy_and_retention_are_words(settings: tuple[str | None, ...] | None, policy: str, retention: str) -> None:
    names = ("cleanup.policy", "retention.ms", "retention.bytes")
    own = settings and {name: value for name, value in zip(names, settings, strict=True) if value is not None}
    assert (policy_text(own), retention_text(own)) == (policy, retention)


def test_settings_are_those_of_the_metadata_and_unknown_without_one(tmp_path: Path) -> None:
    found = read_settings(resolve(Location(str(DEMO))).partitions)
    cluster = brokerless.cluster(DEMO)
    configs = {(row["resourceName"], row["name"]): row["value"] for row in cluster.rows["configs"]}
    for topic in ("orders", "users", "payments"):
        for name in ("cleanup.policy", "retention.ms"):
            assert found[topic].get(name) == configs.get((topic, name))
    (tmp_path / "orders-0").symlink_to(DEMO / "orders-0")
    assert read_settings(resolve(Location(str(tmp_path))).partitions) == {}


def finding(number: int, **other: Any) -> dict[str, Any]:
    return {
        "severity": "error", "kind": "checksum-mismatch", "topic": "a", "partition": number,
        "file": f"/a-{number}/0.log", "position": number, "offset": None,
        "message": "same", "expected": "1", "found": "2", "advice": "do",
    } | other  # fmt: skip


def test_findings_that_say_the_same_are_one_row_with_all_places() -> None:
    rows = finding_rows([finding(1), finding(2, found="3"), finding(3, message="other"), finding(4, severity="info")])
    assert [(row["message"], row["count"], row["places"]) for row in rows] == [
        ("same", 2, ["a-1/0.log, position 1", "a-2/0.log, position 2"]),
        ("other", 1, ["a-3/0.log, position 3"]),
        ("same", 1, ["a-4/0.log, position 4"]),
    ]
    assert (rows[0]["expected"], rows[0]["found"]) == ("1", None)
    many = finding_rows([finding(number) for number in range(MOST_PLACES + 5)])
    assert [row["count"] for row in many] == [MOST_PLACES + 5]
    assert many[0]["places"][-1] == "and 5 more: brokerless audit --all has them"


def test_damaged_partitions_have_a_lane_however_small_they_are() -> None:
    segment = dict.fromkeys(FIGURES["segments"].names) | {
        "topic": "a", "file": "f", "baseOffset": 0, "firstOffset": 0, "lastOffset": 1, "validBytes": 1, "batches": 1,
        "records": 1, "minTimestamp": 1, "maxTimestamp": 2, "magics": [2], "compressions": ["none"],
        "hasOffsetIndex": True, "hasTimeIndex": True, "hasTransactionIndex": False, "gapBefore": 0, "leaderEpochs": [0],
    }  # fmt: skip
    rows = [segment | {"partition": number, "sizeInBytes": 1000 - number} for number in range(MOST_LANES + 20)]
    segments = table_of(rows, FIGURES["segments"])
    last = MOST_LANES + 19
    found = table_of([finding(last), finding(3, severity="info"), finding(50, kind="time-index")], FIGURES["findings"])
    damaged = damaged_partitions(found)
    assert damaged == {f"a-{last}"}
    assert damaged_partitions(None) == set()
    lanes = {row["partition"] for row in timeline_rows(segments, damaged)}
    assert lanes == {f"a-{number}" for number in range(MOST_LANES - 1)} | {f"a-{last}"}
    assert f"a-{last}" not in {row["partition"] for row in timeline_rows(segments)}
