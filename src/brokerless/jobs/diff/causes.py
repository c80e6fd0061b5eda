"""The causes of differences between two logs, each known by a rule, and which of them are differences by default."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from brokerless.errors import UsageError

What = Literal["missing", "extra", "changed"]
"""What the right side has of a record: nothing, one that the left side lacks, or another one."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause: what it says of records, and whether records that differ by it are the same log all the same."""

    text: str
    is_allowed: bool = False


UNPROVEN = "unproven-compaction"
CAUSES = {
    "retention": Cause("before the first offset of the other side", is_allowed=True),
    "compaction": Cause("taken by compaction: a later record of the key is there, or its tombstone", is_allowed=True),
    "aborted": Cause("of an aborted transaction", is_allowed=True),
    "control": Cause("a control record, such as the marker of a transaction", is_allowed=True),
    "regrouped": Cause("the same records in other batches", is_allowed=True),
    "recompressed": Cause("the same batch in another codec or format", is_allowed=True),
    "restamped": Cause("the same batch with another leader epoch", is_allowed=True),
    "erased": Cause("removed or blanked by an erasure, as its manifest says", is_allowed=True),
    "another-topic": Cause("the topic has another ID: it was made again, or is of another cluster"),
    UNPROVEN: Cause("as compaction takes records, where nothing says that the topic is compacted"),
    "duplicate": Cause("a record that this side has twice"),
    "timestamps": Cause("another timestamp, and all else the same"),
    "headers": Cause("other headers, and key and value the same"),
    "schema-id": Cause("another ID of the same schema, and all else the same"),
    "schema-changed": Cause("the ID of another schema, and all else the same"),
    "lagging": Cause("after the end of the other side"),
    "order": Cause("the same records in another order"),
    "earlier": Cause("a group's position before the same record, so that it reads records again"),
    "later": Cause("a group's position after the same record, so that it loses records"),
    "past-end": Cause("a group's position after the end of the partition"),
    "no-position": Cause("a group's position that one side does not have"),
    "missing": Cause("on the left only"),
    "extra": Cause("on the right only"),
    "changed": Cause("another key or value"),
}
"""The causes by name, as ``--allow`` takes them. The last three are what is left where none of the others is known."""
ALLOWED = frozenset(name for name, each in CAUSES.items() if each.is_allowed)


def allowed_causes(named: Collection[str]) -> frozenset[str]:
    """Return the causes by which logs may differ: those of all logs, and ``named`` ones; who names compaction says that
    the topic is compacted, which nothing else may say. Raises :class:`UsageError` for an unknown one."""
    unknown = next((each for each in named if each not in CAUSES), None)
    if unknown is not None:
        raise UsageError(f"there is no cause {unknown!r}; there are {', '.join(CAUSES)}")
    return ALLOWED | frozenset(named) | ({UNPROVEN} if "compaction" in named else frozenset())
