"""Reads buckets of the real plugin as logs: every record and every transaction's outcome as a consumer got them."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.examples import some_quick
from tests.format.twin import write_batch, write_record
from tests.log.tiered import Case, cases, copy_of, golden, key_pairs, rows_of, summary_of

import brokerless
from brokerless import Finding, Kind, UnreadableError, UsageError
from brokerless.cli import main
from brokerless.log.storage.location import Location
from brokerless.log.tiered.file_system import TieredFileSystem
from brokerless.log.tiered.options import with_tiered_options

SETS = sorted({each.set for each in cases()})


@pytest.mark.parametrize("case", some_quick(cases()), ids=lambda each: each.id)
def test_records_of_a_bucket(case: Case) -> None:
    log = brokerless.open(case.bucket, key_pairs=key_pairs())
    rows = rows_of(log.partition(case.topic, case.partition), start_offset=case.log_start)
    assert summary_of(rows) == case.expected["read_uncommitted"]["remote"]


@pytest.mark.parametrize("case", some_quick(cases()), ids=lambda each: each.id)
def test_committed_records_of_a_bucket(case: Case) -> None:
    """All of them, or those before a transaction whose end is not in the bucket."""
    partition = brokerless.open(case.bucket, key_pairs=key_pairs()).partition(case.topic, case.partition)
    rows = rows_of(partition, start_offset=case.log_start, isolation="read_committed")
    local = brokerless.open(case.data, key_pairs=key_pairs(), remote=case.bucket)
    whole = rows_of(
        local.partition(case.topic, case.partition), isolation="read_committed", end_offset=case.remote_end + 1
    )
    assert summary_of(whole) == case.expected["read_committed"]["remote"]
    assert rows == whole[: len(rows)]
    if len(rows) < len(whole):
        held = [each for each in partition.audit().findings if each.kind == Kind.TRANSACTION_OPEN]
        assert whole[len(rows)][0] >= min(each.offset or 0 for each in held)


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("case", some_quick(cases()), ids=lambda each: each.id)
def test_local_and_remote_are_one_log(case: Case, level: str) -> None:
    for path in (case.data, case.data / f"{case.topic}-{case.partition}"):
        log = brokerless.open(path, key_pairs=key_pairs(), remote=case.bucket)
        rows = rows_of(log.partition(case.topic, case.partition), isolation=level)
        assert summary_of(rows) == case.expected[level]["all"]


def old_log(directory: Path, epochs: str | None, part: float = 1) -> tuple[Path, Path, list[Path]]:
    """The log directory of a broker as it was when its last segment was the second of the bucket, or a part of that;
    the bucket; and the logs of the segments in it."""
    data, bucket = shutil.copytree(golden() / "killed" / "data", directory / "data"), golden() / "killed" / "bucket"
    segments = sorted(each.with_suffix(".log") for each in bucket.glob("killed-*/0/*.rsm-manifest"))
    local = data / "killed-0"
    for each in local.glob("0*.*"):
        each.unlink()
    for each, size in zip(segments[:2], (1, part), strict=True):
        content = each.read_bytes()
        (local / f"{each.name[:20]}.log").write_bytes(content[: int(len(content) * size)])
    if epochs is not None:
        (local / "leader-epoch-checkpoint").write_text(epochs)
    return data, bucket, segments


@pytest.mark.parametrize("part", [1, 0.5, 0])
@pytest.mark.parametrize("epochs", [None, "0\n2\n0 0\n2 2071\n"])
def test_an_old_log_goes_on_in_its_bucket(part: float, epochs: str | None, tmp_path: Path) -> None:
    """It lost what its broker had after that, or it is so old that it does not know the later epochs."""
    data, bucket, segments = old_log(tmp_path, epochs, part)
    partition = brokerless.open(data, remote=bucket).partition("killed", 0)
    found = [*partition.verify()]
    (ahead,) = [each for each in found if each.kind == Kind.REMOTE_AHEAD]
    starts = [int(each.name[:20]) for each in segments]
    assert (ahead.severity, ahead.offset) == ("info", starts[2 if part == 1 else 1])
    lost = [Kind.LEADER_EPOCH_BEYOND_END] if epochs is None else []
    assert [each.kind for each in found if each.severity == "error" or "epoch" in each.kind] == lost
    rows = rows_of(partition)
    assert rows == rows_of(brokerless.open(bucket).partition("killed", 0))
    assert main(["cat", str(data), "--remote", str(bucket), "-t", "killed", "-f", "%o\n"]) == 0


def test_an_old_log_with_other_records_than_its_bucket_is_read_without_the_later_ones(tmp_path: Path) -> None:
    """A leader that was killed wrote them; the next one did not have them."""
    data, bucket, segments = old_log(tmp_path, "0\n2\n0 0\n1 1000\n")
    partition = brokerless.open(data, remote=bucket).partition("killed", 0)
    (found,) = [each for each in partition.verify() if each.kind == Kind.REMOTE_AHEAD]
    (damage,) = [each for each in damage_of(partition) if each.kind == Kind.REMOTE_AHEAD]
    assert found == damage
    assert (found.severity, found.offset) == ("warning", int(segments[2].name[:20]))
    assert max(each[0] for each in rows_of(partition, [])) < int(segments[2].name[:20])
    assert main(["cat", str(data), "--remote", str(bucket), "-t", "killed", "-f", "%o\n"]) == 1


def test_a_bucket_without_manifests_of_a_history_that_ended_adds_nothing_to_a_log(tmp_path: Path) -> None:
    """Its segments do not say where they end, nor which epochs they have."""
    data, bucket = shutil.copytree(golden() / "local" / "data", tmp_path / "data"), golden() / "local" / "bucket"
    first, second, *_ = sorted(bucket.glob("*/plain-0-*/*.log"))
    local, begins = data / "plain-0", int(second.name[:20])
    for each in local.glob("0*.*"):
        each.unlink()
    shutil.copyfile(first, local / f"{0:020}.log")
    for epochs, goes_on in (("0 0", True), (f"0 0\n9 {begins + 10}", True), (f"0 0\n9 {begins - 10}", False)):
        (local / "leader-epoch-checkpoint").write_text(f"0\n{epochs.count(chr(10)) + 1}\n{epochs}\n")
        rows = rows_of(brokerless.open(data, remote=bucket).partition("plain", 0), [])
        assert (max(each[0] for each in rows) >= begins) == goes_on, epochs


def test_a_log_that_a_bucket_is_not_ahead_of_although_its_segments_begin_later(tmp_path: Path) -> None:
    """A follower rolls at other offsets than the leader that copied its own segments."""
    data, bucket, segments = old_log(tmp_path, None)
    local = data / "killed-0"
    whole = b"".join(each.read_bytes() for each in dict.fromkeys(segments) if each not in segments[3:4])
    for each in local.glob("0*.log"):
        each.unlink()
    (local / f"{0:020}.log").write_bytes(whole)
    partition = brokerless.open(data, remote=bucket).partition("killed", 0)
    assert [each for each in partition.verify() if each.kind == Kind.REMOTE_AHEAD] == []
    assert rows_of(partition) == rows_of(brokerless.open(bucket).partition("killed", 0))


def damage_of(partition: brokerless.Log) -> list[Finding]:
    damage: list[Finding] = []
    rows_of(partition, damage)
    return damage


@pytest.mark.parametrize("name", SETS)
def test_everything_is_intact(name: str) -> None:
    """Indexes, snapshots and checkpoints agree with the logs."""
    found = list(brokerless.open(golden() / name / "bucket", key_pairs=key_pairs()).verify())
    assert [each for each in found if each.severity != "info"] == []


def test_paths_within_a_bucket() -> None:
    case = next(each for each in cases() if each.id == "prefix-txn-0")
    expected = case.expected["read_uncommitted"]["remote"]
    topic = next((case.bucket / "cluster-a").glob("tiered-txn-*"))
    for path in (
        case.bucket / "cluster-a", case.bucket / "cluster-a" / "tiered-", topic, topic / "0",
        f"tiered://txn-0::file://{case.bucket}", f"tiered://::file://{case.bucket}",
    ):  # fmt: skip
        assert summary_of(rows_of(brokerless.open(path).partition("txn", 0))) == expected, path
    segment = f"tiered://txn-0/{0:020d}.log::file://{case.bucket}"
    (lone,) = brokerless.open(segment)
    assert rows_of(lone)[0][0] == 0


def test_a_topic_named_like_a_bucket_directory() -> None:
    """Its name ends like an ID."""
    log = brokerless.open(golden() / "plain" / "bucket")
    assert "orders-MocuiS7uRRW7NCxG0VkwpA-0" not in {each.name for each in log.topics}
    assert "orders-MocuiS7uRRW7NCxG0VkwpA" in {each.name for each in log.topics}


def test_without_keys(tmp_path: Path) -> None:
    case = next(each for each in cases() if each.set == "encrypted")
    damage: list[Finding] = []
    assert rows_of(brokerless.open(case.bucket).partition(case.topic, case.partition), damage) == []
    assert {each.kind for each in damage} == {Kind.REMOTE_KEY_MISSING}
    assert "encrypted with key pair key1, which was not given" in str(damage[0])
    damage.clear()
    wrong = brokerless.open(case.bucket, key_pairs={"key1": key_pairs()["key2"]})
    assert rows_of(wrong.partition(case.topic, case.partition), damage) == []
    assert "not the one that the data key was encrypted with" in str(damage[0])
    with pytest.raises(UsageError, match="key pair key1: this is no private key in PEM"):
        brokerless.open(case.bucket, key_pairs={"key1": golden() / "index.jsonl"})
    with pytest.raises(UnreadableError):
        brokerless.open(case.bucket, key_pairs={"key1": tmp_path / "none.pem"})


def test_keys_are_in_no_text() -> None:
    secret = key_pairs()["key1"].read_text().splitlines()[3]
    location = with_tiered_options(Location("/data"), key_pairs(), None, None)
    assert location.options is not None
    log = brokerless.open(golden() / "encrypted" / "bucket", key_pairs=key_pairs())
    partition = log.partitions[0]
    for each in (location, location.options, log, log.directory, partition, partition.paths):
        assert secret not in repr(each)
        assert secret not in str(each)
    again = pickle.loads(pickle.dumps(location))
    assert again == location
    assert secret in again.options["tiered"]["key_pairs"]["key1"].decode()


def test_a_wrong_chunk(tmp_path: Path) -> None:
    """The batches that are in it are lost, and no others."""
    bucket = copy_of("compressed", tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket))
    log = sorted(bucket.glob("big-*/0/*.log"))[3]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    found: list[Finding] = []
    rows = rows_of(brokerless.open(bucket), found)
    lost = [each for each in whole if each not in rows]
    assert 0 < len(lost) < 8
    assert [each for each in rows if each not in whole] == []
    chunks = [each for each in found if each.kind == Kind.REMOTE_CHUNK_INVALID]
    assert len(chunks) == 1
    assert log.name in chunks[0].message
    assert "chunk " in chunks[0].message
    assert {each.kind for each in brokerless.open(bucket).verify() if each.severity == "error"} >= {
        Kind.REMOTE_CHUNK_INVALID
    }


def test_a_wrong_tag(tmp_path: Path) -> None:
    bucket = copy_of("encrypted", tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    log = max(bucket.glob("trimmed-*/0/*.log"))
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    found: list[Finding] = []
    rows = rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found)
    assert 0 < len(whole) - len(rows) < 100
    (chunk,) = [each for each in found if each.kind == Kind.REMOTE_CHUNK_INVALID]
    assert "chunk 1 (bytes 4124 to 8247" in chunk.message
    assert "its tag is wrong" in chunk.message


def test_swapped_chunks(tmp_path: Path) -> None:
    """They decrypt, as nothing of their place is authenticated; the batches' own checks say so."""
    bucket = copy_of("encrypted", tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    log = max(bucket.glob("trimmed-*/0/*.log"))
    data = log.read_bytes()
    log.write_bytes(data[:4124] + data[8248:12372] + data[4124:8248] + data[12372:])
    found: list[Finding] = []
    rows = rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found)
    assert [each for each in rows if each not in whole] == []
    assert 0 < len(whole) - len(rows) < 125
    assert [each for each in found if each.severity == "error"]


