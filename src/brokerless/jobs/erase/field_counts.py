"""Counts, for each field that was to be blanked, the selected values that held it, and those that lack it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from brokerless.findings import Finding, Kind
from brokerless.typed.blanking.paths import Presence
from brokerless.values import Int64, members


class FieldCount(Struct, rename="camel", forbid_unknown_fields=True):
    """The counts of a field in the selected values of one partition."""

    field: str
    """The field's path."""
    held: Int64 = 0
    """How many values had something in the field that was blanked."""
    empty: Int64 = 0
    """How many values had a field that was null or empty already, or is left out as their schema permits."""
    lacking: Int64 = 0
    """How many values have no such field, be it in one element of an array, so that what was to be erased may have
    another name there."""
    first_lacking: Int64 | None = None
    """The offset of the first value that lacks the field; None without one."""

    def add(self, offset: int, presence: Presence) -> None:
        """Adds a value by what it had of the field."""
        self.held += Presence.HELD in presence
        self.empty += presence == Presence.EMPTY
        if Presence.LACKING in presence:
            self.lacking += 1
            if self.first_lacking is None:
                self.first_lacking = offset

    def as_dict(self) -> dict[str, Any]:
        """Return the object that a manifest has."""
        return members(self)


@dataclass(frozen=True, slots=True)
class TopicField:
    """The counts of a field in the selected values of all partitions of a topic, as in :class:`FieldCount`."""

    topic: str
    field: str
    held: int
    empty: int
    lacking: int
    path: str | None = None
    """The directory of the first partition in which a value lacks the field; None without one."""
    first_lacking: int | None = None
    """The offset of the first value there that lacks the field; None without one."""

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``erase --json`` writes."""
        return {
            "topic": self.topic,
            "field": self.field,
            "held": self.held,
            "empty": self.empty,
            "lacking": self.lacking,
            "firstLacking": None if self.path is None else {"path": self.path, "offset": self.first_lacking},
        }

    def finding(self) -> Finding | None:
        """Return what to check, if any value lacks the field."""
        if not self.lacking:
            return None
        values, lack = ("value", "lacks") if self.lacking == 1 else ("values", "lack")
        text = (
            f"{self.lacking:,} selected {values} of {self.topic}, the first at offset {self.first_lacking}, {lack} "
            f"the field {self.field} ({self.held:,} held it, in {self.empty:,} it is null or empty): what is to be "
            "erased may be left there under another name"
        )
        return Kind.FIELD_LACKING.at(self.path or "", text, offset=self.first_lacking)


def by_topic(partitions: Iterable[tuple[str, str, Iterable[FieldCount]]]) -> Iterator[TopicField]:
    """Sums over partitions: topics, the partitions' paths and their counts, in the order in which they come."""
    found: dict[tuple[str, str], TopicField] = {}
    for topic, path, counts in partitions:
        for each in counts:
            old = found.get((topic, each.field), TopicField(topic, each.field, 0, empty=0, lacking=0))
            place = (old.path, old.first_lacking)
            if old.path is None and each.lacking:
                place = (path, each.first_lacking)
            found[topic, each.field] = TopicField(
                topic, each.field, old.held + each.held, old.empty + each.empty, old.lacking + each.lacking, *place
            )
    yield from found.values()
