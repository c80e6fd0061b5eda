"""Recognizes the topics of MirrorMaker and of Kafka Connect by their names.

Sources: ``DefaultReplicationPolicy`` (``mm2-offset-syncs.ALIAS.internal``, ``ALIAS.checkpoints.internal``; the
separator can be set), ``MirrorMakerConfig`` (``mm2-offsets.ALIAS.internal`` and the like). Names of Connect's topics
are settings; those here are what Kafka's own configuration files, Confluent's and Strimzi's images have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TABLES = (
    "mirrorOffsetSyncs", "mirrorCheckpoints", "mirrorHeartbeats", "connectOffsets", "connectConfigs", "connectStatus",
)  # fmt: skip
"""One for each kind of topic. ``heartbeats`` is a name that others' topics have, too: it has to be given."""

_NAMES = {
    "mirrorOffsetSyncs": r"mm2-offset-syncs([._-]).+\1internal",
    "mirrorCheckpoints": r".+([._-])checkpoints\1internal",
    **{
        table: rf"mm2-{name}([._-]).+\1internal|(.*[._-])?(connect|mirrormaker2?)([._-]cluster)?[._-]{of_worker}"
        for table, name, of_worker in (
            ("connectOffsets", "offsets", "offsets?"),
            ("connectConfigs", "configs", "configs?"),
            ("connectStatus", "status", "status(es)?"),
        )
    },
}


def table_of_topic(topic: str | None, given: Mapping[str, str] | None = None) -> str | None:
    """Return the table that a topic's records make; None for any other topic. ``given``: tables of topics whose names
    do not tell."""
    if topic is None:
        return None
    if given and topic in given:
        return given[topic]
    return next((table for table, name in _NAMES.items() if re.fullmatch(name, topic)), None)
