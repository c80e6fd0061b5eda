"""Which of the source's records are on the target, by what is read back after the last run of the map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from brokerless.errors import UsageError
from brokerless.jobs.restore.live.offset_map import OffsetRun, open_map
from brokerless.jobs.restore.live.production import LiveRecord
from brokerless.jobs.restore.live.resumption import Resumed, TargetReader, resume

PLACE = ("t", 0)
START = {"topics": {"t": {"topicId": "x", "starts": {"0": 0}}}}


def row(offset: int, value: bytes | None = None) -> LiveRecord:
    return LiveRecord(offset, b"k", value or b"%d" % offset, (), 1000 + offset, 5)


def record(offset: int, source: int) -> LiveRecord:
    found = row(source)
    return LiveRecord(offset, found.key, found.value, found.headers, found.timestamp)


class Records:
    """A target with these records."""

    def __init__(self, *records: LiveRecord) -> None:
        self.records = records

    def read(self, _: Any, start: int, end: int) -> Iterator[LiveRecord]:
        yield from (each for each in self.records if start <= each.offset < end)


def resumed(
    tmp_path: Path, target: Records, bounds: tuple[int, int], is_compacted: bool = False
) -> tuple[Resumed, int | None, list[OffsetRun]]:
    """Of a source with the offsets 2, 3, 5, 6 and 7, of which 2 is in the map: what was found, which row is next, and
    the map."""
    with open_map(tmp_path, START) as map_:
        map_.add(PLACE, 2, 0)
        map_.write()
    with open_map(tmp_path, START) as map_:
        rows = iter([row(offset) for offset in (3, 5, 6, 7)])
        found, left = resume(map_, cast("TargetReader", target), PLACE, bounds, rows, is_compacted)
        following = next(left, None)
        return found, None if following is None else following.offset, list(map_.runs())


def test_nothing_was_on_its_way(tmp_path: Path) -> None:
    assert resumed(tmp_path, Records(), (0, 1)) == (Resumed(0, 0), 3, [OffsetRun("t", 0, 2, 2, 0)])


def test_records_that_were_on_their_way_are_not_sent_again(tmp_path: Path) -> None:
    found, following, runs = resumed(tmp_path, Records(record(1, 3), record(2, 5)), (0, 3))
    assert (found, following) == (Resumed(2, 0), 6)
    assert runs == [OffsetRun("t", 0, 2, 3, 0), OffsetRun("t", 0, 5, 5, 2)]


def test_all_may_be_there(tmp_path: Path) -> None:
    target = Records(*(record(number, source) for number, source in enumerate((3, 5, 6, 7), 1)))
    assert resumed(tmp_path, target, (0, 5))[:2] == (Resumed(4, 0), None)


def test_records_of_others_in_between_are_not_taken_for_the_sources(tmp_path: Path) -> None:
    target = Records(record(1, 3), LiveRecord(2, b"k", b"other", (), 5), record(3, 5))
    found, following, runs = resumed(tmp_path, target, (0, 4))
    assert (found, following) == (Resumed(2, 1), 6)
    assert runs[-1] == OffsetRun("t", 0, 5, 5, 3)


def test_what_compaction_took_meanwhile_had_been_there(tmp_path: Path) -> None:
    found, following, runs = resumed(tmp_path, Records(record(2, 5)), (0, 4), is_compacted=True)
    assert (found, following) == (Resumed(3, 0), 7)
    assert runs == [OffsetRun("t", 0, 2, 3, 0), OffsetRun("t", 0, 5, 6, 2)]


def test_what_retention_deleted_meanwhile_had_been_there(tmp_path: Path) -> None:
    found, following, _ = resumed(tmp_path, Records(record(3, 6)), (3, 4))
    assert (found, following) == (Resumed(3, 0), 7)


def test_a_record_of_others_in_a_compacted_topic_leaves_nothing_to_know(tmp_path: Path) -> None:
    target = Records(LiveRecord(1, b"k", b"other", (), 5))
    with pytest.raises(UsageError, match="somebody else at offset 1"):
        resumed(tmp_path, target, (0, 2), is_compacted=True)


def test_a_target_that_lost_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends at offset 0, before 1.*lost"):
        resumed(tmp_path, Records(), (0, 0))


def test_time_and_headers_belong_to_a_record() -> None:
    one = row(5)
    same = LiveRecord(9, one.key, one.value, one.headers, one.timestamp)
    assert same.is_of(one)
    assert LiveRecord(9, one.key, one.value, one.headers, None).is_of(one)  # LogAppendTime
    assert not LiveRecord(9, one.key, one.value, one.headers, 7).is_of(one)
    assert not LiveRecord(9, one.key, one.value, (("h", None),), one.timestamp).is_of(one)
    assert not LiveRecord(9, b"", one.value, one.headers, one.timestamp).is_of(one)
