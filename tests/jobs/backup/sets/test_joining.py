"""A set: each host of a broker stores what its node leads, and all parts are one snapshot."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.jobs.backup.disks import DEMO, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.jobs.rebuild.from_snapshot.disks import three_nodes

import brokerless
from brokerless import UsageError
from brokerless.cli import main
from brokerless.jobs.backup.job import BackupResult
from brokerless.jobs.backup.sets.joining import join_parts
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import OngoingTransaction, Snapshot, SnapshotCut, TopicLeaders, dump_snapshot
from brokerless.log.storage.location import Location

TOPICS = ("orders", "payments", "users", "__consumer_offsets", "__transaction_state")


def store(disk: Path, place: Path, name: str = "night", **options: Any) -> BackupResult:
    return brokerless.backup(disk, place, leader_only=True, set_name=name, **options)


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return three_nodes(tmp_path)


@pytest.fixture
def place(disks: list[Path], tmp_path: Path) -> Path:
    """A backup with a set of two hosts; the third leads nothing."""
    for each in disks[:2]:
        store(each, tmp_path / "backup")
    return tmp_path / "backup"


def change(place: Path, node: int, **changes: Any) -> Snapshot:
    """Write the part of a node again with other members."""
    part = BackupPlace(Location(str(place))).part("night", [node])
    (name,) = part.names()
    changed = structs.replace(part.snapshot(name), **changes)
    Path((part.snapshot_directory / f"{name.stem}.json").path).write_bytes(dump_snapshot(changed))
    return changed


def part_of(place: Path, node: int) -> Snapshot:
    return change(place, node)


def joined(place: Path) -> Snapshot:
    found = join_parts(BackupPlace(Location(str(place))), "night")
    assert found is not None
    return found.snapshot


def led(snapshot: Snapshot, place: tuple[str, int], node: int) -> tuple[TopicLeaders, ...]:
    """Return the leaders that a part has, with another one of one partition."""
    return tuple(
        structs.replace(
            each, leaders=tuple((number, node if (each.topic_id, number) == place else leader)
                                for number, leader in each.leaders)
        )
        for each in snapshot.leaders
    )  # fmt: skip


def test_what_each_node_leads_is_read_as_one_snapshot(place: Path) -> None:
    assert rows_of(f"{place}@night", TOPICS) == rows_of(DEMO, TOPICS)
    (snapshot,) = brokerless.Backup(place).snapshots()
    assert (snapshot.is_complete, {each.node_id for each in snapshot.partitions}) == (True, {1, 2})
    assert brokerless.Backup(place).check(read="all").findings == ()


def test_a_part_has_what_its_node_leads(place: Path) -> None:
    assert {each.name for each in part_of(place, 2).partitions} == {"__cluster_metadata-0", "orders-1", "payments-0"}


def test_a_cluster_is_rebuilt_of_it(place: Path, tmp_path: Path) -> None:
    rebuilt = brokerless.rebuild(f"{place}@night", tmp_path / "to", spread=True, apply=True)
    assert (rebuilt.lost, [each.node_id for each in rebuilt.nodes]) == ((), [1, 2, 3])
    assert brokerless.Backup(f"{place}@night").drill().is_clean


@pytest.mark.parametrize("joined", [True, False])
def test_the_next_set_stores_what_is_new(joined: bool, disks: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "backup"
    for each in disks[: 2 if joined else 1]:
        store(each, place)
    again = store(disks[0], place, "next")
    assert (again.is_complete, again.snapshot.new_size) == (True, 0)


def test_a_node_goes_on_from_what_another_one_stored(place: Path, disks: list[Path]) -> None:
    shutil.copytree(disks[1] / "orders-1", disks[0] / "orders-1")
    result = brokerless.backup(disks[0], place)
    assert "orders-1" in {each.name for each in result.snapshot.partitions}
    assert result.snapshot.new_size == 0


def test_a_set_that_waits_for_a_host_is_named_and_joined_on_request(
    disks: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "backup")
    assert main(["backup", str(disks[0]), "--to", place, "--leader-only", "--set", "night"]) == 0
    assert "set night: parts of nodes 1; awaited: nodes 2" in capsys.readouterr().out
    assert main(["snapshots", place]) == 0
    assert "awaited: nodes 2" in capsys.readouterr().err
    assert main(["ls", f"{place}@night"]) == 2
    assert "snapshots --join night" in capsys.readouterr().err
    assert main(["check", place]) == 0
    assert "in no snapshot" not in capsys.readouterr().out
    assert main(["snapshots", place, "--join", "night"]) == 1
    assert "orders-1 is in no part of the set" in capsys.readouterr().err
    (snapshot,) = brokerless.Backup(place).snapshots()
    assert [(each.topic, each.reason) for each in snapshot.missing] == [
        ("orders", "node 2 leads it, and there is no part of that"),
        ("payments", "node 2 leads it, and there is no part of that"),
    ]
    assert main(["ls", f"{place}@night"]) == 0


def test_a_partition_whose_leader_moved_away_before_both_runs_is_in_no_part(place: Path) -> None:
    orders = next(each for each in part_of(place, 2).partitions if each.name == "orders-1")
    own = part_of(place, 1)
    change(place, 1, leaders=led(own, orders.place, 1))
    kept = tuple(each for each in part_of(place, 2).partitions if each.place != orders.place)
    change(place, 2, partitions=kept, leaders=led(part_of(place, 2), orders.place, 1))
    (missing,) = joined(place).missing
    assert (missing.topic, missing.partition) == ("orders", 1)
    assert missing.reason == "its leader moved to node 1 while the parts were stored"


def test_a_host_with_older_metadata_is_named(place: Path) -> None:
    metadata = part_of(place, 1).metadata
    assert metadata is not None
    change(place, 1, metadata=structs.replace(metadata, end_offset=metadata.end_offset - 10))
    users = next(each for each in part_of(place, 1).partitions if each.topic == "users")
    change(place, 1, partitions=tuple(each for each in part_of(place, 1).partitions if each != users))
    (missing,) = joined(place).missing
    assert missing.topic == "users"
    assert missing.reason == "node 1 leads it by the metadata up to offset 85, and stored with that up to 75"


@pytest.mark.parametrize(("epochs", "end", "node"), [(((0, 0), (9, 1)), 1000, 1), ((), 2000, 1), ((), 1000, 2)])
def test_of_two_parts_the_newer_epoch_counts_and_then_the_longer_log(
    epochs: tuple[tuple[int, int], ...], end: int, node: int, place: Path
) -> None:
    own = part_of(place, 2)
    orders = next(each for each in own.partitions if each.name == "orders-1")
    other = structs.replace(orders, node_id=1, end_offset=end, epochs=epochs or orders.epochs)
    change(place, 1, partitions=(*part_of(place, 1).partitions, other))
    assert [each.node_id for each in joined(place).partitions if each.name == "orders-1"] == [node]


def test_a_topic_that_was_deleted_meanwhile_is_left_out(place: Path) -> None:
    for node in (1, 2):
        own = part_of(place, node)
        change(place, node, leaders=tuple(each for each in own.leaders if each.topic != "payments"))
    assert "payments" not in {each.topic for each in joined(place).partitions}


def test_a_transaction_that_is_open_in_one_part_and_ended_in_another_since_is_named(place: Path) -> None:
    ended = next(iter(brokerless.open(DEMO / "payments-0").batches(["producerId"]))).to_pylist()[0]["producerId"]
    own = part_of(place, 1)
    users = next(each for each in own.partitions if each.topic == "users")
    is_open = structs.replace(users, open_transactions=(OngoingTransaction(ended, 600),))
    partitions = tuple(is_open if each == users else each for each in own.partitions)
    change(place, 1, partitions=partitions, created=own.created)
    assert join_parts(BackupPlace(Location(str(place))), "night").findings == ()  # type: ignore[union-attr]
    change(place, 1, cut=SnapshotCut(0, 0, 0))
    found = join_parts(BackupPlace(Location(str(place))), "night")
    assert found is not None
    (finding,) = found.findings
    assert finding.kind == "transaction-cut-open"
    assert "payments-0, users-0" in finding.message
    assert found.snapshot.cut is not None
    assert [each.producer_id for each in found.snapshot.cut.open] == [ended]


def test_prune_leaves_parts_that_wait_and_removes_those_that_were_joined(disks: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "backup"
    store(disks[0], place)
    assert brokerless.Backup(place).prune(grace=0, apply=True).objects == 0
    store(disks[1], place)
    assert brokerless.Backup(place).prune(grace=0, apply=True).objects == 4
    assert not list((place / ".brokerless" / "sets").rglob("*.json"))
    assert brokerless.Backup(place).check(read="all").findings == ()
    assert store(disks[0], place, "next").snapshot.new_size == 0


def test_an_erasure_reaches_the_parts_that_wait(disks: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "backup"
    store(disks[0], place)
    keys = ["u-0048"]
    brokerless.Backup(place).erase(keys=keys, manifest=tmp_path / "erased.json", apply=True)
    store(disks[1], place)
    (users,) = (each for each in brokerless.open(f"{place}@night").partitions if each.paths[0].topic == "users")
    assert b"u-0048" not in {row["key"] for batch in users.records(["key"]) for row in batch.to_pylist()}


def test_hosts_that_can_read_nothing_join_their_parts(disks: list[Path], tmp_path: Path) -> None:
    place = tmp_path / "backup"
    private, public = key_files(tmp_path, "ops", "safe")
    for each in disks[:2]:
        store(each, place, public_keys=public)
    assert brokerless.Backup(place).check(read="all").findings == ()
    assert rows_of(brokerless.open(f"{place}@night", key_pairs=private), TOPICS) == rows_of(DEMO, TOPICS)


def test_two_hosts_that_join_at_the_same_time_write_the_same_snapshot(place: Path) -> None:
    for file in (place / ".brokerless" / "snapshots").glob("*.json"):
        file.unlink()  # the other host has written the list of segments
    brokerless.Backup(place).join("night")
    assert rows_of(f"{place}@night", TOPICS) == rows_of(DEMO, TOPICS)


def test_a_host_that_runs_again_replaces_its_part_and_the_set_before(place: Path, disks: list[Path]) -> None:
    (first,) = brokerless.Backup(place).snapshots()
    again = store(disks[0], place)
    assert again.joined is not None
    both = brokerless.Backup(place).snapshots()
    assert [(each.id, each.name) for each in both] == [(first.id, "night"), (again.joined.snapshot.id, "night")]
    assert first.parts[1] == again.joined.snapshot.parts[0]  # that of the other host, which is the older one by now
    assert again.snapshot.id in again.joined.snapshot.parts
    assert [each.id for each in brokerless.Backup(f"{place}@night").snapshots()] == [again.joined.snapshot.id]
    forgotten = brokerless.Backup(place).forget(keep_last=2, apply=True).forgotten
    assert forgotten == (first.id,)
    assert rows_of(f"{place}@night", TOPICS) == rows_of(DEMO, TOPICS)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"leader_only": True}, "go together"),
        ({"set_name": "night"}, "go together"),
        ({"set_name": "latest", "leader_only": True}, "'latest'"),
        ({"set_name": "../x", "leader_only": True}, "letters, digits"),
        ({"set_name": "night", "leader_only": True, "name": "x"}, "leave out name"),
    ],
)
def test_what_makes_no_set_is_refused(options: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        brokerless.backup(DEMO, tmp_path / "backup", **options)


def test_disks_without_metadata_are_refused(disks: list[Path], tmp_path: Path) -> None:
    shutil.rmtree(disks[0] / "__cluster_metadata-0")
    with pytest.raises(UsageError, match="nobody knows what they lead"):
        store(disks[0], tmp_path / "backup")


def test_a_set_that_no_host_has_a_part_of_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="there is no part of a set morning"):
        brokerless.Backup(place).join("morning")
