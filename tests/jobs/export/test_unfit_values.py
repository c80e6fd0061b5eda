"""A value that does not fit is null with its bytes beside it, in every target, and ends no run; never another value."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from tests.cli.conftest import Run, run  # noqa: F401
from tests.format.twin import write_batch, write_record
from tests.jobs.tables import FORMATS, READERS, avro, exported, log_of, table
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records

import brokerless
from brokerless.findings import Finding
from brokerless.table_formats.catalog import TableFormat
from brokerless.typed.protobuf.files import message_types
from brokerless.typed.registry import Schema
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
each_format = pytest.mark.parametrize("form", FORMATS)
DATE = {"type": "int", "logicalType": "date"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS = [{"name": "id", "type": "int"}, {"name": "day", "type": DATE}, {"name": "at", "type": MILLIS}]
TIMES = {"type": "record", "name": "Times", "fields": FIELDS}
LATE = {"id": 2, "day": (1 << 31) - 1, "at": (1 << 63) - 1}
ROWS = [
    {"id": 1, "day": 2_932_896, "at": 253_402_300_799_999},  # 9999-12-31
    LATE,
    {"id": 3, "day": -719_162, "at": -62_135_596_800_000},  # 0001-01-01
    {"id": 4, "day": 2_932_897, "at": 253_402_300_800_000},
    {"id": 5, "day": -719_163, "at": -62_135_596_800_001},
]
WANTED = [
    {"id": 1, "day": date(9999, 12, 31), "at": datetime(9999, 12, 31, 23, 59, 59, 999000, UTC)},
    {"id": 2, "day": None, "at": None},
    {"id": 3, "day": date(1, 1, 1), "at": datetime(1, 1, 1, tzinfo=UTC)},
    {"id": 4, "day": None, "at": None},
    {"id": 5, "day": None, "at": None},
]
REASON = "field day: a date outside of the years 1 to 9999 is left out"


def directory(to: Path, **files: Any) -> str:
    """Schemas by their ids."""
    to.mkdir(exist_ok=True)
    for name, schema in files.items():
        (to / f"{name[1:]}.avsc").write_text(json.dumps(schema))
    return str(to)


@pytest.fixture
def times(tmp_path: Path) -> tuple[Path, list[bytes], Decoding]:
    plain = {**TIMES, "fields": [{"name": n, "type": t} for n, t in (("id", "int"), ("day", "int"), ("at", "long"))]}
    values = [avro(plain, 1, row) for row in ROWS]
    return log_of(tmp_path / "logs" / "t-0", values), values, Decoding(directory(tmp_path / "schemas", _1=TIMES))


@each_format
def test_times_of_no_year_in_tables(
    form: TableFormat, times: tuple[Path, list[bytes], Decoding], tmp_path: Path
) -> None:
    source, values, decoding = times
    findings: list[Finding] = []
    exported(source, tmp_path / "out", form, findings, decoding=decoding)
    assert [(each.severity, each.kind, each.offset) for each in findings] == [("warning", "value-not-decoded", 1)]
    assert REASON in findings[0].message
    for read in READERS:
        rows = read(tmp_path / "out", "t", form)
        assert [row["value"] for row in rows] == WANTED
        assert [row["valueRaw"] for row in rows] == [None, values[1], None, *values[3:]]
        assert [row["valueError"] for row in rows] == [None, REASON, None, REASON, REASON]


def test_times_of_no_year_in_files_queries_and_text(
    run: Run,  # noqa: F811
    times: tuple[Path, list[bytes], Decoding],
    tmp_path: Path,
) -> None:
    source, values, decoding = times
    partition = brokerless.open(str(source.parent)).partition("t", 0)
    findings: list[Finding] = []
    arrow = partition.records(["value", "valueRaw"], decode=decoding, on_damage=findings.append).read_all()
    assert arrow.to_pylist()[3] == {"value": WANTED[3], "valueRaw": values[3]}
    assert [each.offset for each in findings] == [1]
    log = brokerless.open(str(source.parent))
    log.export(str(tmp_path / "files"), decode=decoding, on_damage=findings.append)
    files = ds.dataset(str(tmp_path / "files"), format="parquet").to_table(columns=["value", "valueRaw"])
    assert files["value"].to_pylist() == WANTED
    found = log.sql('SELECT value.at AS at, value.day AS day FROM t ORDER BY "offset"', schemas=decoding.schemas)
    assert found.read_all().to_pylist() == [{"at": each["at"], "day": each["day"]} for each in WANTED]
    done = run("cat", source.parent, "--decode", "--schemas", decoding.schemas, "-f", "%s\\n")
    assert json.loads(done.lines[0]) == {"id": 1, "day": "9999-12-31", "at": "9999-12-31T23:59:59.999Z"}
    assert json.loads(done.lines[1]) == {"id": 2, "day": None, "at": None}
    assert REASON in done.err
    assert done.exit_code == 0


@pytest.mark.parametrize("form", ["iceberg", "delta", "parquet"])
def test_a_pipeline_goes_on_with_the_other_topics(
    form: Any, times: tuple[Path, list[bytes], Decoding], tmp_path: Path
) -> None:
    source, _, decoding = times
    log_of(source.parent / "zz-0", [b'{"a":{}}'])
    done = brokerless.pipeline([source.parent], str(tmp_path / "to"), as_=form, decode=decoding, report=False)
    assert {(each.topic, each.records) for each in done.exported} == {("t", 5), ("zz", 1)}


def test_what_has_no_fields_is_text_in_files(tmp_path: Path) -> None:
    empty = {"type": "record", "name": "E", "fields": []}
    types = {"id": "int", "e": empty, "l": {"type": "array", "items": "E"}}
    fields = [{"name": name, "type": each} for name, each in types.items()]
    schema = {"type": "record", "name": "T", "fields": fields}
    log_of(tmp_path / "logs" / "avro-0", [avro(schema, 1, {"id": 1, "e": {}, "l": [{}, {}]})])
    log_of(tmp_path / "logs" / "json-0", [b'{"id":1,"meta":{}}', b'{"id":2,"meta":{}}'])
    log_of(tmp_path / "logs" / "whole-0", [b"{}", b"{}"])
    decoding = Decoding(directory(tmp_path / "schemas", _1=schema))
    log = brokerless.open(str(tmp_path / "logs"))
    log.export(str(tmp_path / "files"), decode=decoding)
    wanted = {
        "avro": [{"id": 1, "e": "{}", "l": ["{}", "{}"]}],
        "json": [{"id": 1, "meta": "{}"}, {"id": 2, "meta": "{}"}],
        "whole": ["{}", "{}"],
    }
    for topic, values in wanted.items():
        (file,) = (tmp_path / "files" / f"topic={topic}").glob("*.parquet")
        assert pq.ParquetFile(file).read(["value"])["value"].to_pylist() == values
        assert duckdb.sql(f"SELECT value FROM '{file}'").to_arrow_table()["value"].to_pylist() == values
    from brokerless.sql.files import write_result

    write_result(log.sql("FROM avro", schemas=decoding.schemas), tmp_path / "q.parquet")
    assert pq.read_table(tmp_path / "q.parquet")["value"].to_pylist() == wanted["avro"]


def test_json_that_its_schema_leaves_open_keeps_the_fields_that_it_lists(tmp_path: Path) -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#", "title": "T", "type": "object",
        "properties": {
            "id": {"type": "integer"}, "in": {"type": "object", "properties": {"a": {"type": "string"}}},
            "n": {"type": "number"},
        },
    }  # fmt: skip
    registry, context = client(), SerializationContext("t", MessageField.VALUE)
    values: list[Any] = [
        {"id": 1, "in": {"a": "x"}}, {"id": 2, "extra": [1]}, {"id": 3, "in": {"a": "y", "b": 1}}, {"id": 4.0, "n": 5},
        {"id": 5, "n": (1 << 53) + 1}, {"id": 6, "n": 1 << 60},
    ]  # fmt: skip
    write = JSONSerializer(json.dumps(schema), registry)
    data = [write(each, context) for each in values]
    data[3] = data[3][:5] + b'{"id": 4.0, "n": 5}'  # type: ignore[index]
    log = write_log(tmp_path / "log", {"_schemas": registry_records(registry), "t": [(b"k", each) for each in data]})
    own = brokerless.open(log).partition("t", 0).records(decode=True, on_damage=lambda _: None).read_all().to_pylist()
    read = JSONDeserializer(None, schema_registry_client=registry)
    nothing: dict[str, Any] = {"id": None, "in": None, "n": None}
    theirs = [{name: value for name, value in read(each, context).items() if name != "extra"} for each in data]
    theirs[2]["in"].pop("b")
    assert [row["value"] for row in own] == [*(nothing | each for each in theirs[:4]), None, nothing | theirs[5]]
    assert [row["valueRaw"] for row in own] == [None, data[1], data[2], None, data[4], None]
    assert [row["valueError"] for row in own] == [
        None, "field extra: it has no column, and is left out", "field in.b: it has no column, and is left out", None,
        "field n: a whole number does not fit into double", None,
    ]  # fmt: skip


def test_plain_json_beyond_the_digits_of_a_double(tmp_path: Path) -> None:
    numbers = ["0.5", "9007199254740993", "9007199254740992", "[1]", "-9007199254740993", "12345678901234567890"]
    values = [f'{{"n": {each}}}'.encode() for each in numbers]
    found = (
        brokerless.open(log_of(tmp_path / "t-0", values))
        .partition("t", 0)
        .records(decode=Decoding(value_format="json"), on_damage=lambda _: None)
    )
    # A list beside numbers makes all of them text; without it, they are doubles.
    assert [row["value"]["n"] for row in found.read_all().to_pylist()] == numbers
    del values[3], values[-1]
    source = log_of(tmp_path / "u-0", values)
    rows = (
        brokerless.open(source).partition("u", 0).records(decode=True, on_damage=lambda _: None).read_all().to_pylist()
    )
    assert [row["value"] for row in rows] == [{"n": 0.5}, None, {"n": 9007199254740992.0}, None]
    assert [row["valueRaw"] for row in rows] == [None, values[1], None, values[3]]


def test_longs_that_a_double_does_not_hold(tmp_path: Path) -> None:
    one, two = ({"type": "record", "name": "T", "fields": [{"name": "n", "type": each}]} for each in ("long", "double"))
    numbers = [0, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, (1 << 63) - 1, -(1 << 63), 1 << 62]
    values = [avro(one, 1, {"n": each}) for each in numbers]
    values.append(avro(two, 2, {"n": 0.5}))
    own = brokerless.open(log_of(tmp_path / "t-0", values)).partition("t", 0)
    decoding = Decoding(directory(tmp_path / "schemas", _1=one, _2=two))
    rows = own.records(decode=decoding, on_damage=lambda _: None).read_all().to_pylist()
    wanted: list[Any] = [{"n": float(each)} if int(float(each)) == each else None for each in numbers]
    assert [row["value"] for row in rows] == [*wanted, {"n": 0.5}]
    assert wanted.count(None) == 3
    assert [row["valueRaw"] is None for row in rows] == [each is not None for each in [*wanted, 0]]


@each_format
def test_a_decimal_of_more_digits_after_the_point_fits_where_these_are_zeros(form: TableFormat, tmp_path: Path) -> None:
    def schema(precision: int, scale: int) -> dict[str, Any]:
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        return {"type": "record", "name": "T", "fields": [{"name": "d", "type": decimal}]}

    one, two = schema(6, 2), schema(10, 4)
    source, to = log_of(tmp_path / "t-0", [avro(one, 1, {"d": Decimal("9999.99")})]), tmp_path / "out"
    exported(source, to, form, decoding=Decoding(directory(tmp_path / "schemas", _1=one)))
    new = [Decimal("1.2300"), Decimal("1.2301"), Decimal("-9999.9900"), Decimal("10000.0000")]
    log_of(source, [avro(two, 2, {"d": each}) for each in new], first=1)
    exported(source, to, form, [], decoding=Decoding(directory(tmp_path / "schemas", _2=two)))
    values = [row["value"] and row["value"]["d"] for row in table(to, "t", form)]
    assert values == [Decimal("9999.99"), Decimal("1.23"), None, Decimal("-9999.99"), None]


def test_all_38_digits_of_a_decimal(tmp_path: Path) -> None:
    """Where two schemas share no decimal, they are text, row by row; Python's own arithmetic has 28 digits."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3}
    schema = {"type": "record", "name": "T", "fields": [{"name": "d", "type": decimal}]}
    text = {"type": "record", "name": "T", "fields": [{"name": "d", "type": "string"}]}
    number = Decimal("12345678901234567890123456789012345.678")
    data = int(str(number).replace(".", "")).to_bytes(16, "big")
    plain = {"type": "record", "name": "T", "fields": [{"name": "d", "type": "bytes"}]}
    values = [avro(plain, 1, {"d": data}), avro(text, 2, {"d": "x"})]
    decoding = Decoding(directory(tmp_path / "schemas", _1=schema, _2=text))
    own = brokerless.open(log_of(tmp_path / "t-0", values)).partition("t", 0).records(decode=decoding).read_all()
    assert json.loads(own["value"].to_pylist()[0]["d"]) == str(number)


