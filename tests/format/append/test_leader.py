"""Produced batches become what Kafka's broker makes of them, or are refused for its reason.

Truth: the golden cases ``append/*``; Kafka's ``LogValidator`` and the leader's ``UnifiedLog`` itself, over many seeded
requests of which most have something odd in them; and the readers of Kafka and of another client.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format import twin
from tests.format.produce_requests import CODECS, MOST, NOW, Request, message, some_request, source_of
from tests.golden import Case, cases, of_type
from tests.kafka import jars
from tests.kafka.oracle import read_logs

from brokerless import UsageError
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig, AppendResult, Refusal
from brokerless.format.append.validator import validate
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


PLAIN = AppendConfig()


def appended(data: bytes, config: AppendConfig = PLAIN, **rest: Any) -> AppendResult:
    found = append(array(data), config, rest.pop("first_offset", 0), 7, NOW, **rest)
    assert isinstance(found, AppendResult), found
    return found


def refused(data: bytes, config: AppendConfig = PLAIN, **rest: Any) -> Refusal:
    found = append(array(data), config, 0, 7, NOW, **rest)
    assert isinstance(found, Refusal), found
    return found


def comparable(data: bytes) -> list[Any]:
    """Batches with all that has to be the same, whoever compresses: headers but for sizes and checksums, and payloads
    as they were before."""
    buffer = array(data)
    batches = read_headers(buffer, scan_batches(buffer).positions)
    found: list[Any] = []
    for row, (start, end) in enumerate(zip(batches.positions.tolist(), batches.ends.tolist(), strict=True)):
        magic, codec, raw = int(batches.magic[row]), int(batches.codec[row]), data[start:end]
        if codec == 0:
            found.append(raw)
            continue
        payload = (26, 34, 61)[magic]
        header = raw[:8] + raw[12:17] + raw[21:61] if magic == 2 else raw[:8] + raw[16 : payload - 4]
        inflater = Inflater()
        begin, end, error = inflater.inflate(codec, magic, buffer[start + payload : end].data)
        assert error is None
        found.append((header, inflater.buffer[begin:end].tobytes()))
    return found


def config_of(golden: Case) -> AppendConfig:
    c = golden.case_json()
    return AppendConfig(
        c["toMagic"],
        c["targetCompression"],
        timestamp_type=c["timestampType"],
        timestamp_before_max_ms=c["timestampBeforeMaxMs"],
        timestamp_after_max_ms=c["timestampAfterMaxMs"],
        compacted=c["compactedTopic"],
    )


def validated(golden: Case) -> AppendResult | Refusal:
    c = golden.case_json()
    data = array((golden.path / "input.bin").read_bytes())
    rest = c["firstOffset"], c["partitionLeaderEpoch"], c["nowMs"], c["origin"].lower()
    return validate(data, config_of(golden), *rest)


@pytest.mark.parametrize("golden", cases("append"), ids=str)
def test_what_kafka_made_of_it_is_made_of_it(golden: Case) -> None:
    expected, found = golden.case_json(), validated(golden)
    if expected["outcome"] == "ok":
        assert isinstance(found, AppendResult)
        assert (found.next_offset, found.max_timestamp) == (expected["nextOffset"], expected["maxTimestampMs"])
        assert (found.in_place, found.records_converted) == (expected["inPlace"], expected["recordsConverted"])
        theirs = (golden.path / "output.bin").read_bytes()
        if found.in_place or expected["targetCompression"] == "none":
            assert found.buffer.tobytes() == theirs
        assert comparable(found.buffer.tobytes()) == comparable(theirs)
    else:
        assert isinstance(found, Refusal)
        assert expected["error"]["class"].rpartition(".")[2] == found.error
        cause = expected.get("invalidException", {}).get("class")
        assert (cause and cause.rpartition(".")[2]) == found.cause
        assert [error["batchIndex"] for error in expected.get("recordErrors", [])] == list(found.record_errors)


def test_kafkas_reader_reads_what_was_made_as_what_kafka_had_made(kafka_jars: Path, tmp_path: Path) -> None:
    def lines(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        drop = "file", "position", "batchPosition", "sizeInBytes", "checksum", "fileSize"
        return [{name: value for name, value in line.items() if name not in drop} for line in found]

    expected: dict[Path, list[dict[str, Any]]] = {}
    for golden in cases("append"):
        made = validated(golden)
        if isinstance(made, AppendResult):
            path = tmp_path / f"{golden.path.name}.log"
            path.write_bytes(made.buffer.tobytes())
            expected[path] = golden.expected()
    for path, found in read_logs(expected, jars.OLD_FORMATS).items():
        for kind in ("batch", "record", "error"):
            theirs = lines([*of_type(expected[path], kind)])
            assert lines([*of_type(found, kind)]) == theirs, path.name


def requests(seed: int, count: int) -> list[Request]:
    chance = random.Random(seed)
    made = [some_request(chance) for _ in range(count)]
    return [dataclasses.replace(request, source=source_of(request.data)) for request in made]


def asked(main: str, asking: Sequence[dict[str, Any]], *arguments: str, **rest: Any) -> list[dict[str, Any]]:
    text = "".join(json.dumps(each) + "\n" for each in asking).encode()
    done = jars.run(main, *arguments, stdin=text, helper=True, **rest)
    return [json.loads(line) for line in jars.check(done).splitlines()]


OF_CODECS = {"SnappyError": "KafkaException", "BufferUnderflowException": "KafkaException"}
"""What Kafka lets through of some payloads that do not decompress: with us, all of them are ``KafkaException``."""


def compare(found: AppendResult | Refusal, theirs: dict[str, Any], about: Request) -> str:
    """Fails where we are not Kafka; says in a word what happened."""
    if "error" in theirs:
        assert isinstance(found, Refusal), (theirs, about)
        error = OF_CODECS.get(theirs["error"], theirs["error"])
        assert (found.error, found.cause) == (error, theirs.get("cause")), (found, theirs, about)
        assert list(found.record_errors) == theirs.get("recordErrors", list(found.record_errors)), (theirs, about)
        return error
    assert isinstance(found, AppendResult), (found, about)
    buffer, theirs["buffer"] = base64.b64decode(theirs["buffer"]), None
    assert found.next_offset == theirs["nextOffset"], about
    assert found.max_timestamp == theirs["maxTimestamp"], about
    assert found.in_place == theirs.get("inPlace", found.in_place), about
    assert found.records_converted == theirs.get("recordsConverted", found.records_converted), about
    ours = found.buffer.tobytes()
    if found.in_place:
        assert ours == buffer[: len(ours)], about  # LogValidator leaves it to others to drop a cut-off batch
        return "in place"
    assert comparable(ours) == comparable(buffer), about
    return "anew"


@pytest.mark.parametrize("version", [jars.OLD_FORMATS, jars.NEWEST])
def test_log_validator_says_the_same(version: str, kafka_jars: Path) -> None:
    asking = requests(int(version[0]), 1000)
    happened: Counter[str] = Counter()
    for request, theirs in zip(asking, asked("Validate", [r.as_json() for r in asking], version=version), strict=True):
        config = AppendConfig(
            request.to_magic, request.target, None, request.timestamp_type, request.before, request.after,
            request.compacted,
        )  # fmt: skip
        rest = request.first_offset, request.epoch, request.now, request.origin
        happened[compare(validate(array(request.data), config, *rest), theirs, request)] += 1
    assert happened["in place"] > 150
    assert happened["anew"] > 150
    for error in REFUSALS:
        assert happened[error] >= 2, happened


REFUSALS = (
    "InvalidRecordException",
    "RecordValidationException",
    "CorruptRecordException",
    "KafkaException",
    "IllegalArgumentException",
    "UnsupportedForMessageFormatException",
    "UnsupportedOperationException",
    "IndexOutOfBoundsException",
)


def test_a_leader_writes_and_refuses_the_same(kafka_jars: Path, tmp_path: Path) -> None:
    chance = random.Random(5)
    asking = [dataclasses.replace(request, to_magic=2) for request in requests(5, 200)]
    largest = [chance.choice((1_048_588, 1_048_588, 300)) for _ in asking]
    for request in asking:
        if request.target == request.source and chance.random() < 0.5:
            request.target = "producer"
        if chance.random() < 0.1:
            changed = bytearray(request.data)
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
            request.data = bytes(changed)

    def topic(request: Request, max_message_bytes: int) -> dict[str, str]:
        return {
            "compression.type": "uncompressed" if request.target == "none" else request.target,
            "message.timestamp.type": request.timestamp_type,
            "message.timestamp.before.max.ms": str(request.before),
            "message.timestamp.after.max.ms": str(request.after),
            "cleanup.policy": "compact" if request.compacted else "delete",
            "max.message.bytes": str(max_message_bytes),
        }

    texts = [r.as_json() | {"settings": topic(r, size)} for r, size in zip(asking, largest, strict=True)]
    unusual = [Request(a_batch([timestamp]), "none", "producer", 2) for timestamp in BY_DEFAULT]
    texts += [request.as_json() | {"settings": {}} for request in unusual]
    answers = asked("AppendAsLeader", texts, str(tmp_path), sources=jars.HELPERS_OF_4)
    happened: Counter[str] = Counter()
    for request, size, theirs in zip(asking, largest, answers, strict=False):
        if "epoch entry" in theirs.get("message", ""):  # the leader epoch cache is none of this module's business
            continue
        config = AppendConfig(
            2, request.target, None, request.timestamp_type, request.before, request.after, request.compacted, size
        )
        rest = request.first_offset, request.epoch, request.now, request.origin
        happened[compare(append(array(request.data), config, *rest), theirs, request)] += 1
    for what in ("in place", "anew", "RecordTooLargeException", "CorruptRecordException", "InvalidRecordException"):
        assert happened[what] >= 10, happened
    for request, what, theirs in zip(unusual, BY_DEFAULT.values(), answers[len(asking) :], strict=True):
        assert compare(append(array(request.data), AppendConfig(), 0, 0, NOW), theirs, request) == what


BY_DEFAULT = {
    NOW + 3_600_000: "in place",
    NOW + 3_600_001: "RecordValidationException",
    NOW - 10**12: "in place",
}
"""What happens to records with these timestamps in a topic that nobody has configured."""


def a_batch(timestamps: Sequence[int] = (NOW,), codec: str = "none", value: bytes = b"value", **fields: int) -> bytes:
    records = b"".join(
        twin.write_record(b"key", value, (), number, timestamp - timestamps[0])
        for number, timestamp in enumerate(timestamps)
    )
    usual = {
        "attributes": CODECS.index(codec),
        "last_offset_delta": len(timestamps) - 1,
        "count": len(timestamps),
        "base_timestamp": timestamps[0],
        "max_timestamp": max(timestamps),
    }
    return twin.write_batch(twin.COMPRESS[codec](records), **(usual | fields))


class TestInPlace:
    """Nothing but headers changes where format and codec are the topic's."""

    @pytest.mark.parametrize("codec", CODECS)
    def test_offsets_and_leader_epoch_are_set_and_the_checksum_stays(self, codec: str) -> None:
        data = a_batch([NOW, NOW + 5], codec)
        found = appended(data, first_offset=1000)
        assert (found.first_offset, found.next_offset, found.in_place) == (1000, 1002, True)
        expected = (1000).to_bytes(8, "big") + data[8:12] + (7).to_bytes(4, "big") + data[16:]
        assert found.buffer.tobytes() == expected

    @pytest.mark.parametrize("codec", CODECS)
    def test_log_append_time_is_set_without_touching_records(self, codec: str) -> None:
        data = a_batch([5, 6], codec)
        found = appended(data, AppendConfig(timestamp_type="LogAppendTime"))
        batch = read_headers(found.buffer, scan_batches(found.buffer).positions)
        assert (found.max_timestamp, batch.max_timestamp.tolist(), batch.timestamp_type.tolist()) == (NOW, [NOW], [1])
        assert found.buffer[61:].tobytes() == data[61:]
        assert checksums_match(found.buffer, batch).all()

    def test_a_payload_of_which_records_contradict_their_lengths_stays_as_kafka_lets_it(self) -> None:
        record = bytearray(twin.write_record(b"key", b"value"))
        record[0] += 2
        for codec, refusal in (("gzip", None), ("none", "InvalidRecordException")):
            data = twin.write_batch(twin.COMPRESS[codec](bytes(record)), attributes=CODECS.index(codec))
            found = append(array(data), AppendConfig(), 0, 7, NOW)
            assert getattr(found, "error", None) == refusal

    def test_what_was_given_stays_as_it_was(self) -> None:
        data = np.frombuffer(a_batch(), np.uint8).copy()
        before = data.copy()
        data.flags.writeable = False
        appended(data.tobytes(), first_offset=9)
        found = append(data, AppendConfig(timestamp_type="LogAppendTime"), 9, 7, NOW)
        assert isinstance(found, AppendResult)
        np.testing.assert_array_equal(data, before)
        assert not np.shares_memory(found.buffer, data)


