"""The topics that groups of KIP-848 subscribe to, by name or by a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from brokerless import arrow
from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error
from brokerless.serving.source.topics import Topics

MOST_CHARACTERS = 1000
"""Of a regular expression."""


@dataclass(frozen=True, slots=True)
class ServedTopics:
    """The topics that groups may subscribe to."""

    topics: Topics

    def match(self, names: Set[str], regex: str) -> Set[str]:
        """Return the IDs of the topics with one of these names, or one that matches, by RE2 as a broker does."""
        by_name = self.topics.by_name
        found = {by_name[each].topic_id for each in names if each in by_name}
        if regex:
            import pyarrow as pa
            import pyarrow.compute as pc

            if len(regex) > MOST_CHARACTERS:
                raise GroupError(Error.INVALID_REGULAR_EXPRESSION)
            try:
                options = pc.MatchSubstringOptions(f"^(?:{regex})$")
                matches = pc.call_function("match_substring_regex", [pa.array(list(by_name), pa.string())], options)
            except pa.ArrowInvalid as error:
                raise GroupError(Error.INVALID_REGULAR_EXPRESSION) from error
            pairs = zip(by_name.values(), arrow.values(matches), strict=True)
            found |= {topic.topic_id for topic, is_match in pairs if is_match}
        return found

    def counts(self) -> Mapping[str, int]:
        """Return how many partitions each topic has."""
        return {topic_id: each.count for topic_id, each in self.topics.by_id.items()}
