from __future__ import annotations

from brokerless.errors import OutOfFilesError
from brokerless.findings import Finding, Kind
from brokerless.serving.reports import AGAIN_S, AT_ONCE, Reports


class Played:
    def __init__(self) -> None:
        self.time = 0.0
        self.found: list[Finding] = []
        self.reports = Reports(self.found.append, lambda: self.time)


def test_each_finding_is_reported_once() -> None:
    played = Played()
    for _ in range(2):
        played.reports(Kind.DAMAGE_SKIPPED.at("a.log", offset=1))
        played.time += 2 * AGAIN_S
    assert len(played.found) == 1


def test_many_of_one_file_are_a_line_a_minute() -> None:
    played = Played()
    for offset in range(1000):
        played.reports(Kind.DAMAGE_SKIPPED.at("a.log", offset=offset))
    assert len(played.found) == AT_ONCE
    played.reports(Kind.DAMAGE_SKIPPED.at("b.log", offset=0))
    assert len(played.found) == AT_ONCE + 1
    played.time += AGAIN_S
    played.reports(Kind.DAMAGE_SKIPPED.at("a.log", offset=5000))
    assert f"({1000 - AT_ONCE} more like this since the last)" in played.found[-1].message


def test_descriptors_that_are_out_are_a_warning_a_minute() -> None:
    played = Played()
    for path in ("a.log", "b.log", "c.log"):
        played.reports.out_of_files(OutOfFilesError(path, "too many"))
    assert [(each.kind, each.severity) for each in played.found] == [(Kind.OUT_OF_FILES, "warning")]
    assert not played.found[0].leaves_out
    played.time += AGAIN_S
    played.reports.out_of_files(OutOfFilesError("a.log", "too many"))
    assert len(played.found) == 2
