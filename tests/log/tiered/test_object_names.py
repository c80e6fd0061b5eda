from __future__ import annotations

import pytest

from brokerless.log.tiered.object_names import (
    is_topic_directory,
    parse_object_name,
    parse_partition,
    partition_directory_of,
)

ID = "MocuiS7uRRW7NCxG0VkwpA"


def test_objects() -> None:
    found = parse_object_name(f"{42:020d}-{ID}.rsm-manifest")
    assert found is not None
    assert (found.start_offset, found.segment_id, found.kind) == (42, ID, "rsm-manifest")
    for other in (
        "",
        f"{42:020d}.log",
        f"{42:020d}-{ID}",
        f"{42:020d}-{ID}.txt",
        f"{10**19:020d}-{ID}.log",
        f"42-{ID}.log",
    ):
        assert parse_object_name(other) is None


@pytest.mark.parametrize(
    ("above", "name", "expected"),
    [
        (f"orders-{ID}", "3", ("orders", ID, 3, False)),
        (f"orders-{ID}-{ID}", "0", (f"orders-{ID}", ID, 0, False)),
        ("kafka-tiered-storage", f"a-b-3-{ID}", ("a-b", ID, 3, True)),
        (f"orders-{ID}", "03", None),
        (f"orders-{ID}", "4294967296", None),
        ("", f"orders-{ID}", None),
        ("orders", "3", None),
        (ID, "3", None),
    ],
)
def test_partitions(above: str, name: str, expected: tuple[str, str, int, bool] | None) -> None:
    found = parse_partition(above, name)
    assert expected == (None if found is None else (found.topic, found.topic_id, found.partition, found.is_plain))


def test_topics() -> None:
    assert is_topic_directory(f"orders-{ID}")
    assert not is_topic_directory(f"-{ID}"[1:])
    assert not is_topic_directory("orders-0")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/var/lib/kafka/orders-0/00000000000000000000.log", "orders-0"),
        ("orders-0/00000000000000000000.log", "orders-0"),
        ("s3://backups/kafka/orders-0/00000000000000000000.log", "orders-0"),
        ("tiered://orders-0/00000000000000000000.log::s3://bucket/prefix-1/x", "orders-0"),
        ("tiered://orders-0/00000000000000000000.log::file:///data/kafka-1/bucket", "orders-0"),
        ("/bucket/orders-MocuiS7uRRW7NCxG0VkwpA/12/00000000000000000000-cpGusWbURTq1Vdw9Q27TyA.log", "orders-12"),
        ("/bucket/orders-MocuiS7uRRW7NCxG0VkwpA/12", "orders-12"),
        ("/bucket/orders-3-MocuiS7uRRW7NCxG0VkwpA/00000000000000000000-cpGusWbURTq1Vdw9Q27TyA.log", "orders-3"),
        ("/var/lib/kafka/orders-0", "orders-0"),
        ("tiered://orders-0::s3://bucket/kafka-1", "orders-0"),
        ("00000000000000000000.log", None),
        ("/var/lib/kafka/meta.properties", None),
    ],
)
def test_the_partition_of_a_file(path: str, expected: str | None) -> None:
    assert partition_directory_of(path) == expected
