from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from brokerless.serving.access import (
    ALL,
    ALTER,
    CLUSTER,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    THE_CLUSTER,
    TOPIC,
    WRITE,
    Access,
    matching_acls,
)

ALLOW, DENY, LITERAL, PREFIXED = 3, 2, 3, 4


def acl(name: str, operation: int, user: str = "User:a", permission: int = ALLOW, **others: Any) -> dict[str, Any]:
    row = {"resourceType": TOPIC, "patternType": LITERAL, "host": "*", "resourceName": name, "principal": user}
    return {**row, "operation": operation, "permissionType": permission, **others}


@pytest.mark.parametrize(
    ("acls", "operation", "is_allowed"),
    [
        ([], READ, False),
        ([acl("orders", READ)], READ, True),
        ([acl("orders", READ)], DESCRIBE, True),
        ([acl("orders", DESCRIBE)], READ, False),
        ([acl("orders", ALL)], DESCRIBE_CONFIGS, True),
        ([acl("orders", ALTER)], DESCRIBE_CONFIGS, False),
        ([acl("order", READ)], READ, False),
        ([acl("ord", READ, patternType=PREFIXED)], READ, True),
        ([acl("*", READ, "User:*")], READ, True),
        ([acl("*", READ, "User:b")], READ, False),
        ([acl("orders", READ, host="10.0.0.1")], READ, False),
        ([acl("orders", READ, resourceType=GROUP)], READ, False),
        ([acl("*", ALL, "User:*"), acl("ord", READ, permission=DENY, patternType=PREFIXED)], READ, False),
        ([acl("*", ALL, "User:*"), acl("orders", READ, permission=DENY)], DESCRIBE, True),
        ([acl("*", ALL, "User:*"), acl("orders", WRITE, permission=DENY)], READ, True),
        ([acl("orders", READ), acl("orders", ALL, "User:*", DENY)], READ, False),
    ],
)
def test_acls_are_applied(acls: list[dict[str, Any]], operation: int, is_allowed: bool) -> None:
    """A broker is the judge of many more, in ``test_differential.py``."""
    assert Access(acls).allows("a", "127.0.0.1", operation, TOPIC, "orders") == is_allowed
    assert Access(acls, ["a"]).allows("a", "127.0.0.1", operation, TOPIC, "orders")
    if not acls or is_allowed:
        assert Access(acls, (), True).allows("a", "127.0.0.1", operation, TOPIC, "orders")


def test_what_no_acl_is_about_may_be_for_all() -> None:
    access = Access([acl("orders", READ, "User:b")], (), True)
    assert not access.allows("a", "127.0.0.1", READ, TOPIC, "orders")
    assert access.allows("a", "127.0.0.1", READ, TOPIC, "payments")
    assert access.allows("a", "127.0.0.1", DESCRIBE, CLUSTER, THE_CLUSTER)


def test_acls_are_found_by_filters() -> None:
    rows = [
        acl(name, READ, patternType=pattern) for name, pattern in product(("o", "orders", "*"), (LITERAL, PREFIXED))
    ]
    random.Random(1).shuffle(rows)
    wanted = {
        "resourceTypeFilter": 1, "operation": 1, "permissionType": 1, "principalFilter": None, "hostFilter": None,
        "resourceNameFilter": "orders", "patternTypeFilter": 2,
    }  # fmt: skip
    found = {(each["resourceName"], each["patternType"]) for each in matching_acls(rows, wanted)}
    assert found == {("o", PREFIXED), ("orders", LITERAL), ("orders", PREFIXED), ("*", LITERAL)}
    exact = matching_acls(rows, {**wanted, "patternTypeFilter": LITERAL})
    assert [(each["resourceName"], each["patternType"]) for each in exact] == [("orders", LITERAL)]
    assert matching_acls(rows, {**wanted, "principalFilter": "User:b"}) == []
