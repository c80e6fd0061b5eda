"""The effects of a broker's start, one after the other: what it refuses, renames, cuts, deletes, begins and moves.

:func:`directory_effects` and :func:`partition_effects` list what the dry run of :mod:`brokerless.clusters.start.job`
expects. ``restart`` shows them and ``audit`` reports their findings, so that both say the same of the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from brokerless.clusters.placement import state_finding
from brokerless.clusters.start.remote_deletions import remote_segments_deleted
from brokerless.clusters.start.results import DirectoryRestart, Restart
from brokerless.clusters.start.retention_forecast import Retention
from brokerless.findings import Finding, Kind
from brokerless.kafka_names import TopicPartition

EffectKind = Literal[
    "refused", "offline", "stray", "not-served", "begun-empty", "directory-deleted", "promoted", "emptied", "moving",
    "warned", "transaction-ended", "remote-deleted", "remote-expired", "remote-log-start-moved", "position-lost", "cut",
    "segment-deleted", "split", "index-rebuilt", "index-begun", "aborted-shown", "aborted-exposed", "end-hidden",
    "file-removed", "file-renamed", "before-log-start", "expired",
]  # fmt: skip
_OF_FUTURE: Mapping[Kind, EffectKind] = {
    Kind.FUTURE_PROMOTED: "promoted", Kind.FUTURE_EMPTIED: "emptied", Kind.FUTURE_DIRECTORY: "moving",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a start does, or that keeps it from starting."""

    kind: EffectKind
    path: str
    place: TopicPartition | None = None
    """Topic and partition; None for a log directory as a whole."""
    finding: Finding | None = None
    """In the scope of the start; None for what is usual and loses nothing."""
    size: int | None = None
    """Bytes of log that go."""
    offsets: tuple[int, int] | None = None
    """The first and the last offset that are lost."""

    def row(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "kind": self.kind,
            "place": None if self.place is None else list(self.place),
            "path": self.path,
            "bytes": self.size,
            "offsets": None if self.offsets is None else list(self.offsets),
            "finding": None if self.finding is None else self.finding.kind,
            "file": None if self.finding is None else self.finding.file,
            "severity": None if self.finding is None else self.finding.severity,
        }


def directory_effects(restart: DirectoryRestart) -> Iterator[Effect]:
    """Yield what a start does to a log directory, apart from what is in its partitions' segments."""
    for each in restart.refused:
        yield Effect("refused", each.file, finding=each)
    if restart.offline is not None:
        yield Effect("offline", restart.path, finding=restart.offline)
    offline = restart.offline
    for path, each in restart.stray.items():
        yield Effect("stray", path, restart.places.get(path), each)
    for path, each in restart.unserved.items():
        if offline is None or each.kind != offline.kind:
            yield Effect("not-served", path, restart.places.get(path), each)
    for placed in restart.placements:
        finding = placed.finding
        kind = _OF_FUTURE.get(placed.kind) if placed.kind is not None else None
        if finding is not None and kind is not None:
            yield Effect(kind, placed.replica.path, placed.place, finding.in_scope("start"))
    for missing in restart.absent:
        yield Effect("begun-empty", restart.path, missing.place, missing.finding.in_scope("start"))
    for path, size in restart.deleted:
        finding = state_finding("delete", path)
        yield Effect(
            "directory-deleted", path, finding=None if finding is None else finding.in_scope("start"), size=size
        )
    for each in restart.warnings:
        yield Effect("warned", each.file, finding=each)
    for ended in restart.completed:
        for at in ended.partitions:
            yield Effect("transaction-ended", restart.path, at)
    for gone in restart.remote_deletions:
        finding = remote_segments_deleted(restart.path, [gone])
        offsets = gone.first_offset, gone.last_offset
        at = gone.topic, gone.partition
        yield Effect("remote-deleted", restart.path, at, finding, size=gone.size, offsets=offsets)
    for moved in restart.remote_log_starts:
        at = moved.topic, moved.partition
        yield Effect("remote-log-start-moved", restart.path, at, offsets=(moved.before, moved.after - 1))
    for old in restart.remote_expired:
        path, at = old.partition.path, old.partition.place
        yield Effect("remote-expired", path, at, old.finding, size=old.size, offsets=old.offsets)
    for lost in restart.lost_positions:
        at = lost.position.topic, lost.position.partition
        finding = None if lost.was_past_end else lost.finding(restart.path)
        yield Effect("position-lost", restart.path, at, finding, offsets=(lost.end_offset, lost.position.offset))


