from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.log.tiered import cases, copy_of, golden, key_pairs, rows_of, summary_of

import brokerless
from brokerless import Kind, UnreadableError, UsageError
from brokerless.jobs.audit.advice import advice_at
from brokerless.log.storage.location import Location
from brokerless.log.tiered.bucket import Bucket
from brokerless.log.tiered.decryption import KeyPairs


def bucket_at(path: Path) -> Bucket:
    return Bucket([(Location(str(path)), "")], None, KeyPairs({}), {})


def test_partitions_by_their_names() -> None:
    found = bucket_at(golden() / "prefix" / "bucket").folders()
    assert list(found) == ["many_parts-0", "many_parts-1", "many_parts-2", "txn-0"]
    assert {each.name.is_plain for each in found.values()} == {False}
    assert {each.name.is_plain for each in bucket_at(golden() / "local" / "bucket").folders().values()} == {True}
    assert len(bucket_at(golden() / "prefix" / "bucket").log(found["txn-0"]).segments) == 13


def test_a_listing_is_kept_until_it_is_refreshed(tmp_path: Path) -> None:
    path = copy_of("prefix", tmp_path / "bucket")
    bucket = bucket_at(path)
    assert len(bucket.folders()) == 4
    shutil.rmtree(next(path.glob("cluster-a/tiered-txn-*")))
    bucket.refresh(60)
    assert len(bucket.folders()) == 4
    bucket.refresh()
    assert len(bucket.folders()) == 3


def test_two_topics_of_one_name(tmp_path: Path) -> None:
    """It was deleted and created again, while its objects stayed: the one that was written to last is read."""
    bucket = copy_of("compressed", tmp_path / "bucket")
    topic = next(bucket.glob("big-*"))
    old_id = "o" * 21 + "A"
    old = shutil.copytree(topic, topic.with_name(f"big-{old_id}"))
    for path in sorted(old.glob("0/*.rsm-manifest"))[2:]:
        for each in path.parent.glob(f"{path.stem}.*"):
            each.unlink()
    for path in old.glob("0/*.rsm-manifest"):
        manifest = json.loads(path.read_text())
        segment = manifest["remoteLogSegmentMetadata"]
        segment["remoteLogSegmentId"]["topicIdPartition"]["topicId"] = old_id
        segment["eventTimestampMs"] -= 10_000_000
        path.write_text(json.dumps(manifest))
    found: list[brokerless.Finding] = []
    rows = rows_of(brokerless.open(bucket), found)
    assert len(rows) == 72
    assert [(each.kind, each.severity) for each in found] == [(Kind.REMOTE_TOPIC_REPLACED, "warning")]
    assert old_id in found[0].message
    assert 0 < len(rows_of(brokerless.open(old))) < 72


def test_a_manifest_of_another_topic_renames_nothing(tmp_path: Path) -> None:
    """The newest manifest of a topic is that of another one: both stay what their directories say."""
    bucket = copy_of("compressed-encrypted", tmp_path / "bucket")
    others, own = sorted(bucket.glob("epochs-*/0/*.rsm-manifest")), sorted(bucket.glob("txn-*/0/*.rsm-manifest"))
    shutil.copy(others[-1], own[-1])
    found = bucket_at(bucket).folders()
    assert list(found) == ["epochs-0", "txn-0"]
    assert [found[each].name.topic for each in found] == ["epochs", "txn"]
    data = golden() / "compressed-encrypted" / "data"
    for place, remote, records in ((bucket, None, 217), (data, bucket, 300)):
        damage: list[brokerless.Finding] = []
        log = brokerless.open(place, key_pairs=key_pairs(), remote=remote)
        assert len(rows_of(log.partition("epochs", 0), damage)) == records
        assert not damage
        rows = rows_of(log.partition("txn", 0), damage)
        assert {each.kind for each in damage if each.severity == "error"} >= {Kind.REMOTE_MANIFEST_INVALID}
        missing = int(own[-1].name[:20])
        assert [each[0] for each in rows[:3]] == [0, 1, 2]
        assert missing not in {each[0] for each in rows}


