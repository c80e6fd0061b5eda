"""A filter selects the same records as a look at each of all that Kafka's reader gave, in every format and codec."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from tests.examples import some_quick
from tests.golden import broker_data, cases
from tests.tables import random_searches

import brokerless
from brokerless import Finding, RecordFilter, UsageError
from brokerless.tables.record_filter import parse_header

Row = dict[str, Any]
CHOICES: list[tuple[RecordFilter, Callable[[Row], bool]]] = [
    (RecordFilter(keys=["key-7"]), lambda row: row["key"] == b"key-7"),
    (RecordFilter(keys=[b"key-7", "key-3", b"\xff"]), lambda row: row["key"] in (b"key-7", b"key-3", b"\xff")),
    (RecordFilter(keys=[b""]), lambda row: row["key"] == b""),
    (RecordFilter(keys=[]), lambda row: False),
    (RecordFilter(keys=[f"key-{n}" for n in range(40)]), lambda row: row["key"] in KEYS),
    (RecordFilter(key_regex="[13579]$"), lambda row: re.search(rb"[13579]$", row["key"] or b"") is not None),
    (RecordFilter(grep="9"), lambda row: any(b"9" in each for each in texts(row))),
    (RecordFilter(grep=b"\xff"), lambda row: any(b"\xff" in each for each in texts(row))),
    (RecordFilter(grep="trace"), lambda row: any(b"trace" in each for each in texts(row))),
    (RecordFilter(header=("trace", "t-3")), lambda row: ("trace", b"t-3") in headers(row)),
    (RecordFilter(header=("trace", b"")), lambda row: ("trace", b"") in headers(row)),
    (RecordFilter(where="\"offset\" % 7 = 2"), lambda row: row["offset"] % 7 == 2),
    (
        RecordFilter(keys=["key-7", "key-8"], grep="9", where='"offset" > 20'),
        lambda row: row["key"] in (b"key-7", b"key-8") and b"9" in b" ".join(texts(row)) and row["offset"] > 20,
    ),
]  # fmt: skip
KEYS = {b"key-%d" % n for n in range(40)}
IDS = [str(number) for number in range(len(CHOICES))]


def headers(row: Row) -> list[tuple[str, bytes | None]]:
    return [(each["key"], each["value"]) for each in row["headers"]]


def texts(row: Row) -> list[bytes]:
    of_headers = [each for name, value in headers(row) for each in (name.encode(), value)]
    return [each for each in (row["key"], row["value"], *of_headers) if each is not None]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A partition of small batches for each format and codec, written by another client."""
    directory, chance = tmp_path_factory.mktemp("logs"), random.Random(4)
    found: list[Path] = []
    for magic, codec in [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < (3, 4, 5)[magic]]:
        partition = directory / f"v{magic}-{codec}-0"
        partition.mkdir()
        data, offset = b"", 0
        for _ in range(30):
            count = chance.choice((1, 3, 20))
            if magic == 2:
                builder: Any = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 24)
            else:
                builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
            for place in range(count):
                key = chance.choice([None, b"", b"\xff", b"key-%d" % chance.randrange(60)])
                value = chance.choice([None, b"", b"value %d" % chance.randrange(1000), b"x" * 300 + b"9"])
                own = [("trace", chance.choice([None, b"", b"t-%d" % chance.randrange(9)]))] if magic == 2 else []
                relative = place if magic else offset + place
                builder.append(relative, 1_000 + offset, key, value, own)
            batch = bytearray(builder.build())
            if magic == 2:
                batch[:8] = offset.to_bytes(8, "big")
            elif codec:
                batch[:8] = (offset + count - 1).to_bytes(8, "big")
            else:
                at = 0
                for place in range(count):
                    batch[at : at + 8] = (offset + place).to_bytes(8, "big")
                    at += 12 + int.from_bytes(batch[at + 8 : at + 12], "big")
            data, offset = data + bytes(batch), offset + count
        (partition / f"{0:020}.log").write_bytes(data)
        found.append(partition)
    return found


@pytest.mark.parametrize(("selection", "holds"), CHOICES, ids=IDS)
def test_a_filter_selects_what_holds_for_a_record(
    logs: list[Path], selection: RecordFilter, holds: Callable[[Row], bool]
) -> None:
    selected = 0
    for path in logs:
        log = brokerless.open(path)
        rows = log.records(["offset", "key", "value", "headers"]).read_all().to_pylist()
        assert len(rows) > 100
        expected = [row["offset"] for row in rows if holds(row)]
        assert log.records(["offset"], filter=selection).read_all()["offset"].to_pylist() == expected
        selected += len(expected)
    assert selected or selection.keys in ([], (b"",))


