from __future__ import annotations

from brokerless.serving.source.patterns import matching


def test_names_match_as_a_whole() -> None:
    assert matching(["a", "ab", "b"], "a|b") == {"a", "b"}
    assert matching(["a", "ab", "b"], "a.*") == {"a", "ab"}
    assert matching([], "a") == set()


def test_what_is_no_expression_matches_nothing() -> None:
    assert matching(["a"], "(") is None
    assert matching(["a"], "a" * 2000) is None
