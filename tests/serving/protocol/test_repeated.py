from __future__ import annotations

from typing import Any

import pytest
from tests.serving.differential import NAMES, Row

from brokerless.serving.protocol.repeated import AS_THEY_ARE, without_repeated


def of(number: int, **others: Any) -> Row:
    return {"partition": number, "fetchOffset": 0, **others}


def fetch(*topics: tuple[str, list[Row]]) -> Row:
    return {"topics": [{"topic": name, "partitions": partitions} for name, partitions in topics]}


def resource(keys: list[str] | None) -> Row:
    return {"resourceType": 2, "resourceName": "a", "configurationKeys": keys}


def group(name: str, topics: list[Row] | None) -> Row:
    return {"groupId": name, "topics": topics}


TWICE = {"name": "a", "partitionIndexes": [7, 7]}


@pytest.mark.parametrize(
    ("name", "wanted", "left"),
    [
        ("Fetch", fetch(("a", [of(0)] * 9)), fetch(("a", [of(0)]))),
        ("Fetch", fetch(*[("a", [of(0)])] * 9), fetch(("a", [of(0)]))),
        ("Fetch", fetch(("a", [of(0), of(1)]), ("a", [of(1), of(2)])), fetch(("a", [of(0), of(1)]), ("a", [of(2)]))),
        ("Fetch", fetch(("a", [of(0)]), ("b", [of(0)])), fetch(("a", [of(0)]), ("b", [of(0)]))),
        ("Fetch", fetch(("a", [of(0), of(0, fetchOffset=7)])), fetch(("a", [of(0, fetchOffset=7)]))),
        ("Fetch", fetch(("a", []), ("a", [])), fetch(("a", []))),
        ("DescribeGroups", {"groups": ["a", "b", "a"]}, {"groups": ["a", "b"]}),
        ("Metadata", {"topics": None}, {"topics": None}),
        (
            "DescribeConfigs",
            {"resources": [resource(None), resource([]), resource(None)]},
            {"resources": [resource(None), resource([])]},
        ),
        (
            "OffsetFetch",
            {"groups": [group(each, [TWICE] * 2) for each in "ggh"]},
            {"groups": [group(each, [{**TWICE, "partitionIndexes": [7]}]) for each in "gh"]},
        ),
        (
            "OffsetFetch",
            {"groups": [{"groupId": "g", "topics": None}] * 2 + [{"groupId": "g", "topics": []}]},
            {"groups": [{"groupId": "g", "topics": None}, {"groupId": "g", "topics": []}]},
        ),
    ],
)
def test_equal_elements_are_left_once(name: str, wanted: Row, left: Row) -> None:
    assert without_repeated(NAMES[name], wanted) == left


def test_what_has_its_own_error_for_what_comes_twice_has_all() -> None:
    wanted = {"topics": [{"name": "a", "partitions": [{"partitionIndex": 0, "timestamp": -1}] * 2}]}
    assert without_repeated(NAMES["ListOffsets"], wanted) == wanted
    assert set(NAMES) >= AS_THEY_ARE
