"""Remote segments that brokers do not read, beside the log directory that says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.internals.remote.metadata import add_event, broker_directory, events
from tests.log.tiered import cases, copy_of, golden, rows_of, summary_of

import brokerless
from brokerless import Log
from brokerless.findings import Finding, Kind
from brokerless.internals.remote import unread_segments

KILLED = next(each for each in cases() if each.set == "killed")
DIRECTORY = f"killed-{next(each['topicId'] for each in events('killed'))}/0"


def last_states() -> dict[str, str]:
    return {each["segmentId"]: each["state"] for each in events("killed")}


def killed(data: Path, bucket: Path) -> Log:
    return brokerless.open(data, remote=bucket).partition("killed", 0)


@pytest.mark.parametrize(("most", "name"), [(0, "data"), (1000, "data"), (1000, "node-1")])
def test_only_finished_uploads_count(tmp_path: Path, most: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a log directory has a name as a partition's has."""
    monkeypatch.setattr(unread_segments, "_MOST", most)
    partition = killed(broker_directory("killed", tmp_path / name), golden() / "killed" / "bucket")
    assert summary_of(rows_of(partition)) == KILLED.expected["read_uncommitted"]["all"]
    unfinished = {each for each, state in last_states().items() if state == "COPY_SEGMENT_STARTED"}
    named = {each.file.rpartition("/")[2][21:43] for each in partition.paths[0].findings}
    assert {each.kind for each in partition.paths[0].findings} == {Kind.REMOTE_SEGMENT_UNFINISHED}
    assert named == unfinished


def test_the_finished_one_of_two_uploads_counts(tmp_path: Path) -> None:
    """The other one has a manifest as well, and its copying began later by what that says."""
    bucket = copy_of("killed", tmp_path / "bucket")
    left = next(
        path for path in (bucket / DIRECTORY).glob("00000000000000004071-*.rsm-manifest")
        if last_states()[path.name[21:43]] == "COPY_SEGMENT_STARTED"
    )  # fmt: skip
    manifest = json.loads(left.read_bytes())
    manifest["remoteLogSegmentMetadata"]["eventTimestampMs"] += 10**9
    left.write_text(json.dumps(manifest))
    log = left.with_suffix(".log")
    log.write_bytes(bytes(log.stat().st_size))
    partition = killed(broker_directory("killed", tmp_path / "data"), bucket)
    assert summary_of(rows_of(partition)) == KILLED.expected["read_uncommitted"]["all"]
    again = brokerless.open(tmp_path / "data" / "killed-0", remote=bucket).partitions[0]
    assert summary_of(rows_of(again)) == KILLED.expected["read_uncommitted"]["all"]


@pytest.mark.parametrize("state", [2, 3])
def test_segments_whose_deletion_began_do_not_count(tmp_path: Path, state: int) -> None:
    data = broker_directory("killed", tmp_path / "data")
    first = next(
        each["segmentId"] for each in events("killed") if last_states()[each["segmentId"]] == "COPY_SEGMENT_FINISHED"
    )
    for each in range(2, state + 1):
        add_event("killed", data, first, each)
    partition = killed(data, golden() / "killed" / "bucket")
    deleted = [each for each in partition.paths[0].findings if each.kind == Kind.REMOTE_SEGMENT_DELETED]
    assert [each.file.rpartition("/")[2][21:43] for each in deleted] == [first]
    damage: list[Finding] = []
    assert [row[0] for row in rows_of(partition, damage)] == list(range(2040, 8284))
    assert [each.kind for each in damage if each.severity != "info"] == [Kind.REMOTE_SEGMENT_NEEDED]


def test_what_the_metadata_does_not_have_is_read(tmp_path: Path) -> None:
    shutil.copytree(golden() / "killed" / "data", tmp_path / "data")
    partition = killed(tmp_path / "data", golden() / "killed" / "bucket")
    assert summary_of(rows_of(partition)) == KILLED.expected["read_uncommitted"]["all"]
    assert Kind.REMOTE_SEGMENT_REPEATED in {each.kind for each in partition.paths[0].findings}


