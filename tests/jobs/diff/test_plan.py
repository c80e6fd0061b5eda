"""What is compared follows from how records are paired, unless a request says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brokerless.clusters.listing import open_directory
from brokerless.errors import UsageError
from brokerless.jobs.diff.beside.parts import ONLY
from brokerless.jobs.diff.pairs import Side
from brokerless.jobs.diff.plan import DiffPlan, plan_diff
from brokerless.log.storage.location import Location
from brokerless.requests.comparing import DiffRequest

DEMO = Path(__file__).parents[3] / "demo" / "data"


def planned(**options: Any) -> DiffPlan:
    directory = open_directory(Location(str(DEMO)))
    side = Side([directory], [each for each in directory.partitions if each.topic == "orders"])
    return plan_diff(DiffRequest(DEMO, DEMO, **options), (side, side), print)


@pytest.mark.parametrize(("options", "parts"), [
    ({}, {*ONLY}),
    ({"align": "key"}, {"records"}),
    ({"only": ["acls", "groups"]}, {"acls", "groups"}),
    ({"align": "key", "only": ["groups"]}, {"groups"}),
])  # fmt: skip
def test_parts_are_all_but_where_offsets_or_names_say_nothing(options: dict[str, Any], parts: set[str]) -> None:
    plan = planned(**options)
    assert plan.parts == parts
    assert plan.is_named == ("only" in options)
    assert bool(plan.pairs) == (plan.size > 0) == ("records" in parts)


def test_options_that_do_not_go_together_are_refused_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match="give offset_map= or offset_syncs=, not both"):
        planned(offset_map="map", offset_syncs="syncs")
