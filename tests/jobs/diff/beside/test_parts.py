"""What a running cluster does not tell is reported, and ends a comparison only where nothing else is requested."""

from __future__ import annotations

import pytest

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.internals.metadata.cluster import Cluster
from brokerless.jobs.diff.beside import groups, parts
from brokerless.jobs.diff.beside.groups import GroupSettings
from brokerless.jobs.diff.beside.parts import BesideRecords, compare_beside_records, requested
from brokerless.jobs.diff.live.cluster import RunningCluster
from brokerless.jobs.diff.pairs import Side
from brokerless.log.directory import LogDirectory
from brokerless.log.storage.location import Location

URL = "kafka://host:9092"


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> tuple[Side, Side]:
    """Twice the same running cluster."""
    known = RunningCluster(URL, groups={}, settings={}, topics={"a": "one"}, acls=(), users=(), denied={})
    monkeypatch.setattr(parts, "cluster_of", lambda *_: known)
    side = Side([LogDirectory(Location(URL), "log-directory", ())], ())
    return side, side


def compare(sides: tuple[Side, Side], only: tuple[str, ...]) -> tuple[BesideRecords, list[Finding]]:
    found: list[Finding] = []
    how = GroupSettings((), None, 1 << 20)
    return compare_beside_records(sides, requested(only), how, found.append, is_named=bool(only)), found


def test_quotas_alone_cannot_be_compared(sides: tuple[Side, Side]) -> None:
    with pytest.raises(UnreadableError, match="quotas are not compared"):
        compare(sides, ("quotas",))


def test_next_to_others_quotas_are_an_error_of_their_own(sides: tuple[Side, Side]) -> None:
    compared, found = compare(sides, ("groups", "settings", "quotas"))
    assert compared == BesideRecords()
    assert {(each.severity, "quotas are not compared" in each.message) for each in found} == {("error", True)}


def test_what_nobody_requested_is_no_error(sides: tuple[Side, Side]) -> None:
    _, found = compare(sides, ())
    assert {each.severity for each in found} == {"info"}


def test_quotas_of_the_other_side_are_said_to_be_not_compared(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = parts.cluster_of(sides[0], print)
    on_disk = Cluster(quotas={(): {"entity": [], "key": "producer_byte_rate", "value": 1.0}})  # type: ignore[dict-item]
    known = iter([on_disk, running])
    monkeypatch.setattr(parts, "cluster_of", lambda *_: next(known))
    _, found = compare(sides, ("quotas", "settings"))
    monkeypatch.setattr(parts, "cluster_of", lambda *_: on_disk if next(order) else running)
    order = iter([True, False])
    _, unasked = compare(sides, ())
    assert [each.severity for each in found] == ["error"]
    assert [(each.severity, str(each)) for each in unasked if "quotas are not compared" in str(each)] == [
        ("warning", f"{URL}: quotas are not compared: confluent-kafka does not ask a running cluster for quotas")
    ]


def test_share_groups_next_to_a_running_cluster_are_named_as_not_compared(
    sides: tuple[Side, Side], monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = {("shared", True): {("a", 0): 3}, ("plain", False): {("a", 0): 3}}
    monkeypatch.setattr(groups, "_positions", lambda *_: positions)
    compared, found = compare(sides, ())
    assert [each.group for each in compared.groups] == ["plain"]
    text = "share groups are not compared (shared): confluent-kafka does not ask a running cluster for their positions"
    assert [str(each) for each in found if each.severity == "warning"] == [f"{URL}: {text}"]
