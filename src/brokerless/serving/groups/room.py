"""Bounds the memory for what clients say of groups: names, subscriptions and assignments of members, and text beside
offsets.

A broker bounds each record of it by ``max.message.bytes`` of ``__consumer_offsets``, and all of them by its disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from brokerless.serving.groups.errors import GroupError
from brokerless.serving.protocol.errors import Error

MOST_BYTES = 64 << 20
"""Of all members and groups together; and again of what is said beside offsets."""
OF_EACH = 1000
"""Bytes of a member, a group or a place beside its texts, about."""

_OF_TEXT, _OF_LETTER = 50, 4


def size_of(texts: Iterable[str | None]) -> int:
    """Return about how many bytes of memory texts take."""
    return sum(_OF_TEXT + len(each) * (1 if each.isascii() else _OF_LETTER) for each in texts if each)


@dataclass(slots=True)
class Room:
    """The memory that groups and their members may take."""

    most: int = MOST_BYTES
    """Bytes that may be taken."""
    taken: int = 0

    def check(self, more: int, error: Error = Error.GROUP_MAX_SIZE_REACHED) -> None:
        """Raise :class:`GroupError` where so many bytes more are too many."""
        if more > 0 and self.taken + more > self.most:
            raise GroupError(error)

    def take(self, size: int) -> None:
        """Count bytes that are taken, or where it is negative given back."""
        self.taken += size