def test_extensions_of_protobuf_are_left_out_with_a_word(tmp_path: Path) -> None:
    proto = (
        'syntax = "proto2"; package p; message M { optional int32 id = 1; optional N n = 2; extensions 100 to 200; } '
        "message N { optional int32 a = 1; extensions 100 to 200; } extend M { optional string name = 100; } "
        "extend N { repeated int32 many = 101; }"
    )
    schema = Schema("t-value", 1, 1, "PROTOBUF", proto)
    make = message_types(schema).message_class((0,))
    texts = ['{"id": 1}', '{"id": 2, "[p.name]": "x"}', '{"id": 3, "n": {"a": 1, "[p.many]": [1, 2]}}']
    pool = make().DESCRIPTOR.file.pool
    messages = [json_format.Parse(each, make(), descriptor_pool=pool) for each in texts]
    values = [b"\0\0\0\0\1\0" + each.SerializeToString() for each in messages]
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1.proto").write_text(proto)
    own = brokerless.open(log_of(tmp_path / "t-0", values)).partition("t", 0)
    rows = own.records(decode=Decoding(str(tmp_path / "schemas")), on_damage=lambda _: None).read_all().to_pylist()
    assert [row["value"] for row in rows] == [{"id": 1, "n": None}, {"id": 2, "n": None}, {"id": 3, "n": {"a": 1}}]
    assert [row["valueRaw"] for row in rows] == [None, *values[1:]]
    assert [row["valueError"] for row in rows] == [
        None,
        "field [p.name]: it has no column, and is left out",
        "field n.[p.many]: it has no column, and is left out",
    ]