@pytest.mark.parametrize("name", ["compressed", "encrypted", "plain"])
def test_a_cut_object(tmp_path: Path, name: str) -> None:
    bucket = copy_of(name, tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    log = sorted(bucket.glob("*/0/*.log"))[0]
    size = log.stat().st_size
    log.write_bytes(log.read_bytes()[: size * 2 // 3])
    found: list[Finding] = []
    rows = rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found)
    assert [each for each in rows if each not in whole] == []
    assert 0 < len(whole) - len(rows) < 130
    (size_finding,) = [each for each in found if each.kind == Kind.REMOTE_OBJECT_SIZE]
    assert size_finding.file == str(log)
    assert (size_finding.expected, size_finding.found) == (f"{size} bytes", f"{size * 2 // 3} bytes")


@pytest.mark.parametrize("suffix", ["log", "indexes", "rsm-manifest"])
def test_a_missing_object(tmp_path: Path, suffix: str) -> None:
    bucket = copy_of("compressed", tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket))
    log = sorted(bucket.glob("big-*/0/*.log"))[3]
    log.with_suffix(f".{suffix}").unlink()
    found: list[Finding] = []
    rows = rows_of(brokerless.open(bucket), found)
    start = int(log.name[:20])
    kind = Kind.REMOTE_SEGMENT_NEEDED if suffix == "rsm-manifest" else Kind.REMOTE_OBJECT_MISSING
    assert [(each.kind, each.offset) for each in found if each.kind == kind] == [(kind, start)]
    if suffix == "indexes":
        assert rows == whole
    else:
        assert 0 < len(whole) - len(rows) <= 12
        assert all(start <= each[0] < start + 12 for each in whole if each not in rows)


def test_a_wrong_manifest(tmp_path: Path) -> None:
    bucket = copy_of("compressed", tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket))
    one, other = sorted(bucket.glob("big-*/0/*.rsm-manifest"))[3:5]
    text = one.read_text()
    for wrong, reason in (
        (text[:-20], "this is not JSON"),
        (text.replace('"version":"1"', '"version":"2"'), "Invalid enum value '2' - at `$.version`"),
        (other.read_text(), "of another segment than its name"),
        ("", "this is not JSON"),
    ):
        one.write_text(wrong)
        found: list[Finding] = []
        rows = rows_of(brokerless.open(bucket), found)
        assert 0 < len(whole) - len(rows) <= 12
        (finding,) = [each for each in found if each.kind == Kind.REMOTE_MANIFEST_INVALID]
        assert finding.file == str(one)
        assert reason in finding.message
        bucket = bucket.rename(tmp_path / f"bucket-{len(reason)}")
        one, other = (bucket / each.relative_to(each.parents[2]) for each in (one, other))


