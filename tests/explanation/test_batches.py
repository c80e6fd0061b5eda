"""Every byte of the golden batches is in one field, and values are those that Kafka's reader gave."""

from __future__ import annotations

import base64
import hashlib
import random
from collections import defaultdict
from typing import Any

import pytest
from tests.explanation.tree import check_tiles, entries_of, named, records_of
from tests.golden import Case, broker_data, case, cases

from brokerless.explanation.batches import ExplainSettings
from brokerless.explanation.field import Field, problems
from brokerless.explanation.records import RecordRange
from brokerless.format import layouts

FEW = ExplainSettings(RecordRange(None, 8), max_batch_bytes=1 << 20)
ALL = ExplainSettings(RecordRange(), max_batch_bytes=4 << 20)
CATEGORIES = ("articles", "formats", "specials", "framing", "damaged")
CHANGES = 400


@pytest.mark.parametrize("category", CATEGORIES)
def test_fields_make_up_every_batch_without_gap_or_overlap(category: str) -> None:
    for each in cases(category):
        for log in each.logs:
            data = log.read_bytes()
            for start, fields in entries_of(data, FEW):
                check_tiles(fields, start, sum(field.length for field in fields), data)


@pytest.mark.parametrize("broker", ["clean", "old-formats"])
def test_fields_make_up_a_real_brokers_batches(broker: str) -> None:
    logs = [each for each in broker_data(broker).rglob("*.log") if 0 < each.stat().st_size < 12_000]
    assert len(logs) > 10
    for log in logs:
        data = log.read_bytes()
        for start, fields in entries_of(data, FEW):
            check_tiles(fields, start, sum(field.length for field in fields), data)
            assert not list(problems(fields))


def digest(content: bytes | None) -> Any:
    return content if content is None or len(content) <= 1024 else (len(content), hashlib.sha256(content).hexdigest())


def as_expected(record: dict[str, Any]) -> tuple[Any, ...]:
    headers = [(key.decode(errors="replace"), digest(value)) for key, value in record["headers"]]
    return record["offset"], record["timestamp"], digest(record["key"]), digest(record["value"]), headers


def expected_content(line: dict[str, Any], name: str) -> Any:
    if f"{name}Len" in line:
        return line[f"{name}Len"], line[f"{name}Sha256"]
    return None if line[name] is None else base64.b64decode(line[name])


def expected_record(line: dict[str, Any]) -> tuple[Any, ...]:
    headers = [(key, digest(None if value is None else base64.b64decode(value))) for key, value in line["headers"]]
    return line["offset"], line["timestamp"], expected_content(line, "key"), expected_content(line, "value"), headers


def header_of(fields: dict[str, Field]) -> dict[str, Any]:
    values = {name: field.value for name, field in fields.items()}
    attributes = values["attributes"]
    parts = {part.name: part.value for part in fields["attributes"].parts}
    shown = {"magic": values["magic"], "compression": parts["compression"], "checksum": values["crc"]}
    if values["magic"] < layouts.MAGIC_V2:
        return shown
    return shown | {
        "timestampType": parts["timestampType"],
        "isTransactional": parts["isTransactional"],
        "isControl": parts["isControl"],
        "baseOffset": values["base_offset"],
        "lastOffset": values["base_offset"] + values["last_offset_delta"],
        "baseTimestamp": values["base_timestamp"],
        "maxTimestamp": values["max_timestamp"],
        "deleteHorizonMs": values["base_timestamp"] if attributes & layouts.DELETE_HORIZON_BIT else None,
        "producerId": values["producer_id"],
        "producerEpoch": values["producer_epoch"],
        "baseSequence": values["base_sequence"],
        "partitionLeaderEpoch": values["partition_leader_epoch"],
        "count": values["count"],
    }


def is_small(each: Case) -> bool:
    return each.name != "specials/extreme-offsets" and each.log.stat().st_size < (
        400_000 if "formats" in each.name else 30_000
    )


