"""The topics that groups of KIP-848 subscribe to, by name or by a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.patterns import matching
from brokerless.serving.source.topics import Topics


@dataclass(frozen=True, slots=True)
class ServedTopics:
    """The topics that groups may subscribe to."""

    topics: Topics

    def match(self, names: Set[str], regex: str) -> Set[str]:
        """Return the IDs of the topics with one of these names, or one that matches."""
        by_name = self.topics.by_name
        found = matching(by_name, regex) if regex else set[str]()
        if found is None:
            raise GroupError(Error.INVALID_REGULAR_EXPRESSION)
        return {by_name[each].topic_id for each in {*names, *found} if each in by_name}

    def counts(self) -> Mapping[str, int]:
        """Return how many partitions each topic has."""
        return {topic_id: each.count for topic_id, each in self.topics.by_id.items()}
