"""Predicts the segments that retention deletes soon after a broker's start: by size, and by the age of their records.

A restored or salvaged log has old timestamps, and its topic's ``retention.ms`` counts from them. Nothing of this is
lost by the start itself: a broker looks for such segments every ``log.retention.check.interval.ms`` (5 minutes), first
after ``log.initial.task.delay.ms`` (30 seconds).

Sources: ``LogManager.cleanupLogs``, ``UnifiedLog.deleteOldSegments``, ``ServerLogConfigs`` (4.4.0). It was tried with a
broker (``tests/kafka/test_retention.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from brokerless.errors import UsageError
from brokerless.format import layouts
from brokerless.internals.metadata.cluster import Cluster
from brokerless.log import names
from brokerless.log.config import DEFAULTS, CleanupPolicy, LogConfig
from brokerless.log.recovery.plan import RecoveryPlan
from brokerless.log.segment import ignore, scan_headers
from brokerless.log.storage.location import Location
from brokerless.log.write.active_segment import SegmentState
from brokerless.log.write.retention import ClosedSegment, expired
from brokerless.log.write.segment_state import describe_for_retention

_TOPIC, _BROKER = 2, 4
"""``ConfigResource.Type``."""
_POLICIES: Mapping[str, CleanupPolicy] = {
    "delete": "delete", "compact": "compact", "compact,delete": "compact,delete", "delete,compact": "compact,delete",
}  # fmt: skip
Settings = Mapping[str, str]
RETENTION_SETTINGS = ("cleanup.policy", "retention.bytes", "retention.ms")
"""Settings of topics that retention goes by."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What goes of one partition. ``segments``: log files and their sizes, from the first one on; the log then begins
    at ``log_start_offset``. ``settings``: those that decide, by name; ``defaults``: which of them are Kafka's defaults,
    as neither the topic nor the cluster sets them, and a broker's ``server.properties`` may have others."""

    segments: tuple[tuple[str, int], ...]
    log_start_offset: int
    settings: Settings
    defaults: tuple[str, ...]
    misread: tuple[str, ...] = ()
    """Time indexes whose last entry a broker takes for the age of the segment, although its records are younger."""

    @property
    def size(self) -> int:
        """Bytes of logs."""
        return sum(size for _, size in self.segments)


def settings_by_topic(cluster: Cluster) -> dict[str, Settings]:
    """Return what the cluster's metadata sets for each topic, and for all of them by its brokers' defaults."""
    defaults = cluster.configs.get((_BROKER, ""), {})
    common = {name.removeprefix("log."): value for name, value in defaults.items() if name.startswith("log.")}
    return {topic: {**common, **cluster.configs.get((_TOPIC, topic), {})} for topic in cluster.topics.values()}


def expiring(plan: RecoveryPlan, topic: str | None, own: Settings | None, now_ms: int) -> Retention | None:
    """Return what retention deletes of a log that is loaded as planned. ``own``: the topic's settings, if they are
    known. None if nothing goes; of Kafka's own topics nothing does by default."""
    if topic == names.CLUSTER_METADATA or (own is None and names.is_internal(topic)) or not plan.segments:
        return None
    found = {name: (own or {})[name] for name in RETENTION_SETTINGS if name in (own or {})}
    config = config_of(found)
    if config is None:
        return None
    recovered = {each.base_offset: each.result.state for each in plan.recovered}
    segments = [_describe(plan, each, recovered.get(each)) for each in plan.segments]
    count = expired(segments, plan.log_start_offset, config, now_ms)
    if not count:
        return None
    gone = tuple((str(plan.files.path(each.base_offset, "log")), each.size) for each in segments[:count])
    start = plan.log_end_offset if count == len(segments) else segments[count].base_offset
    values = {
        "cleanup.policy": config.cleanup_policy,
        "retention.ms": str(config.retention_ms),
        "retention.bytes": str(config.retention_bytes),
    }
    trusted = [each.base_offset for each in segments[:count] if each.base_offset not in recovered]
    misread = [each for each in trusted if _is_misread(plan, each)]
    return Retention(
        gone,
        max(start, plan.log_start_offset),
        values,
        defaults=tuple(name for name in values if name not in found),
        misread=tuple(str(plan.files.path(each, "time-index")) for each in misread) if config.retention_ms >= 0 else (),
    )


def _describe(plan: RecoveryPlan, base_offset: int, state: SegmentState | None) -> ClosedSegment:
    """A segment as retention sees it after the start. ``state``: what its recovery made of it, if it is recovered."""
    if state is not None and state.max_timestamp >= 0:
        return ClosedSegment(base_offset, state.size, state.max_timestamp)
    read = _last_entry(plan, base_offset) if state is None else None
    if read is not None and read >= 0:
        return ClosedSegment(base_offset, plan.files.path(base_offset, "log").stat().st_size, read)
    (found,) = describe_for_retention(plan.files, [base_offset])
    return found if state is None else replace(found, size=state.size)


def _last_entry(plan: RecoveryPlan, base_offset: int) -> int | None:
    """The timestamp of a time index's last entry as a broker reads it, which takes all of the file for entries, and
    does not check it where the segment is not recovered (``LogSegment.largestTimestamp``, ``TimeIndex``); None where
    there is none."""
    if not plan.files.has(base_offset, "time-index"):
        return None
    width = layouts.TIME_INDEX_ENTRY.itemsize
    with Location(str(plan.files.path(base_offset, "time-index"))).open() as file:
        count = file.size // width
        data = file.read((count - 1) * width, width) if count else b""
    return int(np.frombuffer(data, layouts.TIME_INDEX_ENTRY)["timestamp"][0]) if count else None


def _is_misread(plan: RecoveryPlan, base_offset: int) -> bool:
    """Return whether a broker takes a segment for older than its first batch, by the last entry of its time index."""
    read = _last_entry(plan, base_offset)
    return read is not None and 0 <= read < _first_timestamp(plan, base_offset)


def _first_timestamp(plan: RecoveryPlan, base_offset: int) -> int:
    """The largest timestamp of a segment's first batch; -1 if it has none."""
    with Location(str(plan.files.path(base_offset, "log"))).open() as file:
        for chunk in scan_headers(file, ignore, 0, 1, chain_only=True):
            return int(chunk.batches.max_timestamp[0])
    return -1


def config_of(found: Settings) -> LogConfig | None:
    """Return the configuration that settings make; None for settings that Kafka would not take."""
    policy = ",".join(part.strip() for part in found.get("cleanup.policy", DEFAULTS.cleanup_policy).split(","))
    try:
        return LogConfig(
            retention_ms=int(found.get("retention.ms", DEFAULTS.retention_ms)),
            retention_bytes=int(found.get("retention.bytes", DEFAULTS.retention_bytes)),
            cleanup_policy=_POLICIES[policy],
        )
    except (ValueError, KeyError, UsageError):
        return None
