"""What brokers know, a bucket and local logs compared: buckets of real brokers, killed while they uploaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.internals.remote.metadata import add_event, broker_directory, events
from tests.log.tiered import copy_of, golden, key_pairs

import brokerless
from brokerless import UsageError
from brokerless.cli import main
from brokerless.findings import Kind
from brokerless.jobs.audit.remote import RemoteAudit, audit_remote


def audited(data: Path, bucket: Path, price: float | None = None) -> RemoteAudit:
    remote = brokerless.open(data, remote=bucket, key_pairs=key_pairs()).audit(price_per_gb=price).remote
    assert remote is not None
    return remote


def compared(data: Path, bucket: Path) -> RemoteAudit:
    """The same without what is read of logs."""
    remote = audit_remote(brokerless.open(data, remote=bucket).directory)
    assert remote is not None
    return remote


def states(set_: str) -> dict[str, str]:
    return {each["segmentId"]: each["state"] for each in events(set_)}


def objects_of(bucket: Path, segment_id: str) -> list[Path]:
    return [path for path in bucket.rglob(f"*{segment_id}*") if path.is_file()]


def kinds(remote: RemoteAudit) -> set[str]:
    return {each.finding.kind for each in remote.findings}


def topics_in(set_: str) -> set[str]:
    return {path.relative_to(golden() / set_ / "bucket").parts[-3] for path in
            (golden() / set_ / "bucket").rglob("*.rsm-manifest")}  # fmt: skip


def test_exactly_what_kills_left_is_orphaned(tmp_path: Path) -> None:
    bucket = golden() / "killed" / "bucket"
    remote = audited(broker_directory("killed", tmp_path / "data"), bucket, 2.0)
    unfinished = [each for each, state in states("killed").items() if state == "COPY_SEGMENT_STARTED"]
    assert {each.segment_id for each in remote.orphans} == set(unfinished)
    assert len(remote.findings) == len(unfinished)
    started = {each["segmentId"]: each["eventTimestampMs"] for each in reversed(events("killed"))}
    for each in remote.orphans:
        files = objects_of(bucket, str(each.segment_id))
        size = sum(path.stat().st_size for path in files)
        assert (each.objects, each.size, each.since) == (len(files), size, started[str(each.segment_id)])
        assert each.monthly_cost == pytest.approx(size * 2.0 / 1e9)
        assert "no broker reads these objects, or deletes them before their offsets expire" in each.finding.message
    finished = [each for each, state in states("killed").items() if state == "COPY_SEGMENT_FINISHED"]
    sizes = [path.stat().st_size for each in finished for path in objects_of(bucket, each)]
    assert (remote.referenced, remote.size, remote.unknown) == (len(finished), sum(sizes), 0)


def test_a_bucket_as_its_broker_left_it_has_no_orphan(tmp_path: Path) -> None:
    """Of the set, the archive has some topics: the segments of the others are lost, and nothing else is found."""
    remote = compared(broker_directory("plain", tmp_path / "data"), golden() / "plain" / "bucket")
    assert kinds(remote) <= {Kind.REMOTE_SEGMENT_LOST}
    here = {each[:-23] for each in topics_in("plain")}
    lost = {each["segmentId"] for each in events("plain")
            if each["topic"] not in here and states("plain")[each["segmentId"]] == "COPY_SEGMENT_FINISHED"}  # fmt: skip
    assert {each.segment_id for each in remote.findings} == lost


def test_lost_objects_are_errors_while_the_local_log_does_not_have_them(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    finished = [each for each, state in states("killed").items() if state == "COPY_SEGMENT_FINISHED"]
    for path in objects_of(bucket, finished[0]):
        path.unlink()
    next(path for path in objects_of(bucket, finished[2]) if path.suffix == ".indexes").unlink()
    data = broker_directory("killed", tmp_path / "data")
    remote = audited(data, bucket)
    lost = [each for each in remote.findings if each.finding.kind == Kind.REMOTE_SEGMENT_LOST]
    assert [(each.segment_id, each.finding.severity, each.objects) for each in lost] == [
        (finished[0], "error", 0),
        (finished[2], "warning", 2),
    ]
    assert remote.lost == lost[:1]
    assert Kind.REMOTE_OFFSETS_MISSING not in kinds(remote)  # it is said once
    assert "no object of remote segment" in lost[0].finding.message
    assert "no indexes of remote segment" in lost[1].finding.message
    assert "a whole copy of them in the bucket is read here, and by no broker" in lost[1].finding.message
    shutil.copy(data / "killed-0" / f"{8093:020}.log", data / "killed-0" / f"{0:020}.log")
    remote = audited(data, bucket)
    assert not remote.lost
    assert "the local log still has them" in str(next(
        each for each in remote.findings if each.finding.kind == Kind.REMOTE_SEGMENT_LOST
    ).finding.message)  # fmt: skip


@pytest.mark.parametrize(("state", "kind"), [(2, Kind.REMOTE_SEGMENT_DELETED), (3, Kind.REMOTE_SEGMENT_ORPHANED)])
def test_deletions_that_left_objects(state: int, kind: Kind, tmp_path: Path) -> None:
    data = broker_directory("killed", tmp_path / "data")
    first = next(each for each, last in states("killed").items() if last == "COPY_SEGMENT_FINISHED")
    for each in range(2, state + 1):
        add_event("killed", data, first, each)
    remote = audited(data, golden() / "killed" / "bucket")
    (found,) = [each for each in remote.findings if each.segment_id == first]
    assert (found.finding.kind, found.objects) == (kind, 3)
    (missing,) = [each.finding for each in remote.findings if each.finding.kind == Kind.REMOTE_OFFSETS_MISSING]
    assert missing.message == "offsets 0..2039 are neither in remote storage nor in the local log"


def renamed_copy(bucket: Path, segment_id: str) -> str:
    """Another complete copy of a segment."""
    name = "A" * len(segment_id)
    for path in objects_of(bucket, segment_id):
        data = path.read_bytes()
        data = data.replace(segment_id.encode(), name.encode()) if path.suffix == ".rsm-manifest" else data
        path.with_name(path.name.replace(segment_id, name)).write_bytes(data)
    return name


def test_objects_that_the_metadata_does_not_have_are_orphans_while_others_have_their_offsets(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    first = next(each for each, last in states("killed").items() if last == "COPY_SEGMENT_FINISHED")
    name = renamed_copy(bucket, first)
    data = broker_directory("killed", tmp_path / "data")
    (unknown,) = [each for each in audited(data, bucket).orphans if each.segment_id == name]
    assert "no broker reads these objects or deletes them: the metadata has no such segment" in unknown.finding.message
    for path in objects_of(bucket, first):
        path.unlink()
    remote = audited(data, bucket)
    assert name not in {each.segment_id for each in remote.orphans}
    (kept,) = [each for each in remote.findings if each.segment_id == name]
    assert (kept.finding.kind, kept.finding.severity) == (Kind.REMOTE_SEGMENT_NEEDED, "warning")
    assert "may be the only copy of offsets 0..2039" in kept.finding.message
    assert not remote.lost
    (lost,) = [each for each in remote.findings if each.segment_id == first]
    assert (lost.finding.kind, lost.finding.severity) == (Kind.REMOTE_SEGMENT_LOST, "warning")


def ids_of(start: int) -> tuple[str, str]:
    """Of the two copies that begin at an offset in ``killed``, the one that did not end, and the other."""
    found = [each["segmentId"] for each in events("killed") if each.get("startOffset") == start]
    unfinished, finished = sorted(found, key=lambda each: states("killed")[each] == "COPY_SEGMENT_FINISHED")
    return unfinished, finished


def only(paths: list[Path], suffix: str) -> Path:
    (path,) = [each for each in paths if each.suffix == suffix]
    return path


@pytest.mark.parametrize("damage", ["cut", "overwritten", "no-indexes", "cut-manifest"])
def test_no_orphan_while_the_copy_in_its_place_is_damaged(damage: str, tmp_path: Path) -> None:
    """Whoever deleted it would delete the only intact copy."""
    bucket = copy_of("killed", tmp_path / "bucket")
    unfinished, finished = ids_of(4071)
    log = only(objects_of(bucket, finished), ".log")
    if damage == "cut":
        with log.open("r+b") as file:
            file.truncate(600_000)
    elif damage == "overwritten":
        with log.open("r+b") as file:
            file.seek(500_000)
            file.write(b"XYZ")
    elif damage == "no-indexes":
        log.with_suffix(".indexes").unlink()
    else:
        log.with_suffix(".rsm-manifest").write_bytes(b"{}")
    remote = audited(broker_directory("killed", tmp_path / "data"), bucket)
    assert not remote.orphans
    (kept,) = [each for each in remote.findings if each.segment_id == unfinished]
    assert (kept.finding.kind, kept.finding.severity, kept.objects) == (Kind.REMOTE_SEGMENT_NEEDED, "warning", 3)
    assert "may be the only copy of offsets 4071..6061" in kept.finding.message


def test_what_was_not_read_has_no_orphans() -> None:
    """Of a copy that was not read, it is not known whether it is intact."""
    data, bucket = golden() / "killed" / "data", golden() / "killed" / "bucket"
    assert not compared(data, bucket).orphans


def test_a_segment_whose_end_was_lost_with_its_metadata_is_to_be_kept(tmp_path: Path) -> None:
    data = broker_directory("killed", tmp_path / "data")
    _, finished = ids_of(4071)
    (log,) = data.glob("__remote_log_metadata-*/*.log")
    positions = [row["position"] for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
    damaged = bytearray(log.read_bytes())
    last = next(each for each in reversed(events("killed")) if each["segmentId"] == finished)
    damaged[positions[last["metadataOffset"]] + 100] ^= 1
    log.write_bytes(damaged)
    remote = audited(data, golden() / "killed" / "bucket")
    assert not remote.orphans
    (kept,) = [each for each in remote.findings if each.segment_id == finished]
    assert (kept.finding.kind, kept.finding.severity) == (Kind.REMOTE_SEGMENT_NEEDED, "warning")


def test_the_rest_of_an_upload_is_to_be_kept_where_the_other_copy_is_lost(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    unfinished, finished = ids_of(2040)
    for path in objects_of(bucket, finished):
        path.unlink()
    data = broker_directory("killed", tmp_path / "data")
    for remote in (audited(data, bucket), brokerless.open(bucket).audit().remote):  # with the metadata, and without
        assert remote is not None
        (kept,) = [each for each in remote.findings if each.segment_id == unfinished]
        assert (kept.finding.kind, kept.objects) == (Kind.REMOTE_SEGMENT_NEEDED, 2)
        assert "without rsm-manifest (2 objects, 1.3 MB" in kept.finding.message


def test_objects_of_another_cluster_are_no_orphans(tmp_path: Path) -> None:
    """Whoever gives the wrong bucket is not told to delete what is in it."""
    remote = audited(broker_directory("killed", tmp_path / "data"), golden() / "plain" / "bucket")
    assert not remote.orphans
    assert (remote.referenced, remote.unknown) == (0, sum(1 for _ in (golden() / "plain" / "bucket").rglob("*.log")))


def test_a_topic_of_a_bucket_is_compared_by_itself(tmp_path: Path) -> None:
    (topic,) = (path for path in (golden() / "plain" / "bucket").iterdir() if path.name.startswith("both-"))
    remote = audited(broker_directory("plain", tmp_path / "data"), topic)
    assert (remote.referenced, len(remote.findings)) == (2, 0)


def test_segments_past_retention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"retention.ms": "1000", "retention.bytes": "-1"}
    monkeypatch.setattr("brokerless.clusters.remote_retention.read_topic_settings", lambda *_: settings)
    data, bucket = broker_directory("killed", tmp_path / "data"), golden() / "killed" / "bucket"
    (found,) = [each for each in audited(data, bucket).findings if each.finding.kind == Kind.REMOTE_SEGMENT_EXPIRED]
    assert found.finding.message.startswith("4 remote segments (5.2 MB) past retention.ms=1000")
    settings |= {"retention.ms": "-1", "retention.bytes": str(3_000_000)}
    (found,) = [each for each in audited(data, bucket).findings if each.finding.kind == Kind.REMOTE_SEGMENT_EXPIRED]
    assert found.finding.message == "1 remote segment (1.3 MB) past retention.bytes=3000000"
    checkpoint = data / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nkilled 0 2050\n")
    settings["retention.bytes"] = "-1"
    (found,) = [each for each in audited(data, bucket).findings if each.finding.kind == Kind.REMOTE_SEGMENT_EXPIRED]
    assert found.finding.message == "1 remote segment (1.3 MB) before the log start offset 2050"


def test_nothing_is_changed(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    before = {path: path.stat().st_mtime_ns for path in bucket.rglob("*")}
    audited(broker_directory("killed", tmp_path / "data"), bucket)
    assert {path: path.stat().st_mtime_ns for path in bucket.rglob("*")} == before


def test_what_a_damaged_or_old_replica_of_the_metadata_does_not_have_is_no_orphan(tmp_path: Path) -> None:
    """Its replica may have fallen behind: whoever deleted such objects would delete records."""
    data, bucket = broker_directory("killed", tmp_path / "data"), golden() / "killed" / "bucket"
    (log,) = data.glob("__remote_log_metadata-*/*.log")
    whole = log.read_bytes()
    positions = [row["position"] for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
    last = {each["segmentId"]: each["metadataOffset"] for each in events("killed")}
    first = {each["segmentId"]: each["metadataOffset"] for each in reversed(events("killed"))}
    referenced = {each for each, state in states("killed").items() if state == "COPY_SEGMENT_FINISHED"}
    for count, position in enumerate(positions):
        log.write_bytes(whole[:position])  # a replica that is so far
        remote = compared(data, bucket)
        orphans = {str(each.segment_id) for each in remote.orphans}
        assert not orphans & referenced, count
        assert all(first[each] < count for each in orphans), count
        assert Kind.REMOTE_OFFSETS_MISSING not in kinds(remote), count
        assert remote.referenced == sum(last[each] < count for each in referenced)
    for position in positions:
        damaged = bytearray(whole)
        damaged[position + 100] ^= 1
        log.write_bytes(damaged)
        assert not {str(each.segment_id) for each in compared(data, bucket).orphans} & referenced


def test_an_unfinished_upload_is_no_orphan_while_the_other_one_is_not_whole(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    unfinished = next(
        each["segmentId"] for each in events("killed")
        if each.get("startOffset") == 4071 and states("killed")[each["segmentId"]] == "COPY_SEGMENT_STARTED"
    )  # fmt: skip
    (instead,) = (
        each["segmentId"] for each in events("killed")
        if each.get("startOffset") == 4071 and each["segmentId"] != unfinished
    )  # fmt: skip
    next(path for path in objects_of(bucket, instead) if path.suffix == ".log").unlink()
    remote = audited(broker_directory("killed", tmp_path / "data"), bucket)
    assert unfinished not in {each.segment_id for each in remote.orphans}
    (lost,) = [each for each in remote.findings if each.segment_id == instead]
    assert (lost.finding.kind, lost.finding.severity) == (Kind.REMOTE_SEGMENT_LOST, "warning")


def test_a_dangling_segment_has_its_bytes_and_cost(tmp_path: Path) -> None:
    """The local log has another history: what was copied in an epoch that is not in it is served by nobody."""
    data, bucket = broker_directory("plain", tmp_path / "data"), golden() / "plain" / "bucket"
    file = data / "epochs-0" / "leader-epoch-checkpoint"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], str(len(lines) - 3), *(each for each in lines[2:] if each[0] != "2"), ""]))
    remote = audited(data, bucket, 2.0)
    dangling = [each for each in remote.findings if each.finding.kind == Kind.REMOTE_SEGMENT_DANGLING]
    assert dangling
    for each in dangling:
        files = objects_of(bucket, str(each.segment_id))
        size = sum(path.stat().st_size for path in files)
        assert (each.objects, each.size, each.monthly_cost) == (len(files), size, pytest.approx(size * 2.0 / 1e9))
        assert f"{len(files)} objects" in each.finding.message


def test_the_intact_copy_of_a_damaged_segment_is_no_orphan(tmp_path: Path) -> None:
    bucket = copy_of("killed", tmp_path / "bucket")
    unfinished, finished = ids_of(4071)
    path = next(each for each in objects_of(bucket, finished) if each.suffix == ".log")
    content = bytearray(path.read_bytes())
    content[600_000] ^= 1
    path.write_bytes(content)
    remote = audited(broker_directory("killed", tmp_path / "data"), bucket)
    assert unfinished not in {each.segment_id for each in remote.orphans}
    (kept,) = [each for each in remote.findings if each.segment_id == unfinished]
    assert (kept.finding.kind, kept.finding.severity) == (Kind.REMOTE_SEGMENT_NEEDED, "warning")


def test_a_price_needs_a_bucket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = broker_directory("plain", tmp_path / "data")
    with pytest.raises(UsageError, match=r"price_per_gb: .* in a bucket, which remote= names"):
        brokerless.open(data).audit(price_per_gb=1.0)
    assert main(["audit", str(data), "--price-per-gb", "1"]) == 2
    assert "--price-per-gb: this is the price of what is in a bucket, which --remote names" in capsys.readouterr().err
    bucket = golden() / "plain" / "bucket"
    assert brokerless.open(bucket).audit(price_per_gb=1.0).remote is not None
