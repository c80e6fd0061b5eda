"""What is read, checked and decoded in one pass is what is read first, then checked, then decoded: to the record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import all_cases
from tests.log import whole_batches
from tests.tables import random_searches

import brokerless
from brokerless import Finding, RecordFilter
from brokerless.format import layouts
from brokerless.format.codecs.compression import make_compressor
from brokerless.format.crc.kernels import crc32c_ranges
from brokerless.format.kernel import load_kernels
from brokerless.format.read import one_pass
from brokerless.format.read.batch_headers import Batches
from brokerless.format.read.decoder import Decoder
from brokerless.format.read.one_pass import OnePass
from brokerless.format.read.one_pass_kernels import read_v2_headers
from brokerless.log import segment
from brokerless.log.segment import all_decoded, scan_in_one_pass
from brokerless.log.storage.location import Location

LOGS = [log for each in all_cases() for log in each.logs if log.stat().st_size < 50_000]
Read = Callable[[Path], tuple[object, list[Finding]]]
Told = tuple[list[int], list[tuple[str, int | None]]]


def records(path: Path, **given: Any) -> tuple[object, list[Finding]]:
    findings: list[Finding] = []
    return brokerless.open(path).records(on_damage=findings.append, **given).read_all(), findings


READERS: dict[str, Read] = {
    "records": records,
    "records of a range": lambda path: records(path, start_offset=2, end_offset=9),
    "records with control records": lambda path: records(path, control=True),
    "records with a text": lambda path: records(path, filter=RecordFilter(grep="1")),
    "findings": lambda path: ([], list(brokerless.open(path).verify())),
}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All files are read in one pass, a few batches in a window: the batches of each call that read any."""
    counts: list[int] = []
    read = OnePass.read

    def counted(self: OnePass, *arguments: int) -> one_pass.Passed | None:
        passed = read(self, *arguments)
        counts.append(0 if passed is None else len(passed.batches))
        return passed

    monkeypatch.setattr(OnePass, "read", counted)
    monkeypatch.setattr(segment, "ONE_PASS_FROM", 0)
    monkeypatch.setattr(segment, "STEP", 1024)
    monkeypatch.setattr(one_pass, "STEP", 512)
    for name in ("_FIRST", "_MOST"):
        monkeypatch.setattr(one_pass, name, 1024)
    return counts


def unexpected(finding: Finding) -> None:
    pytest.fail(str(finding))


