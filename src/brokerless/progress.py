"""What callers get while something is read or written: progress, findings, and texts for people."""

from __future__ import annotations

from collections.abc import Callable

from brokerless.findings import Finding

Done = Callable[[int], object]
"""Called with the bytes that were read, or passed over, since the last call."""
Report = Callable[[Finding], None]
"""Called with each finding, when it is found."""
Say = Callable[[str], object]
"""Called with a text for people."""


def ignore(*_: object) -> None:
    """Takes what nobody wants to know."""
