"""Kafka's own topics decoded, and MirrorMaker's and Connect's: offsets, groups, transactional ids, metadata.

An *entry* is a record of such a topic with its transaction's outcome; a record that was *decoded* has a type, a key and
a payload. The *history* is every record in the order of the logs, the *state* is what they add up to: the last one of
each key that counts. A *coordinator* loads those of the partition that a name belongs to, and no records elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from brokerless.internals.tables import history, state

__all__ = ["history", "state"]


def __getattr__(name: str) -> Any:
    """Import these, and with them kernels, only when they are used: what reads messages does without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from brokerless.internals import tables

    return getattr(tables, name)
