"""What retention deletes of a restored cluster within minutes of its start, and how it is paused.

Records keep their timestamps, by which a topic's ``retention.ms`` counts, however old a snapshot is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from brokerless.findings import Finding, Kind
from brokerless.internals.metadata.cluster import Cluster, ResourceType
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.backups.state import SnapshotState
from brokerless.log.config import LogConfig
from brokerless.log.settings.topic import TopicSettings, retention_config
from brokerless.log.write.retention import ClosedSegment, expired
from brokerless.text import count_of, format_bytes

RETENTION_MS = "retention.ms"


@dataclass(frozen=True, slots=True)
class PausedRetention:
    """A topic whose ``retention.ms`` is -1 for now."""

    topic: str
    before: str | None
    """The topic's own value before; None where it had none."""

    @property
    def change(self) -> str:
        """The option of ``kafka-configs.sh --alter`` that sets back what was."""
        return (
            f"--delete-config {RETENTION_MS}" if self.before is None else f"--add-config {RETENTION_MS}={self.before}"
        )


def pause_retention(cluster: Cluster) -> tuple[PausedRetention, ...]:
    """Set ``retention.ms`` to -1 for all topics of which anything is deleted by it, but for Kafka's own; return what it
    was."""
    found: list[PausedRetention] = []
    for topic, settings in sorted(cluster.settings_by_topic().items()):
        config = _config(topic, settings)
        if config is None or not config.deletes or config.retention_ms < 0:
            continue
        own = cluster.configs.setdefault((ResourceType.TOPIC, topic), {})
        found.append(PausedRetention(topic, own.get(RETENTION_MS)))
        own[RETENTION_MS] = "-1"
    return tuple(found)


def retention_findings(state: SnapshotState, cluster: Cluster, now_ms: int, place: str) -> Iterator[Finding]:
    """Yield a finding for each topic of which retention deletes stored segments at ``now_ms``. What is restored has
    longer ones, if anything, which go later. ``place``: what findings name."""
    settings = cluster.settings_by_topic()
    gone: dict[str, list[SnapshotSegment]] = {}
    for each in state.snapshot.partitions:
        config = _config(each.topic, settings[each.topic]) if each.topic in settings else None
        segments = sorted(state.segments.get(each.place, ()), key=lambda one: one.start_offset)
        if config is not None and segments:
            closed = [ClosedSegment(one.start_offset, one.size_in_bytes, one.max_timestamp) for one in segments]
            gone.setdefault(each.topic, []).extend(segments[: expired(closed, each.start_offset, config, now_ms)])
    for topic, segments in sorted(gone.items()):
        if segments:
            yield _finding(topic, settings[topic], segments, place)


def retention_deletes(place: str, text: str, found: str) -> Finding:
    """Return the finding about restored records that retention deletes soon. ``text`` says which, and what to do;
    ``found``: the settings."""
    return Kind.RETENTION_DELETES.at(place, text, found=found)


def _finding(topic: str, settings: TopicSettings, segments: list[SnapshotSegment], place: str) -> Finding:
    size, records = sum(each.size_in_bytes for each in segments), sum(each.records for each in segments)
    values = {name: settings[name] for name in ("retention.bytes", RETENTION_MS) if name in settings}
    by = ", ".join(f"{name}={value}" for name, value in values.items() if value != "-1")
    by = by or f"{RETENTION_MS}={LogConfig().retention_ms}, Kafka's default"
    text = f"{topic}: up to {count_of(records, 'record')} ({format_bytes(size)}) are past its retention, and deleted "
    text += "within minutes of a start; --pause-retention keeps what goes by age"
    return retention_deletes(place, text, found=by)


def _config(topic: str, settings: TopicSettings) -> LogConfig | None:
    """Return by what a topic is deleted; None for Kafka's own topics, which set what they need."""
    return None if names.is_internal(topic) else retention_config(settings)