class TestBeforeValidation:
    """What a leader looks at first: sizes and checksums, which LogValidator takes for granted."""

    def test_no_bytes_are_no_batch_and_nothing_is_appended(self) -> None:
        found = appended(b"", first_offset=12)
        assert (len(found.buffer), found.first_offset, found.next_offset) == (0, 12, 12)

    def test_a_cut_off_batch_at_the_end_is_dropped(self) -> None:
        for cut in (1, 11, 16, 40):
            found = appended(a_batch() + a_batch()[:cut])
            assert len(found.buffer) == len(a_batch())

    def test_a_wrong_checksum_is_refused_with_its_place(self) -> None:
        data = message(1, b"key", b"value")
        found = refused(data + data[:-1] + b"x", AppendConfig(to_magic=1))
        assert (found.error, found.position) == ("CorruptRecordException", len(data))

    def test_only_clients_must_begin_at_offset_0(self) -> None:
        data = a_batch(base_offset=3)
        assert refused(data).error == "InvalidRecordException"
        assert appended(data, origin="coordinator", first_offset=50).first_offset == 50

    def test_a_batch_may_be_as_large_as_max_message_bytes(self) -> None:
        data = a_batch()
        appended(data, AppendConfig(max_message_bytes=len(data)))
        assert refused(data, AppendConfig(max_message_bytes=len(data) - 1)).error == "RecordTooLargeException"

    def test_what_gets_larger_than_that_when_it_is_rewritten_is_refused(self) -> None:
        data = a_batch(codec="gzip", value=b"text" * 1000)
        limited = AppendConfig(codec="none", max_message_bytes=1000)
        assert refused(data, limited).error == "RecordTooLargeException"

    def test_a_payload_that_inflates_past_the_limit_is_refused(self) -> None:
        data = a_batch(codec="gzip", value=bytes(1 << 20))
        for config in (AppendConfig(), AppendConfig(codec="zstd"), AppendConfig(to_magic=1)):
            assert refused(data, config, max_batch_bytes=1 << 16).error == "RecordTooLargeException"

    def test_settings_that_do_not_exist_are_wrong_usage(self) -> None:
        wrong: list[dict[str, Any]] = [
            {"to_magic": 3},
            {"codec": "brotli"},
            {"timestamp_type": "createtime"},
            {"level": 3},
        ]
        for settings_ in wrong:
            with pytest.raises(UsageError):
                AppendConfig(**settings_)


