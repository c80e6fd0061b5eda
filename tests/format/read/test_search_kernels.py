"""Stretches of bytes that contain a byte string are those in which Python finds it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.format.read.search_kernels import find_rarest, mark_containing

LETTERS = st.sampled_from([b"a", b"b", b"ab", b"\x00", b"\x80", b"\x01", b"\xff", b"user-1"])
TEXTS = st.lists(LETTERS, max_size=120).map(b"".join)
PATTERNS = st.lists(LETTERS, min_size=1, max_size=12).map(b"".join)


def marked(
    data: bytes, starts: list[int], ends: list[int], pattern: bytes, found: list[int] | None = None
) -> list[int]:
    """As the kernel marks them, whichever bytes are compared first, and whether or not others follow the data."""
    bounds, wanted = [np.array(each, np.int64) for each in (starts, ends)], np.frombuffer(pattern, np.uint8)
    # A copy of its own: with bounds checked (make bounds), the array ends where the data ends.
    buffer = np.frombuffer(data, np.uint8).copy()
    first, last = np.zeros(3, np.int64), np.full(3, len(pattern) - 1, np.int64)
    results: list[list[int]] = []
    for each in [find_rarest(buffer, wanted) if pattern else first, first, last]:
        for follows in (b"", pattern * 80):
            marks = np.array(found or [0] * len(starts), np.uint8)
            mark_containing(np.append(buffer, np.frombuffer(follows, np.uint8)), *bounds, wanted, each, marks)
            results.append(marks.tolist())
            if ends and max(ends) > len(data):
                break
    assert all(each == results[0] for each in results)
    return results[0]


@examples(300)
@given(parts=st.lists(TEXTS, min_size=1, max_size=6), pattern=PATTERNS)
def test_found_is_what_python_finds(parts: list[bytes], pattern: bytes) -> None:
    ends = np.cumsum([len(part) for part in parts]).tolist()
    starts = [0, *ends[:-1]]
    assert marked(b"".join(parts), starts, ends, pattern) == [pattern in part for part in parts]


@examples(100)
@given(before=st.integers(0, 80), after=st.integers(0, 80), pattern=PATTERNS)
def test_it_is_found_wherever_it_lies(before: int, after: int, pattern: bytes) -> None:
    data = b"\x7f" * before + pattern + b"\x7f" * after
    assert marked(data, [0], [len(data)], pattern) == [1]
    assert marked(data, [before], [before + len(pattern)], pattern) == [1]
    assert marked(data, [0], [before + len(pattern) - 1], pattern) == [pattern in data[: before + len(pattern) - 1]]


def test_what_is_marked_stays_and_nothing_is_found_outside() -> None:
    assert marked(b"xyz", [0, 0], [3, 3], b"q", [1, 0]) == [1, 0]
    assert marked(b"xyz", [-5, 2, 0], [2, 90, 3], b"yz", [0, 0, 0]) == [0, 0, 1]
    assert marked(b"xyz", [0], [3], b"") == [0]


def test_the_rarest_bytes_of_a_text_are_compared_first() -> None:
    data, pattern = np.frombuffer(b"aaabbbccd" * 9, np.uint8), np.frombuffer(b"abcdab", np.uint8)
    assert find_rarest(data, pattern).tolist() == [3, 2, 0]
    assert find_rarest(data, pattern[:2]).tolist() == [0, 1, 0]
    assert find_rarest(data[:0], pattern[:1]).tolist() == [0, 0, 0]


def test_places_outside_of_the_text_find_nothing() -> None:
    data, pattern = np.frombuffer(b"abc" * 60, np.uint8), np.frombuffer(b"abc", np.uint8)
    for wrong in ([0, 1, 3], [-1, 0, 0], [0, 0]):
        marks = np.zeros(1, np.uint8)
        bounds = np.array([0], np.int64), np.array([180], np.int64)
        mark_containing(data, *bounds, pattern, np.array(wrong, np.int64), marks)
        assert not marks[0]