@pytest.mark.parametrize("name", READERS)
def test_every_log_gives_the_same_records_and_findings(
    name: str, passes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [READERS[name](path) for path in LOGS]
    assert sum(passes) > 300  # batches
    monkeypatch.setattr(segment, "ONE_PASS_FROM", 1 << 62)
    known = sum(passes)
    for path, each in zip(LOGS, found, strict=True):
        assert each == READERS[name](path), path
    assert sum(passes) == known


@pytest.mark.parametrize("seed", range(10))
def test_what_is_searched_for_is_found(
    seed: int, passes: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(random_searches, "KINDS", [(2, 0), (2, 0), (2, 0), (2, seed % 5)])
    assert random_searches.search(seed, tmp_path)["records"]
    assert sum(passes) > 0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """40 batches of 100 bytes and more, with offsets from 0 on."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(bytes(whole_batches.batch(2 * number, 2)) for number in range(40)))
    return path


def told(path: Path, meanwhile: Callable[[int], object], *, in_one_pass: bool) -> Told:
    """The offsets of a log's records, and its findings. ``meanwhile`` is called with the number of chunks so far."""
    decoder, findings, offsets = Decoder(), list[Finding](), list[int]()
    reader = OnePass(decoder) if in_one_pass else None
    with Location(str(path)).open() as file:
        meanwhile(0)
        for number, chunk in enumerate(scan_in_one_pass(file, findings.append, reader), 1):
            for each in all_decoded(decoder, chunk, chunk.batches, findings.append):
                offsets += each.columns.offset[: each.columns.rows].tolist()
            meanwhile(number)
    return offsets, [(each.kind, each.position) for each in findings]


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("size", [0, 60, 950, 3000])
@pytest.mark.parametrize("at", [0, 1])
def test_a_file_that_is_cut_meanwhile_gives_what_is_left(log: Path, size: int, at: int) -> None:
    whole = log.read_bytes()

    def cut(chunks: int) -> None:
        if chunks == at:
            os.truncate(log, size)

    given = told(log, cut, in_one_pass=True)
    log.write_bytes(whole)
    expected = told(log, cut, in_one_pass=False)
    assert given[1][0][0] == expected[1][0][0] == "file-shrunk"
    assert given[0] == list(range(len(given[0])))
    assert len(given[0]) >= len(whole_offsets(whole[:size]))


def whole_offsets(data: bytes) -> list[int]:
    size = len(whole_batches.batch(0, 2))
    return list(range(2 * (len(data) // size)))


def test_a_file_that_grows_meanwhile_is_read_up_to_where_it_ended(log: Path, passes: list[int]) -> None:
    def grow(_: int) -> None:
        with log.open("ab") as file:
            file.write(bytes(whole_batches.batch(1000, 2)))

    assert told(log, grow, in_one_pass=True) == (list(range(80)), [])
    assert sum(passes) == 40


@pytest.mark.usefixtures("passes")
def test_batches_that_are_read_again_are_checked_again(log: Path) -> None:
    decoder, findings, offsets = Decoder(), list[Finding](), list[int]()
    with Location(str(log)).open() as file:
        chunk = next(scan_in_one_pass(file, findings.append, OnePass(decoder)))
        with log.open("r+b") as other:
            other.seek(int(chunk.positions[2]) + 70)
            other.write(b"\xff")
        chosen = chunk.batches.take(np.arange(1, 4))  # not all that were decoded
        for each in all_decoded(decoder, chunk, chosen, findings.append):
            offsets += each.columns.offset[: each.columns.rows].tolist()
    assert offsets == [2, 3, 6, 7]
    assert [(each.kind, each.offset) for each in findings] == [("checksum-mismatch", 4)]


def test_a_batch_that_is_larger_than_a_window_is_read_as_a_whole(tmp_path: Path, passes: list[int]) -> None:
    path = tmp_path / f"{0:020}.log"
    batches = [whole_batches.batch(number, value=bytes(size)) for number, size in enumerate((9, 20_000, 9, 2 << 20, 9))]
    path.write_bytes(b"".join(map(bytes, batches)))
    values = brokerless.open(path).records(["value"]).read_all()["value"].to_pylist()
    assert [len(each) for each in values] == [9, 20_000, 9, 2 << 20, 9]
    assert sum(passes) == 4  # the largest is left to others, as it is more than is read in one pass


SIZES = (9, 20_000, 9, 500_000, 9, 6 << 20, 9)
"""Bytes of values. The largest inflates to more than there is room for in one pass, and is below 1 MiB where it is
compressed."""


def coded(number: int, codec: int, value: bytes) -> bytearray:
    """A batch of one record, whose payload is compressed as Kafka does (``test_compression``)."""
    plain = whole_batches.batch(number, value=value).tobytes()
    payload = make_compressor(layouts.CODECS[codec])(memoryview(plain)[61:]) if codec else plain[61:]
    made = bytearray(plain[:61] + payload)
    made[8:12], made[22] = (len(made) - 12).to_bytes(4, "big"), codec
    return with_checksum(made)


def with_checksum(made: bytearray) -> bytearray:
    crc = np.zeros(1, np.uint32)
    crc32c_ranges(np.frombuffer(made, np.uint8), np.array([21]), np.array([len(made)]), crc)
    made[17:21] = int(crc[0]).to_bytes(4, "big")
    return made


def write_coded(path: Path, codecs: list[int]) -> list[bytes]:
    """Batches of a value each, of these codecs in turn, with an end-transaction marker after each; returns the
    values."""
    values = [bytes([number]) * size for number, size in enumerate(SIZES)]
    with path.open("wb") as file:
        for number, value in enumerate(values):
            file.write(coded(2 * number, codecs[number % len(codecs)], value))
            file.write(bytes(whole_batches.marker(2 * number + 1, (7, 0), commit=True)))
    return values


@pytest.mark.parametrize("codec", range(5))
def test_batches_of_one_codec_and_control_batches_are_read_in_one_pass(
    codec: int, tmp_path: Path, passes: list[int]
) -> None:
    values = write_coded(log := tmp_path / f"{0:020}.log", [codec])
    assert brokerless.open(log).records(["value"]).read_all()["value"].to_pylist() == values
    assert sum(passes) > 5


def test_where_codecs_change_reading_goes_on(tmp_path: Path, passes: list[int]) -> None:
    values = write_coded(log := tmp_path / f"{0:020}.log", [1, 3, 0, 4, 2])
    assert brokerless.open(log).records(["value"]).read_all()["value"].to_pylist() == values
    assert sum(passes) > 0


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_payload_that_does_not_inflate_is_found(codec: int, tmp_path: Path, passes: list[int]) -> None:
    """With the right checksum, so that nothing else says so."""
    value = np.random.default_rng(1).integers(0, 4, 9000, np.uint8).tobytes()
    batches = [coded(number, codec, value) for number in range(9)]
    batches[5][200:260] = bytes(60)
    with_checksum(batches[5])
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(batches))
    found: Any
    found, findings = records(log)
    assert [each.kind for each in findings] == ["decompression-failed"]
    assert found["offset"].to_pylist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert sum(passes) >= 5


def test_columns_that_are_full_are_given_and_reading_goes_on(log: Path, passes: list[int]) -> None:
    decoder, rows = Decoder(rows=9), list[int]()
    with Location(str(log)).open() as file:
        for chunk in scan_in_one_pass(file, unexpected, OnePass(decoder)):
            rows += [each.columns.rows for each in segment.decode_chunk(decoder, chunk, chunk.batches)]
    assert rows == [8] * 9
    assert decoder.flush().columns.rows == 8  # pyright: ignore[reportOptionalMemberAccess]
    assert sum(passes) == 40


@pytest.mark.usefixtures("passes")
def test_bytes_that_are_no_intact_batch_are_left_to_others(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(whole_batches.batch(0, 2)) * 3 + 70] ^= 1
    log.write_bytes(data)
    with Location(str(log)).open() as file:
        chunks = list(scan_in_one_pass(file, unexpected, OnePass(Decoder())))
    assert next(len(chunk.batches) for chunk in chunks if chunk.passed is not None) == 3
    assert [each for chunk in chunks for each in chunk.batches.entry_offset.tolist()] == list(range(0, 80, 2))


@pytest.mark.parametrize("in_one_pass", [True, False])
@pytest.mark.parametrize("first", [-1, -(1 << 63), (1 << 63) - 1, (1 << 63) - 2])
@pytest.mark.parametrize("number", [0, 3, 39])
def test_offsets_that_no_log_has_are_never_given_without_a_word(
    log: Path, passes: list[int], monkeypatch: pytest.MonkeyPatch, number: int, first: int, in_one_pass: bool
) -> None:
    """The first offset is not in the checksum; Kafka's reader gives such records, and goes on above the largest offset
    below 0."""
    if not in_one_pass:
        monkeypatch.setattr(segment, "ONE_PASS_FROM", 1 << 62)
    data, position = bytearray(log.read_bytes()), len(whole_batches.batch(0, 2)) * number
    data[position : position + 8] = first.to_bytes(8, "big", signed=True)
    log.write_bytes(data)
    findings: list[Finding] = []
    found = brokerless.open(log).records(on_damage=findings.append).read_all()["offset"].to_pylist()
    wrapped = {(first + row + (1 << 63)) % (1 << 64) - (1 << 63) for row in range(2)}
    if wrapped & {*found} and wrapped != {(1 << 63) - 2, (1 << 63) - 1}:
        assert {each.kind for each in findings} & {"offset-order", "offset-overlap"}
        assert {each.kind for each in brokerless.open(log).verify()} & {"offset-order", "offset-overlap"}
    assert (sum(passes) > 0) == in_one_pass


def test_headers_read_by_the_kernel_are_those_that_numpy_reads() -> None:
    random = np.random.default_rng(1)
    raw = random.integers(0, 256, (20_000, layouts.BATCH_V2_SIZE), np.uint8)
    raw[:, layouts.MAGIC_POSITION] = layouts.MAGIC_V2
    raw[::2, layouts.position_of(layouts.BATCH_V2, "last_offset_delta")] = 0  # else half of the deltas are negative
    positions = np.cumsum(random.integers(layouts.BATCH_V2_SIZE, 10_000, len(raw)))
    load_kernels([read_v2_headers])
    batches, usual = one_pass.v2_batches(positions, raw, 1 << 40), Batches(positions, raw, 1 << 40)
    assert len(batches.__dict__) > 15
    for name, column in batches.__dict__.items():
        expected = getattr(usual, name)
        assert np.array_equal(column, expected), name
        assert np.asarray(column).dtype == np.asarray(expected).dtype, name
