"""A snapshot is rebuilt up to a time: nothing of that time or later is there, and what that leaves open is named."""

from __future__ import annotations

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
