"""The rules that differ between versions, as brokers of each were seen to have them (``tests/states``)."""

from __future__ import annotations

from brokerless.log.settings.definitions import versions
from brokerless.log.settings.rules import RULES, has_rule


def test_a_rule_holds_from_a_version_on() -> None:
    assert [each for each in versions() if has_rule(each, "transaction-index-version")] == ["4.4.0"]
    own = [each for each in versions() if has_rule(each, "repeated-cleaner-checkpoint")]
    assert own == ["4.1.2", "4.2.2", "4.3.1", "4.4.0"]


def test_each_rule_names_where_it_is_from() -> None:
    assert all(each.since in versions() and "KAFKA-" in each.source for each in RULES.values())
