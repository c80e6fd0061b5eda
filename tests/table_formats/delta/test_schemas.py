"""A schema that is committed can be read: types at any depth, in new tables and in those that evolve."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.jobs.tables import FORMATS, avro, by_duckdb, delta, exported, iceberg, log_of, table

from brokerless.findings import Finding
from brokerless.log.storage.location import Location
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.delta import schemas
from brokerless.table_formats.export_state import ExportState, RefusedTopicError
from brokerless.table_formats.rows import DATE, table_schema
from brokerless.table_formats.store import open_store
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
each_format = pytest.mark.parametrize("form", FORMATS)
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
AT = datetime(1970, 1, 1, 0, 0, 0, 1)
MAP = {"type": "map", "values": LOCAL}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": MAP}]}
PLACES: dict[str, tuple[Any, Any, Any]] = {
    "itself": (LOCAL, 1, AT),
    "a list": ({"type": "array", "items": LOCAL}, [1], [AT]),
    "a map": (MAP, {"x": 1}, [("x", AT)]),
    "a list of maps": ({"type": "array", "items": MAP}, [{"x": 1}], [[("x", AT)]]),
    "a map of records of maps": (
        {"type": "map", "values": INNER}, {"y": {"at": {"x": 1}}}, [("y", {"at": [("x", AT)]})],
    ),
}  # fmt: skip
V1 = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}


class Topic:
    """A topic of which each run exports one record more, with a schema of its own."""

    def __init__(self, root: Path, form: TableFormat) -> None:
        self.root, self.count = root, 0
        self.form: TableFormat = form
        (root / "schemas").mkdir()

    def export(self, schema: Any, value: Any) -> None:
        self.count += 1
        (self.root / "schemas" / f"{self.count}.avsc").write_text(json.dumps(schema))
        plain = json.loads(json.dumps(schema).replace(json.dumps(LOCAL), '"long"'))
        log_of(self.root / "logs" / "t-0", [avro(plain, self.count, value)], first=self.count - 1)
        found: list[Finding] = []
        decoding = Decoding(str(self.root / "schemas"))
        exported(self.root / "logs", self.root / "to", self.form, found, decoding=decoding)
        assert not found

    def values(self) -> list[Any]:
        found = table(self.root / "to", "t", self.form)
        assert [row["value"] for row in by_duckdb(self.root / "to", "t", self.form)][-1] is not None
        return [row["value"] for row in found]


@each_format
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("is_new", [True, False], ids=["a new table", "a table that evolves"])
def test_local_times_at_any_depth_can_be_read(form: TableFormat, place: str, is_new: bool, tmp_path: Path) -> None:
    type_, value, expected = PLACES[place]
    topic = Topic(tmp_path, form)
    if not is_new:
        topic.export(V1, {"id": 1})
    fields = [*V1["fields"], {"name": "at", "type": type_}]
    topic.export({"type": "record", "name": "R", "fields": fields}, {"id": 2, "at": value})
    assert topic.values()[-1] == {"id": 2, "at": expected}
    assert [row["id"] for row in topic.values()] == ([2] if is_new else [1, 2])


@each_format
def test_values_that_are_maps_of_local_times_themselves_can_be_read(form: TableFormat, tmp_path: Path) -> None:
    topic = Topic(tmp_path, form)
    topic.export(MAP, {"x": 1})
    assert topic.values() == [[("x", AT)]]


def test_a_run_goes_on_with_a_table_that_a_killed_one_made_without_its_columns(tmp_path: Path) -> None:
    value = pa.map_(pa.string(), pa.timestamp("us"))
    schema = pa.schema([("key", pa.string()), ("value", value), (DATE, pa.date32())])
    schemas.make_table(str(tmp_path / "to" / "t"), schema, "t", {})
    assert [each.name for each in delta(tmp_path / "to", "t").schema().fields] == ["key", DATE]
    topic = Topic(tmp_path, "delta")
    topic.export(MAP, {"x": 1})
    assert topic.values() == [[("x", AT)]]


@pytest.mark.parametrize(
    ("settings", "feature"),
    [({"delta.enableChangeDataFeed": "true"}, "changeDataFeed"), ({"delta.appendOnly": "true"}, "appendOnly")],
)
def test_what_an_older_protocol_implies_is_named_in_the_newer_one(
    settings: dict[str, str], feature: str, tmp_path: Path
) -> None:
    topic = Topic(tmp_path, "delta")
    topic.export(V1, {"id": 1})
    delta(tmp_path / "to", "t").alter.set_table_properties(settings)
    assert delta(tmp_path / "to", "t").protocol().min_writer_version < 7
    topic.export({**V1, "fields": [*V1["fields"], {"name": "at", "type": MAP}]}, {"id": 2, "at": {"x": 1}})
    features = delta(tmp_path / "to", "t").protocol().writer_features
    assert set(features or []) == {feature, "timestampNtz"}


def decoded(value: pa.DataType) -> pa.Schema:
    own = [("key", pa.string()), ("value", value)]
    return pa.schema([*own, ("keyRaw", pa.binary()), ("keyError", pa.string()), ("valueRaw", pa.binary()),
                      ("valueError", pa.string())])  # fmt: skip


def version(to: Path, form: TableFormat) -> Any:
    """What is another after each commit; None where there is no table."""
    if form == "delta":
        return delta(to, "t").version() if DeltaTable.is_deltatable(str(to / "t")) else None
    return iceberg(to, "t").metadata_location if (to / "catalog.db").exists() else None


@each_format
@pytest.mark.parametrize("is_new", [True, False], ids=["a new table", "a table that evolves"])
def test_a_type_that_readers_do_not_have_is_refused_with_the_fields_name_before_anything_is_committed(
    form: TableFormat, is_new: bool, tmp_path: Path
) -> None:
    def schema(*fields: Any) -> pa.Schema:
        return table_schema(decoded(pa.struct([("id", pa.int32()), *fields])), form)

    store, state = open_store(form, Location(str(tmp_path))), ExportState("t", None, True, "read_uncommitted")
    if not is_new:
        store.prepare(state, schema())
    before = version(tmp_path, form)
    inner = pa.struct([("fits", pa.int32()), ("large", pa.decimal256(60, 3))])
    with pytest.raises(RefusedTopicError, match=r"field value\.lines\[\]\.large \(decimal256\(60, 3\)\)") as found:
        store.prepare(state, schema(("lines", pa.list_(inner))))
    assert "the table is unchanged" in str(found.value)
    assert "<unknown>" not in str(found.value)  # deltalake's own calls
    assert version(tmp_path, form) == before