def test_a_refusal_says_which_records_are_to_blame() -> None:
    found = refused(a_batch([NOW, 0, NOW, 1]), AppendConfig(timestamp_before_max_ms=1000))
    assert (found.error, found.cause) == ("RecordValidationException", "InvalidTimestampException")
    assert list(found.record_errors) == [1, 3]
    assert str(found) == (
        "RecordValidationException: 2 of 4 records are refused: "
        "record 1: its timestamp is out of the range that the topic allows; "
        "record 3: its timestamp is out of the range that the topic allows"
    )


def test_a_level_is_used_for_the_topics_codec() -> None:
    data = a_batch(value=b"".join(b"%d," % (number * number) for number in range(9000)))
    sizes = [len(appended(data, AppendConfig(codec="zstd", level=level)).buffer) for level in (1, 19)]
    assert sizes[1] < sizes[0]


def test_large_values_and_many_headers_are_rewritten_whole() -> None:
    many = [(b"h%d" % number, None) for number in range(9000)]
    records = b"".join(
        twin.write_record(None, value, headers, number)
        for number, (value, headers) in enumerate(((bytes(9 << 20), []), (b"", many), (bytes(9 << 20), many[:3])))
    )
    fields = {"base_timestamp": NOW, "max_timestamp": NOW, "last_offset_delta": 2, "count": 3}
    data = twin.write_batch(twin.COMPRESS["gzip"](records), attributes=1, **fields)
    found = appended(data, AppendConfig(codec="none", max_message_bytes=1 << 30), first_offset=1)
    fields |= {"base_offset": 1, "partition_leader_epoch": 7}
    assert found.buffer.tobytes() == twin.write_batch(records, **fields)


