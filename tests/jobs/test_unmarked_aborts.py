"""Logs in which only a transaction index knows what was aborted, checked and written again by each job."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.log.producer.gone_marker_logs import (
    CONSUMED,
    INDEXED,
    RECORDED,
    committed,
    consumed,
    index_of,
    log_directory,
)

import brokerless
from brokerless.clusters.start.effects import partition_effects
from brokerless.jobs.audit.advice import advice_for
from brokerless.log.commit.log_opener import open_log
from brokerless.log.index.checks import KEEP_INDEXES

TOPICS = tuple(INDEXED)
DELETES = ("delete the segment's .index", "delete its .index", "delete the offset index", "delete the .timeindex")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return log_directory(tmp_path / "data", topics=TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_verify_reports_them_once(directory: Path, topic: str) -> None:
    found = list(brokerless.open(directory).partition(topic, 0).verify())
    of_index = [each for each in found if each.file.endswith(".txnindex")]
    assert [(each.kind, each.severity, each.offset) for each in of_index] == [("abort-marker-missing", "warning", 4)]


def test_no_advice_is_to_rebuild_their_indexes(directory: Path) -> None:
    """The entries of time indexes do not fit the logs without the marker."""
    for audited in brokerless.open(directory).audit().partitions:
        (only,) = (each for each in audited.findings if each.kind == "abort-marker-missing")
        assert only.severity == "warning"
        assert (audited.committed, audited.aborted, audited.open) == (0 if audited.topic == "last" else 1, 1, ())
        for each in audited.findings:
            assert not any(text in f"{each.message} {advice_for(each)}" for text in DELETES), each
        kept = [each for each in audited.findings if KEEP_INDEXES in each.message]
        assert bool(kept) == (audited.topic != "followed")


def effects(directory: Path, topic: str) -> list[tuple[str, str | None]]:
    (restart,) = brokerless.open(directory).partition(topic, 0).restart().partitions
    found = partition_effects(restart)
    return [(each.kind, each.finding and each.finding.severity) for each in found if each.kind.startswith("aborted")]


@pytest.mark.parametrize("topic", TOPICS)
def test_a_start_that_believes_the_index_changes_nothing(directory: Path, topic: str) -> None:
    assert effects(directory, topic) == []
    assert brokerless.open(directory).partition(topic, 0).restart().partitions[0].is_harmless


@pytest.mark.parametrize("topic", TOPICS)
def test_a_start_that_rebuilds_the_index_forgets_them(tmp_path: Path, topic: str) -> None:
    directory = log_directory(tmp_path / "data", was_clean=False)
    assert effects(directory, topic) == [("aborted-exposed", "error")]
    assert not brokerless.open(directory).partition(topic, 0).restart().partitions[0].is_harmless


def test_a_start_deletes_an_index_without_a_log(tmp_path: Path) -> None:
    directory = log_directory(tmp_path / "data")
    assert effects(directory, "segment") == [("aborted-exposed", "error")]
    found = brokerless.open(directory).partition("segment", 0).verify()
    assert "abort-marker-missing" in [each.kind for each in found]


def test_an_entry_that_the_log_contradicts_is_still_an_error(directory: Path) -> None:
    index = index_of(directory, "followed")
    index.write_bytes(index.read_bytes()[:18] + (8).to_bytes(8, "big") + (9).to_bytes(8, "big"))
    kinds = [each.kind for each in brokerless.open(directory).partition("followed", 0).verify()]
    assert kinds == ["transaction-index-mismatch"]


def convert(source: Path, to: Path, **options: Any) -> None:
    brokerless.open(source).convert(to, codec="gzip", **options)


def erase(source: Path, to: Path) -> None:
    brokerless.open(source).erase(to, where='"offset" = 9')


def compact(source: Path, to: Path) -> None:
    brokerless.open(source).compact(to)


def salvage(source: Path, to: Path) -> None:
    brokerless.open(source).salvage(to)


def merge(source: Path, to: Path) -> None:
    shutil.copytree(source, source.with_name("other"))
    brokerless.merge([source, source.with_name("other")], to)


@pytest.mark.parametrize("job", [convert, erase, compact, salvage, merge])
def test_they_stay_aborted_in_logs_that_are_written_again(
    directory: Path, tmp_path: Path, job: Callable[[Path, Path], None]
) -> None:
    job(directory, tmp_path / "to")
    for topic in TOPICS:
        offsets = consumed(topic)
        assert committed(tmp_path / "to", topic)[0] == (
            [each for each in offsets if each != 9] if job is erase else offsets
        )
        kinds = [each.kind for each in brokerless.open(tmp_path / "to").partition(topic, 0).verify()]
        assert "transaction-index-mismatch" not in kinds
        assert "abort-marker-missing" in kinds


@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_is_left_of_them_where_committed_records_are_written(
    directory: Path, tmp_path: Path, topic: str
) -> None:
    convert(directory, tmp_path / "to", isolation="read_committed")
    assert committed(tmp_path / "to", topic) == (consumed(topic), [])
    assert not list((tmp_path / "to").glob("*/*.txnindex"))


@pytest.mark.parametrize("topic", TOPICS)
def test_our_own_recovery_keeps_the_entry(tmp_path: Path, topic: str) -> None:
    """A broker's does not (``unclean`` of what was recorded)."""
    shutil.copytree(RECORDED / f"{topic}-0", tmp_path / f"{topic}-0")
    before = index_of(tmp_path, topic).read_bytes()
    with open_log(tmp_path, topic, 0) as log:
        assert log.last_stable_offset == log.log_end_offset == CONSUMED["clean"][topic]["end"]
    assert index_of(tmp_path, topic).read_bytes() == before
    assert committed(tmp_path, topic)[0] == consumed(topic)
