from __future__ import annotations

import pytest

from brokerless.cli.ranges import parse_offsets
from brokerless.errors import UsageError


@pytest.mark.parametrize(
    ("text", "offsets"), [("42", (42, None)), ("42:50", (42, 50)), (":50", (None, 50)), ("42:", (42, None))]
)
def test_offsets_are_a_start_an_end_or_both(text: str, offsets: tuple[int | None, int | None]) -> None:
    assert parse_offsets(text) == offsets


@pytest.mark.parametrize("text", ["", ":", "-1", "x", "1:2:3", "9223372036854775808", "700:656"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="offset"):
        parse_offsets(text)
