"""The constants of docs/scale.md are measured as it says; no figure is judged."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from benchmarks import scale
from tests.golden import broker_data
from tests.s3 import S3

pytestmark = pytest.mark.xdist_group("s3")


@pytest.mark.parametrize("plan", scale.PLANS)
def test_each_request_to_a_store_is_counted(plan: str, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "LATENCY", 0)
    monkeypatch.setitem(scale.PLANS, "timestamps", {"startingTimestamp": "1"})
    figures = scale.ask_s3(s3.endpoint, str(broker_data("clean") / "segments-0"), plan)
    assert figures["segments"] > 1
    assert figures["planned"]["list_objects_v2"]
    assert figures["read"]["get_object"] >= figures["segments"]


@pytest.mark.parametrize("plan", scale.PLANS)
def test_plans_of_many_segments_are_timed(plan: str, tmp_path: Path) -> None:
    scale.write_segments(tmp_path / "first")
    for number in range(2):
        shutil.copytree(tmp_path / "first" / "events-0", tmp_path / "log" / f"events-{number}")
    segments = len(list((tmp_path / "first").rglob("*.log")))
    assert math.isclose(segments, scale.DEEP, rel_tol=0.1)
    figures = scale.plan_files(str(tmp_path / "log"), plan)
    assert 1 < figures["tasks"] < 2 * segments
    assert figures["warmSeconds"] > 0 < figures["peakInMiB"]
