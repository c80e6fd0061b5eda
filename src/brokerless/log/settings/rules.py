"""A table of how versions of Kafka differ in what they do at a start, each by the first version that does it.

Of 480 states of partitions and 50 of directories, brokers of 3.9.1, 4.0.2, 4.1.2, 4.2.2, 4.3.1 and 4.4.0 differed in
these rules only (``tests/states``), but for values of settings (``definitions``) and levels of the cluster's features
(``internals.metadata.versions``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from brokerless.log.settings.definitions import is_since

RuleName = Literal["transaction-index-version", "repeated-cleaner-checkpoint"]


@dataclass(frozen=True, slots=True)
class SettingRule:
    """A rule of newer versions of Kafka."""

    since: str
    """The first version with the rule."""
    what: str
    """What that version does."""
    source: str
    """The change to Kafka."""


RULES: dict[RuleName, SettingRule] = {
    "transaction-index-version": SettingRule(
        "4.4.0", "ends at an entry of a transaction index with an unknown version", "AbortedTxn, KAFKA-19562"
    ),
    "repeated-cleaner-checkpoint": SettingRule(
        "4.1.2",
        "ends the cleaner at a partition in the cleaner's checkpoints of two directories; before, the last line counts",
        "LogCleanerManager.allCleanerCheckpoints, KAFKA-14485",
    ),
}


def has_rule(version: str, name: RuleName) -> bool:
    """Return whether a version of Kafka (as in ``definitions``) goes by a rule."""
    return is_since(version, RULES[name].since)
