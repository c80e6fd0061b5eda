from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.log.cleaner import write_log, write_segment

from brokerless.log.completion.files import complete
from brokerless.log.completion.removed import only_removed, unfinished_logs, with_lost
from brokerless.log.storage.location import Location


def swap(path: Path, *bases: int, suffix: str = "swap") -> None:
    for base in bases:
        for kind in ("log", "index", "timeindex"):
            (path / f"{base:020}.{kind}").rename(path / f"{base:020}.{kind}.{suffix}")


def compacted(path: Path) -> None:
    write_segment(path, 10, [10, 12, 25], ".swap")


def cut(path: Path) -> None:
    """Five of ten batches, and a part of the next one."""
    write_segment(path, 10, range(10, 16), ".swap")
    log = path / f"{10:020}.log.swap"
    log.write_bytes(log.read_bytes()[:-1])


def ends_early(path: Path) -> None:
    write_segment(path, 10, range(10, 15), ".swap")


def cleaned_beside(path: Path) -> None:
    write_segment(path, 10, [10, 12, 25], ".cleaned")


def unfinished(path: Path) -> None:
    swap(path, 30)
    write_segment(path, 10, [10, 12], ".cleaned")


def twice(path: Path) -> None:
    """A compaction's output of which a part is not renamed yet, and which is there under both names."""
    swap(path, 20, suffix="cleaned")
    write_segment(path, 20, range(20, 30), ".swap")


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (lambda path: None, {}),
        (lambda path: swap(path, 20), {}),
        (lambda path: swap(path, 10, 30), {"00000000000000000020.log": ((20, 30),)}),
        (lambda path: swap(path, 20, suffix="cleaned"), {"00000000000000000020.log.cleaned": ((20, 30),)}),
        (lambda path: swap(path, 20, suffix="deleted"), {}),
        (compacted, {}),
        (cut, {"00000000000000000010.log": ((15, 20),)}),
        (ends_early, {"00000000000000000010.log": ((15, 20),)}),
        (cleaned_beside, {}),
        (unfinished, {"00000000000000000030.log.swap": ((30, 40),)}),
        (twice, {"00000000000000000020.log.swap": ((20, 30),)}),
    ],
    ids=[
        "nothing", "one", "between two", "cleaned alone", "deleted", "compacted", "cut", "ends early", "cleaned beside",
        "swap after cleaned", "each offset once",
    ],
)  # fmt: skip
def test_only_offsets_that_no_file_has_which_stays_are_lost(
    change: Callable[[Path], None], lost: dict[str, tuple[tuple[int, int], ...]], tmp_path: Path
) -> None:
    path = write_log(tmp_path / "t-0")
    change(path)
    completion = complete(Location(str(path)).entries())
    assert {each.entry.name: spans for each, spans in only_removed(completion)} == lost
    assert dict(with_lost(completion).lost) == dict(only_removed(completion))


def test_what_was_being_written_is_looked_at_where_its_segment_is_gone(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    cleaned_beside(path)
    assert list(unfinished_logs(complete(Location(str(path)).entries()))) == []
    (path / f"{10:020}.log").unlink()
    (found,) = unfinished_logs(complete(Location(str(path)).entries()))
    assert (found.file.offset, found.reason) == (10, "cleaned")
