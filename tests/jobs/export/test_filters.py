"""Filters find what is in the rows, whatever statistics files and tables have: by each column, operator and reader."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.expressions import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
)
from tests.examples import some_quick
from tests.jobs.filtered import KINDS, filtered_log, keys, literals, rows
from tests.jobs.tables import FORMATS, avro, delta, exported, iceberg, log_of

import brokerless
from brokerless.sql.files import write_result
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.delta.tables import BOUNDED
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
IS_NULL: Any = IsNull
NOT_NULL: Any = NotNull
OPERATORS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "=": (operator.eq, EqualTo), "!=": (operator.ne, NotEqualTo), "<": (operator.lt, LessThan),
    "<=": (operator.le, LessThanOrEqual), ">": (operator.gt, GreaterThan), ">=": (operator.ge, GreaterThanOrEqual),
}  # fmt: skip
each_kind = pytest.mark.parametrize("kind", some_quick([*KINDS], len(KINDS), "hundreds of queries"))


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def columns(kind: str) -> dict[tuple[str, ...], list[Any]]:
    """Columns by their paths, and the values to compare them with. All but the key are the same with each kind."""
    if kind != "double":
        return {("key",): literals(keys(kind))}
    own = {("value", name): literals([row[name] for row in rows()]) for name in ("d", "f", "s", "n", "e")}
    return {("key",): literals(keys(kind)), ("kafka", "offset"): [0, 7, 15], ("valueError",): ["x"], **own}


def memory_counts(own: duckdb.DuckDBPyConnection, conditions: list[tuple[str, Any]]) -> list[int]:
    """How many rows of DuckDB's table ``memory`` fulfil each condition and its value: by one query, as nothing is
    passed over there."""
    counts = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition, _ in conditions)
    found = own.execute(f"SELECT {counts} FROM memory", [value for _, value in conditions]).fetchone()
    assert found is not None
    return list(found)


def frame_counts(frame: pl.DataFrame, conditions: list[pl.Expr]) -> list[int]:
    """The same of a frame of Polars."""
    return list(frame.select(each.sum().alias(str(number)) for number, each in enumerate(conditions)).row(0))


def check(kind: str, data: pa.Table, dataset: Any) -> None:
    """Each reader's answer from files against its own answer from the rows in memory."""
    own = duckdb.connect(config={"threads": 1})
    own.register("files", dataset)
    own.register("memory", data)
    frame, scan = pl.from_arrow(data), pl.scan_pyarrow_dataset(dataset)
    assert isinstance(frame, pl.DataFrame)
    for path, values in columns(kind).items():
        field, name = pc.field(*path), ".".join(f'"{each}"' for each in path)
        queries = [(~field.is_null(), f"{name} IS NOT NULL", None), (field.is_null(), f"{name} IS NULL", None)]
        for text, (compare, _) in OPERATORS.items():
            queries += [(compare(field, each), f"{name} {text} ?", each) for each in values]
        for expression, condition, value in queries:
            wanted = data.filter(expression).num_rows
            found = dataset.to_table(columns=[path[0]], filter=expression, use_threads=False)
            assert found.num_rows == wanted, condition
            parameters = [] if value is None else [value]
            counts = [
                own.execute(f"SELECT count(*) FROM {table} WHERE {condition}", parameters).fetchone()
                for table in ("files", "memory")
            ]
            assert counts[0] == counts[1], (condition, value)
        column = pl.col(path[0]) if len(path) == 1 else pl.col(path[0]).struct.field(path[1])
        compared = [(compare, each) for compare, _ in OPERATORS.values() for each in values[:4]]
        conditions = [column.is_null(), column.is_not_null(), *(compare(column, each) for compare, each in compared)]
        heights = frame_counts(frame, conditions)
        for condition, height in zip(conditions[:2], heights[:2], strict=True):
            assert scan.filter(condition).collect().height == height, str(condition)
        for (compare, each), condition, height in zip(compared, conditions[2:], heights[2:], strict=True):
            # Polars may ask Arrow, for which NaN is not above all numbers.
            wanted = {height, data.filter(compare(field, each)).num_rows}
            assert scan.filter(condition).collect().height in wanted, (path, str(compare), each)


