"""What RE2 finds an expression in has one of the texts that the expression is said to require."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless import UsageError
from brokerless.tables.record_filter import matches_regex, required_literals

PARTS = st.sampled_from(
    [*"ab1.-^$|()*+?é {}]:\n", "(?:", "(?P<n>", "(?i)", "(?i:", "(?-s:", "[ab]", "[^a]", "[]a]", "[[:alpha:]]",
     "[\\]a]", "[a", "\\d", "\\w", "\\b", "\\.", "\\\\", "\\(", "\\é", "\\_", "\\n", "\\Q", "\\E", "\\x61", "\\x{61}",
     "\\pL", "\\p{Lu}", "\\141", "{2}", "{0}", "{0,1}", "{1,}", "{,2}", "+?", "*?", "??"]
)  # fmt: skip
TEXTS = st.lists(st.sampled_from([*"abAB1.-é()|{} \\\n:]_E"]), max_size=12).map("".join)


@examples(800)
@given(parts=st.lists(PARTS, max_size=9), texts=st.lists(TEXTS, min_size=1, max_size=30))
def test_nothing_matches_that_has_none_of_them(parts: list[str], texts: list[str]) -> None:
    regex = "".join(parts)
    data = [each.encode() for each in [*texts, regex, "ab" * 3, "a", "b", ""]]
    try:
        found = matches_regex(pa.array(data, pa.binary()), regex)
    except UsageError:
        assume(False)
        return
    required = required_literals(regex)
    for text, matches in zip(data, found.tolist(), strict=True):
        assert not matches or not required or any(each in text for each in required), (regex, required, text)


@pytest.mark.parametrize(
    ("regex", "required"),
    [
        ("^user-471[1-3]$", {b"user-471"}),
        ("user-1|user-2[0-9]|admin", {b"user-1", b"user-2", b"admin"}),
        ("^(?:eu|us)-", {b"eu", b"us"}),
        ("(?P<region>europe|america)-[0-9]+", {b"europe", b"america"}),
        (r"a\.b\d+xyz", {b"a.b"}),
        ("orders?", {b"order"}),
        ("ab+cd", {b"ab"}),
        ("x{2}yz", {b"yz"}),
        ("[[:alpha:]]-1", {b"-1"}),
        ("", set[bytes]()),
        (".*", set[bytes]()),
        ("a|", set[bytes]()),
        ("(?i)user", set[bytes]()),
        (r"\Qa.b\E", set[bytes]()),
        ("é", set[bytes]()),
        ("(" * 300 + "a" + ")" * 300, set[bytes]()),
    ],
)
def test_the_longest_is_required(regex: str, required: set[bytes]) -> None:
    assert set(required_literals(regex)) == required