def test_a_replica_of_the_metadata_that_has_fallen_behind_leaves_no_record_out(tmp_path: Path) -> None:
    """A segment whose copy began, and did not end by such metadata, is read; the broker's local log begins after it."""
    data, bucket = broker_directory("killed", tmp_path / "data"), golden() / "killed" / "bucket"
    (log,) = data.glob("__remote_log_metadata-*/*.log")
    whole = log.read_bytes()
    positions = [row["position"] for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
    for position in positions:
        log.write_bytes(whole[:position])
        assert summary_of(rows_of(killed(data, bucket))) == KILLED.expected["read_uncommitted"]["all"], position
    for position in positions[::3]:  # an event may be lost, and no record is
        damaged = bytearray(whole)
        damaged[position + 100] ^= 1
        log.write_bytes(damaged)
        assert summary_of(rows_of(killed(data, bucket))) == KILLED.expected["read_uncommitted"]["all"], position


@pytest.mark.parametrize("name", ["plain", "prefix"])
def test_what_an_old_replica_knows_as_begun_is_read(tmp_path: Path, name: str) -> None:
    """Segments are in the middle of a log, and after it others that the replica does not have."""
    data, bucket = broker_directory(name, tmp_path / "data"), golden() / name / "bucket"
    own = [each for each in cases() if each.set == name]
    for log in sorted(data.glob("__remote_log_metadata-*/*.log")):
        whole = log.read_bytes()
        positions = [row["position"] for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
        for position in positions[1::4]:
            log.write_bytes(whole[:position])
            opened = brokerless.open(data, remote=bucket)
            for case in own:
                rows = rows_of(opened.partition(case.topic, case.partition))
                assert summary_of(rows) == case.expected["read_uncommitted"]["all"], (log, position, case.id)
        log.write_bytes(whole)


def test_what_is_left_out_in_the_middle_of_a_log_is_a_warning(tmp_path: Path) -> None:
    """An upload that did not end is all that there is of some offsets."""
    data, bucket = broker_directory("killed", tmp_path / "data"), copy_of("killed", tmp_path / "bucket")
    for path in (bucket / DIRECTORY).glob(f"{2040:020}-*"):
        path.unlink()
    for path in (bucket / DIRECTORY).glob(f"{4071:020}-*.rsm-manifest"):
        path.unlink()
    damage: list[Finding] = []
    rows = rows_of(killed(data, bucket), damage)
    assert {row[0] for row in rows}.isdisjoint(range(2040, 6000))
    found = {(each.kind, each.severity) for each in damage if each.offset == 4071}
    assert found >= {(Kind.REMOTE_SEGMENT_LOST, "error"), (Kind.REMOTE_SEGMENT_NEEDED, "warning")}


@pytest.mark.parametrize("damage", ["cut", "log", "rsm-manifest", "flipped", "all"])
def test_a_whole_copy_is_read_where_the_finished_one_is_damaged_or_gone(tmp_path: Path, damage: str) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    finished = next(
        path for path in (bucket / DIRECTORY).glob("00000000000000004071-*.log")
        if last_states()[path.name[21:43]] == "COPY_SEGMENT_FINISHED"
    )  # fmt: skip
    if damage == "cut":
        with finished.open("r+b") as file:
            file.truncate(600_000)
    elif damage == "flipped":
        content = bytearray(finished.read_bytes())
        content[600_000] ^= 1
        finished.write_bytes(content)
    elif damage == "all":
        for path in finished.parent.glob(f"{finished.stem}.*"):
            path.unlink()
    else:
        finished.with_suffix(f".{damage}").unlink()
    data = broker_directory("killed", tmp_path / "data")
    damage_found: list[Finding] = []
    rows = rows_of(killed(data, bucket), damage_found)
    assert summary_of(rows) == KILLED.expected["read_uncommitted"]["all"]
    assert any(each.severity != "info" or each.kind == Kind.REMOTE_SEGMENT_UNFINISHED for each in damage_found)
    kinds = {each.kind for each in damage_found if each.severity != "info"}
    if damage == "flipped":
        assert kinds == {Kind.REMOTE_SEGMENT_DAMAGED}
    alone = rows_of(brokerless.open(bucket), [])
    assert summary_of(alone) == KILLED.expected["read_uncommitted"]["remote"]