@each_format
def test_times_before_1970_are_cut_downwards(form: TableFormat, tmp_path: Path) -> None:
    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    schema = {"type": "record", "name": "T", "fields": [{"name": "at", "type": nanos}]}
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}
    values = [avro(plain, 1, {"at": each}) for each in (-1, -1000, -1001, 1)]
    source, to = log_of(tmp_path / "t-0", values), tmp_path / "out"
    exported(source, to, form, [], decoding=Decoding(directory(tmp_path / "schemas", _1=schema)))
    found = [row["value"]["at"] for row in table(to, "t", form)]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert [(each - epoch).total_seconds() * 1e6 for each in found] == [-1, -1, -2, 0]


def test_a_protobuf_time_in_text_is_its_json(tmp_path: Path) -> None:
    imports = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";'
    fields = "google.protobuf.Timestamp at = 1; google.protobuf.Duration d = 2;"
    one = f'syntax = "proto3"; {imports} message M {{ {fields} }}'
    two = 'syntax = "proto3"; message M { string at = 1; string d = 2; }'
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1.proto").write_text(one)
    (tmp_path / "schemas" / "2.proto").write_text(two)
    message = message_types(Schema("t-value", 1, 1, "PROTOBUF", one)).message_class((0,))()
    json_format.ParseDict({"at": "2020-01-01T00:00:00Z", "d": "7s"}, message)
    other = message_types(Schema("t-value", 1, 1, "PROTOBUF", two)).message_class((0,))(at="x", d="y")
    values = [b"\0\0\0\0\1\0" + message.SerializeToString(), b"\0\0\0\0\2\0" + other.SerializeToString()]
    own = brokerless.open(log_of(tmp_path / "t-0", values)).partition("t", 0)
    rows = own.records(decode=Decoding(str(tmp_path / "schemas"))).read_all()["value"].to_pylist()
    assert rows == [json_format.MessageToDict(message), {"at": "x", "d": "y"}]


