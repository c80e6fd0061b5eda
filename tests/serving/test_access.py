from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from pathlib import Path
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
    java_address,
    matching_acls,
)
from tests.kafka.jars import check, run

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


def test_addresses_are_written_as_java_does(kafka_jars: Path) -> None:
    chance = random.Random(1)
    addresses = [IPv4Address(chance.randbytes(4)) for _ in range(100)]
    addresses += [IPv6Address(bytes(10) + b"\xff\xff" + chance.randbytes(4)) for _ in range(100)]
    addresses += [IPv6Address(each) for each in ("::", "::1", "::1.2.3.4", "::ffff:0:1.2.3.4", "64:ff9b::1.2.3.4")]
    addresses += [IPv6Address(bytes(byte * chance.randrange(2) for byte in chance.randbytes(16))) for _ in range(900)]
    scopes = [chance.choice([0, 0, 1, 7, 1000]) if _is_ipv6(each) else 0 for each in addresses]
    lines = "".join(f"{each.packed.hex()} {scope}\n" for each, scope in zip(addresses, scopes, strict=True))
    written = check(run("HostAddresses", helper=True, stdin=lines.encode())).decode().splitlines()
    assert len(written) > 1000
    assert [java_address(str(each), scope) for each, scope in zip(addresses, scopes, strict=True)] == written


def _is_ipv6(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is None


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