contents = st.one_of(st.none(), st.binary(max_size=40))
rows = st.lists(
    st.tuples(
        contents, contents, st.lists(st.tuples(st.text(max_size=5), contents), max_size=2), st.integers(0, 10**6)
    ),
    min_size=1,
    max_size=20,
)


@given(
    rows=rows,
    magic=st.integers(0, 2),
    codec=st.sampled_from(CODECS),
    to_magic=st.integers(0, 2),
    target=st.sampled_from(("producer", *CODECS)),
    by_append_time=st.booleans(),
    first_offset=st.integers(0, 2**40),
)
@examples(120)
def test_keys_values_headers_and_their_order_stay_and_offsets_are_consecutive(
    rows: list[Any],
    magic: int,
    codec: str,
    to_magic: int,
    target: str,
    by_append_time: bool,
    first_offset: int,
) -> None:
    if magic < 2 or to_magic < 2:
        rows = [(key, value, [], timestamp) for key, value, _, timestamp in rows]
    if magic < 2 or to_magic < 2:  # zstd came with v2
        codec = "lz4" if codec == "zstd" else codec
        target = "lz4" if target == "zstd" else target
    config = AppendConfig(to_magic, target, timestamp_type="LogAppendTime" if by_append_time else "CreateTime")
    found = appended(a_request(rows, magic, codec), config, first_offset=first_offset)
    assert found.next_offset == first_offset + len(rows)
    written = read_headers(found.buffer, scan_batches(found.buffer).positions)
    assert checksums_match(found.buffer, written).all()
    assert set(written.magic.tolist()) == {to_magic}
    assert {CODECS[each] for each in written.codec.tolist()} == {codec if target == "producer" else target}
    if to_magic == 0 and written.codec[0] == 3:
        return  # that other client does not know lz4 as v0 writes it
    expected = []
    for number, (key, value, headers, timestamp) in enumerate(rows):
        kept = -1 if to_magic == 0 else NOW if by_append_time else -1 if magic == 0 else timestamp
        expected.append((first_offset + number, kept, key, value, headers))
    assert read_by_aiokafka(found.buffer.tobytes()) == expected


