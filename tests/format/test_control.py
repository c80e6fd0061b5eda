"""Control records, both ways: golden batches that brokers and Kafka's builder wrote, and Kafka's own classes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden import BROKERS, broker_data, broker_expected, cases, json_lines, of_type
from tests.kafka.jars import check, run

from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.format.control import (
    COMMIT,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LARGEST,
    LEADER_CHANGE,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    build_kraft_controls,
    build_transaction_marker,
    decode_control,
    decode_controls,
    decode_data,
    encode_data,
)
from brokerless.format.write.encoder import Encoder

Line = dict[str, Any]


def golden_controls() -> dict[tuple[Path, int], tuple[Line, list[Line]]]:
    """Control batches that Kafka wrote without a codec, with their records, by file and position."""
    # Of control-unknown, contents were put together by hand.
    written = [case for case in cases("specials") if case.name != "specials/control-unknown"]
    files = [(case.path / line["file"], line) for case in written for line in case.expected()]
    for broker in BROKERS:
        for path in broker_expected(broker).glob("*/expected.jsonl"):
            files += [(broker_data(broker) / path.parent.name / line["file"], line) for line in json_lines(path)]
    found = {
        (path, line["position"]): (line, [])
        for path, line in files
        if line["type"] == "batch" and line["isControl"] and line["compression"] == "none" and line["count"]
    }
    for path, line in files:
        if line["type"] == "record" and (path, line["batchPosition"]) in found:
            found[path, line["batchPosition"]][1].append(line)
    return found


def encode(batch: tuple[RecordColumns, np.ndarray]) -> bytes:
    columns, header = batch
    return Encoder().encode(columns, np.array([0, columns.rows]), header).tobytes()


def test_golden_control_records_say_what_kafka_decoded() -> None:
    seen = set()
    for case in cases("specials", "damaged"):
        for line in of_type(case.expected(), "record"):
            if "control" not in line:
                continue
            said = decode_control(*(base64.b64decode(line[name] or "") for name in ("key", "value")))
            assert said is not None
            expected = line["control"]
            assert (said.type_id, said.type) == (expected["typeId"], expected["type"])
            assert (said.coordinator_epoch, said.data) == (expected.get("coordinatorEpoch"), expected.get("data"))
            seen.add(said.type)
    assert seen >= {"ABORT", "COMMIT", "LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS", "UNKNOWN"}


def test_golden_control_batches_are_written_byte_for_byte() -> None:
    written = []
    for (path, position), (batch, records) in golden_controls().items():
        said = [line.get("control") for line in records]
        if batch["deleteHorizonMs"] is not None:
            continue  # a cleaner's
        place = batch["baseOffset"], batch["maxTimestamp"]
        if "coordinatorEpoch" in said[0]:
            producer, marker = (batch["producerId"], batch["producerEpoch"]), said[0]
            is_commit, epoch = marker["typeId"] == COMMIT, marker["coordinatorEpoch"]
            ours = build_transaction_marker(*producer, *place, is_commit, epoch, batch["partitionLeaderEpoch"])
        else:
            ours = build_kraft_controls(
                [(each["typeId"], each["data"]) for each in said], *place, batch["partitionLeaderEpoch"]
            )
        assert encode(ours) == path.read_bytes()[position : position + batch["sizeInBytes"]], (path, position)
        written += [each["type"] for each in said]
    assert set(written) == {
        "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"
    }  # fmt: skip
    assert len(written) > 200


INT16, INT32, INT64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
UUID = st.binary(min_size=16, max_size=16).map(lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="))
VOTER_IDS = st.lists(st.fixed_dictionaries({"voterId": INT32}), max_size=200)
ENDPOINT = st.fixed_dictionaries({"name": st.text(max_size=9), "host": st.text(), "port": st.integers(0, 65535)})
VOTER = st.fixed_dictionaries(
    {
        "voterId": INT32,
        "voterDirectoryId": UUID,
        "endpoints": st.lists(ENDPOINT, max_size=3),
        "kRaftVersionFeature": st.fixed_dictionaries({"minSupportedVersion": INT16, "maxSupportedVersion": INT16}),
    }
)
# Kafka's JSON says that a version is 0 to 32767, though its bytes may say otherwise.
VERSION = st.integers(0, (1 << 15) - 1)
DATA = {
    LEADER_CHANGE: st.fixed_dictionaries(
        {"version": VERSION, "leaderId": INT32, "voters": VOTER_IDS, "grantingVoters": VOTER_IDS}
    ),
    SNAPSHOT_HEADER: st.fixed_dictionaries({"version": VERSION, "lastContainedLogTimestamp": INT64}),
    SNAPSHOT_FOOTER: st.fixed_dictionaries({"version": VERSION}),
    KRAFT_VERSION: st.fixed_dictionaries({"version": VERSION, "kRaftVersion": INT16}),
    KRAFT_VOTERS: st.fixed_dictionaries({"version": VERSION, "voters": st.lists(VOTER, max_size=5)}),
}
RECORD = st.one_of([st.tuples(st.just(type_id), data) for type_id, data in DATA.items()])


@given(RECORD)
def test_what_was_written_is_read(record: tuple[int, Line]) -> None:
    type_id, data = record
    assert decode_data(type_id, encode_data(type_id, data)) == data


def kafkas(asked: list[Line]) -> list[Any]:
    text = "".join(json.dumps(line) + "\n" for line in asked)
    answer = check(run("Controls", stdin=text.encode(), helper=True))
    return [json.loads(line) for line in answer.splitlines()]


def examples(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    found: list[Any] = []

    @settings(max_examples=count, database=None, derandomize=True)
    @given(strategy)
    def collect(example: Any) -> None:
        found.append(example)

    collect()
    return found


PLACE = st.tuples(st.integers(0, (1 << 63) - 1000), st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1))
"""Offset, timestamp, leader epoch."""
MARKER = st.tuples(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 15) - 1), st.booleans(), INT32)


def test_batches_are_those_of_kafkas_builder(kafka_jars: Path) -> None:
    asked: list[Line] = []
    ours: list[bytes] = []
    for records, place in examples(st.tuples(st.lists(RECORD, min_size=1, max_size=4), PLACE), 150):
        asked.append({"records": records} | dict(zip(("offset", "timestamp", "leaderEpoch"), place, strict=True)))
        ours.append(encode(build_kraft_controls(records, *place)))
    for (producer_id, producer_epoch, commit, epoch), place in examples(st.tuples(MARKER, PLACE), 50):
        offset, timestamp, leader_epoch = place
        asked.append(
            {
                "commit": commit, "producerId": producer_id, "producerEpoch": producer_epoch, "offset": offset,
                "coordinatorEpoch": epoch, "timestamp": timestamp, "leaderEpoch": leader_epoch,
            }
        )  # fmt: skip
        marker = build_transaction_marker(producer_id, producer_epoch, offset, timestamp, commit, epoch, leader_epoch)
        ours.append(encode(marker))
    assert len(asked) > 150
    for line, own, theirs in zip(asked, ours, kafkas(asked), strict=True):
        assert own == base64.b64decode(theirs), line


@st.composite
def broken(draw: st.DrawFn) -> tuple[int, bytes]:
    """A value with some bytes changed, cut off, or put in."""
    type_id, data = draw(RECORD)
    value = bytearray(encode_data(type_id, data))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, min(len(value), 40)))
        value[at : at + draw(st.integers(0, 2))] = draw(
            st.sampled_from([b"", b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff"])
        )
    return type_id, bytes(value)


def test_broken_values_are_read_as_kafka_reads_them(kafka_jars: Path) -> None:
    values = examples(broken(), 600)
    answers = kafkas([{"read": type_id, "value": base64.b64encode(value).decode()} for type_id, value in values])
    assert sum(answer is None for answer in answers) > 50
    for (type_id, value), theirs in zip(values, answers, strict=True):
        assert decode_data(type_id, value) == theirs, (type_id, value)


def test_a_huge_value_is_not_looked_into() -> None:
    value = encode_data(SNAPSHOT_FOOTER, {"version": 0})
    assert decode_data(SNAPSHOT_FOOTER, value.ljust(LARGEST, b"\0")) == {"version": 0}
    assert decode_data(SNAPSHOT_FOOTER, value.ljust(LARGEST + 1, b"\0")) is None


@pytest.mark.parametrize(
    ("type_id", "data", "text"),
    [
        (KRAFT_VERSION, {"version": 0}, "KRaftVersionRecord.kRaftVersion is missing"),
        (
            KRAFT_VERSION,
            {"version": 0, "kRaftVersion": 1, "more": 1},
            "has no field 'more'; it has version, kRaftVersion",
        ),
        (KRAFT_VERSION, {"version": 0, "kRaftVersion": 1 << 15}, "kRaftVersion is a number of type int16"),
        (KRAFT_VERSION, {"version": 0, "kRaftVersion": None}, "kRaftVersion is null"),
        (KRAFT_VOTERS, {"version": 0, "voters": None}, "voters is null"),
        (KRAFT_VOTERS, {"version": 0, "voters": {}}, "voters is an array"),
        (KRAFT_VOTERS, {"version": 0, "voters": [{}]}, r"voters\[0\].voterId is missing"),
    ],
)
def test_data_that_does_not_fit_is_refused(type_id: int, data: Line, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        build_kraft_controls([(type_id, data)], 0, 0, 0)


def test_a_voters_directory_and_endpoints_are_checked() -> None:
    voter = {"voterId": 1, "voterDirectoryId": "AAAAAAE02OMAAAAAAAAAAQ", "endpoints": []}
    voter["kRaftVersionFeature"] = {"minSupportedVersion": 0, "maxSupportedVersion": 1}
    endpoint = {"name": "C", "host": "c", "port": 1}
    for change, text in (
        ({"voterDirectoryId": "AAAA"}, "voterDirectoryId is 16 bytes in base64"),
        ({"voterDirectoryId": 7}, "voterDirectoryId is 16 bytes in base64"),
        ({"endpoints": [endpoint | {"host": 7}]}, r"voters\[0\].endpoints\[0\].host is text"),
        ({"endpoints": [endpoint | {"host": "h" * 40_000}]}, "host is text of up to 32767 bytes"),
        ({"endpoints": [endpoint | {"port": -1}]}, "port is a number of type uint16"),
    ):
        with pytest.raises(UsageError, match=text):
            build_kraft_controls([(KRAFT_VOTERS, {"version": 0, "voters": [voter | change]})], 0, 0, 0)


def test_each_row_of_columns_says_what_it_controls() -> None:
    columns, _ = build_kraft_controls(
        [(KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}), (SNAPSHOT_FOOTER, {"version": 0})], 5, 6, 7
    )
    assert [(each.type, each.data) for each in decode_controls(columns) if each] == [
        ("KRAFT_VERSION", {"version": 0, "kRaftVersion": 1}),
        ("SNAPSHOT_FOOTER", {"version": 0}),
    ]
