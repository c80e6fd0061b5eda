"""What of an erased value is a number or a name of Kafka's own files is there by chance, and nothing else is."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from scripts import verify_erasure

from brokerless.findings import Finding
from brokerless.jobs.prove.search import PatternSearch
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"
TXN_INDEX = struct.pack(">hqqqq", 0, 1000, 5, 9, 5)


def look(pattern: bytes, path: Path) -> list[Finding]:
    findings: list[Finding] = []
    with Location(str(path)).open() as file:
        PatternSearch([pattern]).look_in_file(file, findings.append)
    return findings


@pytest.mark.parametrize(
    ("name", "data", "pattern", "fields"),
    [
        ("0.txnindex", TXN_INDEX, struct.pack(">q", 1000), "entry[0].producer_id"),
        ("0.txnindex", TXN_INDEX, struct.pack(">qq", 5, 9), "entry[0].first_offset, entry[0].last_offset"),
        ("0.index", struct.pack(">4i", 5, 4096, 9, 8193) + bytes(32), bytes(8), "unused"),
        ("0.index", struct.pack(">4i", 5, 4096, 9, 8192), b"\0\0\x10\0", "entry[0].position"),
        ("0.timeindex", struct.pack(">qiqi", 1000, 5, 2000, 9), struct.pack(">q", 2000), "entry[1].timestamp"),
        ("leader-epoch-checkpoint", b"0\n1\n7 1000\n", b"1000", "entry[0].start_offset"),
        ("recovery-point-offset-checkpoint", b"0\n1\norders 0 1000\n", b"orders", "entry[0].topic"),
        ("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", b"version", "version_name"),
    ],
)
def test_numbers_and_names_of_a_format_are_there_by_chance(
    name: str, data: bytes, pattern: bytes, fields: str, tmp_path: Path
) -> None:
    path = tmp_path / (name if "checkpoint" in name or "metadata" in name else f"{0:020}.{name[2:]}")
    path.write_bytes(data)
    found = look(pattern, path)
    assert {each.severity for each in found} == {"warning"}
    assert f"by chance: they are {fields}, which Kafka writes" in found[0].message
    assert found[0].position == data.find(pattern)
    assert verify_erasure.is_chance(path.name, data, pattern)


@pytest.mark.parametrize(
    ("name", "data", "pattern"),
    [
        ("0.txnindex", TXN_INDEX + b"alice", b"alice"),
        ("0.index", struct.pack(">ii", 5, 4096) + b"secretly", b"secretly"),
        ("0.index", struct.pack(">4i", 9, 8192, 5, 4096), struct.pack(">ii", 5, 4096)),
        ("0.timeindex", struct.pack(">qi", 1000, 5) + b"\1" * 5, b"\1" * 5),
        ("leader-epoch-checkpoint", b"0\n1\n7 1000\n1000 8\n", b"1000"),
        ("meta.properties", b"#1000\nversion=1\n", b"1000"),
        ("other", b"1000", b"1000"),
    ],
)
def test_bytes_that_are_in_no_field_are_none(name: str, data: bytes, pattern: bytes, tmp_path: Path) -> None:
    path = tmp_path / (name if name[0] != "0" else f"{0:020}.{name[2:]}")
    path.write_bytes(data)
    assert "error" in {each.severity for each in look(pattern, path)}


def test_chance_hides_no_error_after_it(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.index"
    path.write_bytes(struct.pack(">ii", 5, 4096) + bytes(80_000) + b"secretly")
    findings: list[Finding] = []
    with Location(str(path)).open() as file:
        search = PatternSearch([bytes(8), b"secretly"])
        search.look_in_file(file, findings.append)
    assert search.counts["error"] >= 1


def test_a_producer_snapshot_is_read_by_its_format(tmp_path: Path) -> None:
    path = next(each for each in sorted(DEMO.glob("*/*.snapshot")) if each.stat().st_size > 100)
    data = path.read_bytes()
    found = look(data[20:28], path)
    assert {each.severity for each in found} == {"warning"}
    assert "producer[" in found[0].message
    broken = tmp_path / path.name
    broken.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert {each.severity for each in look(data[20:28], broken)} == {"error"}