@pytest.mark.parametrize("category", CATEGORIES[:4])
def test_values_are_those_that_kafkas_reader_gave(category: str) -> None:
    compared = 0
    for each in filter(is_small, cases(category)):
        if each.outcome not in (None, "ok"):
            continue
        batches = {line["position"]: line for line in each.expected() if line["type"] == "batch"}
        records: dict[int, list[Any]] = defaultdict(list)
        for line in each.expected():
            if line["type"] == "record":
                records[line["batchPosition"]].append(expected_record(line))
        for start, (entry, *_) in entries_of(each.log.read_bytes(), ALL):
            shown = header_of(named(entry))
            assert shown == {name: batches[start][name] for name in shown}, each.name
            ours = [as_expected(record) for record in records_of(entry)]
            assert ours == records[start], (each.name, start)
            compared += len(ours)
    assert compared > {"articles": 9, "formats": 200, "specials": 900, "framing": 100}[category]


def test_the_sense_ends_where_kafka_refuses_a_batch() -> None:
    """Where Kafka throws at a v2 batch's records or checksum, something is not as expected; where it does not, nothing
    within the records is."""
    judged = {True: 0, False: 0}
    for each in cases("damaged"):
        if not each.name.startswith(("damaged/record-", "damaged/count-")):
            continue
        lines = each.expected()
        refused = {line["position"] for line in lines if line["type"] == "error" and line["phase"] != "batches"}
        listed = {line["position"] for line in lines if line["type"] == "batch"}
        for start, fields in entries_of(each.log.read_bytes(), ALL):
            if start in listed:
                found = [field for _, field in problems(fields)]
                assert bool(found) == (start in refused), (each.name, start, found)
                judged[bool(found)] += 1
    assert judged[True] > 50
    assert judged[False] > 50


def test_whatever_is_changed_nothing_is_raised_and_nothing_is_left_out() -> None:
    chance = random.Random(18)
    logs = [log for each in cases("articles", "specials", "framing") for log in each.logs]
    sources = [log.read_bytes() for log in logs if log.stat().st_size < 3000 and "claims" not in str(log)]
    topics = (None, "__consumer_offsets", "__transaction_state", "__cluster_metadata")
    for _ in range(CHANGES):
        data = bytearray(chance.choice(sources))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            kind = chance.choice(("flip", "cut", "zeros", "random", "insert"))
            if kind == "flip":
                data[at] ^= 1 << chance.randrange(8)
            elif kind == "cut" and at:
                del data[at:]
            elif kind == "zeros":
                data[at : at + 9] = bytes(len(data[at : at + 9]))
            elif kind == "random":
                data[at : at + 4] = chance.randbytes(len(data[at : at + 4]))
            else:
                data[at:at] = chance.randbytes(chance.randint(1, 20))
        settings = ExplainSettings(RecordRange(None, 8), chance.choice(topics), max_batch_bytes=1 << 18)
        for start, fields in entries_of(bytes(data), settings):
            check_tiles(fields, start, sum(field.length for field in fields), bytes(data))


def test_records_before_the_offset_and_after_the_limit_are_one_field_each() -> None:
    data = case("formats/v2-none-create").log.read_bytes()
    _, (whole, *_) = next(entries_of(data, ALL))
    offsets = [record["offset"] for record in records_of(whole)]
    _, (entry, *_) = next(entries_of(data, ExplainSettings(RecordRange(offsets[2], 1))))
    assert [each.name for each in entry.children[-3:]] == ["records", "record[2]", "records"]
    assert [record["offset"] for record in records_of(entry)] == [offsets[2]]


def test_messages_of_a_wrapper_are_chosen_as_records_are() -> None:
    data = case("formats/v1-gzip-create").log.read_bytes()
    _, (whole, *_) = next(entries_of(data, ALL))
    offsets = [record["offset"] for record in records_of(whole)]
    _, (entry, *_) = next(entries_of(data, ExplainSettings(RecordRange(offsets[1], 1))))
    payload = named(entry)["value"].inflated
    assert payload is not None
    assert [each.name for each in payload.fields] == ["messages", "message[1]", "messages"]


def test_a_payload_inflates_no_further_than_the_limit() -> None:
    data = case("damaged/bomb-gzip-zeros").log.read_bytes()
    found = [each for _, fields in entries_of(data, FEW) for _, each in problems(fields)]
    assert any("past the limit of 1048576 bytes" in (each.expected or "") for each in found)
