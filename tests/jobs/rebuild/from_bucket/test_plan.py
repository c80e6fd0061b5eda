"""The plan of a rebuild from a golden bucket, and its result; ``tests/kafka/test_bucket_rebuilt.py`` starts brokers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import copy_of, golden
from tests.s3 import ENVIRONMENT, S3

import brokerless
from brokerless import UsageError
from brokerless.cli import main
from brokerless.internals.remote.storage import load_remote_storage
from brokerless.log.storage.location import Location

BUCKET = golden() / "plain" / "bucket"


def kinds(rebuilt: object) -> list[str]:
    return [each.kind for each in rebuilt.findings]  # type: ignore[attr-defined]


def test_a_plan_writes_nothing_and_says_first_of_all_to_copy_the_bucket(tmp_path: Path) -> None:
    planned = brokerless.rebuild([], tmp_path / "to", from_bucket=BUCKET)
    assert not (tmp_path / "to").exists()
    assert "remote-first-start" in kinds(planned)[:2]
    assert "the bucket alone" in planned.origin
    assert "ACLs" in planned.lost
    assert "positions of groups" in planned.lost
    assert planned.cluster.configs[2, "trimmed"] == {
        "remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1",
    }  # fmt: skip
    assert planned.server_properties(1)["log.retention.ms"] == "-1"


def test_what_is_written_has_all_segments_and_a_start_does_no_harm(tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild([], tmp_path / "to", from_bucket=BUCKET, apply=True)
    node = tmp_path / "to" / "node-1"
    assert rebuilt.from_bucket is not None
    storage = load_remote_storage(Location(str(node)))
    for each in rebuilt.from_bucket.stand_ins:
        found = storage.of(each.partition.topic, each.partition.partition)
        assert [one.segment_id for one in found] == [one.segment_id for one in each.partition.segments]
        row = rebuilt.cluster.partitions[each.partition.topic_id][each.partition.partition]
        assert row["leaderEpoch"] > each.partition.newest_epoch
    start = brokerless.open(node).restart(remote=BUCKET)
    assert start.directory is not None
    assert (start.directory.remote_deletions, start.directory.remote_log_starts) == ((), ())
    assert start.directory.is_harmless
    joined = brokerless.open(node, remote=BUCKET)
    for each in brokerless.open(BUCKET):
        records = sum(batch.num_rows for batch in each.records())
        local = joined.partition(*each.topic_partition)
        assert sum(batch.num_rows for batch in local.records()) == records > 0


def test_an_old_directory_knows_what_the_bucket_does_not(tmp_path: Path) -> None:
    old = broker_directory("plain", tmp_path / "old")
    planned = brokerless.rebuild(old, tmp_path / "to", from_bucket=BUCKET, apply=True)
    assert planned.from_bucket is not None
    starts = {each.partition.name: (each.log_start, each.is_log_start_known) for each in planned.from_bucket.stand_ins}
    assert starts["trimmed-0"] == (212, True)
    assert "remote-log-start-unknown" not in kinds(planned)
    assert not any("configs" in each for each in planned.lost)
    assert any("of trimmed-0, which" in each and "the bucket has not" in each for each in planned.lost)
    assert planned.cluster_id == brokerless.cluster(old).cluster_id
    start = brokerless.open(tmp_path / "to" / "node-1").restart(remote=BUCKET).directory
    assert start is not None
    here = {each.partition.name for each in planned.from_bucket.stand_ins}
    assert not here & {f"{each.topic}-{each.partition}" for each in start.remote_deletions}
    assert start.remote_log_starts == ()


def test_a_log_start_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["rebuild", "--from-bucket", str(BUCKET), "--to", str(tmp_path / "to")]
    assert main([*line, "--log-start", "trimmed-0=212"]) == 1
    shown = capsys.readouterr().out
    assert "212" in next(each for each in shown.splitlines() if each.startswith("  trimmed-0 "))
    (trimmed,) = BUCKET.glob("trimmed-*/0")
    starts = sorted(int(each.name[:20]) for each in trimmed.glob("*.log"))
    assert main([*line, "--log-start", f"trimmed-0={starts[1]}"]) == 1
    assert "the first start deletes 1 remote segment (3 objects) of trimmed-0" in capsys.readouterr().out
    assert main([*line, "--log-start", "trimmed-0=1", "--log-start", "trimmed-0=2"]) == 2
    assert "--log-start: trimmed-0 is given twice" in capsys.readouterr().err
    assert main([*line, "--from-bucket", str(golden() / "local" / "bucket")]) == 2
    assert "--from-bucket is given twice" in capsys.readouterr().err
    assert main([*line, "--log-start", "trimmed-0=100000"]) == 2
    assert "ends at offset" in capsys.readouterr().err
    assert main([*line, "--log-start", "nothing-0=1"]) == 2
    assert main([*line, "--log-start", "nonsense"]) == 2


def test_what_is_of_a_bucket_needs_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="from_bucket"):
        brokerless.rebuild(broker_directory("plain", tmp_path / "old"), tmp_path / "to", abort_open_transactions=True)
    with pytest.raises(UsageError, match="data=copy"):
        brokerless.rebuild(tmp_path / "old", tmp_path / "to", from_bucket=BUCKET, data="in-place")
    with pytest.raises(UsageError, match="which is read"):
        brokerless.rebuild([], BUCKET / "to", from_bucket=BUCKET)


@pytest.mark.xdist_group("s3")
def test_from_s3_with_storage_options(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.upload(BUCKET, "rebuilt")
    for name in (*ENVIRONMENT, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    rebuilt = brokerless.rebuild([], tmp_path / "to", from_bucket=url, storage_options=s3.storage_options, apply=True)
    assert rebuilt.from_bucket is not None
    local = brokerless.rebuild([], tmp_path / "local", from_bucket=BUCKET).from_bucket
    assert local is not None
    names = [[each.partition.name for each in found.stand_ins] for found in (rebuilt.from_bucket, local)]
    assert names[0] == names[1]
    joined = brokerless.open(tmp_path / "to" / "node-1", remote=url, storage_options=s3.storage_options)
    for each in brokerless.open(BUCKET):
        records = sum(batch.num_rows for batch in each.records())
        own = joined.partition(*each.topic_partition)
        assert sum(batch.num_rows for batch in own.records()) == records > 0


def test_one_topic_of_a_bucket_takes_the_place_of_that_on_the_disks(tmp_path: Path) -> None:
    """All else stays, with its local segments, and with the metadata of its remote ones."""
    old = broker_directory("plain", tmp_path / "old")
    before = load_remote_storage(Location(str(old)))
    with pytest.raises(UsageError, match=r"trimmed-0 has the topic with this ID .*nothing to attach"):
        brokerless.rebuild(old, tmp_path / "to", from_bucket=BUCKET, topics="trimmed")
    shutil.rmtree(old / "trimmed-0")
    for topics in (["trimmed"], "trim*"):
        planned = brokerless.rebuild(old, tmp_path / "to", from_bucket=BUCKET, topics=topics)
        assert planned.from_bucket is not None
        assert {each.partition.topic for each in planned.from_bucket.stand_ins} == {"trimmed"}
        without = brokerless.rebuild(old, tmp_path / "to")  # the archive has some of the partitions
        own, of_disks = (
            int(next(each.message for each in found.findings if each.kind == "remote-segments-deleted").split()[4])
            for found in (planned, without)
        )
        (stand_in,) = planned.from_bucket.stand_ins
        assert of_disks - own == len(stand_in.partition.segments)
    brokerless.rebuild(old, tmp_path / "to", from_bucket=BUCKET, topics="trimmed", apply=True)
    node = tmp_path / "to" / "node-1"
    after = load_remote_storage(Location(str(node)))
    ids = {key: {each.segment_id for each in segments} for key, segments in before.segments.items()}
    assert {key: {each.segment_id for each in segments} for key, segments in after.segments.items()} == ids
    local = brokerless.open(node).partition("both", 0)
    assert sum(batch.num_rows for batch in local.records()) == 280
    with pytest.raises(UsageError, match=r"there is no topic none \(there are append-time, both"):
        brokerless.rebuild(old, tmp_path / "other", from_bucket=BUCKET, topics="none")
    with pytest.raises(UsageError, match="are for from_bucket"):
        brokerless.rebuild(old, tmp_path / "other", topics="trimmed")


OTHER = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize(("set_", "topic", "first"), [("local", "codecs", "{}-0-{}"), ("plain", "both", "{}-{}")])
def test_of_two_topics_of_one_name_one_is_chosen_or_none(tmp_path: Path, set_: str, topic: str, first: str) -> None:
    """Kafka's metadata has each name once: a broker ends at the second one."""
    bucket = copy_of(set_, tmp_path / "bucket")
    known = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket)
    (own,) = [topic_id for topic_id, name in known.cluster.topics.items() if name == topic]
    (directory,) = bucket.rglob(first.format(topic, own))
    shutil.copytree(directory, directory.with_name(directory.name.replace(own, OTHER)))
    for file in directory.with_name(directory.name.replace(own, OTHER)).rglob("*.rsm-manifest"):
        file.write_bytes(file.read_bytes().replace(own.encode(), OTHER.encode()))
    for topics in ((), (topic,), ("*",)):
        with pytest.raises(UsageError, match=f"IDs {min(OTHER, own)} and {max(OTHER, own)}, .*topic={topic}:ID"):
            brokerless.rebuild([], tmp_path / "to", from_bucket=bucket, topics=topics)
    with pytest.raises(UsageError, match="no topic of this name with ID nothing"):
        brokerless.rebuild([], tmp_path / "to", from_bucket=bucket, topics=f"{topic}:nothing")
    for chosen, left in ((own, OTHER), (OTHER, own)):
        planned = brokerless.rebuild([], tmp_path / "to", from_bucket=bucket, topics=("*", f"{topic}:{chosen}"))
        assert planned.from_bucket is not None
        names = sorted(planned.cluster.topics.values())
        assert names == sorted(known.cluster.topics.values())
        assert planned.cluster.topics[chosen] == topic
        assert any(f"{topic}-0 of the other topic of this name, with ID {left}" in each for each in planned.lost)
        own_partitions = [each.partition for each in planned.from_bucket.stand_ins if each.partition.topic == topic]
        assert {each.topic_id for each in own_partitions} == {chosen}
        assert all(each.segments and not each.missing for each in own_partitions)
