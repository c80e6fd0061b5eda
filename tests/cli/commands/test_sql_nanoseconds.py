"""``brokerless sql`` on times in nanoseconds: all digits in one format, as ``cat --decode`` has them, and nothing that
rounds them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from tests.cli.conftest import Run
from tests.jobs.tables import avro
from tests.typed.logs import write_log

import brokerless

SECOND = 1_700_000_000
FRACTIONS = (0, 5_000, 5, 123_456_789, 999_999_999)
TEXTS = [f"2023-11-14T22:13:20.{fraction:09d}Z" for fraction in FRACTIONS]
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message E { google.protobuf.Timestamp moment = 1; }"""
FORMS = ("--json", "--csv", "table", ".jsonl", ".csv")


def schema_record(subject: str, number: int, kind: str, text: str) -> tuple[bytes, bytes]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    value = {"subject": subject, "version": 1, "id": number, "schemaType": kind, "schema": text, "deleted": False}
    return json.dumps(key).encode(), json.dumps(value).encode()


def event(nanos: int) -> bytes:
    moment = Timestamp(seconds=SECOND, nanos=nanos).SerializeToString()
    return b"\0\0\0\0\1\0" + bytes([0x0A, len(moment)]) + moment


def avro_type(logical: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical}


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics of Protobuf's timestamps in a message, and of Avro's times as whole values."""
    numbers = [SECOND * 10**9 + fraction for fraction in FRACTIONS]
    before_1970 = [-1, -1000, -1001]
    return write_log(
        tmp_path_factory.mktemp("times"),
        {
            "_schemas": [
                schema_record("events-value", 1, "PROTOBUF", PROTO),
                schema_record("moments-value", 2, "AVRO", json.dumps(avro_type("timestamp-nanos"))),
                schema_record("locals-value", 3, "AVRO", json.dumps(avro_type("local-timestamp-nanos"))),
                schema_record("micros-value", 4, "AVRO", json.dumps(avro_type("timestamp-micros"))),
            ],
            "events": [(b"k", event(fraction)) for fraction in FRACTIONS],
            "moments": [(b"k", avro({"type": "long"}, 2, each)) for each in (*numbers, *before_1970)],
            "locals": [(b"k", avro({"type": "long"}, 3, each)) for each in numbers],
            "micros": [(b"k", avro({"type": "long"}, 4, each // 1000)) for each in numbers],
        },
    )


def shown(run: Run, query: str, path: Path, form: str, tmp_path: Path) -> list[str]:
    """The one column of a result, as a form of output has it; JSON within a text is text again."""
    if form.startswith("."):
        target = tmp_path / f"result{form}"
        assert run("sql", query, path, "-o", target).exit_code == 0
        text = target.read_text()
    else:
        text = run("sql", query, path, *([form] if form != "table" else [])).out.decode()
    if form in ("--json", ".jsonl"):
        rows = [next(iter(json.loads(line).values())) for line in text.splitlines()]
        return [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in rows]
    if form == "table":
        return [line.strip() for line in text.splitlines()[1:]]
    return [row[0] for row in csv.reader(io.StringIO(text))][1:]


@pytest.mark.parametrize("form", FORMS)
def test_a_column_has_all_digits_in_one_format_as_cat_prints_them(
    run: Run, times: Path, form: str, tmp_path: Path
) -> None:
    of_cat = [json.loads(line) for line in run("cat", times, "-t", "events", "--decode", "-f", "%s\n").lines]
    assert of_cat == [{"moment": text} for text in TEXTS]

    def result(query: str) -> list[str]:
        return shown(run, query, times, form, tmp_path)

    assert result('SELECT value.moment FROM events ORDER BY "offset"') == TEXTS
    wholes = [json.dumps(each, separators=(",", ":")) for each in of_cat]
    assert result('SELECT value FROM events ORDER BY "offset"') == wholes
    assert result('SELECT [value.moment] FROM events ORDER BY "offset"') == [f'["{each}"]' for each in TEXTS]
    assert result('SELECT value FROM moments ORDER BY "offset" LIMIT 5') == TEXTS
    local = [each.removesuffix("Z") for each in TEXTS]
    assert result('SELECT value FROM locals ORDER BY "offset"') == local
    assert result("SELECT max(value.moment) FROM events") == TEXTS[-1:]


def test_in_csv_and_tables_a_time_within_a_struct_is_as_one_by_itself(run: Run, times: Path, tmp_path: Path) -> None:
    for form in ("--csv", "table"):
        (itself,) = shown(run, 'SELECT value FROM micros WHERE "offset" = 1', times, form, tmp_path)
        (within,) = shown(run, 'SELECT {t: value} FROM micros WHERE "offset" = 1', times, form, tmp_path)
        assert json.loads(within) == {"t": itself} == {"t": "2023-11-14T22:13:20.000005Z"}


def test_json_has_milliseconds_with_all_digits_of_microseconds(run: Run, times: Path) -> None:
    found = run("sql", 'SELECT value FROM micros ORDER BY "offset"', times, "--json").json
    assert [row["value"] for row in found] == [
        1_700_000_000_000, 1_700_000_000_000.005, 1_700_000_000_000, 1_700_000_000_123.456, 1_700_000_000_999.999,
    ]  # fmt: skip
    late = "SELECT make_timestamptz(9999, 12, 31, 23, 59, 59.999999) AS t"  # no float has so many digits
    assert run("sql", late, times, "--json").json == [{"t": "9999-12-31T23:59:59.999999Z"}]


def test_date_trunc_and_micros_of_cut_and_never_round(times: Path) -> None:
    log = brokerless.open(times)

    def numbers(query: str) -> list[int]:
        return log.sql(f"SELECT epoch_us(t) AS us FROM ({query})").read_all()["us"].to_pylist()

    expected = [SECOND * 10**6 + fraction // 1000 for fraction in FRACTIONS]
    assert numbers('SELECT micros_of(value) AS t FROM moments ORDER BY "offset"') == [*expected, -1, -1, -2]
    assert numbers('SELECT micros_of(value) AS t FROM locals ORDER BY "offset"') == expected
    for topic in ("moments", "locals"):
        query = f"SELECT date_trunc('second', value) AS t FROM {topic} WHERE \"offset\" < 5"
        assert numbers(query) == [SECOND * 10**6] * 5
    hour = 'SELECT micros_of(value) - INTERVAL 1 HOUR AS t FROM moments WHERE "offset" = 4'
    assert numbers(hour) == [expected[-1] - 3_600_000_000]
    past = log.sql("SELECT count(*) AS n FROM moments WHERE micros_of(value) < now()").read_all()
    assert past["n"].to_pylist() == [8]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT value - INTERVAL 1 HOUR FROM moments",
        "SELECT now() - value FROM moments",
        "SELECT count(*) FROM moments WHERE value < now()",
        "SELECT date_trunc('hour', max(value)) FROM moments",
        "SELECT extract(hour FROM value.moment) FROM events",
        "SELECT time_bucket(INTERVAL 1 HOUR, value.moment) FROM events",
    ],
)
def test_what_duckdb_cannot_do_with_nanoseconds_is_refused_with_what_to_write(
    run: Run, times: Path, query: str
) -> None:
    refused = run("sql", query, times)
    assert refused.exit_code == 2
    assert "micros_of(time) cuts one to microseconds" in refused.err
    assert "Candidate functions" not in refused.err  # some forty, none of which fits
    column = next(name for name in ("value.moment", "max(value)", "value") if name in query)
    assert run("sql", query.replace(column, f"micros_of({column})"), times).exit_code == 0
