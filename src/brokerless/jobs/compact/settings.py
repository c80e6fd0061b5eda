"""The settings of a compaction: the topic's, as the cluster's metadata has them, unless the caller has others.

``max.compaction.lag.ms`` is not among them: it says when a broker has to clean, not what it leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from brokerless import clock
from brokerless.clock import milliseconds
from brokerless.errors import UsageError
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.internals.topic_settings import read_topic_settings
from brokerless.log import names
from brokerless.log.config import DEFAULTS, with_segment_bytes
from brokerless.log.directory import PartitionPath
from brokerless.log.settings.topic import CLEANUP_POLICY, TopicSettings, cleanup_policies
from brokerless.requests.writing import CompactRequest
from brokerless.tables.read_options import bound

KafkaRules = Literal["3.9", "4.4"]
KEY_BYTES = 256 << 20
"""Memory for the keys of one partition, by default."""


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """The settings of a compaction. Raises :class:`UsageError` for what Kafka would not take."""

    now_ms: int
    """The time that counts as now (ms since the epoch)."""
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    """Kafka's ``delete.retention.ms``."""
    min_compaction_lag_ms: int = 0
    """Kafka's ``min.compaction.lag.ms``."""
    segment_bytes: int = DEFAULTS.segment_bytes
    """Kafka's ``segment.bytes``."""
    segment_index_bytes: int = DEFAULTS.segment_index_bytes
    """Kafka's ``segment.index.bytes``."""
    keep_active: bool = False
    """Whether the last segment stays unchanged."""
    from_start: bool = False
    """Whether what was cleaned before counts as dirty."""
    kafka: KafkaRules = "4.4"
    """The version whose rules apply; those of 3.9 keep v0 and v1."""
    key_bytes: int = KEY_BYTES
    """Memory for keys, in bytes."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    dry_run: bool = False
    """Whether everything is done but writing."""
    top_keys: int = 0
    """How many of the most frequent keys are found."""

    def __post_init__(self) -> None:
        for name in ("now_ms", "delete_retention_ms", "min_compaction_lag_ms"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name}: {getattr(self, name)} is negative")
        if self.kafka not in ("3.9", "4.4"):
            raise UsageError(f"kafka: {self.kafka!r} is neither '3.9' nor '4.4'")


@dataclass(frozen=True, slots=True)
class CompactOptions:
    """The settings that a caller has for all topics, as in :class:`CompactSettings`; None for those of each topic, or
    the default."""

    now_ms: int | None = None
    delete_retention_ms: int | None = None
    min_compaction_lag_ms: int | None = None
    segment_bytes: int | None = None
    keep_active: bool = False
    from_start: bool = False
    kafka: KafkaRules = "4.4"
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    dry_run: bool = False
    top_keys: int = 0
    """How many of the most frequent keys are found, in a dry run only."""
    key_bytes: int | None = None

    def settings_of(self, source: PartitionPath, others: Sequence[str] = ()) -> CompactSettings:
        """Those of one partition; ``others``: log directories that may have the cluster's metadata as well.

        Raises :class:`UsageError` for what Kafka would not take."""
        settings = CompactSettings(
            clock.now() if self.now_ms is None else self.now_ms,
            keep_active=self.keep_active,
            from_start=self.from_start,
            kafka=self.kafka,
            max_batch_bytes=self.max_batch_bytes,
            dry_run=self.dry_run,
            top_keys=self.top_keys if self.dry_run else 0,
            key_bytes=KEY_BYTES if self.key_bytes is None else self.key_bytes,
        )
        of_topic = read_topic_settings(source.location, source.topic or "", others) or {}
        own: dict[str, int] = {}
        for name in _FROM_TOPIC:
            given = getattr(self, name, None)
            value = _number(of_topic, name.replace("_", ".")) if given is None else given
            if value is not None:
                own[name] = value
        return replace(settings, **own)


def options_of(request: CompactRequest) -> CompactOptions:
    """Return what was requested for all topics. Raises :class:`UsageError` for a size that Kafka would not take."""
    config = with_segment_bytes(request.segment_bytes)
    return CompactOptions(
        milliseconds(request.now),
        request.delete_retention_ms,
        request.min_compaction_lag_ms,
        segment_bytes=None if config is None else config.segment_bytes,
        keep_active=request.keep_active,
        from_start=request.from_start,
        kafka=request.kafka,
        max_batch_bytes=bound(request.max_batch_bytes),
        dry_run=request.dry_run or request.what_if,
        top_keys=request.top,
        key_bytes=request.key_memory,
    )


_FROM_TOPIC = ("delete_retention_ms", "min_compaction_lag_ms", "segment_bytes", "segment_index_bytes")


def _number(settings: TopicSettings, name: str) -> int | None:
    try:
        return int(settings[name])
    except (KeyError, ValueError):
        return None


def is_compacted(source: PartitionPath, checkpoint: int | None, others: Sequence[str] = ()) -> bool | None:
    """Return whether the topic's ``cleanup.policy`` has ``compact``: by the cluster's metadata, in the same log
    directory or one of ``others``. Where that is missing, by a line in ``cleaner-offset-checkpoint``, or as it is one
    of the topics that Kafka itself compacts; None where nothing says."""
    if source.topic == names.CLUSTER_METADATA:
        return False
    settings = read_topic_settings(source.location, source.topic or "", others)
    if settings is not None and CLEANUP_POLICY in settings:
        return "compact" in cleanup_policies(settings[CLEANUP_POLICY])
    if checkpoint is not None or source.topic in names.COMPACTED_BY_KAFKA:
        return True
    return None if settings is None else False
