"""What is changed of a value: ranges of its bytes, and what is there instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerless.errors import BrokerlessError


class NotBlankedError(BrokerlessError, ValueError):
    """Why fields of a value cannot be blanked; the message goes on after "the value of offset 7"."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a value: the bytes from ``start`` to ``end`` become ``new``."""

    start: int
    end: int
    new: bytes
    contents: tuple[tuple[int, int], ...] = ()
    """Where texts and numbers are in these bytes, without their lengths, as one would search for them; none for a
    length that only follows from other edits."""
    more: tuple[bytes, ...] = ()
    """What else to search for, such as texts without their escapes."""

    @property
    def growth(self) -> int:
        return len(self.new) - (self.end - self.start)

    def shifted(self, by: int) -> Edit:
        contents = tuple((start + by, end + by) for start, end in self.contents)
        return Edit(self.start + by, self.end + by, self.new, contents=contents, more=self.more)

    def split(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the edit as several changes, so that each of ``contents`` is removed by one."""
        new, at = self.new, self.start
        for start, end in (*self.contents, (self.end, self.end)):
            for piece in ((at, start), (start, end)):
                if piece[0] < piece[1]:
                    yield *piece, new
                    new = b""
            at = end
        if new and self.start == self.end:
            yield self.start, self.end, new


def apply_edits(value: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a value with edits, which are in the order of its bytes and do not overlap."""
    pieces: list[bytes] = []
    at = 0
    for each in edits:
        pieces += [value[at : each.start], each.new]
        at = each.end
    return b"".join([*pieces, value[at:]])
