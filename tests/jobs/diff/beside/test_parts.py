"""What a running cluster does not tell is reported, and ends a comparison only where nothing else is requested."""

from __future__ import annotations

import pytest

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.diff.beside import parts
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