def test_names_that_differ_by_case_are_text_in_files_as_in_tables(tmp_path: Path) -> None:
    values = [b'{"a": {"Id": 1, "id": 2}, "l": [{"x": 1, "X": "y"}]}', b'{"a": {"Id": 3, "id": 4}, "l": []}']
    log_of(tmp_path / "logs" / "t-0", values)
    brokerless.open(str(tmp_path / "logs")).export(str(tmp_path / "files"), decode=True)
    (file,) = (tmp_path / "files" / "topic=t").glob("*.parquet")
    wanted = [{"a": '{"Id":1,"id":2}', "l": ['{"x":1,"X":"y"}']}, {"a": '{"Id":3,"id":4}', "l": []}]
    assert pq.ParquetFile(file).read(["value"])["value"].to_pylist() == wanted
    assert duckdb.sql(f"SELECT value FROM '{file}'").to_arrow_table()["value"].to_pylist() == wanted


@each_format
def test_a_record_of_more_fields_than_a_table_has_columns_is_text_with_a_warning(
    form: TableFormat, tmp_path: Path
) -> None:
    wide = {f"c{number}": number for number in range(1001)}
    few = dict(list(wide.items())[:1000])
    logs, to = tmp_path / "logs", tmp_path / "out"
    log_of(logs / "wide-0", [json.dumps(wide).encode()])
    log_of(logs / "grows-0", [json.dumps(few).encode()])
    findings: list[Finding] = []
    exported(logs, to, form, findings, decoding=Decoding())
    assert [(each.severity, each.kind) for each in findings] == [("warning", "too-many-fields")]
    assert "value has 1,001 fields" in findings[0].message
    log_of(logs / "grows-0", [json.dumps(wide).encode()], first=1)
    exported(logs / "grows-0", to, form, findings := list[Finding](), decoding=Decoding())
    assert sorted(each.kind for each in findings) == ["too-many-fields", "value-not-decoded"]
    ((text,), (old, new)) = ([row["value"] for row in table(to, name, form)] for name in ("wide", "grows"))
    assert json.loads(text) == wide
    assert (old, new) == (few, few)
    row = table(to, "grows", form)[1]
    assert json.loads(row["valueRaw"]) == wide
    assert row["valueError"] == "field c1000: it has no column, and is left out"


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_times_that_a_load_refuses_are_reported(form: Any, tmp_path: Path) -> None:
    times = [5, -2, -1, -1_000_000, 0]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(
        b"".join(
            write_batch(write_record(b"k", b"v"), base_offset=offset, base_timestamp=time, max_timestamp=time)
            for offset, time in enumerate(times)
        )
    )
    found: list[Finding] = []
    (exported,) = brokerless.open(tmp_path / "t-0").export(tmp_path / "out", as_=form, on_damage=found.append)
    assert exported.records == len(times)
    ((kind, severity, offset, message),) = [(each.kind, each.severity, each.offset, each.message) for each in found]
    assert (kind, severity, offset) == ("timestamp-before-1970", "warning", 1)
    assert message.startswith("2 records have timestamps before 1970: load refuses them")
