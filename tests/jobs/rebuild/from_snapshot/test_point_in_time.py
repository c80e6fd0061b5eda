"""A snapshot is rebuilt up to a time or to given end offsets, and what that leaves open is named, or ended."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, rows_of
from tests.jobs.rebuild.from_snapshot.disks import three_nodes

import brokerless
from brokerless import UsageError
from brokerless.findings import Kind
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.views.internals.rebuild import rebuild_lines, rebuild_rows
from brokerless.views.jobs.backup import partition_rows

UNTIL = datetime(2026, 11, 18, 1, tzinfo=UTC)
ENDS = {"orders-0": 622, "orders-1": 636, "orders-2": 651, "payments-0": 141}
WHOLE = ("users", "__consumer_offsets", "__transaction_state")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of the demo's disk, in several segments of each partition."""
    place = tmp_path_factory.mktemp("backups") / "backup"
    brokerless.backup(DEMO, place, name="nightly", segment_size=20_000)
    return place


def rebuilt(place: Path, to: Path, **options: object) -> Rebuild:
    return brokerless.rebuild(f"{place}@nightly", to, **options)  # type: ignore[arg-type]


def test_each_partition_ends_before_its_first_record_of_the_time(place: Path, tmp_path: Path) -> None:
    found = rebuilt(place, tmp_path / "to", until=UNTIL, apply=True)
    assert {f"{each.replica.topic}-{each.replica.partition}": each.limits[1] for each in found.ended} == ENDS
    before = rows_of(DEMO, ("orders",))
    kept = rows_of(tmp_path / "to" / "node-1", ("orders",))
    assert kept == {at: [row for row in rows if row["timestamp"] < UNTIL] for at, rows in before.items()}
    assert all(len(rows) < len(before[at]) for at, rows in kept.items())
    assert rows_of(tmp_path / "to" / "node-1", WHOLE) == rows_of(DEMO, WHOLE)


def test_brokers_start_on_it_and_change_nothing(place: Path, tmp_path: Path) -> None:
    rebuilt(place, tmp_path / "to", until=UNTIL, apply=True)
    log = brokerless.open(tmp_path / "to" / "node-1")
    assert not [each for each in log.verify() if each.severity == "error"]
    assert log.restart().is_harmless


def test_all_replicas_end_alike(tmp_path: Path) -> None:
    brokerless.backup(three_nodes(tmp_path), tmp_path / "backup", name="nightly")
    rebuilt(tmp_path / "backup", tmp_path / "to", until=UNTIL, spread=True, apply=True)
    ends = {
        node.name: {
            "-".join(map(str, each.topic_partition or ())): each.end_offset for each in brokerless.open(node).partitions
        }
        for node in (tmp_path / "to").iterdir()
    }
    assert {own["orders-0"] for own in ends.values()} == {ENDS["orders-0"]}


def test_what_the_time_leaves_open_is_named(place: Path, tmp_path: Path) -> None:
    """The records of ``payments`` came out of order, in a transaction that ends later."""
    found = [each for each in rebuilt(place, tmp_path / "to", until=UNTIL).findings if "payments" in each.message]
    assert {(each.kind, each.offset) for each in found} == {(Kind.LATE_RECORDS, 141), (Kind.TRANSACTION_OPEN, 0)}
    assert any("abort --topic payments --partition 0 --start-offset 0" in each.message for each in found)


def test_a_compacted_log_that_ends_earlier_is_named(place: Path, tmp_path: Path) -> None:
    """Values that later records replaced are gone from it: the cleaner of that broker had removed them."""
    (snapshot,) = brokerless.Backup(f"{place}@nightly").snapshots()
    ends = {(each.topic, each.partition): each.end_offset for each in snapshot.partitions if each.is_compacted}
    own = {at: end for at, end in ends.items() if not at[0].startswith("__")}
    assert own
    file = vector(tmp_path / "vector", {at: end - 1 for at, end in own.items()} | {("orders", 0): 500})
    found = rebuilt(place, tmp_path / "to", offsets=file).findings
    named = {(each.offset, each.severity) for each in found if each.kind == Kind.VALUES_COMPACTED}
    assert named == {(end - 1, "warning") for end in own.values()}
    assert not [each for each in found if each.kind == Kind.VALUES_COMPACTED and "orders" in each.message]


def test_the_plan_has_the_ends(place: Path, tmp_path: Path) -> None:
    planned = rebuilt(place, tmp_path / "to", until=UNTIL)
    assert "  orders-0: at offset 622, and not at 1265" in list(rebuild_lines(planned))
    rows = [each for each in rebuild_rows(planned) if each["table"] == "endedPartitions"]
    assert {f"{each['topic']}-{each['partition']}": each["endOffset"] for each in rows} == ENDS


def test_after_the_last_record_nothing_is_left_out(place: Path, tmp_path: Path) -> None:
    assert not rebuilt(place, tmp_path / "to", until=datetime(2027, 1, 1, tzinfo=UTC)).ended


def test_before_the_first_record_logs_are_empty(place: Path, tmp_path: Path) -> None:
    rebuilt(place, tmp_path / "to", until=0, apply=True)
    log = brokerless.open(tmp_path / "to" / "node-1")
    assert {each.end_offset for each in log.partitions if (each.topic_partition or ("",))[0] == "orders"} == {0}


