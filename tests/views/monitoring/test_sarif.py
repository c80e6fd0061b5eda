"""A reader of SARIF gets a result for each finding, with its file, position and rule."""

from __future__ import annotations

import json

import pytest
from sarif_pydantic import Sarif

from brokerless.findings import Finding, Kind
from brokerless.views.monitoring import checked_run
from brokerless.views.monitoring.checked_run import CheckedRun, Place
from brokerless.views.monitoring.sarif import sarif


def test_findings_are_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_run, "MOST", 3)
    run = CheckedRun(1_000, {"/d/o ö-0": Place("/d/o ö-0", "o ö", 0, 1)}, 1_250, 2)
    run.unread = ["nowhere: there is no such file or directory"]
    found = Finding(
        "error",
        Kind.CHECKSUM_MISMATCH,
        "/d/o ö-0/0.log",
        position=5,
        offset=6,
        message="differs \ud800",
        expected="0x1",
        found="0x2",
    )
    run.add(found)
    run.add(Finding("warning", Kind.TRUNCATED_BATCH, "s3://bucket/o-0/0.log", message="cut"))
    run.add(Finding("info", Kind.TRAILING_ZEROS, "/d/o ö-0/0.log", position=0, message="zeros"))
    run.add(found)
    (own,) = Sarif.model_validate_json(sarif(run, "1.2.3")).runs
    driver = own.tool.driver
    assert (driver.name, driver.version) == ("brokerless", "1.2.3")
    rules = [each.id for each in driver.rules or []]
    assert rules == ["checksum-mismatch", "trailing-zeros", "truncated-batch"]
    results = own.results or []
    assert [rules[each.rule_index or 0] for each in results] == [each.rule_id for each in results]
    assert [(each.level or "").lower().rpartition(".")[2] for each in results] == ["error", "warning", "note"]
    first, second, _ = ((each.locations or [])[0].physical_location for each in results)
    assert first is not None
    assert second is not None
    assert (first.artifact_location.uri, first.region and first.region.byte_offset) == (
        "file:///d/o%20%C3%B6-0/0.log",
        5,
    )
    assert (second.artifact_location.uri, second.region) == ("s3://bucket/o-0/0.log", None)
    (invocation,) = own.invocations or []
    assert not invocation.execution_successful
    text = sarif(run, "1.2.3")
    assert "1 more findings are left out" in text
    assert "nowhere" in text


def test_advice_is_for_the_places_of_the_findings() -> None:
    """On a broker's disk, in a bucket, or in both."""
    kind, disk, bucket = Kind.MISSING_SEGMENT, "/kafka/orders-0/1.log", "tiered://orders-0::s3://bucket/1.log"

    def advice(*files: str) -> str:
        run = CheckedRun(0, {})
        for file in files:
            run.add(Finding("error", kind, file, offset=1, message="missing"))
        (rule,) = json.loads(sarif(run, "1"))["runs"][0]["tool"]["driver"]["rules"]
        return str(rule["help"]["text"])

    assert "replicated again" in advice(disk)
    assert "earlier version of the segment's objects in the bucket" in advice(bucket)
    assert "replicated again" not in advice(bucket)
    assert advice(disk, bucket) == f"{advice(disk)}; or else: {advice(bucket)}"
