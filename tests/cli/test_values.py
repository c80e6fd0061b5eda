"""Numbers and sizes as people type them."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from brokerless.cli.values import count, integer, parse_offsets, size, size_or_0
from brokerless.errors import UsageError


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1000", 1000),
        ("7B", 7),
        ("2K", 2048),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("500mb", 500_000_000),
        ("1 GiB", 1 << 30),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, number: int) -> None:
    assert size(text) == size_or_0(text) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5GB", "many", "1XB", "3GiB", "9" * 30])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        size(text)
    if text == "0":
        assert size_or_0(text) == 0
    else:
        with pytest.raises(ArgumentTypeError):
            size_or_0(text)


def test_numbers_are_whole_and_counts_start_at_0() -> None:
    assert (integer("-5"), integer("+7"), count("0"), count("9" * 30)) == (-5, 7, 0, 2**63 - 1)
    for text in ("", "x", "1.5", "1e3", "0x10", "--5", "\u0663"):
        with pytest.raises(ArgumentTypeError, match="is not a whole number"):
            integer(text)
    with pytest.raises(ArgumentTypeError, match="is negative; use 0 or more"):
        count("-1")


@pytest.mark.parametrize(
    ("text", "offsets"), [("42", (42, None)), ("42:50", (42, 50)), (":50", (None, 50)), ("42:", (42, None))]
)
def test_offsets_are_a_start_an_end_or_both(text: str, offsets: tuple[int | None, int | None]) -> None:
    assert parse_offsets(text) == offsets


@pytest.mark.parametrize("text", ["", ":", "-1", "x", "1:2:3", "9223372036854775808", "700:656"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="offset"):
        parse_offsets(text)
