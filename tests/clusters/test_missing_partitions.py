"""A partition that is known and not here: one kind, and a sentence for each way in which it is known."""

from __future__ import annotations

from typing import get_args

from brokerless.clusters.missing_partitions import KnownBy, partition_missing


def test_each_way_to_know_it_has_its_sentence() -> None:
    found = [partition_missing("/data", "orders-0", each) for each in get_args(KnownBy)]
    assert {each.kind for each in found} == {"partition-missing"}
    assert len({each.message for each in found}) == len(found) == 6
    assert all("orders-0" in each.message for each in found)


def test_records_that_only_this_metadata_knows_are_an_error() -> None:
    severities = {each: partition_missing("/data", "orders-0", each).severity for each in get_args(KnownBy)}
    assert {each for each, severity in severities.items() if severity == "error"} == {"metadata", "topic", "set"}
    assert partition_missing("/data", "orders-0", "earlier-run", severity="error").severity == "error"
