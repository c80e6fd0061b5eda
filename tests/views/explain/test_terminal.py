"""Explained fields as text: the texts that are kept are right, and fit into a terminal."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from tests.golden import case
from tests.views.explain.texts import KEPT, TEXTS, text_of

from brokerless.explanation.files import build_batch, explain, explain_built
from brokerless.views.explain.terminal import lines


@pytest.mark.parametrize("name", KEPT)
def test_the_text_is_the_one_that_is_kept(name: str) -> None:
    assert text_of(name) == (TEXTS / f"{name}.txt").read_text()


def test_all_texts_that_are_kept_are_compared() -> None:
    assert {path.stem for path in TEXTS.iterdir()} == set(KEPT)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for name in ("formats/v2-zstd-create", "specials/timestamps-v1-gzip", "damaged/count-none-max"):
        explained = replace(explain(case(name).log), file="a")
        assert max(cell_len(line) for line in lines(explained, width, color=False)) <= width
    large = replace(explain("demo/data/orders-0/00000000000000000000.log"), file="a")  # of four digits and 100%
    assert max(cell_len(line) for line in lines(large, width, color=False)) <= width


def test_articles_sizes_are_in_the_texts() -> None:
    for name, size in {"v0-key-value": 34, "v0-null-key": 31, "v1-key-value": 42, "v1-null-key": 39}.items():
        assert f"message, {size} bytes from 0 to {size - 1}" in text_of(name)
    for name, size in {"v0-two-messages": 65, "v1-two-messages": 81}.items():
        assert f"2 messages, {size} bytes from 0 to {size - 1}" in text_of(name)
    for name, size in {"v2-key-value": 76, "v2-null-key": 73, "v2-two-records": 88}.items():
        assert f"batch, {size} bytes from 0 to {size - 1}" in text_of(name)


def test_hostile_bytes_do_not_reach_the_terminal() -> None:
    explained = explain_built(build_batch(2, "none", [(0, b"\x1b[2Jk", "\u202e\x07\r\n".encode())]))
    text = "\n".join(lines(explained, 80, color=False))
    assert not re.search(r"[^\n\x20-\x7e]", text)
    assert "\\x1b[2Jk" in text


def test_colours_are_escape_codes_and_nothing_else() -> None:
    explained = explain_built(build_batch(1, "gzip", [(0, b"key", b"value")]))
    plain, coloured = (list(lines(explained, 120, color)) for color in (False, True))
    assert not any("\x1b" in line for line in plain)
    assert any("\x1b[36m" in line for line in coloured)
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


def test_a_long_value_is_cut_and_counted() -> None:
    explained = explain_built(build_batch(2, "none", [(0, None, b"x" * 5000)]))
    text = "\n".join(lines(explained, 80, color=False))
    assert "... 4,968 more" in text
    assert "... 4,000 more characters" in text
