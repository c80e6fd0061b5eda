"""The search for erased bytes finds what Python's ``in`` finds, however many patterns there are."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.findings import Finding
from brokerless.jobs.prove.search import MOST, PatternSearch
from brokerless.log.storage.location import Location

PIECES = st.text("ab", min_size=1, max_size=14).map(str.encode)


@examples(300)
@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=12).map(b"".join))
def test_as_python_finds_them(patterns: list[bytes], data: bytes) -> None:
    search = PatternSearch(patterns)
    assert {*search.patterns} == {each for each in patterns if len(each) >= 4}
    found = [(search.patterns[number], at) for number, at in search._find(np.frombuffer(data, np.uint8))]
    assert all(data[at : at + len(pattern)] == pattern for pattern, at in found)
    there = {each for each in search.patterns if each in data}
    shorter = {each for each in there if len(each) < 8}
    assert {pattern for pattern, _ in found} >= shorter
    assert bool(found) == bool(there)


def test_each_of_many_patterns_is_found_in_a_file(tmp_path: Path) -> None:
    chance = random.Random(1)
    patterns = [b'{"user":"%d","name":"%d"}' % (number, chance.getrandbits(60)) for number in range(20_000)]
    search = PatternSearch(patterns)
    assert search.left_out == 0
    for number in chance.sample(range(len(patterns)), 20):
        path = tmp_path / f"{number}.index"
        path.write_bytes(chance.randbytes(5000) + patterns[number] + chance.randbytes(100))
        findings: list[Finding] = []
        with Location(str(path)).open() as file:
            PatternSearch(patterns[number - 1 : number + 1]).look_in_file(file, findings.append)
            search.look_in_file(file, lambda _: None)
        assert [each.position for each in findings] == [5000]
    assert search.counts["error"] == 20


def test_what_is_left_out_is_counted() -> None:
    same = [b"%d----the same----" % number for number in range(10, 99)]
    assert PatternSearch(same).left_out < len(same) - MOST
    search = PatternSearch([b"abc", *(b"%04d" % number for number in range(MOST + 5))])
    assert search.left_out == 1 + 5
