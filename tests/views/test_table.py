"""Tables: aligned, and fitted to the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerless.views.screen import Screen, shown_on
from brokerless.views.table import SPARE, WIDEST, table

NAMES = ("partition", "segments", "records", "offsets", "from", "to", "format", "codecs")
TIME = "2026-11-21T08:09:17Z"
ROWS = [
    ("orders-0", "4", "1,265", "0..1264", TIME, TIME, "v2", "lz4,zstd"),
    ("payments-12", "1", "53", "10..62", TIME, TIME, "v1,v2", "none"),
]
RIGHT = ("segments", "records")


def lines(width: int | None, names: tuple[str, ...] = NAMES, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    with shown_on(Screen(width)):
        return list(table(names, rows, RIGHT))


def test_a_column_that_is_needed_is_not_left_out() -> None:
    names = ("format", "codec", "from", "to")
    with shown_on(Screen(width=40)):
        lines = list(table(names, [["v2", "zstd", "x" * 12, "y" * 12]] * 2, needed=("format",)))
    assert lines[0].startswith("format")
    assert "from" not in lines[0]


def test_what_is_left_out_is_named_in_lines_that_fit() -> None:
    names = [f"column{number}" for number in range(30)]
    with shown_on(Screen(width=60)):
        lines = list(table(names, [["x" * 12] * 30]))
    assert max(map(len, lines)) <= 60
    assert " ".join(lines[2:]).startswith("(--wide shows column")
    assert lines[-1].endswith("column29 as well)")


def test_columns_that_do_not_fit_at_all_are_left_out_from_the_end() -> None:
    names = [f"column{number}" for number in range(30)]
    with shown_on(Screen(width=60)):
        lines = list(table(names, [["x" * 12] * 30]))
    assert max(map(len, lines[:2])) <= 60
    assert lines[0].startswith("column0")
    assert lines[-1].endswith("column29 as well)")


def test_columns_are_two_spaces_apart_and_numbers_flush_right() -> None:
    assert list(table(("topic", "records"), [("a", "1,234"), ("bcd", "5")], ("records",))) == [
        "topic  records",
        "a        1,234",
        "bcd          5",
    ]


def test_a_wide_terminal_and_a_pipe_have_all_columns() -> None:
    assert lines(None) == lines(200)
    assert lines(None)[0].split() == list(NAMES)


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(100, ["codecs"]), (90, ["format", "codecs"]), (80, ["segments", "format", "codecs"])],
)
def test_a_narrow_terminal_does_without_what_matters_least(width: int, left_out: list[str]) -> None:
    shown = lines(width)
    assert shown[0].split() == [name for name in NAMES if name not in left_out]
    assert shown[-1] == f"(--wide shows {', '.join(left_out)} as well)"
    assert max(map(len, shown)) <= width


def test_a_long_name_is_shortened_in_the_middle_before_columns_are_left_out() -> None:
    name = "a.topic." + "x" * 100 + "-12"
    shown = lines(60, ("partition", "records", "codecs"), [(name, "1", "zstd")])
    assert shown[0].split() == ["partition", "records", "codecs"]
    assert shown[1].startswith("a.topic.xx")
    assert "…" in shown[1]
    assert "x-12  " in shown[1]


def test_a_time_is_shown_whole_or_not_at_all() -> None:
    names, shown = ("name", "commitTimestamp", "by"), set[bool]()
    rows: list[tuple[str, ...]] = [("orders-with-a-long-name", TIME, "committed-by-somebody"), ("b", "-", "c")]
    for width in range(20, 80):
        text = "\n".join(lines(width, names, rows))
        shown.add(TIME in text)
        assert TIME in text or "2026" not in text
    assert shown == {True, False}


def test_one_huge_name_does_not_widen_all_rows() -> None:
    shown = list(table(("topic", "records"), [("x" * 1000, "1"), ("a", "2")], ("records",)))
    assert len(shown[1]) > 1000
    assert len(shown[2]) == WIDEST + 2 + len("records")


@given(
    st.integers(40, 250),
    st.lists(st.tuples(st.text("ab-", max_size=300), st.text("0..9", max_size=12), st.text("v012,", max_size=9))),
)
def test_no_line_is_longer_than_the_terminal(width: int, rows: list[tuple[str, str, str]]) -> None:
    shown = lines(width, ("partition", "offsets", "format"), rows)
    assert max(map(len, shown[: len(rows) + 1])) <= width
    assert len(shown) - len(rows) in (1, 2)
    assert all(name in shown[0] or name in SPARE for name in ("partition", "offsets"))