@pytest.mark.parametrize(("path", "options"), [(DEMO, {}), (None, {"in_bucket": True, "read_only_credentials": True})])
def test_it_is_for_logs_of_a_snapshot(path: Path | None, options: dict[str, bool], place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="for a snapshot of a backup of which the logs are written"):
        brokerless.rebuild(path or f"{place}@nightly", tmp_path / "to", until=UNTIL, **options)  # type: ignore[arg-type]


def vector(path: Path, ends: dict[tuple[str, int], int], **more: object) -> Path:
    rows = ({"topic": topic, "partition": number, "endOffset": end, **more} for (topic, number), end in ends.items())
    path.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    return path


class TestOffsets:
    def test_partitions_end_there_and_the_others_stay_whole(self, place: Path, tmp_path: Path) -> None:
        file = vector(tmp_path / "vector", {("orders", 0): 500, ("orders", 1): 0})
        rebuilt(place, tmp_path / "to", offsets=file, apply=True)
        log = brokerless.open(tmp_path / "to" / "node-1")
        ends = {each.topic_partition: each.end_offset for each in log.partitions}
        assert (ends["orders", 0], ends["orders", 1], ends["orders", 2]) == (500, 0, 1296)
        before, kept = rows_of(DEMO, ("orders",)), rows_of(tmp_path / "to" / "node-1", ("orders",))
        limits = {0: 500, 1: 0, 2: 1296}
        assert kept == {at: [row for row in rows if row["offset"] < limits[at[1]]] for at, rows in before.items()}
        assert log.restart().is_harmless
        assert not [each for each in log.verify() if each.severity == "error"]

    def test_it_takes_what_snapshots_prints(self, place: Path, tmp_path: Path) -> None:
        (snapshot,) = brokerless.Backup(f"{place}@nightly").snapshots()
        (tmp_path / "vector").write_text("".join(f"{json.dumps(each)}\n" for each in partition_rows(snapshot)))
        assert not rebuilt(place, tmp_path / "to", offsets=tmp_path / "vector").ended

    def test_kafkas_own_topics_stay_whole(self, place: Path, tmp_path: Path) -> None:
        file = vector(tmp_path / "vector", {("__consumer_offsets", 0): 0, ("__cluster_metadata", 0): 0})
        assert not rebuilt(place, tmp_path / "to", offsets=file).ended

    @pytest.mark.parametrize(
        ("ends", "more", "message"),
        [
            ({("unknown", 0): 1}, {}, "the snapshot has no partition unknown-0"),
            ({("orders", 9): 1}, {}, "the snapshot has no partition orders-9"),
            ({("orders", 0): 1266}, {}, "cannot end at offset 1266; the snapshot has offsets 0 to 1265"),
            ({("orders", 0): 1}, {"topicId": "A" * 22}, "it was made again"),
            ({("orders", 0): -1}, {}, "line 1: this is no line of snapshots --offsets --json"),
            ({}, {}, "no partition is in it"),
        ],
    )
    def test_what_the_snapshot_does_not_have_is_refused(
        self, ends: dict[tuple[str, int], int], more: dict[str, str], message: str, place: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(UsageError, match=message):
            rebuilt(place, tmp_path / "to", offsets=vector(tmp_path / "vector", ends, **more), apply=True)
        assert not (tmp_path / "to").exists()

    def test_a_partition_that_comes_twice_is_refused(self, place: Path, tmp_path: Path) -> None:
        file = vector(tmp_path / "vector", {("orders", 0): 1})
        file.write_text(file.read_text() * 2)
        with pytest.raises(UsageError, match="line 2: orders-0 comes twice"):
            rebuilt(place, tmp_path / "to", offsets=file)

    def test_it_is_one_of_two(self, place: Path, tmp_path: Path) -> None:
        file = vector(tmp_path / "vector", {("orders", 0): 1})
        with pytest.raises(UsageError, match="give one of until= and offsets="):
            rebuilt(place, tmp_path / "to", offsets=file, until=UNTIL)


@pytest.mark.parametrize("is_time", [True, False])
def test_what_is_left_open_is_aborted(is_time: bool, place: Path, tmp_path: Path) -> None:
    """With a marker for each producer, after the end; a start changes nothing of that."""
    file = vector(tmp_path / "vector", {("payments", 0): ENDS["payments-0"]})
    own = {"until": UNTIL} if is_time else {"offsets": file}
    found = rebuilt(place, tmp_path / "to", **own, abort_open_transactions=True, apply=True)
    told = [each for each in found.findings if each.kind == Kind.TRANSACTION_OPEN]
    assert [each.severity for each in told] == ["info"]
    log = brokerless.open(tmp_path / "to" / "node-1")
    (payments,) = (each for each in log.partitions if each.topic_partition == ("payments", 0))
    (last,) = payments.transactions().to_pylist()[-1:]
    assert (last["state"], last["firstOffset"], last["lastOffset"]) == ("aborted", 0, ENDS["payments-0"])
    assert payments.end_offset == ENDS["payments-0"] + 1
    assert log.restart().is_harmless
    assert not [each for each in log.verify() if each.severity == "error"]


def test_aborting_is_for_what_ends_before_its_end(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="abort_open_transactions= is for"):
        rebuilt(place, tmp_path / "to", abort_open_transactions=True)
