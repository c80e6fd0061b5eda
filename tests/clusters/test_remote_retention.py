"""What retention deletes in remote storage soon after a start: ``restart`` and ``audit`` say it alike."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.jobs.audit.test_remote import audited, broker_directory, golden

import brokerless
from brokerless.clusters import remote_retention as retention
from brokerless.clusters.remote_retention import expired_segments
from brokerless.clusters.start.effects import directory_effects
from brokerless.findings import Kind
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location

DAY_MS = 86_400_000


def segment(first: int, day: int) -> SimpleNamespace:
    return SimpleNamespace(start_offset=first, end_offset=first + 9, max_timestamp=day * DAY_MS, size=100)


@pytest.fixture
def partition(tmp_path: Path) -> PartitionPath:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{30:020}.log").write_bytes(b"")
    (found,) = resolve(Location(str(tmp_path / "orders-0"))).partitions
    return found


def reasons(partition: PartitionPath) -> list[tuple[str, tuple[int, int]]]:
    segments = [segment(0, 1), segment(10, 8), segment(20, 9)]
    return [(each.reason, each.offsets) for each in expired_segments(partition, segments, 10 * DAY_MS)]


def test_of_a_topic_that_is_not_known_nothing_goes(partition: PartitionPath) -> None:
    assert reasons(partition) == []


def test_a_topic_without_a_setting_has_kafkas_default(
    partition: PartitionPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "read_topic_settings", lambda *_: {})
    assert reasons(partition) == [("past retention.ms=604800000 (Kafka's default)", (0, 9))]


def test_by_size_goes_what_is_more_than_the_setting(partition: PartitionPath, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"retention.ms": "-1", "retention.bytes": "150"}
    monkeypatch.setattr(retention, "read_topic_settings", lambda *_: settings)
    assert reasons(partition) == [("past retention.bytes=150", (0, 9))]
    settings["retention.bytes"] = "no number"
    assert reasons(partition) == []


def test_restart_and_audit_say_it_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"retention.ms": "1000", "retention.bytes": "-1"}
    monkeypatch.setattr(retention, "read_topic_settings", lambda *_: settings)
    data = broker_directory("killed", tmp_path / "data")
    start = brokerless.open(data).restart()
    assert start.directory is not None
    (expired,) = start.directory.remote_expired
    (effect,) = [each for each in directory_effects(start.directory) if each.kind == "remote-expired"]
    assert (effect.path, effect.offsets, effect.size) == (expired.partition.path, expired.offsets, expired.size)
    said = [each for each in brokerless.open(data).audit().findings if each.kind == Kind.REMOTE_SEGMENT_EXPIRED]
    assert said == [effect.finding]
    with_bucket = audited(data, golden() / "killed" / "bucket").findings
    (compared,) = [each.finding for each in with_bucket if each.finding.kind == Kind.REMOTE_SEGMENT_EXPIRED]
    assert compared.message == expired.finding.message
    assert compared.severity == expired.finding.severity == "info"