def test_what_kills_left() -> None:
    """Uploads that did not end are no part of the log, and nothing is read twice."""
    found: list[Finding] = []
    rows = rows_of(brokerless.open(golden() / "killed" / "bucket"), found)
    assert len(rows) == len({each[0] for each in rows})
    kinds = sorted((each.kind, each.severity) for each in found)
    assert kinds == [(Kind.REMOTE_SEGMENT_REPEATED, "info"), *[(Kind.REMOTE_SEGMENT_UNFINISHED, "info")] * 3]


def test_nothing_is_written(tmp_path: Path) -> None:
    source = brokerless.open(golden() / "plain" / "bucket")
    with pytest.raises(brokerless.BrokerlessError, match="cannot be written"):
        source.convert(f"tiered://::file://{tmp_path}", message_format=2)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_many_segments_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = tmp_path / "bucket" / "t" / "0"
    copies.mkdir(parents=True)
    for offset in range(40):
        (copies / f"{offset:020}-a.log").write_bytes(write_batch(write_record(b"k", b"v"), base_offset=offset))
    made: list[object] = []
    make: Any = TieredFileSystem._members_of

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(TieredFileSystem, "_members_of", counted)
    log = brokerless.open(tmp_path / "bucket", layout="{topic}/{partition}/{offset}-*.log")
    assert log.records(["offset"]).read_all().column("offset").to_pylist() == [*range(40)]
    assert len(made) <= 2


