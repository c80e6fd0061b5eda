"""Brokers with tiered topics start where directories are gone: which remote segments they delete is what the dry run
predicted, and their objects are gone."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

import brokerless
from brokerless.clusters.description import describe_cluster
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.results import DirectoryRestart
from brokerless.internals.remote.storage import RemoteStorage, load_remote_storage
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.live import some_records
from tests.kafka.producers import produce_confluent
from tests.kafka.rebuilt import RebuiltNode
from tests.kafka.tiered import checkpointed, objects, printed_properties, tiered_settings, wait_for

pytestmark = pytest.mark.xdist_group("remote_start")

PARTITIONS = 4


def counts(storage: RemoteStorage) -> list[int]:
    """Remote segments of each partition."""
    return [len(storage.of("tiered", each)) for each in range(PARTITIONS)]


def wait_for_counts(log_dir: Path, expected: list[int] | None, before: list[int] | None = None) -> list[int]:
    """The numbers of remote segments once they are ``expected``, or there are any of each, and stay so for a second."""
    give_up = time.monotonic() + 60
    found = before
    while time.monotonic() < give_up:
        time.sleep(1)
        last, found = found, counts(load_remote_storage(Location(str(log_dir))))
        if found == expected or (expected is None and min(found) > 0 and found == last):
            break
    assert found is not None
    return found


@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_a_start_deletes_the_remote_segments_that_the_dry_run_predicts(
    version: str, kafka_jars: Path, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    broker = KafkaBroker(tmp_path / "broker", tiered_settings(bucket, version), version)
    size = {"internal_segment_bytes" if version == NEWEST else "segment_bytes": 1000}
    with broker:
        broker.create_topic("tiered", PARTITIONS, remote_storage_enable="true", local_retention_bytes=1, **size)
        produce_confluent(broker, "tiered", some_records(1, 300, partitions=PARTITIONS, largest=200), batch_size=500)
        before = wait_for_counts(broker.log_dir, None)
        wait_for(lambda: all(len(broker.logs("tiered", each)) == 1 for each in range(PARTITIONS)), "one is local")
    assert min(before) > 0
    unchanged = planned_start(broker, bucket)
    assert (unchanged.remote_deletions, unchanged.remote_log_starts) == ((), ())
    shutil.rmtree(broker.log_dir / "tiered-1")
    (broker.log_dir / "tiered-2" / "leader-epoch-checkpoint").unlink()
    for each in (broker.log_dir / "tiered-3").glob("0*"):  # its leader epochs stay
        each.unlink()
    planned = planned_start(broker, bucket)
    before = counts(load_remote_storage(Location(str(broker.log_dir))))
    stored = objects(bucket)
    assert min(stored[f"tiered-{each}"] for each in range(PARTITIONS)) > 0
    predicted = {each.partition: (each.segments, each.objects) for each in planned.remote_deletions}
    assert predicted == {each: (before[each], stored[f"tiered-{each}"]) for each in (1, 2, 3)}
    assert planned.remote_log_starts == ()
    (finding, *_) = describe_cluster([resolve(Location(str(broker.log_dir)))]).findings
    assert (finding.kind, f"{before[1]} remote segments of tiered topics (tiered-1 " in finding.message) == (
        "remote-segments-deleted",
        True,
    )
    if version == NEWEST:
        broker = rebuilt(broker, tmp_path, before)
    left = (0, 2) if version == NEWEST else (0,)  # what is rebuilt has the leader epochs of the remote segments
    expected = [count if each in left else 0 for each, count in enumerate(before)]
    remaining = {f"tiered-{each}": stored[f"tiered-{each}"] for each in left}
    with broker:
        after = wait_for_counts(broker.log_dir, expected, before)
        wait_for(lambda: objects(bucket) == remaining, "the others' objects are deleted")
    assert after == expected
    check_moved_log_start(broker, bucket, left)


def planned_start(broker: KafkaBroker, bucket: Path) -> DirectoryRestart:
    directory = resolve(Location(str(broker.log_dir)))
    (planned,) = plan_directories([directory], version=broker.version, bucket=str(bucket))
    return planned


def check_moved_log_start(broker: KafkaBroker, bucket: Path, left: tuple[int, ...]) -> None:
    """Without the metadata of remote segments, the log begins with what is local. ``left``: partitions that have
    some."""
    for each in broker.log_dir.glob("__remote_log_metadata-*"):
        shutil.rmtree(each)
    planned = planned_start(broker, bucket)
    assert planned.remote_deletions == ()
    all_moved = planned.remote_log_starts
    assert [each.partition for each in all_moved] == list(left)
    for each in all_moved:
        assert (each.before, each.objects) == (0, objects(bucket)[f"tiered-{each.partition}"])
        assert each.after == int(broker.logs("tiered", each.partition)[0].stem) > 0
    expected = {each.partition: each.after for each in all_moved}
    with broker:
        wait_for(lambda: log_starts(broker, left) == expected, "the log starts are moved")
        wait_for(
            lambda: {each: checkpointed(broker, "tiered", each) for each in left} == expected,
            "they are in the checkpoint",
        )


def log_starts(broker: KafkaBroker, partitions: tuple[int, ...]) -> dict[int, int]:
    return {each: offsets[0] for each, offsets in broker.watermarks("tiered", list(partitions)).items()}


def rebuilt(killed: KafkaBroker, root: Path, before: list[int]) -> RebuiltNode:
    """A node on what is rebuilt, with exactly the settings that are printed, but for those that are not known."""
    plan = brokerless.rebuild(killed.log_dir, root / "to", apply=True)
    first, *others = plan.findings
    assert first.kind == "remote-segments-deleted"
    assert f"this start would delete {before[1] + before[3]} remote segments of tiered topics" in first.message
    assert "remote-storage-settings" in {each.kind for each in others}
    node = RebuiltNode(root, plan, 1)
    printed = plan.server_properties(1)
    assert printed.items() >= {
        ("remote.log.storage.system.enable", "true"),
        ("rlmm.config.remote.log.metadata.topic.num.partitions", "2"),
        ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
        ("remote.log.metadata.manager.listener.name", "PLAINTEXT"),
    }
    node.properties.write_text(printed_properties(printed, root / "bucket"))
    return node
