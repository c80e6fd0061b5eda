"""Names that Kafka gives to compression types, isolation levels, and the codes of ACLs and share groups."""

from __future__ import annotations

from typing import Literal, get_args

from brokerless.errors import UsageError

COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their number in the attributes of a batch or message."""

TopicPartition = tuple[str, int]
"""A topic and a partition's number, as Kafka's ``TopicPartition``."""

TopicIdPartition = tuple[str, int]
"""A topic's ID and a partition's number: another topic of the same name has another ID."""

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATION_LEVELS: tuple[Isolation, ...] = get_args(Isolation)


def check_isolation(isolation: object) -> None:
    """Raise :class:`UsageError` for what is no isolation level."""
    if isolation not in ISOLATION_LEVELS:
        raise UsageError(f"isolation: {isolation!r} is neither 'read_uncommitted' nor 'read_committed'")


ACL_NAMES = {
    "resourceType": (
        *("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER"),
        *("TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
    ),
    "patternType": ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"),
    "operation": (
        *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
        "TWO_PHASE_COMMIT",
    ),
    "permissionType": ("UNKNOWN", "ANY", "DENY", "ALLOW"),
}
"""By the field of ``ACCESS_CONTROL_ENTRY_RECORD`` and its code: ``ResourceType``, ``PatternType``, ``AclOperation`` and
``AclPermissionType`` (4.4.0)."""

DELIVERY_STATES = ("AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED")
"""By the ``deliveryState`` of records in ``__share_group_state``: ``RecordState`` (4.4.0). ``ARCHIVING`` is of
a record that is being written to a dead-letter queue (KIP-1191)."""
