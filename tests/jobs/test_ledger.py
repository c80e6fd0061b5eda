"""What was verified is known to later runs, also if the one that verified it was killed, or others ran meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless import clock
from brokerless.findings import Finding, Kind
from brokerless.jobs.ledger import Checked, DamagedRange, Ledger
from brokerless.log.storage.location import Location


def entry(path: str, version: str = "1/2/3", run: str = "r1", kind: str = "segment", verified: int = 1000) -> Checked:
    finding = Finding("error", Kind.CHECKSUM_MISMATCH, path, position=5, offset=7, message="a text", found="0x1")
    ranges = (DamagedRange(path, 5, 10, 7, None, "k", "m"),)
    return Checked(kind, path, version, verified, run, "t", 0, 1, 9, True, (finding.in_case("time"),), ranges)


def loaded(to: Path) -> Ledger:
    ledger = Ledger(Location(str(to)))
    ledger.load()
    return ledger


def files(to: Path) -> list[Path]:
    return sorted(to.glob("*.parquet"))


def test_entries_come_back_as_they_were_and_the_newest_holds(tmp_path: Path) -> None:
    ledger = loaded(tmp_path)
    ledger.add(entry("/a"))
    ledger.flush()
    ledger.add(entry("/a", "4/5/6", "r2"))
    ledger.add(entry("/b", kind="partition"))
    ledger.flush()
    ledger.add(entry("/c"))  # lost, as it was never made durable
    again = loaded(tmp_path)
    assert again.entries == {
        ("segment", "/a"): entry("/a", "4/5/6", "r2"), ("partition", "/b"): entry("/b", kind="partition")
    }  # fmt: skip
    again.consolidate(["/"], ["/a"])
    assert len(files(tmp_path)) == 1
    assert loaded(tmp_path).entries == again.entries


def test_what_two_runs_recorded_at_once_is_known_whichever_ends_first(tmp_path: Path) -> None:
    for order in (0, 1), (1, 0):
        at = tmp_path / str(order[0])
        before = loaded(at)
        for each in ("/old", "/other"):
            before.add(entry(each))
            before.flush()
        runs = [loaded(at), loaded(at)]
        runs[0].add(entry("/a", verified=3000))
        runs[1].add(entry("/a", "older", verified=2000))
        runs[1].add(entry("/b", verified=2000))
        for number in order:
            runs[number].flush()
        for number in order:
            runs[number].consolidate(["/"], ["/a", "/b", "/old", "/other"])
        found = loaded(at)
        assert {path for _, path in found.entries} == {"/a", "/b", "/old", "/other"}
        assert found.entries["segment", "/a"].version == "1/2/3"


def test_a_file_that_another_run_took_away_meanwhile_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = loaded(tmp_path)
    for each in ("/a", "/b"):
        before.add(entry(each))
        before.flush()
    reading = Ledger._read  # pyright: ignore[reportPrivateUsage]

    def read(self: Ledger, name: str) -> object:
        monkeypatch.undo()
        loaded(tmp_path).consolidate([], [])
        return reading(self, name)

    monkeypatch.setattr(Ledger, "_read", read)
    assert {path for _, path in loaded(tmp_path).entries} == {"/a", "/b"}


def test_only_what_is_below_the_roots_is_forgotten(tmp_path: Path) -> None:
    ledger = loaded(tmp_path)
    clean = Checked("segment", "", "1/2/3", 1000, "r1", "t", 0)
    for each in ("/data/a/0.log", "/data/a/1.log", "/data/ab/0.log"):
        ledger.add(Checked(clean.kind, each, clean.version, clean.verified, clean.runId, clean.topic, 0))
        ledger.flush()
    ledger.consolidate(["/data/a"], ["/data/a/0.log"])
    assert {path for _, path in loaded(tmp_path).entries} == {"/data/a/0.log", "/data/ab/0.log"}


def test_a_time_that_is_still_to_come_counts_as_long_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = loaded(tmp_path)
    ledger.add(entry("/a", verified=clock.now() + 3_600_000))
    ledger.flush()
    assert loaded(tmp_path).entries["segment", "/a"].verified == 0


def test_whether_ranges_were_looked_for_is_known(tmp_path: Path) -> None:
    ledger = loaded(tmp_path)
    for number, has_ranges in enumerate((True, False)):
        ledger.add(Checked("segment", f"/{number}", "1", 1000, "r1", "t", 0, has_ranges=has_ranges))
    ledger.flush()
    assert [each.has_ranges for each in loaded(tmp_path).entries.values()] == [True, False]
