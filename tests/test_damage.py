"""What is damaged is never left out without a word: not by a filter, not by a transaction, not by a file beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless import DamageError, Finding
from tests.golden import broker_data


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """A partition's directory of a real broker, to be damaged."""

    def make(name: str) -> Path:
        shutil.copytree(broker_data("clean") / name, tmp_path / name)
        return tmp_path / name

    return make


def flip(log: Path, position: int, bit: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= bit
    log.write_bytes(data)


def read(path: Path, **options: Any) -> tuple[list[int], list[Finding]]:
    found: list[Finding] = []
    batches = brokerless.open(path).records(["offset"], on_damage=found.append, **options)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()], found


HEADER_BITS = {"isControl": (22, 0x20), "maxTimestamp": (35, 0x80), "lastOffsetDelta": (23, 0x80)}
RANGES: list[dict[str, Any]] = [
    {},
    {"start_offset": 0, "end_offset": 1000},
    {"start_timestamp": 0},
    {"isolation": "read_committed"},
]


@pytest.mark.parametrize("options", RANGES, ids=["all", "offsets", "times", "committed"])
@pytest.mark.parametrize("field", HEADER_BITS)
def test_a_flipped_bit_in_a_header_hides_no_records_silently(
    field: str, options: dict[str, Any], copy: Callable[[str], Path]
) -> None:
    directory = copy("codec-none-0")
    whole, _ = read(directory, **options)
    flip(next(directory.glob("*.log")), *HEADER_BITS[field])
    offsets, found = read(directory, **options)
    assert len(offsets) < len(whole)
    assert [(each.kind, each.position) for each in found] == [("checksum-mismatch", 0)]
    with pytest.raises(DamageError):
        list(brokerless.open(directory).records(**options))


def test_a_damaged_marker_is_reported_to_who_reads_committed(copy: Callable[[str], Path]) -> None:
    directory = copy("txn-0")
    log = brokerless.open(directory)
    rows = [row for batch in log.batches() for row in batch.select(["file", "position", "isControl"]).to_pylist()]
    marker = next(row for row in rows if row["isControl"])
    flip(Path(marker["file"]), marker["position"] + 70, 0xFF)
    _, found = read(directory, isolation="read_committed")
    index = Path(marker["file"]).with_suffix(".txnindex")  # which alone knows of the transaction now
    assert [(each.kind, each.file, each.position) for each in found] == [
        ("checksum-mismatch", marker["file"], marker["position"]),
        ("abort-marker-missing", str(index), 0),
    ]


def test_a_partition_without_a_log_is_empty(tmp_path: Path, copy: Callable[[str], Path]) -> None:
    directory = copy("segments-0")
    (tmp_path / "segments-1").mkdir()
    offsets, found = read(tmp_path)
    assert (len(offsets), found) == (len(read(directory)[0]), [])
    assert list(brokerless.open(tmp_path).verify()) == []
    assert brokerless.open(tmp_path).partition("segments", 1).end_offset is None
    assert brokerless.open(tmp_path).partition("segments", 1).segments().num_rows == 0
    assert read(tmp_path, isolation="read_committed")[1] == []


def test_a_segment_that_cannot_be_opened_is_reported_and_the_next_is_read(copy: Callable[[str], Path]) -> None:
    directory = copy("segments-0")
    whole, _ = read(directory)
    second = sorted(directory.glob("*.log"))[1]
    third = sorted(directory.glob("*.log"))[2]
    second.unlink()
    second.symlink_to("nowhere")
    offsets, found = read(directory)
    assert offsets == [offset for offset in whole if not int(second.stem) <= offset < int(third.stem)]
    assert [(each.severity, each.kind, each.file) for each in found] == [("error", "unreadable-file", str(second))]
    verified = [(each.kind, each.file) for each in brokerless.open(directory).verify() if each.severity == "error"]
    assert ("unreadable-file", str(second)) in verified
    assert "checksum-mismatch" not in {kind for kind, _ in verified}
    listed: list[Finding] = []
    assert sum(batch.num_rows for batch in brokerless.open(directory).batches(on_damage=listed.append))
    assert [each.kind for each in listed] == ["unreadable-file"]


def test_what_is_no_log_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"\x1f\x8b\x08\x00 this is gzip, and no log of Kafka's" * 10)
    kinds = [each.kind for each in brokerless.open(path).verify()]
    assert "no-batches" in kinds
