"""What an audit reports of a directory's next start; ``tests/kafka/test_metadata_start.py`` starts brokers on each."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.described import undescribed
from tests.golden import broker_data
from tests.internals.written import append_values

from brokerless.clusters.directory_state import load_directory_state
from brokerless.internals.metadata.records import encode_record
from brokerless.jobs.audit.job import audit_directory, audit_partitions
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

KRAFT = "__cluster_metadata-0"


SMALL_SEGMENTS = {"resourceType": 2, "resourceName": "segments", "name": "segment.bytes", "value": "16384"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(broker_data("clean"), tmp_path / "data"))
    for path in copy.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def findings(path: Path) -> set[tuple[str, str, str]]:
    """Severity, kind, and the name of the file, of what is no info."""
    directory = resolve(Location(str(path)))
    state = load_directory_state(directory)
    audits = list(audit_partitions(directory.partitions, state))
    found = [finding for audit in audits for finding in audit.findings]  # type: ignore[union-attr]
    found += audit_directory(directory, state, audits)  # type: ignore[arg-type]
    assert undescribed(found) == []
    return {(each.severity, each.kind, Path(each.file).name) for each in found if each.severity != "info"}


CHANGES: dict[str, tuple[Callable[[Path], object], set[tuple[str, str, str]]]] = {
    "foreign-directory": (
        lambda path: (path / "streaming-output").mkdir(),
        {("error", "directory-name", "streaming-output")},
    ),
    "no-partition-metadata": (
        lambda path: (path / "segments-0/partition.metadata").unlink(),
        {
            ("error", "partition-metadata-missing", "partition.metadata"),
            ("error", "partition-missing", "data"),
            ("warning", "position-past-end", "data"),
        },
    ),
    "empty-partition-metadata": (
        lambda path: (path / "segments-0/partition.metadata").write_bytes(b""),
        {("error", "partition-metadata-corrupt", "partition.metadata")},
    ),
    "cut-leader-epochs": (
        lambda path: (path / "segments-0/leader-epoch-checkpoint").write_bytes(b"0\n3\n0 0\n"),
        {("error", "checkpoint-corrupt", "leader-epoch-checkpoint")},
    ),
    "empty-quorum-state": (
        lambda path: (path / KRAFT / "quorum-state").write_bytes(b""),
        {("error", "quorum-state-corrupt", "quorum-state")},
    ),
    "setting-of-an-older-version": (
        lambda path: append_values(path, encode_record("CONFIG_RECORD", 0, SMALL_SEGMENTS)),
        {("error", "setting-refused", KRAFT)},
    ),
    "empty-meta-properties": (
        lambda path: (path / "meta.properties").write_bytes(b""),
        {("error", "meta-properties-incomplete", "meta.properties")},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_start_refuses_is_no_info(directory: Path, name: str) -> None:
    change, expected = CHANGES[name]
    before = findings(directory)
    change(directory)
    assert findings(directory) - before == expected


def test_a_copy_of_partitions_is_not_asked_for_what_a_broker_needs(directory: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(directory / "segments-0", copy / "segments-0")
    (copy / "segments-0/partition.metadata").unlink()
    (copy / "notes").mkdir()
    assert not {kind for _, kind, _ in findings(copy)} & {"partition-metadata-missing", "directory-name"}