def without(bucket: Path, partition: str, suffix: str, at: int) -> Path:
    """Removes one object of a partition, of one of its segments."""
    path = sorted(bucket.glob(f"**/{partition}/*.{suffix}"))[at]
    path.unlink()
    return path


@pytest.mark.parametrize("at", [0, -1])
def test_a_plain_segment_without_its_log_is_an_error(at: int, tmp_path: Path) -> None:
    bucket = copy_of("local", tmp_path / "bucket")
    path = without(bucket, "codecs-0-*", "log", at)
    (found,) = [each for each in brokerless.open(bucket).verify() if each.kind == Kind.REMOTE_OBJECT_MISSING]
    assert (found.severity, found.file, found.offset) == ("error", str(path), int(path.name[:20]))


@pytest.mark.parametrize("set_", ["compressed", "plain"])
def test_a_last_segment_without_its_manifest_is_a_warning(set_: str, tmp_path: Path) -> None:
    bucket = copy_of(set_, tmp_path / "bucket")
    path = without(bucket, f"{'big' if set_ == 'compressed' else 'epochs'}-*/0", "rsm-manifest", -1)
    (found,) = [each for each in brokerless.open(bucket).verify() if each.kind == Kind.REMOTE_SEGMENT_NEEDED]
    assert (found.severity, found.offset) == ("warning", int(path.name[:20]))
    assert "put its manifest back" in str(advice_at(found))
    remote = brokerless.open(bucket).audit().remote
    assert remote is not None
    (needed,) = [each.finding for each in remote.findings]
    assert (needed.severity, needed.kind) == ("warning", Kind.REMOTE_SEGMENT_NEEDED)


def test_only_objects_of_a_prefix(tmp_path: Path) -> None:
    """Two clusters in one bucket have topics of one name."""
    for cluster in ("cluster-a", "cluster-b"):
        source = next((golden() / "prefix" / "bucket" / "cluster-a").glob("tiered-many_parts-*"))
        shutil.copytree(source, tmp_path / f"{cluster}-{source.name}")
    for cluster in ("cluster-a", "cluster-b"):
        found: list[brokerless.Finding] = []
        assert len(rows_of(brokerless.open(tmp_path / f"{cluster}-tiered-"), found)) == 540
        assert found == []


def test_what_is_beside_log_directories(tmp_path: Path) -> None:
    """A directory with both above is no bucket: one of them has to be named."""
    shutil.copytree(golden() / "plain" / "data", tmp_path / "kafka")
    shutil.copytree(golden() / "plain" / "bucket", tmp_path / "bucket")
    with pytest.raises(UnreadableError, match="log directories below it are"):
        brokerless.open(tmp_path)
    assert brokerless.open(tmp_path / "bucket").topics


def split(set_: str, to: Path) -> list[Path]:
    """A bucket as two, each with every second segment."""
    bucket = golden() / set_ / "bucket"
    segments = sorted({path.relative_to(bucket).with_suffix("") for path in bucket.rglob("*.log")})
    for number, segment in enumerate(segments):
        target = to / str(number % 2) / segment.parent
        target.mkdir(parents=True, exist_ok=True)
        for path in (bucket / segment.parent).glob(f"{segment.name}.*"):
            shutil.copy(path, target)
    return [to / "0", to / "1"]


@pytest.mark.parametrize("set_", ["plain", "prefix", "local", "encrypted"])
def test_several_buckets_are_one(set_: str, tmp_path: Path) -> None:
    buckets = split(set_, tmp_path)
    for order in (1, -1):
        log = brokerless.open(golden() / set_ / "data", remote=buckets[::order], key_pairs=key_pairs())
        for case in (each for each in cases() if each.set == set_):
            rows = rows_of(log.partition(case.topic, case.partition), start_offset=case.log_start)
            assert summary_of(rows) == case.expected["read_uncommitted"]["all"], case.id


def test_one_of_several_buckets_without_segments_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    data, bucket = golden() / "plain" / "data", golden() / "plain" / "bucket"
    with pytest.raises(UnreadableError, match=r"empty: there are no remote segments here"):
        brokerless.open(data, remote=[bucket, tmp_path / "empty"])
    with pytest.raises(UsageError, match="give the buckets"):
        brokerless.open(data, remote=[bucket, f"tiered://::file://{bucket}"])
