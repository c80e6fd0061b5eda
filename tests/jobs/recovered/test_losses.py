"""What is missing is told exactly, and where it is too much to be told one by one, in sum."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.format.twin import write_batch, write_record
from tests.jobs.salvage.test_job import run

from brokerless.findings import Kind
from brokerless.jobs.recovered import damaged_regions
from brokerless.jobs.recovered.damaged_regions import FindingCollector, Region
from brokerless.jobs.recovered.intact_batches import INTACT_BATCH
from brokerless.jobs.recovered.losses import TO_THE_END, find_losses
from brokerless.jobs.salvage.job import Salvage

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60) | st.just(TO_THE_END)), max_size=12)


@given(st.sets(st.integers(0, 50)), SPANS, st.integers(0, 30), st.integers(0, 60), st.booleans())
def test_a_hole_has_the_regions_that_reach_into_it(
    offsets: set[int], spans: list[tuple[int, int]], start: int, end: int, is_compacted: bool
) -> None:
    saved = np.zeros(len(offsets), INTACT_BATCH)
    saved["first"] = saved["last"] = sorted(offsets)
    saved["position"] = np.arange(len(offsets)) * 100  # never side by side
    placed = [(Region("f", at, at + 1, "cut", "", after), before) for at, (after, before) in enumerate(spans)]
    losses = list(find_losses(saved, placed, start, end, is_compacted))
    told = {
        offset
        for loss in losses
        for offset in range(loss.first_offset, (-1 if loss.last_offset is None else loss.last_offset) + 1)
    }
    behind = max(offsets, default=-1) + 1
    missing = set(range(start, max(end, behind))) - offsets
    if not is_compacted:
        assert told == missing
    for loss in losses:
        if loss.last_offset is not None:
            holes = [each for each in sorted(offsets) if each < loss.first_offset]
            low, high = (holes[-1] + 1 if holes else start), loss.last_offset + 1
            inside = [region for region, before in placed if _meets(region.after, before, low, high)]
            assert list(loss.regions) == inside
            assert inside or not is_compacted or loss.first_offset >= behind


def _meets(after: int | None, before: int, low: int, high: int) -> bool:
    first, last = sorted((after or 0, before))
    return first < high and last > low


def test_damage_in_very_many_places_is_reported_in_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(4)
    count = 1500
    log = np.tile(np.frombuffer(write_batch(write_record(None, b"value")), np.uint8), (count, 1))
    log[:, :8] = np.arange(count).astype(">i8").view(np.uint8).reshape(count, 8)
    bad = sorted(chance.sample(range(count - 1), 700))
    log[bad, -1] ^= 1
    path = tmp_path / "disk" / "t-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    log.tofile(path)
    (exact,), _ = run(tmp_path / "disk", tmp_path / "to", Salvage(dry_run=True))
    monkeypatch.setattr(damaged_regions, "MOST", 20)
    (summed,), _ = run(tmp_path / "disk", tmp_path / "to", Salvage(dry_run=True))
    assert sum(loss.offsets or 0 for loss in exact.losses) == 700
    assert len(exact.losses) == sum(loss.gaps for loss in summed.losses) > 300
    assert len(summed.losses) <= 40
    assert summed.damaged == exact.damaged == 700 * log.shape[1]
    assert sum(loss.offsets or 0 for loss in summed.losses) == 700
    assert max(loss.gaps for loss in summed.losses) < len(exact.losses) // 10
    assert summed.losses[0].first_offset == bad[0]
    assert summed.losses[-1].last_offset == bad[-1]
    told = {region for loss in summed.losses for region in loss.regions}
    assert len(told) <= 40
    assert sum(region.places for region in told) == len({region for loss in exact.losses for region in loss.regions})


def test_of_very_many_findings_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_regions, "MOST_LISTED", 3)
    told = FindingCollector()
    for number in range(10):
        told(Kind.TRAILING_ZEROS.at("f", severity="warning", position=number))
    told(Kind.CHECKSUM_MISMATCH.at("f", severity="error", position=0))
    *first, last = told.findings("t-0")
    assert [each.position for each in first] == [0, 1, 2, 0]
    assert (last.severity, last.kind, last.file) == ("warning", "trailing-zeros", "t-0")
    assert last.message == "7 more findings of this kind, which are not listed"
