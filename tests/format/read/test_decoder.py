"""Every batch that Kafka reads gives the records that Kafka gives, and every batch that it refuses gives a damage."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.golden import cases, of_type

from brokerless.format.columns import RecordColumns, ReusedArrays
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.decoder import DecodedRecords, Decoder

TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def decode(path: Path, decoder: Decoder) -> list[DecodedRecords]:
    """The records of all batches whose checksums match, as far as the chain of sizes holds."""
    buffer = np.frombuffer(path.read_bytes(), np.uint8)
    batches = read_headers(buffer, scan_batches(buffer).positions)
    found = list(decoder.decode(buffer, batches.take(checksums_match(buffer, batches))))
    rest = decoder.flush()
    return found if rest is None else [*found, rest]


def rows(columns: RecordColumns) -> list[dict[str, Any]]:
    def text(name: str, data: bytes | None) -> dict[str, Any]:
        if data is None or len(data) <= 1024:
            return {name: None if data is None else base64.b64encode(data).decode()}
        return {f"{name}Len": len(data), f"{name}Sha256": hashlib.sha256(data).hexdigest()}

    def value(data: np.ndarray, ends: np.ndarray, null: np.ndarray, row: int) -> bytes | None:
        return None if null[row] else data[ends[row] : ends[row + 1]].tobytes()

    c = columns
    keys_without_null = np.zeros(len(c.header_value_null), np.uint8)
    found = []
    for row in range(c.rows):
        headers = [
            [
                value(c.header_key_data, c.header_key_ends, keys_without_null, header).decode(errors="replace"),  # type: ignore[union-attr]
                value(c.header_value_data, c.header_value_ends, c.header_value_null, header),
            ]
            for header in range(c.header_ends[row], c.header_ends[row + 1])
        ]
        found.append(
            {
                "offset": int(c.offset[row]),
                "timestamp": int(c.timestamp[row]),
                "timestampType": TYPES[int(c.timestamp_type[row])],
                **text("key", value(c.key_data, c.key_ends, c.key_null, row)),
                **text("value", value(c.value_data, c.value_ends, c.value_null, row)),
                "headers": [[k, None if v is None else base64.b64encode(v).decode()] for k, v in headers],
                "sequence": int(c.sequence[row]),
            }
        )
    return found


def compare(log: Path, expected: list[dict[str, Any]], decoded: list[DecodedRecords]) -> None:
    ours: dict[int, list[dict[str, Any]]] = {}
    for chunk in decoded:
        found = iter(rows(chunk.columns))
        for position, given in zip(chunk.positions.tolist(), chunk.given.tolist(), strict=True):
            ours.setdefault(position, []).extend(next(found) for _ in range(given))
        assert next(found, None) is None
    damages = {damage.position: damage for chunk in decoded for damage in chunk.damages}
    # Kafka's file reader does not look at checksums inside of a wrapper, but a consumer does.
    left_out = {at for at, damage in damages.items() if damage.kind == "message-checksum-mismatch"}
    errors = {line["position"]: line for line in of_type(expected, "error", log.name) if line["phase"] == "records"}
    assert damages.keys() - left_out == errors.keys() - left_out

    theirs: dict[int, list[dict[str, Any]]] = {}
    for line in of_type(expected, "record", log.name):
        theirs.setdefault(line["batchPosition"], []).append(line)
    for position in ours.keys() | theirs.keys():
        our, their = ours.get(position, []), theirs.get(position, [])
        if position in left_out:
            offsets = {each["offset"] for each in our}
            their = [each for each in their if each["offset"] in offsets]
        if position not in damages:
            assert len(our) == len(their)
        for got, want in zip(our, their, strict=False):
            ignored = {"type", "file", "batchPosition", "control", "controlError", "recordInvalid"}
            assert got == {key: value for key, value in want.items() if key not in ignored}


@pytest.mark.parametrize("category", ["formats", "articles", "specials", "framing", "damaged"])
def test_records_are_kafkas(category: str) -> None:
    for case in cases(category):
        for log in case.logs:
            try:
                compare(log, case.expected(), decode(log, Decoder()))
            except BaseException as error:
                error.add_note(f"in {log}")
                raise


def test_memory_of_columns_is_used_again_when_nothing_refers_to_it() -> None:
    reused, size = ReusedArrays(), 1 << 20
    first = reused.allocate("value_data", size, np.uint8)
    address = first.ctypes.data
    first[:3] = 7
    part = pa.py_buffer(first[1:3])
    del first
    other = reused.allocate("value_data", size, np.uint8)
    other[:] = 0
    assert part.to_pybytes() == b"\7\7"
    del part
    assert reused.allocate("key_data", size, np.uint8).ctypes.data != address
    assert reused.allocate("value_data", size + 1, np.uint8).ctypes.data != address
    assert reused.allocate("value_data", size, np.uint8).ctypes.data == address


def test_memory_that_another_thread_frees_is_used_again() -> None:
    reused = ReusedArrays()
    arrays = [reused.allocate("value_data", 1 << 20, np.uint8)]
    address = arrays[0].ctypes.data
    thread = Thread(target=arrays.clear)
    thread.start()
    thread.join()
    assert reused.allocate("value_data", 1 << 20, np.uint8).ctypes.data == address


def test_so_much_unused_memory_of_columns_is_kept() -> None:
    reused, size = ReusedArrays(most=10 << 20), 1 << 20
    before = pa.total_allocated_bytes()
    many = [reused.allocate("value_data", size, np.uint8) for _ in range(50)]
    assert pa.total_allocated_bytes() - before >= 50 * size
    many.clear()
    assert pa.total_allocated_bytes() - before == 10 * size
    again = [reused.allocate("value_data", size, np.uint8) for _ in range(11)]
    assert pa.total_allocated_bytes() - before == 11 * size
    again.clear()
    assert pa.total_allocated_bytes() - before == 10 * size


def test_memory_of_columns_that_was_unused_for_longest_is_given_back_first() -> None:
    reused, size = ReusedArrays(most=2 << 20), 1 << 20
    before = pa.total_allocated_bytes()
    addresses: dict[str, int] = {}
    for column in ("key_data", "value_data", "header_key_data"):
        array = reused.allocate(column, size, np.uint8)
        addresses[column] = array.ctypes.data
        del array
    assert pa.total_allocated_bytes() - before == 2 * size
    again = [reused.allocate(column, size, np.uint8) for column in ("value_data", "header_key_data")]
    assert [each.ctypes.data for each in again] == [addresses["value_data"], addresses["header_key_data"]]
    assert pa.total_allocated_bytes() - before == 2 * size