def files_of(to: Path, form: str) -> list[str]:
    if form == "parquet":
        return [str(each) for each in sorted((to / "topic=t").rglob("*.parquet"))]
    if form == "delta":
        return delta(to, "t").file_uris()
    return [each.file.file_path.removeprefix("file://") for each in iceberg(to, "t").scan().plan_files()]


def check_files(kind: str, data: pa.Table, files: list[str]) -> None:
    """Of files alone, by DuckDB, which passes over row groups, and Polars' own reader."""
    own = duckdb.connect(config={"threads": 1})
    own.register("data", data)
    own.execute("CREATE TABLE memory AS FROM data")  # of Arrow's own, DuckDB 1.4.0 takes null for at most NaN
    source = f"read_parquet({files}, hive_partitioning=false)"
    frame = pl.from_arrow(data)
    assert isinstance(frame, pl.DataFrame)
    for path, values in columns(kind).items():
        own_path = path if path[0] in data.schema.names else path[1:]
        name = ".".join(f'"{each}"' for each in own_path)
        column = pl.col(own_path[0])
        column = column.struct.field(own_path[1]) if len(own_path) == 2 else column
        queries = [(f"{name} {text} ?", each) for text in OPERATORS for each in values]
        conditions = [compare(column, each) for compare, _ in OPERATORS.values() for each in values]
        for (query, value), count in zip(queries, memory_counts(own, queries), strict=True):
            found = own.execute(f"SELECT count(*) FROM {source} WHERE {query}", [value]).fetchone()
            assert found == (count,), (query, value)
        for condition, height in zip(conditions, frame_counts(frame, conditions), strict=True):
            scan = pl.scan_parquet(files, hive_partitioning=False, missing_columns="insert")
            assert scan.filter(condition).collect().height == height, str(condition)


@each_kind
def test_delta_answers_every_filter(kind: str, tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, kind)
    exported(source, tmp_path / "out", "delta", decoding=decoding)
    own = delta(tmp_path / "out", "t")
    data = pa.table(own.to_pyarrow_table())
    assert data.num_rows == len(rows())
    check(kind, data, own.to_pyarrow_dataset())
    check_files(kind, data.drop_columns("date"), files_of(tmp_path / "out", "delta"))


@each_kind
def test_iceberg_answers_every_filter(kind: str, tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, kind)
    exported(source, tmp_path / "out", "iceberg", decoding=decoding)
    own = iceberg(tmp_path / "out", "t")
    data = own.scan().to_arrow()
    assert data.num_rows == len(rows())
    for path, values in columns(kind).items():
        name, field = ".".join(path), pc.field(*path)
        queries = [(IS_NULL(name), field.is_null()), (NOT_NULL(name), ~field.is_null())]
        for compare, expression in OPERATORS.values():
            known = [each for each in values if not is_nan(each)]
            if name == "value.f":  # pyiceberg takes infinity for more than a float can be
                known = [each for each in known if not math.isinf(each)]
            queries += [(expression(name, each), compare(field, each)) for each in known]
        for query, condition in queries:
            wanted = sorted(data.filter(condition)["kafka"].to_pylist(), key=lambda each: each["offset"])
            planned = [task.file.file_path for task in own.scan(row_filter=query).plan_files()]
            found = ds.dataset([each.removeprefix("file://") for each in planned]) if planned else None
            rows_of = None if found is None else found.to_table(["kafka"], filter=condition, use_threads=False)
            there = [] if rows_of is None else rows_of["kafka"].to_pylist()
            assert [each["offset"] for each in wanted] == sorted(each["offset"] for each in there), str(query)
            if len(path) == 1:
                assert own.scan(row_filter=query).to_arrow().num_rows == len(wanted), str(query)
    check_files(kind, data, files_of(tmp_path / "out", "iceberg"))


@each_kind
def test_parquet_answers_every_filter(kind: str, tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, kind)
    brokerless.open(str(source)).export(str(tmp_path / "out"), decode=decoding, by_date=True)
    files = files_of(tmp_path / "out", "parquet")
    check_files(kind, pa.concat_tables([pq.ParquetFile(each).read() for each in files]), files)


def test_sql_writes_files_that_answer_every_filter(tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, "double")
    log = brokerless.open(str(source.parent))
    query = 'SELECT value, valueError, key, struct_pack("offset" := "offset") AS kafka FROM t'
    write_result(log.sql(query, schemas=decoding.schemas), tmp_path / "q.parquet")
    check_files("double", pq.ParquetFile(tmp_path / "q.parquet").read(), [str(tmp_path / "q.parquet")])