def a_request(rows: list[Any], magic: int, codec: str) -> bytes:
    timestamps = [timestamp for *_, timestamp in rows]
    if magic == 2:
        records = [
            twin.write_record(
                key, value, [(name.encode(), data) for name, data in headers], number, timestamp - timestamps[0]
            )
            for number, (key, value, headers, timestamp) in enumerate(rows)
        ]
        fields = {"base_timestamp": timestamps[0], "max_timestamp": max(timestamps), "count": len(rows)}
        fields |= {"last_offset_delta": len(rows) - 1, "attributes": CODECS.index(codec)}
        return twin.write_batch(twin.COMPRESS[codec](b"".join(records)), **fields)
    inner = b"".join(
        message(magic, key, value, number, timestamp) for number, (key, value, _, timestamp) in enumerate(rows)
    )
    if codec == "none":
        return inner
    offset, number = len(rows) - 1, CODECS.index(codec)
    return message(magic, None, twin.COMPRESS[codec](inner), offset, max(timestamps), number)


def read_by_aiokafka(data: bytes) -> list[tuple[Any, ...]]:
    found = []
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            headers = [(name, value) for name, value in record.headers]
            timestamp = -1 if record.timestamp is None else record.timestamp
            found.append((record.offset, timestamp, record.key, record.value, headers))
    return found


def test_nothing_is_refused_only_because_of_the_largest_numbers() -> None:
    data = a_batch([MOST - 1])
    config = AppendConfig(timestamp_after_max_ms=MOST)
    assert appended(data, config).max_timestamp == MOST - 1
