"""Says what the texts of a topic's settings mean, as a broker parses them.

Source: ``ConfigDef.parseType``, ``LogConfig`` (4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping

from brokerless.errors import UsageError
from brokerless.log.config import DEFAULTS, CleanupPolicy, LogConfig

TopicSettings = Mapping[str, str]
"""Settings of a topic by name, as texts."""
CLEANUP_POLICY = "cleanup.policy"
REMOTE_STORAGE = "remote.storage.enable"
_POLICIES: Mapping[tuple[str, ...], CleanupPolicy] = {
    (): "", ("delete",): "delete", ("compact",): "compact",
    ("compact", "delete"): "compact,delete", ("delete", "compact"): "compact,delete",
}  # fmt: skip


def is_true(text: str | None) -> bool:
    """Return whether a setting of type BOOLEAN is true; one that is not set is not."""
    return text is not None and text.strip().lower() == "true"


def cleanup_policies(text: str | None) -> tuple[str, ...]:
    """Return the words of a ``cleanup.policy``; those of Kafka's default where it is not set."""
    policy = DEFAULTS.cleanup_policy if text is None else text.strip()
    return tuple(each.strip() for each in policy.split(",")) if policy else ()


def is_compacted(settings: TopicSettings) -> bool:
    """Return whether a topic with these settings is compacted."""
    return "compact" in cleanup_policies(settings.get(CLEANUP_POLICY))


def has_remote_storage(settings: TopicSettings) -> bool:
    """Return whether a topic with these settings has segments in remote storage (KIP-405)."""
    return is_true(settings.get(REMOTE_STORAGE))


def retention_config(settings: TopicSettings) -> LogConfig | None:
    """Return what retention goes by, Kafka's defaults for what is not set; None for settings that it would not take."""
    try:
        return LogConfig(
            retention_ms=int(settings.get("retention.ms", DEFAULTS.retention_ms)),
            retention_bytes=int(settings.get("retention.bytes", DEFAULTS.retention_bytes)),
            cleanup_policy=_POLICIES[cleanup_policies(settings.get(CLEANUP_POLICY))],
        )
    except (ValueError, KeyError, UsageError):
        return None
