"""Predicts the segments that a broker deletes soon after its start: by size, by the age of their records, and those
before the log start offset, of which nothing is served.

A restored or salvaged log has old timestamps, and its topic's ``retention.ms`` counts from them. Nothing of this is
lost by the start itself: a broker looks for such segments every ``log.retention.check.interval.ms`` (5 minutes), first
after ``log.initial.task.delay.ms`` (30 seconds).

Sources: ``LogManager.cleanupLogs``, ``UnifiedLog.deleteOldSegments``, ``ServerLogConfigs`` (4.4.0). It was tried with a
broker (``tests/kafka/test_retention.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from brokerless.findings import Finding
from brokerless.log import names
from brokerless.log.recovery.misleading_indexes import last_time_entry, misread_age
from brokerless.log.recovery.plan import RecoveryPlan
from brokerless.log.settings.topic import TopicSettings, retention_config
from brokerless.log.write.active_segment import SegmentState
from brokerless.log.write.retention import ClosedSegment, before_start, expired
from brokerless.log.write.segment_state import describe_for_retention


@dataclass(frozen=True, slots=True)
class Retention:
    """The segments of one partition that retention deletes."""

    segments: tuple[tuple[str, int], ...]
    """Log files and their sizes, from the first one on."""
    log_start_offset: int
    """Where the log begins then."""
    settings: TopicSettings
    """The settings that decide, by name."""
    defaults: tuple[str, ...]
    """Which of the settings are Kafka's defaults, as neither the topic nor the cluster sets them; a broker's
    ``server.properties`` may have others."""
    misread: tuple[Finding, ...] = ()
    """Of time indexes whose last entry a broker takes for the age of the segment, although its records are younger."""
    before_start: int = 0
    """How many of ``segments`` are wholly before the log start offset: they go whatever the settings are, and nothing
    of them is served."""

    @property
    def size(self) -> int:
        """Bytes of logs."""
        return sum(size for _, size in self.segments)

    @property
    def superseded(self) -> tuple[tuple[str, int], ...]:
        """Those of ``segments`` that are wholly before the log start offset."""
        return self.segments[: self.before_start]

    @property
    def expired(self) -> tuple[tuple[str, int], ...]:
        """Those of ``segments`` that go by the settings."""
        return self.segments[self.before_start :]

    @property
    def expired_size(self) -> int:
        """Bytes of logs that go by the settings."""
        return sum(size for _, size in self.expired)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The settings that let segments go; none where only those before the log start offset do."""
        names = ("retention.ms", "retention.bytes") if self.expired else ()
        return tuple(name for name in names if self.settings[name] != "-1")


def expiring(plan: RecoveryPlan, topic: str | None, own: TopicSettings | None, now_ms: int) -> Retention | None:
    """Return what retention deletes of a log that is loaded as planned. ``own``: the topic's settings, if they are
    known. None if nothing goes; of Kafka's own topics nothing does by default."""
    # KRaft's own log goes by its snapshots (KIP-630).
    if topic == names.CLUSTER_METADATA or (own is None and names.is_internal(topic)) or not plan.segments:
        return None
    config = retention_config(own or {})
    if config is None:
        return None
    recovered = {each.base_offset: each.result.state for each in plan.recovered}
    segments = [_describe(plan, each, recovered.get(each)) for each in plan.segments]
    count = expired(segments, plan.log_start_offset, config, now_ms)
    if not count:
        return None
    gone = tuple((str(plan.files.path(each.base_offset, "log")), each.size) for each in segments[:count])
    # Where all go, the log is rolled first (UnifiedLog.deleteSegments).
    start = plan.log_end_offset if count == len(segments) else segments[count].base_offset
    values = {
        "cleanup.policy": config.cleanup_policy,
        "retention.ms": str(config.retention_ms),
        "retention.bytes": str(config.retention_bytes),
    }
    before = before_start(segments, plan.log_start_offset)
    expiring_bases = {each.base_offset for each in segments[before:count]} if config.retention_ms >= 0 else set[int]()
    ages = (misread_age(plan.files, each) for each in plan.trusted if each in expiring_bases)
    return Retention(
        gone,
        max(start, plan.log_start_offset),
        values,
        defaults=tuple(name for name in values if name not in (own or {})),
        misread=tuple(each.finding for each in ages if each is not None),
        before_start=before,
    )


def _describe(plan: RecoveryPlan, base_offset: int, state: SegmentState | None) -> ClosedSegment:
    """A segment as retention sees it after the start. ``state``: what its recovery made of it, if it is recovered."""
    if state is not None and state.max_timestamp >= 0:
        return ClosedSegment(base_offset, state.size, state.max_timestamp)
    read = last_time_entry(plan.files, base_offset) if state is None else None
    if read is not None and read >= 0:
        return ClosedSegment(base_offset, plan.files.path(base_offset, "log").stat().st_size, read)
    (found,) = describe_for_retention(plan.files, [base_offset])
    return found if state is None else replace(found, size=state.size)
