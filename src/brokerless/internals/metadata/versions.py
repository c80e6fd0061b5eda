"""Metadata versions: their names and levels, the versions of records that each writes, and what else each allows.

Sources: ``MetadataVersion`` and the feature classes beside it (``Feature``), 3.9.1 to 4.4.0; KIP-778, KIP-584.
"""

from __future__ import annotations

from brokerless.errors import UsageError
from brokerless.log.settings.definitions import is_since

LEAST, NEWEST = 7, 33
"""The levels that are known here: from 3.3-IV3, the least that Kafka 4 starts with, to 4.4-IV2."""

METADATA_VERSION, KRAFT_VERSION = "metadata.version", "kraft.version"
_NAMES = (
    "3.3-IV3",
    "3.4-IV0",
    *("3.5-IV0", "3.5-IV1", "3.5-IV2"),
    *("3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4"),
    "3.8-IV0",
    "3.9-IV0",
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3"),
    *("4.1-IV0", "4.1-IV1"),
    *("4.2-IV0", "4.2-IV1"),
    "4.3-IV0",
    *("4.4-IV0", "4.4-IV1", "4.4-IV2"),
)
LEVELS = {
    "3.9.1": (1, 21),
    "4.0.2": (LEAST, 25),
    "4.1.2": (LEAST, 27),
    "4.2.2": (LEAST, 29),
    "4.3.1": (LEAST, 30),
    "4.4.0": (LEAST, NEWEST),
}
"""The lowest and the highest ``metadata.version`` with which a version of Kafka starts (``LATEST_PRODUCTION``)."""
_OF_RECORDS = {
    "REGISTER_BROKER_RECORD": ((7, 1), (8, 2), (17, 3), (30, 4)),
    "PARTITION_RECORD": ((7, 0), (17, 1), (23, 2)),
}
"""From which level on a record has which version; all others have version 0."""

SCRAM, DELEGATION_TOKENS, DIRECTORIES, DYNAMIC_QUORUM, ELR = 11, 14, 17, 21, 23
"""The first levels with SCRAM users, delegation tokens, directory ids, a quorum whose voters are in its log, and
eligible leader replicas (KIP-900, KIP-900, KIP-858, KIP-853, KIP-966)."""

_FEATURES = {
    ("transaction.version", 1): 24,
    ("transaction.version", 2): 24,
    ("group.version", 1): 22,
    ("eligible.leader.replicas.version", 1): 26,
    ("share.version", 1): 28,
    ("share.version", 2): 31,
    ("streams.version", 1): 29,
}
"""The first level of the Kafka that has a feature (``bootstrapMetadataVersion``)."""
_LEVELS_OF_FEATURES = {
    "transaction.version": {"4.0.2": 2},
    "group.version": {"4.0.2": 1},
    "eligible.leader.replicas.version": {"4.0.2": 1},
    "share.version": {"4.1.2": 1, "4.4.0": 2},
    "streams.version": {"4.2.2": 1},
}
"""The highest level of a feature by the first version that takes it (``Feature.latestProduction``)."""


def parse_level(text: str) -> int:
    """Return the level that ``4.0``, ``3.9-IV0`` or ``21`` names. A release has the newest of its levels. Raises
    :class:`UsageError`."""
    levels = [LEAST + at for at, name in enumerate(_NAMES) if text in (name, name.partition("-")[0])]
    if levels:
        return levels[-1]
    if text.isascii() and text.isdecimal() and LEAST <= int(text) <= NEWEST:
        return int(text)
    known = f"{_NAMES[0]} ({LEAST}) to {_NAMES[-1]} ({NEWEST})"
    raise UsageError(f"there is no metadata version {text!r} that can be written; known are {known}")


def level_name(level: int) -> str:
    """Return the name of a level, or its number where it has no name here."""
    return _NAMES[level - LEAST] if LEAST <= level <= NEWEST else str(level)


def describe_level(level: int) -> str:
    """For people: ``4.4-IV2 (33)``, or the number alone where it has no name here."""
    name = level_name(level)
    return name if name == str(level) else f"{name} ({level})"


def starts_with(version: str, level: int) -> bool:
    """Return whether a version of Kafka starts with this ``metadata.version`` at all."""
    least, most = LEVELS[version]
    return least <= level <= most


def record_version(type_: str, level: int) -> int:
    """Return the version in which a cluster at this level writes a type of record."""
    return next((version for since, version in reversed(_OF_RECORDS.get(type_, ())) if level >= since), 0)


def has_feature(version: str, feature: str, level: int) -> bool:
    """Return whether a version of Kafka (as in :data:`LEVELS`) knows a feature at a level; other than
    ``metadata.version``."""
    if feature == KRAFT_VERSION:
        return level in (0, 1)
    known = _LEVELS_OF_FEATURES.get(feature, {})
    return level <= max((most for since, most in known.items() if is_since(version, since)), default=0)


def first_level_of(feature: str, feature_level: int) -> int | None:
    """Return the first metadata level of the Kafka that knows a feature at this level; None for what is not known
    here."""
    return LEAST if not feature_level else _FEATURES.get((feature, feature_level))


def features_of(level: int) -> dict[str, int]:
    """Return the level of each feature that ``kafka-storage format`` sets for a release with this metadata level."""
    found: dict[str, int] = {}
    for (feature, feature_level), since in _FEATURES.items():
        if level >= since:
            found[feature] = max(feature_level, found.get(feature, 0))
    return found
