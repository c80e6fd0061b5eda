"""ZigZag varints byte by byte, in plain Python: the seven bits that each byte adds, and the number they make.

The rules are those of ``format/varint.py``, whose kernels read numbers alone; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerless.explanation.field import Part

MOST_BYTES = {32: 5, 64: 10}


@dataclass(frozen=True, slots=True)
class Varint:
    """A number of variable length."""

    groups: tuple[int, ...]
    """The lower seven bits of its bytes, the lowest first."""
    raw: int
    """The number that the groups make."""
    value: int
    """The number after ZigZag is undone; of unsigned ones, ``raw``."""

    @property
    def length(self) -> int:
        """In bytes."""
        return len(self.groups)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The part that each byte adds, where there is more than one."""
        if self.length == 1:
            return ()
        more = self.length - 1
        return tuple(
            Part(f"{7 * at}-{7 * at + 6}", f"byte {group | 128 * (at < more):02x}", f"{group:07b}")
            for at, group in enumerate(self.groups)
        )

    @property
    def derivation(self) -> str:
        """``0000001 0000000 = 128, ZigZag 64``: the highest bits first."""
        return f"{self._bits} = {self.raw}, ZigZag {self.value}"

    @property
    def unsigned_derivation(self) -> str:
        """``0000001 0000000 = 128``."""
        return f"{self._bits} = {self.raw}"

    @property
    def _bits(self) -> str:
        return " ".join(f"{group:07b}" for group in reversed(self.groups))


def read_varint(data: bytes, at: int, end: int, bits: int = 32) -> Varint | str:
    """Return the varint at ``at``, which ends before ``end``; or what was expected where there is none. ``bits``: 32 or
    64, of the number; those past them are dropped."""
    groups: list[int] = []
    for byte in data[at : min(end, at + MOST_BYTES[bits])]:
        groups.append(byte & 127)
        if byte < 128:
            raw = sum(group << 7 * place for place, group in enumerate(groups)) & ((1 << bits) - 1)
            return Varint(tuple(groups), raw, (raw >> 1) ^ -(raw & 1))
    if len(groups) == MOST_BYTES[bits]:
        return f"a varint of at most {MOST_BYTES[bits]} bytes: one of them below 0x80"
    return "a varint, whose last byte is below 0x80"
