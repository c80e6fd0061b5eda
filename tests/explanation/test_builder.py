"""Fields follow one another whatever happens while they are taken."""

from __future__ import annotations

import numpy as np
from tests.explanation.tree import check_tiles

from brokerless.explanation.builder import MOST_FIELDS, FieldBudget, FieldBuilder, Said, build
from brokerless.format import layouts

_BYTE = np.dtype("u1")


def test_where_the_sense_ends_groups_are_closed_and_the_rest_is_one_field() -> None:
    def fill(builder: FieldBuilder) -> None:
        with builder.group("outer"), builder.group("inner"):
            builder.take_number("first", _BYTE, lambda _: Said())
            builder.expect("something else")

    outer, rest = build(b"abc", 10, fill, FieldBudget())
    assert (outer.name, outer.children[0].name, outer.children[0].children[0].value) == ("outer", "inner", ord("a"))
    assert (rest.position, rest.length, rest.expected) == (11, 2, "something else")


def test_where_the_bytes_end_too_early_the_last_field_says_what_should_follow() -> None:
    def fill(builder: FieldBuilder) -> None:
        with builder.group("header"):
            builder.take_layout(layouts.LOG_ENTRY, lambda name, values: Said())

    (header,) = build(bytes(8), 0, fill, FieldBudget())
    (offset,) = header.children
    assert offset.expected == "after it size, 4 bytes; none left"


def test_there_are_at_most_so_many_fields() -> None:
    def fill(builder: FieldBuilder) -> None:
        while builder.left:
            builder.take_number("byte", _BYTE, lambda _: Said())

    fields = build(bytes(200), 0, fill, FieldBudget(50))
    assert len(fields) == 51
    assert fields[-1].note == f"not explained: more than {MOST_FIELDS:,} fields"
    check_tiles(fields, 0, 200)