def test_keys_and_values_of_files_that_kafka_wrote_are_found() -> None:
    seen = 0
    for case in cases("formats"):
        for path in sorted(case.path.glob("*.log")):
            log = brokerless.open(path)
            rows = log.records(["offset", "key", "value"], on_damage=lambda _: None).read_all().to_pylist()
            for column in ("key", "value"):
                for wanted in sorted({row[column] for row in rows if row[column]})[:2]:
                    selection = RecordFilter(keys=[wanted]) if column == "key" else RecordFilter(grep=wanted)
                    found = log.records(["offset", column], filter=selection, on_damage=lambda _: None).read_all()
                    offsets = [row["offset"] for row in rows if row[column] == wanted]
                    assert [row["offset"] for row in found.to_pylist() if row[column] == wanted] == offsets
                    seen += len(offsets)
    assert seen > 50


def test_aborted_and_control_records_are_not_found_where_a_consumer_does_not_get_them() -> None:
    partition = brokerless.open(broker_data("clean")).partition("txn", 0)
    everything = RecordFilter(key_regex="")
    committed = partition.records(["offset", "key"], isolation="read_committed").read_all().to_pylist()
    found = partition.records(["offset"], isolation="read_committed", filter=everything).read_all()
    assert found["offset"].to_pylist() == [row["offset"] for row in committed if row["key"] is not None]
    with_control = partition.records(["offset", "isControl"], control=True, filter=RecordFilter(grep="\0")).read_all()
    assert not any(with_control["isControl"].to_pylist())


def test_damage_is_reported_although_nothing_there_is_selected(logs: list[Path], tmp_path: Path) -> None:
    for source in logs:
        data = bytearray((source / f"{0:020}.log").read_bytes())
        data[len(data) // 2] ^= 1
        path = tmp_path / f"{source.name}.log"
        path.write_bytes(data)
        found: list[Finding] = []
        log = brokerless.open(path)
        assert log.records(filter=RecordFilter(grep="not there"), on_damage=found.append).read_all().num_rows == 0
        assert found, source.name


def test_the_first_record_is_yielded_before_the_file_is_read(tmp_path: Path, logs: list[Path]) -> None:
    (source,) = (each for each in logs if each.name == "v2-0-0")
    data = (source / f"{0:020}.log").read_bytes()
    path = tmp_path / "long.log"
    path.write_bytes(data * (64_000_000 // len(data)))
    read: list[int] = []
    records = brokerless.open(path).records(["offset"], filter=RecordFilter(grep="9"), done=read.append)
    assert next(iter(records)).num_rows
    assert sum(read) < 10_000_000


@pytest.mark.parametrize(
    "arguments",
    [{}, {"grep": ""}, {"key_regex": "("}, {"where": "no such"}, {"keys": "abc"}],
    ids=["nothing", "empty-text", "regex", "condition", "one-key"],
)
def test_what_selects_nothing_meaningful_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RecordFilter(**arguments)


def test_headers_of_a_command_line() -> None:
    assert parse_header("user=a=b") == ("user", b"a=b")
    with pytest.raises(UsageError, match="name=value"):
        parse_header("user")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"keys": [5]}, "keys: 5 is not bytes or text"),
        ({"keys": 5}, "keys: 5 is not a list of keys"),
        ({"keys": "a"}, "keys: 'a' is one key"),
        ({"key_regex": 5}, "key_regex: 5 is not text"),
        ({"grep": 5}, "grep: 5 is not bytes or text"),
        ({"where": 5}, "where: 5 is not a condition"),
        ({"header": 5}, "header=5 is no pair"),
        ({"header": ("a", 5)}, "is no pair"),
    ],
)
def test_what_is_no_filter_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        RecordFilter(**given)


@pytest.mark.parametrize("seed", some_quick(range(32)))
def test_searching_the_bytes_of_batches_finds_what_decoding_all_of_them_does(seed: int, tmp_path: Path) -> None:
    assert random_searches.search(seed, tmp_path)["records"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_batches_that_repeat_offsets_are_reported_although_they_have_nothing_that_is_looked_for(
    tmp_path: Path, jobs: int
) -> None:
    def batch(offset: int) -> bytes:
        builder: Any = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
        for place in range(3):
            builder.append(place, 1_000, b"key-%d" % (offset + place), b"x" * 50_000, [])
        return offset.to_bytes(8, "big") + bytes(builder.build())[8:]

    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(map(batch, [*range(0, 180, 3), 61, 64, *range(180, 240, 3)])))
    found, missing = random_searches.compare(path, RecordFilter(keys=["key-62", "key-200"]), {"jobs": jobs})
    assert [row["offset"] for row in found] == [62, 200]
    assert not missing


def test_a_record_that_is_later_than_its_header_says_is_reported_although_it_is_not_selected(tmp_path: Path) -> None:
    builder: Any = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 24)
    builder.append(0, 5_000, b"key", b"", [])
    batch = bytearray(builder.build())
    batch[35:43] = (2_000).to_bytes(8, "big")
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(random_searches.checked(batch))
    for given, kinds in (({"start_timestamp": 1_000}, ["timestamp-above-header"]), ({}, [])):
        found, findings = random_searches.read(path, RecordFilter(grep="not there"), given)
        assert not found
        assert [each.kind for each in findings] == kinds
