"""Disagreements that are decisions, each with its reason; all others are in ``known.json``, and are to go."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """Patterns of what disagrees (face and what it says), and in which states, by version and name."""

    what: str
    states: str
    reason: str


DECISIONS = (
    Decision(
        "internals: lacks offsets that are current",
        r"3\.9\.1 .*",
        "the coordinator of 3.9 also takes groups from other partitions that its broker leads (KAFKA-14418), of 4 it "
        "does not; internals goes by that of 4, says so, and has the others in --history",
    ),
    Decision(
        "internals: has offsets that are not current",
        r".* directory-id-(missing|other)",
        "whether the broker gets to assign these directories to itself is a race; restart and audit say so",
    ),
    Decision(
        "audit: lacks (partition-missing|position-past-end) of (cluster|rebuild)",
        r".* other-topic-id-same-number",
        "what the cluster lacks without this directory; audit says that the start itself fails on it",
    ),
    Decision(
        ".*",
        r".* metadata-missing",
        "whether another controller has the metadata cannot be known here: audit, restart and cluster say that it is "
        "missing, and that without one all partitions become stray",
    ),
    Decision(
        "internals: has offsets that are not current",
        r"4\.\d\.\d other-topic-id-same-number",
        "which partitions a broker applies before it gives up is the order of a hash map of topic ids: those of 4.0 to "
        "4.4 left out the same ones, by no rule that could be said; audit and restart say so",
    ),
    Decision(
        "audit: lacks partition-missing of cluster",
        r".* meta-properties-other-node",
        "this node has none of the partitions, and does not start; that is what audit says",
    ),
)


def is_decided(face: str, what: str, state: str) -> bool:
    """Whether a disagreement (``state``: version and name) is a decision."""
    said = f"{face}: {what}"
    return any(re.fullmatch(each.what, said) and re.fullmatch(each.states, state) for each in DECISIONS)
