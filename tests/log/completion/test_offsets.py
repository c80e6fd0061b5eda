from __future__ import annotations

import struct
from pathlib import Path

from tests.log.whole_batches import batch

from brokerless.log.completion.offsets import end_of_log, offsets_of
from brokerless.log.storage.location import DirectoryEntry, Location


def entry(path: Path, *offsets: int, cut: int = 0) -> DirectoryEntry:
    data = b"".join(batch(each).tobytes() for each in offsets)
    path.write_bytes(data[: len(data) - cut])
    found = Location(str(path.parent)).find_entry(path.name)
    assert found is not None
    return found


def index(path: Path, offset: int, position: int) -> DirectoryEntry:
    path.write_bytes(struct.pack(">ii", offset, position))
    found = Location(str(path.parent)).find_entry(path.name)
    assert found is not None
    return found


def test_a_log_ends_after_its_last_whole_batch(tmp_path: Path) -> None:
    log = tmp_path / f"{5:020}.log.swap"
    assert end_of_log(entry(log, 5, 6, 7), 5) == 8
    assert end_of_log(entry(log, 5, 6, 7, cut=1), 5) == 7
    assert end_of_log(entry(log), 5) == 5


def test_where_a_log_ends_is_looked_up_from_the_last_entry_of_its_index(tmp_path: Path) -> None:
    log = entry(tmp_path / "log", 5, 6, 7)
    assert end_of_log(log, 5, index(tmp_path / "index", 1, len(batch(5)))) == 8


def test_a_log_is_empty_whose_index_points_after_its_end(tmp_path: Path) -> None:
    log = entry(tmp_path / "log", 5, 6, 7)
    assert end_of_log(log, 5, index(tmp_path / "index", 9, 10_000)) == 5


def test_the_offsets_of_a_log_are_those_of_its_batches(tmp_path: Path) -> None:
    found = offsets_of(entry(tmp_path / "log", 5, 6, 9), 5)
    assert (found.spans, found.end, found.is_cut, found.is_compacted) == (((5, 7), (9, 10)), 10, False, True)
    found = offsets_of(entry(tmp_path / "log", 5, 6, cut=3), 5)
    assert (found.spans, found.end, found.is_cut, found.is_compacted) == (((5, 6),), 6, True, False)


def test_a_log_that_begins_after_its_name_was_compacted(tmp_path: Path) -> None:
    assert offsets_of(entry(tmp_path / "log", 6, 7), 5).is_compacted


def test_a_file_that_cannot_be_read_has_no_offsets(tmp_path: Path) -> None:
    log = entry(tmp_path / "log", 5)
    (tmp_path / "log").unlink()
    assert offsets_of(log, 5).spans == ()