def partition_effects(restart: Restart) -> Iterator[Effect]:
    """Yield what a start does to the files of a partition."""
    at = None if restart.topic is None else (restart.topic, restart.partition or 0)
    if restart.refused is not None:
        kind = Kind(restart.refused_by or Kind.LOG_REFUSED)
        yield Effect("refused", restart.path, at, _refusal(restart, kind))
        return
    for file, _ in restart.split:
        yield Effect("split", file, at)
    finding = cut_finding(restart)
    lost = restart.lost
    first, last = lost.first_offset, lost.last_offset
    offsets = None if first is None or last is None else (first, last)
    for each in restart.cut:
        yield Effect("cut", each.file, at, finding, size=each.size - each.kept, offsets=offsets)
    for file, size in restart.deleted:
        yield Effect("segment-deleted", file, at, finding, size=size, offsets=offsets)
    for file in restart.rebuilt:
        yield Effect("index-rebuilt", file, at)
    for file in restart.emptied:
        yield Effect("index-begun", file, at)
    for each in restart.misled:
        if each.effect in ("aborted-shown", "aborted-exposed", "end-hidden"):
            yield Effect(each.effect, each.finding.file, at, each.finding)
    replaced = {each.file: each for each in restart.replaced_findings}
    for path in (f"{restart.path}/{name}" for name in restart.removed):
        yield Effect("file-removed", path, at, replaced.get(path))
    for source, _ in restart.renamed:
        yield Effect("file-renamed", f"{restart.path}/{source}", at)
    if restart.retention is not None:
        misread = misread_finding(restart.retention)
        for file, size in restart.retention.superseded:
            yield Effect("before-log-start", file, at, size=size)
        for file, size in restart.retention.expired:
            yield Effect("expired", file, at, misread, size=size)


def _refusal(restart: Restart, kind: Kind) -> Finding:
    if restart.refusal is not None:
        return replace(restart.refusal, severity="error", scope="start")
    text = "a broker refuses this log, and does not start" if restart.is_fatal else "a broker refuses this log"
    return kind.at(restart.path, f"{text}: {restart.refused}", severity="error").in_scope("start")


def misread_finding(retention: Retention) -> Finding | None:
    """Return the finding of what retention deletes by time indexes that say that records are older than they are; None
    where it deletes old records."""
    if not retention.misread:
        return None
    first = retention.misread[0]
    text = f"{first.message}: retention deletes {len(retention.expired)} segments of {retention.expired_size:,} bytes "
    text += f"soon after the start, up to offset {retention.log_start_offset}, whose records are not that old"
    return replace(first, message=text, offset=retention.log_start_offset)


def loss_finding(restart: Restart) -> Finding | None:
    """Return the finding of what a start takes of a log: of what recovery cuts off, of a file that it deletes although
    no other one has its offsets, or of an index that hides the end; None where it takes nothing."""
    hidden = (each.finding for each in restart.misled if each.effect == "end-hidden")
    return cut_finding(restart) or next(iter((*restart.replaced_findings, *hidden)), None)


def cut_finding(restart: Restart) -> Finding | None:
    """Return the finding of what recovery cuts off or deletes of a log; None where it does neither. Without an intact
    batch in it, as after a write that a kill ended, that is a warning."""
    if restart.beyond_end is not None or not (restart.cut or restart.deleted):
        return restart.beyond_end
    file, position = restart.path, None
    reason = ""
    if restart.cut:
        file, position = restart.cut[0].file, restart.cut[0].kept
        reason = f", as {restart.cut[0].reason}" if restart.cut[0].reason else ""
    lost = restart.lost
    text = f"recovery cuts off {restart.lost_bytes:,} bytes{reason}; no intact batch is after that"
    if lost.batches:
        text = f"recovery cuts off {restart.lost_bytes:,} bytes{reason}, in which {lost.batches:,} intact batches with "
        text += f"{lost.records:,} records are (offsets {lost.first_offset} to {lost.last_offset})"
    finding = Kind.RECOVERY_CUTS.at(file, text, position=position, offset=restart.log_end_offset)
    severities = finding.severities if lost.batches else finding.severities._replace(start="warning", cluster="warning")
    return finding.with_severities(severities).in_scope("start")
