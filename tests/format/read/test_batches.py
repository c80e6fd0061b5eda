"""Batch headers are the bytes that the format puts there, and the chain of sizes is followed as Kafka's reader does."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.format import twin
from tests.format.twin import HEADER, Header
from tests.golden import case, cases, of_type

from brokerless.format.read import batches as batches_module
from brokerless.format.read.batch_scan_kernels import walk_chain
from brokerless.format.read.batches import (
    Stop,
    checksums_match,
    increment_sequence,
    plain_walks_left,
    read_headers,
    walk,
)

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


@settings(max_examples=100)
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


@settings(max_examples=50)
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
    found = read_headers(buffer, walk(buffer).positions)
    expected = list(of_type(mixed.expected(), "batch"))
    assert set(found.magic.tolist()) == {0, 1, 2}
    assert found.magic.tolist() == [line["magic"] for line in expected]
    assert found.checksum.tolist() == [line["checksum"] for line in expected]
    assert found.max_timestamp.tolist() == [line["maxTimestamp"] for line in expected]
    assert checksums_match(buffer, found).all()
    assert len(found.take(found.is_legacy)) + len(found.take(~found.is_legacy)) == len(found)


@pytest.mark.parametrize("data", V2[:3])
def test_offset_and_leader_epoch_are_not_covered_by_the_checksum_and_all_else_is(data: bytes) -> None:
    size = walk(array(data), limit=1).stopped_at
    for at in [*range(8), *range(12, 16), *range(17, 70), size - 1]:  # size and magic say what is covered
        changed = bytearray(data[:size])
        changed[at] ^= 0x40
        valid = checksums_match(array(bytes(changed)), read_headers(array(bytes(changed)), np.array([0])))
        assert bool(valid[0]) == (at < 16)


def by_kernel(data: bytes, start: int = 0, until: int = 1 << 62, capacity: int = 3) -> tuple[list[int], int, int]:
    """The kernel's walk, a few batches a call."""
    found: list[int] = []
    positions = np.empty(capacity, np.int64)
    stop = 0
    while stop == 0 and start < until:
        count, start, stop = walk_chain(array(data), start, until, positions)
        found.extend(positions[:count].tolist())
    return found, start, stop


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Logs with some bytes set to what makes trouble, bytes cut out, put in or cut off."""
    data = bytearray(draw(st.sampled_from(LOGS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, min(len(data) - 1, draw(st.sampled_from([20, 300, 1 << 20]))))))
        match draw(st.sampled_from(["set", "cut", "put", "end"])):
            case "set":
                data[at : at + 1] = draw(st.sampled_from([b"\0", b"\x7f", b"\x80", b"\xff", b"\x0d", b"\x0e"]))
            case "cut":
                del data[at : at + draw(st.integers(1, 100))]
            case "put":
                data[at:at] = draw(st.binary(max_size=40))
            case _:
                del data[at:]
    return bytes(data)


@settings(max_examples=200)
@given(data=mutated(), capacity=st.integers(1, 5))
def test_python_kernel_and_twin_walk_alike(data: bytes, capacity: int) -> None:
    positions, stopped_at, throws = twin.chain(data)
    stop = Stop.SIZE_TOO_SMALL if throws else Stop.END
    assert by_kernel(data, capacity=capacity) == (positions, stopped_at, stop)
    for plainly in (0, capacity, 1 << 40):  # the kernel alone, the two together, and plain Python alone
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batches_module, "plain_walks_left", lambda left=plainly: left)
            walked = walk(array(data))
        assert (walked.positions.tolist(), walked.stopped_at, walked.stop) == (positions, stopped_at, stop)


@settings(max_examples=100)
@given(data=st.sampled_from(LOGS), limit=st.integers(0, 30), max_bytes=st.integers(1, 5000))
def test_a_walk_ends_after_so_many_batches_or_bytes_and_can_go_on(data: bytes, limit: int, max_bytes: int) -> None:
    positions = twin.chain(data)[0]
    assert walk(array(data), limit=limit).positions.tolist() == positions[:limit]
    found: list[int] = []
    at, stop = 0, Stop.LIMIT
    while stop == Stop.LIMIT:
        walked = walk(array(data), at, max_bytes=max_bytes)
        assert all(position < at + max_bytes for position in walked.positions)
        found.extend(walked.positions.tolist())
        at, stop = walked.stopped_at, walked.stop
    assert found == positions


def test_the_kernel_goes_on_where_plain_python_has_walked_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "_walked_plainly", 0)
    one = LOGS[0][: walk(array(LOGS[0]), limit=1).stopped_at]
    many = one * 40_000
    walked = walk(array(many))
    assert plain_walks_left() == 0
    assert np.array_equal(walked.positions, np.arange(40_000) * len(one))
    assert (walked.stopped_at, walked.stop) == (len(many), Stop.END)


def test_after_the_largest_sequence_comes_zero() -> None:
    largest = 2**31 - 1
    sequences = np.array([0, 5, largest, largest, largest - 3, largest - 3], np.int32)
    increments = np.array([0, 7, 0, 1, 3, 10], np.int32)
    assert increment_sequence(sequences, increments).tolist() == [0, 12, largest, 0, largest, 6]


@settings(max_examples=100)
@given(pairs=st.lists(st.tuples(st.integers(0, 2**31 - 1), INT32), min_size=1))
def test_sequences_count_in_javas_arithmetic(pairs: list[tuple[int, int]]) -> None:
    sequences, increments = np.array(pairs, np.int32).T
    assert increment_sequence(sequences, increments).tolist() == [twin.increment_sequence(*pair) for pair in pairs]