def test_a_manifest_of_another_partition_is_not_read_as_this_one(tmp_path: Path) -> None:
    bucket = copy_of("compressed", tmp_path / "bucket")
    one = sorted(bucket.glob("big-*/0/*.rsm-manifest"))[1]
    text = one.read_text()
    assert '"partition":0' in text
    one.write_text(text.replace('"partition":0', '"partition":1'))
    found: list[Finding] = []
    rows_of(brokerless.open(bucket), found)
    (finding,) = [each for each in found if each.kind == Kind.REMOTE_MANIFEST_INVALID]
    assert (finding.file, "of another partition" in finding.message) == (str(one), True)


def test_remote_segments_belong_to_no_lone_file(tmp_path: Path) -> None:
    path = "demo/data/users-0/00000000000000000000.log"
    with pytest.raises(UsageError, match="this is a file; remote= is for directories"):
        brokerless.open(path, remote="demo/bucket")


@pytest.mark.parametrize("given", [{"key1": "-----BEGIN PRIVATE KEY-----\nsecret"}, {"key1": b"secret"}, "secret"])
def test_a_key_that_is_given_itself_is_in_no_message(given: Any) -> None:
    with pytest.raises(UsageError) as raised:
        brokerless.open("demo/bucket", key_pairs=given)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_transaction_whose_beginning_may_be_in_a_missing_segment_blames_no_index(tmp_path: Path) -> None:
    bucket = copy_of("compressed-encrypted", tmp_path / "bucket")
    logs = sorted(bucket.glob("txn-*/0/*.log"))
    for missing in logs[1:-1]:
        held = missing.rename(tmp_path / "held.log")
        log = brokerless.open(bucket, key_pairs=key_pairs())
        for found in (list(log.verify()), [one for each in log.audit().partitions for one in each.findings]):
            kinds = {each.kind for each in found}
            assert Kind.REMOTE_OBJECT_MISSING in kinds
            assert Kind.TRANSACTION_INDEX_MISMATCH not in kinds, missing
        held.rename(missing)