def test_columns_without_a_nan_keep_their_bounds(tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, "string")
    exported(source, tmp_path / "out", "delta", decoding=decoding)
    bounded: dict[str, set[bool]] = {}
    for path in files_of(tmp_path / "out", "delta"):
        group = pq.read_metadata(path).row_group(0)
        for column in map(group.column, range(group.num_columns)):
            bounded.setdefault(column.path_in_schema, set()).add(column.statistics is not None)
    assert bounded["value.e"] == bounded["value.n"] == bounded["kafka.offset"] == {True}
    assert bounded["value.d"] == bounded["value.l.list.element"] == {False, True} or bounded["value.d"] == {False}


def test_a_nan_in_a_later_row_group_begins_another_file(tmp_path: Path) -> None:
    schema = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "d", "type": "double"}, {"name": "s", "type": "string"}],
    }
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1.avsc").write_text(str(schema).replace("'", '"'))
    numbers = [1.0, 2.0, float("nan"), 4.0]
    values = [avro(schema, 1, {"d": each, "s": "x" * 40_000}) for each in numbers]
    source = log_of(tmp_path / "logs" / "t-0", values)
    brokerless.open(str(source)).export(
        str(tmp_path / "out"), decode=Decoding(str(tmp_path / "schemas")), file_bytes=500_000
    )
    files = files_of(tmp_path / "out", "parquet")
    assert len(files) == 2
    own = [pq.ParquetFile(each) for each in files]
    assert [each["d"] for file in own for each in file.read()["value"].to_pylist()][:2] == [1.0, 2.0]
    paths = [[file.schema.column(number).path for number in range(len(file.schema.names))] for file in own]
    at = [each.index("value.d") for each in paths]
    assert own[0].metadata.row_group(0).column(at[0]).statistics.max == 2.0
    assert own[1].metadata.row_group(0).column(at[1]).statistics is None


@pytest.mark.slow(reason="hundreds of queries")
@pytest.mark.parametrize("form", FORMATS)
def test_merged_files_answer_every_filter(form: TableFormat, tmp_path: Path) -> None:
    kind = "double"
    source, decoding = filtered_log(tmp_path, kind)
    data = (source / "00000000000000000000.log").read_bytes()
    to = str(tmp_path / "to")
    for copy in range(4):  # four files of each day, which one run merges
        name = f"t-{copy}"
        partition = source.parent / name
        partition.mkdir(exist_ok=True)
        (partition / "00000000000000000000.log").write_bytes(data)
        (partition / "partition.metadata").write_text((source / "partition.metadata").read_text())
        brokerless.pipeline([source.parent], to, as_=form, decode=decoding, report=False)
    files = files_of(tmp_path / "to", form)
    assert len(files) < 4 * 4
    if form == "delta":
        own = DeltaTable(f"{to}/t")
        check(kind, pa.table(own.to_pyarrow_table()), own.to_pyarrow_dataset())
        memory = pa.table(own.to_pyarrow_table()).drop_columns("date")
    else:
        memory = iceberg(tmp_path / "to", "t").scan().to_arrow()
    assert memory.num_rows == 4 * len(rows())
    check_files(kind, memory, files)


def test_deltas_tables_in_which_somebody_names_other_columns_are_healed_by_the_next_records(tmp_path: Path) -> None:
    source, decoding = filtered_log(tmp_path, "string")
    log, to = source / "00000000000000000000.log", tmp_path / "to"
    whole = log.read_bytes()
    first = brokerless.open(log).batches(["position", "sizeInBytes"]).read_all().to_pylist()[0]
    log.write_bytes(whole[: first["position"] + first["sizeInBytes"]])
    exported(source, to, "delta", decoding=decoding)
    delta(to, "t").alter.set_table_properties({BOUNDED: "kafka.offset,key"}, raise_if_not_exists=False)
    log.write_bytes(whole)
    exported(source, to, "delta", decoding=decoding)
    dataset = delta(to, "t").to_pyarrow_dataset()
    assert dataset.to_table(filter=pc.field("key") == "~").num_rows == 1
    version = delta(to, "t").version()
    exported(source, to, "delta", decoding=decoding)
    assert delta(to, "t").version() == version
