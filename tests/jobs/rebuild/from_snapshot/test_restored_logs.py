"""The logs that are written of a snapshot: what is gone or damaged in the backup is named, and the rest is restored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, rows_of
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless import UnreadableError
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.storage.location import Location
from brokerless.views.internals.rebuild import rebuild_rows

TOPICS = ("orders", "payments", "users", "__consumer_offsets", "__transaction_state")


def orders_log(place: Path, kind: str = "log") -> Path:
    """The first object of ``orders-0``."""
    return min(place.glob(f"orders-*/0/*.{kind}"))


def test_logs_start_and_end_as_in_the_snapshot_and_so_do_the_checkpoints(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup")
    brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", apply=True)
    node = tmp_path / "to" / "node-1"
    (snapshot,) = brokerless.Backup(tmp_path / "backup").snapshots()
    ends = {
        (each.topic, each.partition): each.end_offset
        for each in snapshot.partitions
        if each.topic != "__cluster_metadata"
    }
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert load_offset_checkpoint(Location(str(node / name))).offsets == ends
    assert rows_of(node, TOPICS) == rows_of(DEMO, TOPICS)


def test_an_encrypted_snapshot_is_restored_with_its_key(tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops")
    brokerless.backup(DEMO, tmp_path / "backup", public_keys=public, one_key=True)
    stored = f"{tmp_path / 'backup'}@latest"
    with pytest.raises(UnreadableError):
        brokerless.rebuild(stored, tmp_path / "to", apply=True)
    assert not (tmp_path / "to").exists()
    brokerless.rebuild(stored, tmp_path / "to", key_pairs=private, apply=True)
    assert rows_of(tmp_path / "to" / "node-1", TOPICS) == rows_of(DEMO, TOPICS)


def test_segments_end_where_the_settings_of_the_topic_say(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    row = {
        "table": "configs",
        "resourceType": "topic",
        "resourceName": "orders",
        "name": "segment.bytes",
        "value": "40000",
    }
    rows = rebuild_rows(brokerless.rebuild(DEMO, tmp_path / "to"))
    state.write_text("".join(json.dumps(each) + "\n" for each in (*rows, row)))
    brokerless.backup(DEMO, tmp_path / "backup")
    brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", state=state, apply=True)
    sizes = [each.stat().st_size for each in sorted((tmp_path / "to" / "node-1" / "orders-0").glob("*.log"))]
    assert len(sizes) > 1
    assert max(sizes) <= 40000


def test_bytes_that_were_damaged_in_the_backup_are_lost_and_the_rest_is_restored(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup")
    log = orders_log(tmp_path / "backup")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    rebuilt = brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", apply=True)
    (lost,) = rebuilt.lost
    assert lost.startswith("offsets ")
    assert " of orders-0: " in lost
    found = rows_of(tmp_path / "to" / "node-1", TOPICS)
    truth = rows_of(DEMO, TOPICS)
    place = ("orders", 0, "read_uncommitted")
    assert {**found, place: (), (*place[:2], "read_committed"): ()} == {
        **truth,
        place: (),
        (*place[:2], "read_committed"): (),
    }
    offsets = {row["offset"] for row in found[place]}
    assert 0 < len(offsets) < len(truth[place])
    assert all(row in truth[place] for row in found[place])


@pytest.mark.parametrize("apply", [False, True], ids=["planned", "applied"])
def test_segments_whose_objects_are_gone_are_lost_and_the_plan_says_so(apply: bool, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", segment_size=30_000)
    first, second, third, *_ = sorted((tmp_path / "backup").glob("orders-*/0/*.log"))
    for each in (first, second, *(tmp_path / "backup").glob("payments-*/0/*")):
        each.unlink()
    rebuilt = brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", apply=apply)
    end = int(third.name[:20])
    assert rebuilt.lost == (
        f"offsets 0..{end - 1} of orders-0: not in the backup", "offsets 0..1553 of payments-0: not in the backup",
    )  # fmt: skip
    assert {each.kind for each in rebuilt.findings} == {"remote-object-missing"}
    if apply:
        found = rows_of(tmp_path / "to" / "node-1", ["orders", "payments"])
        assert found["orders", 0, "read_uncommitted"][0]["offset"] == end
        assert found["payments", 0, "read_uncommitted"] == []
        start = brokerless.open(tmp_path / "to" / "node-1").restart()
        assert start.is_harmless


def test_offsets_that_the_cleaner_took_before_the_first_record_are_not_lost(tmp_path: Path) -> None:
    """What is left of a compacted log may show no gap: that it was compacted is in the snapshot."""
    shutil.copytree(DEMO, tmp_path / "disk")
    users = tmp_path / "disk" / "users-0"
    newest = [row for each in brokerless.open(users).batches() for row in each.to_pylist()][-1]
    last = Path(newest["file"])
    for each in users.glob("*.*"):
        if each not in (last, users / "partition.metadata"):
            each.unlink()
    last.write_bytes(last.read_bytes()[newest["position"] :])
    last.rename(users / f"{0:020}.log")
    kept = rows_of(tmp_path / "disk", ["users"])
    brokerless.backup(tmp_path / "disk", tmp_path / "backup")
    rebuilt = brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", apply=True)
    assert kept["users", 0, "read_committed"][0]["offset"] > 0
    assert rows_of(tmp_path / "to" / "node-1", ["users"]) == kept
    assert rebuilt.lost == ()
