from __future__ import annotations

from pathlib import Path

import pytest
from tests.format.twin import write_batch, write_record
from tests.golden import broker_data

import brokerless
from brokerless.findings import Finding
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.serving.source import partition as module
from brokerless.serving.source.batch_finder import Want
from brokerless.serving.source.partition import Located, ServedPartition

CLEAN = brokerless.open(broker_data("clean"))


def batch(first: int, timestamp: int = 1000) -> bytes:
    return write_batch(
        write_record(b"k", b"v"), base_offset=first, count=1, base_timestamp=timestamp, max_timestamp=timestamp,
        partition_leader_epoch=2,
    )  # fmt: skip


def served(directory: Path, findings: list[Finding] | None = None) -> ServedPartition:
    report = pytest.fail if findings is None else findings.append
    return ServedPartition(resolve(Location(str(directory))).partitions[0], report)


@pytest.mark.parametrize("each", CLEAN.partitions, ids=lambda each: f"{each.topic}-{each.partition}")
def test_offsets_are_those_of_other_commands(each: brokerless.Log) -> None:
    partition = ServedPartition(each.paths[0], lambda _: None)
    offsets = partition.offsets()
    assert (offsets.start, offsets.end) == (each.start_offset, each.end_offset)
    rows = each.transactions(on_damage=lambda _: None).to_pylist()
    first_open = [row["firstOffset"] for row in rows if row["state"] == "open" and row["firstOffset"] is not None]
    assert offsets.stable == min([offsets.end, *first_open])
    aborted = [(row["producerId"], row["firstOffset"]) for row in rows if row["state"] == "aborted"]
    assert partition.aborted(0, offsets.end) == [row for row in aborted if row[1] is not None]


def test_what_is_appended_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0)
    directory = tmp_path / "orders-0"
    directory.mkdir()
    log = directory / f"{0:020}.log"
    log.write_bytes(batch(0))
    partition = served(directory)
    assert partition.offsets().end == 1
    log.write_bytes(batch(0) + batch(1, 5000))
    assert partition.offsets(needs_stable=True) == module.Offsets(0, 2, 2, 2)
    assert partition.latest_time() == Located(1, 5000, 2)
    (directory / f"{2:020}.log").write_bytes(batch(2))
    assert partition.offsets().end == 3
    assert partition.find(Want(2, 3, 1, at_least_one=True)).pieces == (batch(2),)
    assert partition.latest_time() == Located(1, 5000, 2)
    log.unlink()
    assert partition.offsets().start == 2
    assert partition.earliest() == Located(2)


def test_offsets_by_time(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(batch(0, 10) + batch(1, 30) + batch(2, 20))
    partition = served(directory)
    assert [partition.at_time(each) for each in (0, 11, 30, 31)] == [
        Located(0, 10, 2), Located(1, 30, 2), Located(1, 30, 2), Located(),
    ]  # fmt: skip
    assert partition.latest_time() == Located(1, 30, 2)


def test_an_empty_partition_has_offsets(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{7:020}.log").write_bytes(b"")
    partition = served(directory)
    assert partition.offsets() == module.Offsets(7, 7, 7, 7)
    assert partition.latest_time() == Located()


def test_a_damaged_end_is_part_of_the_log(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    data = bytearray(batch(0) + batch(1))
    data[-1] ^= 1
    (directory / f"{0:020}.log").write_bytes(data)
    findings: list[Finding] = []
    partition = served(directory, findings)
    assert partition.offsets(needs_stable=True) == module.Offsets(0, 2, 2, 2)
    assert partition.find(Want(1, 2, 100, at_least_one=True)).is_damaged
    assert [each.kind.value for each in findings] == ["checksum-mismatch"]
    again = served(directory, findings)
    again.skips_damage = True
    assert again.offsets(needs_stable=True) == module.Offsets(0, 1, 1, 2)
