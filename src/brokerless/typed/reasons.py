"""Why a payload has no typed value, or not all of it: one line, and which kind of reason it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a payload was not decoded, or not in full."""

    text: str
    """One line without the value itself, which the bytes have, so that one cause is one text."""
    kind: Literal["undecoded", "unfit", "left-out"] = "undecoded"
    """``unfit`` where the topic's type does not hold the value, ``left-out`` where all but a part of it was decoded."""

    def __str__(self) -> str:
        return self.text

    def in_field(self, path: str) -> Reason:
        """Return the same reason, about a field of the value, such as ``lines[].sku``; empty for the whole."""
        return replace(self, text=f"field {path}: {self.text}") if path else self


Reasons = dict[int, Reason]
"""The reasons of the rows that have one, by their numbers."""


def unfit_reason(what: str, target: object) -> Reason:
    """Return the reason of a value that the type of its field does not hold."""
    return Reason(f"{what} does not fit into {target}", "unfit")


def left_out_reason(what: str) -> Reason:
    """Return the reason of a value that was decoded without a part of it, which its bytes have."""
    return Reason(f"{what} is left out", "left-out")


FINER = left_out_reason("what is finer than a microsecond")