def test_objects_in_a_log_directory_are_named(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(golden() / "plain" / "data", directory)
    assert not unread_objects_of(directory)
    shutil.copytree(golden() / "plain" / "bucket", directory, dirs_exist_ok=True)
    named = unread_objects_of(directory)
    with_objects = {each.name[:-23] for each in (golden() / "plain" / "bucket").iterdir()}
    assert {topic for topic, _ in named} == with_objects
    assert all(Path(each.file).parent == directory for _, each in named)
    assert not unread_objects_of(directory, remote=golden() / "plain" / "bucket")


def test_objects_of_other_topics_in_a_log_directory_are_named(tmp_path: Path) -> None:
    shutil.copytree(golden() / "plain" / "data", tmp_path / "data")
    shutil.copytree(golden() / "local" / "bucket", tmp_path / "data", dirs_exist_ok=True)
    ((_, finding),) = unread_objects_of(tmp_path / "data")
    assert finding.file == str(tmp_path / "data" / "kafka-tiered-storage")


def unread_objects_of(directory: Path, **options: Any) -> list[tuple[str | None, Finding]]:
    log = brokerless.open(directory, **options)
    of_kind = Kind.REMOTE_OBJECTS_UNREAD
    return [(each.topic, one) for each in log.paths for one in each.findings if one.kind == of_kind]


def test_a_segment_that_a_bucket_lacks_is_looked_for_in_the_bucket(tmp_path: Path) -> None:
    bucket = copy_of("plain", tmp_path / "bucket")
    logs = next(found for each in sorted(bucket.glob("*/*")) if len(found := sorted(each.glob("*.log"))) > 2)
    for path in logs[1].parent.glob(f"{logs[1].stem}.*"):
        path.unlink()
    (found,) = [each for each in brokerless.open(bucket).verify() if each.kind == Kind.MISSING_SEGMENT]
    assert "look for an earlier version of its objects in the bucket" in found.message
    assert "replica" not in found.message
