"""Batch headers are the bytes that the format puts there."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format import twin
from tests.format.twin import HEADER, Header
from tests.golden import case, cases, of_type

from brokerless.format.read.batch_headers import checksums_match, increment_sequence, read_headers
from brokerless.format.read.batch_scan import scan_batches

INT32 = st.integers(-(2**31), 2**31 - 1)
LOGS = [path.read_bytes() for each in cases("formats", "articles") for path in each.logs if path.stat().st_size < 20000]
LOGS.append(case("specials/mixed-magic").log.read_bytes())
V2 = [data for data in LOGS if data[16] == 2]

LIMITS = {"b": 7, "h": 15, "i": 31, "q": 63}
FIELDS = st.tuples(
    *(
        st.integers(0, 2**32 - 1) if code == "I" else st.integers(-(2 ** LIMITS[code]), 2 ** LIMITS[code] - 1)
        for code in HEADER.format.lstrip(">")
    )
).map(lambda values: Header(*values))


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@examples(100)
@given(headers=st.lists(FIELDS, min_size=1, max_size=5), magic=st.sampled_from([2, 3, 127]))
def test_fields_are_what_struct_unpacks(headers: list[Header], magic: int) -> None:
    headers = [header._replace(magic=magic) for header in headers]
    data = b"".join(HEADER.pack(*header) for header in headers)
    found = read_headers(array(data), np.arange(len(headers)) * 61)
    for name, field in [("base_offset", "entry_offset"), ("crc", "checksum")]:
        assert getattr(found, field).tolist() == [getattr(header, name) for header in headers]
    same = "partition_leader_epoch base_timestamp max_timestamp producer_id producer_epoch base_sequence count magic"
    for name in same.split():
        assert getattr(found, name).tolist() == [getattr(header, name) for header in headers]
    attributes = [header.attributes for header in headers]
    assert found.sizes.tolist() == [header.size + 12 for header in headers]
    assert found.codec.tolist() == [each & 7 for each in attributes]
    assert found.timestamp_type.tolist() == [each >> 3 & 1 for each in attributes]
    assert found.is_transactional.tolist() == [bool(each & 16) for each in attributes]
    assert found.is_control.tolist() == [bool(each & 32) for each in attributes]
    assert found.has_delete_horizon.tolist() == [bool(each & 64) for each in attributes]
    assert found.last_offset.tolist() == [twin.as_int64(each.base_offset + each.last_offset_delta) for each in headers]
    assert found.last_sequence.tolist() == [
        -1 if each.base_sequence == -1 else twin.increment_sequence(each.base_sequence, each.last_offset_delta)
        for each in headers
    ]
    assert not found.is_wrapper.any()


@examples(50)
@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    crc=st.integers(0, 2**32 - 1),
    magic=st.sampled_from([0, 1, -1, -128]),
    attributes=st.integers(-128, 127),
    timestamp=st.integers(-(2**63), 2**63 - 1),
)
def test_a_message_has_kafkas_defaults_for_what_its_format_lacks(
    offset: int, crc: int, magic: int, attributes: int, timestamp: int
) -> None:
    data = struct.pack(">qiIbbq", offset, 22, crc, magic, attributes, timestamp) + b"\xff" * 8
    found = read_headers(array(data), np.array([0]))  # 34 bytes: less than a v2 header
    assert found.entry_offset[0] == found.last_offset[0] == offset
    assert (found.checksum[0], found.codec[0], found.sizes[0]) == (crc, attributes & 7, 34)
    assert found.is_wrapper[0] == bool(attributes & 7)
    assert found.max_timestamp[0] == (-1 if magic == 0 else timestamp)
    assert found.timestamp_type[0] == (-1 if magic == 0 else attributes >> 3 & 1)
    for name in ("producer_id", "producer_epoch", "base_sequence", "last_sequence", "partition_leader_epoch", "count"):
        assert getattr(found, name)[0] == -1
    assert not found.is_transactional[0]
    assert not found.is_control[0]


def test_formats_may_follow_each_other_in_one_log() -> None:
    mixed = case("specials/mixed-magic")
    buffer = array(mixed.log.read_bytes())
    found = read_headers(buffer, scan_batches(buffer).positions)
    expected = list(of_type(mixed.expected(), "batch"))
    assert set(found.magic.tolist()) == {0, 1, 2}
    assert found.magic.tolist() == [line["magic"] for line in expected]
    assert found.checksum.tolist() == [line["checksum"] for line in expected]
    assert found.max_timestamp.tolist() == [line["maxTimestamp"] for line in expected]
    assert checksums_match(buffer, found).all()
    assert len(found.take(found.is_legacy)) + len(found.take(~found.is_legacy)) == len(found)


def test_some_are_taken_while_another_thread_computes_a_column() -> None:
    data = array(V2[0])
    headers = read_headers(data, scan_batches(data).positions)

    class Column:
        def __getitem__(self, rows: object) -> object:
            return headers.base_timestamp[rows]  # computed meanwhile

    headers.__dict__["base_offset"] = Column()
    assert len(headers.take(np.array([0]))) == 1


@pytest.mark.parametrize("data", V2[:3])
def test_offset_and_leader_epoch_are_not_covered_by_the_checksum_and_all_else_is(data: bytes) -> None:
    size = scan_batches(array(data), limit=1).stopped_at
    for at in [*range(8), *range(12, 16), *range(17, 70), size - 1]:  # size and magic say what is covered
        changed = bytearray(data[:size])
        changed[at] ^= 0x40
        valid = checksums_match(array(bytes(changed)), read_headers(array(bytes(changed)), np.array([0])))
        assert bool(valid[0]) == (at < 16)


def test_after_the_largest_sequence_comes_zero() -> None:
    largest = 2**31 - 1
    sequences = np.array([0, 5, largest, largest, largest - 3, largest - 3], np.int32)
    increments = np.array([0, 7, 0, 1, 3, 10], np.int32)
    assert increment_sequence(sequences, increments).tolist() == [0, 12, largest, 0, largest, 6]


@examples(100)
@given(pairs=st.lists(st.tuples(st.integers(0, 2**31 - 1), INT32), min_size=1))
def test_sequences_count_in_javas_arithmetic(pairs: list[tuple[int, int]]) -> None:
    sequences, increments = np.array(pairs, np.int32).T
    assert increment_sequence(sequences, increments).tolist() == [twin.increment_sequence(*pair) for pair in pairs]
