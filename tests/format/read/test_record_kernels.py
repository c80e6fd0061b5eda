"""Records come out as another client put them in; of broken bytes comes what Kafka's rules give, however it is cut."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format import twin
from tests.format.twin import COMPRESS, Record, write_batch, write_record, write_varint
from tests.golden import cases

from brokerless.format.read.decoder import Decoder

CODECS = list(COMPRESS)
BYTES = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"", b"x" * 300, b"y" * 9000]))
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.one_of(st.integers(0, 10_000), st.integers(-(2**62), 2**62 - 1))


class Produced(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


RECORDS = st.lists(st.builds(Produced, BYTES, BYTES, HEADERS, TIMES), min_size=1, max_size=12)

# Columns as large as usual, and so small that most batches go on in the next ones.
CAPACITIES = st.sampled_from([(1 << 17, 8 << 20), (1, 0), (2, 30), (3, 1000), (100, 1)])


def capacities(rows: int, data: int) -> Decoder:
    return Decoder(rows=rows, data=data)


def given_by(data: bytes, decoder: Decoder | None = None) -> list[Record]:
    found, damages = twin.decode(data, decoder)
    assert damages == []
    return [record for records in found.values() for record in records]


@examples(80)
@given(
    batches=st.lists(st.tuples(RECORDS, st.sampled_from(range(5)), st.booleans()), min_size=1, max_size=3),
    producer=st.one_of(st.just((-1, -1, -1)), st.just((7, 3, 2**31 - 3))),
    capacity=CAPACITIES,
)
def test_v2_records_are_what_another_client_built(
    batches: list[tuple[list[Produced], int, bool]], producer: tuple[int, int, int], capacity: tuple[int, int]
) -> None:
    data, expected = b"", list[Record]()
    for records, codec, is_transactional in batches:
        builder = DefaultRecordBatchBuilder(2, codec, is_transactional, *producer, 1 << 24)
        for number, each in enumerate(records):
            assert builder.append(number, each.timestamp, each.key, each.value, each.headers) is not None
            headers = tuple((key.encode(), value) for key, value in each.headers)
            sequence = -1 if producer[2] < 0 else twin.increment_sequence(producer[2], number)
            expected.append(Record(number, each.timestamp, 0, each.key, each.value, headers, sequence))
        data += bytes(builder.build())
    assert given_by(data, capacities(*capacity)) == expected


@examples(100)
@given(
    batches=st.lists(st.tuples(RECORDS, st.sampled_from([0, 1, 2, 3]), st.sampled_from([0, 1])), max_size=4),
    capacity=CAPACITIES,
)
def test_v0_and_v1_messages_are_what_another_client_built(
    batches: list[tuple[list[Produced], int, int]], capacity: tuple[int, int]
) -> None:
    data, expected = b"", list[Record]()
    for records, codec, magic in batches:
        if magic == 0 and codec == 3:
            continue  # which this client does not write as Kafka's did
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
        for number, each in enumerate(records):
            assert builder.append(number, max(each.timestamp, 0), each.key, each.value) is not None
            timestamp, type_ = (-1, -1) if magic == 0 else (max(each.timestamp, 0), 0)
            expected.append(Record(number, timestamp, type_, each.key, each.value))
        data += bytes(builder.build())
    assert given_by(data, capacities(*capacity)) == expected


@pytest.mark.parametrize("codec", range(5))
@examples(40)
@given(
    records=st.lists(st.tuples(BYTES, BYTES, INT64, st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=4),
    base_offset=INT64,
    base_timestamp=INT64,
    max_timestamp=INT64,
    base_sequence=st.integers(-1, 2**31 - 1),
    append=st.booleans(),
)
def test_offsets_and_times_count_from_the_batch_in_64_bits(
    codec: int,
    records: list[tuple[bytes | None, bytes | None, int, int]],
    base_offset: int,
    base_timestamp: int,
    max_timestamp: int,
    base_sequence: int,
    append: bool,
) -> None:
    payload = b"".join(write_record(key, value, [], offset, time) for key, value, time, offset in records)
    data = write_batch(
        COMPRESS[CODECS[codec]](payload),
        attributes=codec | 8 * append,
        count=len(records),
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        base_sequence=base_sequence,
    )
    assert given_by(data) == [
        Record(
            twin.as_int64(base_offset + offset),
            max_timestamp if append else twin.as_int64(base_timestamp + time),
            int(append),
            key,
            value,
            (),
            twin.increment_sequence(base_sequence, offset) if base_sequence >= 0 else -1,
        )
        for key, value, time, offset in records
    ]


@st.composite
def payloads(draw: st.DrawFn) -> tuple[int, bytes]:
    """How many records were written, and they, with some bytes replaced, removed or added."""
    headers = st.lists(st.tuples(st.binary(max_size=4), BYTES), max_size=2)
    records = draw(st.lists(st.tuples(BYTES, BYTES, headers), max_size=4))
    data = bytearray()
    for number, (key, value, each) in enumerate(records):
        data += write_record(key, value, each, number, draw(st.integers(-70, 70)))
    varints = st.sampled_from([-1, -2, 0, 1, 5, 63, 64, 1000, 2**31 - 1, -(2**31)]).map(write_varint)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, min(len(data), draw(st.sampled_from([12, 60, 1 << 20])))))
        match draw(st.sampled_from(["set", "varint", "put", "cut", "end"])):
            case "set":
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "varint":
                data[at : at + 1] = draw(varints)
            case "put":
                data[at:at] = draw(st.binary(max_size=12))
            case "cut":
                del data[at : at + draw(st.integers(1, 5))]
            case _:
                del data[at:]
    return len(records), bytes(data)


@st.composite
def broken_batches(draw: st.DrawFn) -> tuple[bytes, list[tuple[list[Record], bool]]]:
    """Batches one after another, with right checksums and whatever else, and what the twin makes of each."""
    data, expected = b"", []
    for _ in range(draw(st.integers(1, 4))):
        (written, payload), codec = draw(payloads()), draw(st.sampled_from([0, 0, 2, 3, 4]))
        count = draw(st.sampled_from([*[written] * 6, written + 1, max(written - 1, 0), 2**31 - 1, -1]))
        if count == 0 and not payload:
            codec = 0
        batch = write_batch(
            COMPRESS[CODECS[codec]](payload),
            attributes=codec | draw(st.sampled_from([0, 8])),
            count=count,
            base_sequence=draw(st.sampled_from([-1, 0, 2**31 - 2])),
            max_timestamp=55,
            last_offset_delta=draw(st.sampled_from([0, 3])),
        )
        data += batch
        expected.append(twin.read_records(twin.read_header(batch), payload))
    return data, expected


@examples(300)
@given(case=broken_batches(), capacity=CAPACITIES)
def test_kernel_and_twin_agree_on_broken_records(
    case: tuple[bytes, list[tuple[list[Record], bool]]], capacity: tuple[int, int]
) -> None:
    data, expected = case
    positions = twin.chain(data)[0]
    for decoder in (Decoder(), capacities(*capacity)):
        found, damages = twin.decode(data, decoder)
        assert [found.get(position, []) for position in positions] == [records for records, _ in expected]
        broken = [position for position, (_, whole) in zip(positions, expected, strict=True) if not whole]
        assert [damage.position for damage in damages] == broken


@examples(100)
@given(case=broken_batches(), wanted=st.tuples(st.booleans(), st.booleans(), st.booleans()), capacity=CAPACITIES)
def test_what_is_not_kept_is_checked_all_the_same(
    case: tuple[bytes, list[tuple[list[Record], bool]]], wanted: tuple[bool, bool, bool], capacity: tuple[int, int]
) -> None:
    data, expected = case
    found, damages = twin.decode(data, Decoder(*wanted, rows=capacity[0], data=capacity[1]))
    ours = [record for position in twin.chain(data)[0] for record in found.get(position, [])]
    theirs = [record for records, _ in expected for record in records]
    assert [each.offset for each in ours] == [each.offset for each in theirs]
    assert len(damages) == sum(not whole for _, whole in expected)
    for keep, field in zip(wanted, ("key", "value", "headers"), strict=True):
        if keep:
            assert [getattr(each, field) for each in ours] == [getattr(each, field) for each in theirs]


@pytest.mark.parametrize("category", ["formats", "articles", "specials", "framing"])
def test_how_columns_are_cut_changes_nothing(category: str) -> None:
    for case in cases(category):
        for log in case.logs:
            data = log.read_bytes()
            if len(data) > 100_000:
                continue
            whole = twin.decode(data)
            many = sum(map(len, whole[0].values())) > 200
            for rows, size in ((1000, 5000),) if many else ((1, 0), (7, 500), (1000, 10)):
                assert twin.decode(data, capacities(rows, size)) == whole, (log, rows, size)
