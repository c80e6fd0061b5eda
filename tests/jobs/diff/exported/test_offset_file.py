"""Offsets in a file are those that were written, in their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from brokerless.jobs.diff.exported.offset_file import OffsetFile, RecordedOffsets


def test_offsets_are_those_that_were_written(tmp_path: Path) -> None:
    parts = [np.array([0, 5, 5], np.int64), np.zeros(0, np.int64), np.array([(1 << 63) - 1], np.int64)]
    with OffsetFile(tmp_path / "own") as file:
        for part in parts:
            file.add(part[::1])
    known, whole = RecordedOffsets(tmp_path / "own"), np.concatenate(parts).tolist()
    assert len(known) == len(whole)
    assert [each for part in known.parts() for each in part.tolist()] == whole
    for first, end in ((0, 1), (0, 5), (1, 6), (5, 1 << 63), (6, 7), (7, 6)):
        assert known.between(first, end).tolist() == [each for each in whole if first <= each < end]


def test_there_are_none_without_a_file(tmp_path: Path) -> None:
    with OffsetFile(tmp_path / "empty"):
        pass
    for path in (None, tmp_path / "nowhere", tmp_path / "empty"):
        known = RecordedOffsets(path)
        assert (len(known), [*known.parts()], known.between(0, 9).tolist()) == (0, [], [])
