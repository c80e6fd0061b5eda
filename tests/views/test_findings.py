"""How findings are shown to people."""

from __future__ import annotations

import pytest

from brokerless.findings import Finding, Kind
from brokerless.views.findings import FindingGroups, finding_line, root_of
from brokerless.views.screen import Screen, shown_on

LONG = "/srv/volumes/pvc-5f0f7b1e-2c1d-4b57-9a52-0a3c77a9c1de/kafka data"


@pytest.mark.parametrize(
    ("paths", "root"),
    [
        (["/var/lib/kafka"], "/var/lib/kafka/"),
        (["/var/lib/kafka/"], "/var/lib/kafka/"),
        (["/d1/kafka", "/d2/kafka"], ""),
        (["/mnt/d1/kafka", "/mnt/d2/kafka"], "/mnt/"),
        (["/mnt/disk-1", "/mnt/disk-2"], "/mnt/"),
        (["s3://bucket/a", "s3://bucket/b"], "s3://bucket/"),
        (["here", "/there"], ""),
        ([], ""),
    ],
)
def test_what_all_paths_begin_with_is_left_out(paths: list[str], root: str) -> None:
    assert root_of(paths) == root


def test_a_line_begins_with_a_path_below_the_one_that_was_named() -> None:
    finding = Finding("warning", Kind.OFFSET_GAP, f"{LONG}/orders-0/00000000000000000000.log", position=9, message="x")
    assert finding_line(finding, root_of([LONG])) == "orders-0/00000000000000000000.log, position 9: x"
    assert finding_line(finding) == f"{LONG}/orders-0/00000000000000000000.log, position 9: x"


def test_no_name_is_broken_in_a_terminal_of_80_columns() -> None:
    groups = FindingGroups()
    for number in range(9):
        file = f"{LONG}/a-topic-of-some-length-{number}/00000000000000000000.log"
        groups.add(Finding("warning", Kind.OFFSET_GAP, file, position=number, message="offsets are missing " * 4))
    with shown_on(Screen(80)):
        lines = list(groups.lines(root_of([LONG])))
    assert max(map(len, lines)) <= 80
    names = [word for line in lines for word in line.split() if "00000" in word]
    assert names == [f"a-topic-of-some-length-{number}/00000000000000000000.log," for number in (0, 8)]
