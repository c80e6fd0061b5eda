"""What a run found is counted by partition, and the first findings are kept."""

from __future__ import annotations

import pytest

from brokerless.findings import Finding, Kind
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.views.monitoring import checked_run
from brokerless.views.monitoring.checked_run import CheckedRun, begin_run


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
    ((place, _),) = run.findings
    assert run.places[place].name.endswith(path)


def test_all_are_counted_and_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_run, "MOST", 3)
    run = demo()
    for _ in range(5):
        run.add(finding("demo/data/users-0"))
    assert (run.counts.total(), len(run.findings), run.left_out) == (5, 3, 2)
