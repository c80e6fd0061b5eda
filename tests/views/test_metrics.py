"""Prometheus's own parser reads the metrics, whatever topics and paths are called."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from prometheus_client.parser import text_string_to_metric_families

import brokerless
from brokerless.findings import Finding, Kind
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.views.metrics import (
    CheckedRun,
    PartitionPlace,
    begin_run,
    check_metrics,
    metrics,
    snapshots_metrics,
)

ODD = 'a"b\\c\nd-0'


def test_the_parser_gets_every_sample() -> None:
    run = CheckedRun(
        1_000, {ODD: PartitionPlace(ODD, 'a"b\\c\nd', 0, 42), "x-1": PartitionPlace("x-1", "x", 1, 7)}, 3_500, 1
    )
    run.unread = 1
    for kind in (Kind.CHECKSUM_MISMATCH, Kind.CHECKSUM_MISMATCH, Kind.ZERO_TAIL):
        run.add(Finding("error", kind, f"{ODD}/0.log", position=1, offset=2, message="m"))
    run.add(Finding("warning", Kind.TRUNCATED_BATCH, "elsewhere", position=1, offset=2, message="m"))
    samples = {
        (each.name.removeprefix("brokerless_verify_"), *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(metrics(run))
        for each in family.samples
    }
    odd = (("partition", "0"), ("path", ODD), ("topic", 'a"b\\c\nd'))
    other = (("partition", "1"), ("path", "x-1"), ("topic", "x"))
    none = (("partition", ""), ("path", ""))
    assert samples == {
        ("findings", ("kind", "checksum-mismatch"), *odd[:2], ("severity", "error"), odd[2]): 2,
        ("findings", ("kind", "zero-tail"), *odd[:2], ("severity", "error"), odd[2]): 1,
        ("findings", ("kind", "truncated-batch"), *none, ("severity", "warning"), ("topic", "")): 1,
        ("partition_errors", *odd): 3,
        ("partition_errors", *other): 0,
        ("partition_bytes", *odd): 42,
        ("partition_bytes", *other): 7,
        ("unreadable_paths",): 1,
        ("exit_code",): 1,
        ("duration_seconds",): 2.5,
        ("last_run_timestamp_seconds",): 3.5,
    }


def demo() -> CheckedRun:
    return begin_run(resolve(Location("demo/data")).partitions, 1_000)


def finding(file: str) -> Finding:
    return Finding("error", Kind.CHECKSUM_MISMATCH, file, position=7, offset=3, message="wrong")


def test_findings_are_of_the_partition_whose_file_they_name() -> None:
    run = demo()
    for file in ("demo/data/orders-1/00000000000000000000.log", "demo/data/orders-1", "demo/data/meta.properties"):
        run.add(finding(file))
    assert run.counts == {
        ("demo/data/orders-1", "error", "checksum-mismatch"): 2,
        ("", "error", "checksum-mismatch"): 1,
    }
    assert run.places["demo/data/orders-1"].name == "orders-1"


def test_findings_in_a_bucket_are_of_the_partition_of_the_segment() -> None:
    bucket = resolve(Location("demo/bucket"))
    for run in (begin_run(bucket.partitions, 0), demo()):
        segment = next(each for each in bucket.partitions if each.topic == "many_parts").segments[0].log.path
        run.add(finding(segment))
        topic, segment_id = "many_parts-I2Q7UjIJRdieiGjVyg1m7w", "aazvmO5pRNOKq6sQJFMIHQ"
        run.add(finding(f"demo/bucket/{topic}/2/{0:020}-{segment_id}.log"))
        names = [run.places[path].name for path, *_ in run.counts if path]
        assert names == (["many_parts-0", "many_parts-2"] if len(run.places) == 4 else [])


def test_a_lone_file_is_its_own_place() -> None:
    path = "demo/data/users-0/00000000000000000000.log"
    run = begin_run(resolve(Location(path)).partitions, 0)
    run.add(finding(path))
    ((place, *_),) = run.counts
    assert run.places[place].name.endswith(path)


def samples_of(text: str) -> dict[tuple[str, ...], float]:
    return {
        (each.name, *(each.labels.values())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_a_backup_is_watched_by_its_last_complete_snapshot_and_by_what_check_finds(tmp_path: Path) -> None:
    place, at = tmp_path / "backup", 1_764_000_000_000
    for number, topics in enumerate((None, ["orders"])):
        with mock.patch("brokerless.clock.now", lambda number=number: at + number * 1000):
            brokerless.backup("demo/data", place, topics=topics)
    backup = brokerless.Backup(place)
    found = samples_of(snapshots_metrics(backup.snapshots(), 0))
    assert found["brokerless_snapshots_count",] == 2
    assert found["brokerless_snapshots_last_timestamp_seconds",] == at / 1000 + 1
    assert found["brokerless_snapshots_last_complete_timestamp_seconds",] == at / 1000
    assert (found["brokerless_snapshots_last_partitions",], found["brokerless_snapshots_exit_code",]) == (3, 0)
    next(place.glob("orders-*/0/*.log")).unlink()
    found = samples_of(check_metrics(backup.check(), 1))
    assert found["brokerless_check_findings", "error", "remote-object-missing"] == 1
    assert (found["brokerless_check_snapshots",], found["brokerless_check_exit_code",]) == (2, 1)
    assert samples_of(snapshots_metrics([], 1))["brokerless_snapshots_count",] == 0
