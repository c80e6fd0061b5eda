"""A log's tables as Arrow datasets: DuckDB, Polars, pandas and Arrow get the rows that the methods of ``Log`` have, and
of a narrow range less than a twentieth of the bytes is read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import brokerless
from brokerless import DamageError, Finding, UsageError
from brokerless.dataset.table_dataset import TableDataset
from brokerless.dataset.tables import SCHEMAS, TABLES, TOPICS
from brokerless.format.read.one_pass import OnePass, Passed
from brokerless.log.config import LogConfig
from brokerless.log.storage import files
from tests.examples import some_quick
from tests.internals.written import batch, string, write_partition
from tests.once import made_once

DEMO = "demo/data"
ROWS = 120_000
START_MS = 1_760_000_000_000
offset, topic, partition, time = (ds.field(name) for name in ("offset", "topic", "partition", "timestamp"))
NARROW = 0.05


@pytest.fixture
def demo() -> brokerless.Log:
    return brokerless.open(DEMO)


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> brokerless.Log:
    """Two topics of two partitions, 120,000 records each, a second apart, in segments of 8 MB."""

    def batches() -> Iterator[pa.RecordBatch]:
        for topic, partition in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
            numbers = range(ROWS)
            yield pa.RecordBatch.from_pydict(
                {
                    "topic": pa.array([topic] * ROWS),
                    "partition": pa.array([partition] * ROWS, pa.int32()),
                    "timestamp": pa.array([START_MS + 1000 * n for n in numbers], pa.timestamp("ms", "UTC")),
                    "key": pa.array([f"key-{n % 5000}".encode() for n in numbers]),
                    "value": pa.array([f"{n:0200}".encode() for n in numbers]),
                }
            )

    def write(target: Path) -> None:
        brokerless.load(batches(), str(target), config=LogConfig(segment_bytes=8 << 20))

    return brokerless.open(made_once(tmp_path_factory.getbasetemp() / "long", write))


@dataclass
class Bytes:
    read: int = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Bytes:
    """Counts the bytes that are read of local files."""
    count, read, pass_ = Bytes(), files.LocalFile.read, OnePass.read

    def counting(self: files.LocalFile, *arguments: Any) -> Any:
        found = read(self, *arguments)
        count.read += len(found)
        return found

    def counting_pass(self: OnePass, *arguments: Any) -> Passed | None:
        found = pass_(self, *arguments)
        count.read += 0 if found is None else found.size
        return found

    monkeypatch.setattr(files.LocalFile, "read", counting)
    monkeypatch.setattr(OnePass, "read", counting_pass)
    return count


def size(log: brokerless.Log) -> int:
    return sum(each.paths[0].size for each in log.partitions)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def own(log: brokerless.Log, table: str) -> pa.Table:
    """A table by the method of its name."""
    found = getattr(log, table)()
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


@pytest.mark.parametrize("table", ["records", "batches", "segments", "transactions"])
def test_a_dataset_has_the_rows_of_the_method(demo: brokerless.Log, table: Any) -> None:
    dataset = demo.dataset(table)
    assert isinstance(dataset, ds.Dataset)
    assert dataset.schema == SCHEMAS[table]
    assert dataset.to_table() == own(demo, table)
    assert dataset.count_rows() == own(demo, table).num_rows


def test_internal_topics_and_findings(demo: brokerless.Log) -> None:
    from brokerless.internals.tables import state

    tables = state(demo.partitions, ["groups", "offsets"])
    assert {name: demo.dataset(name).to_table() for name in ("groups", "offsets")} == tables
    found = demo.dataset("findings").to_table(columns=["severity", "kind", "topic", "file"]).to_pylist()
    audit = demo.audit()
    wanted = audit.findings
    assert sorted((row["severity"], row["kind"], row["file"]) for row in found) == sorted(
        (each.severity, each.kind, each.file) for each in wanted
    )


@pytest.mark.parametrize("table", ["mirrorOffsetSyncs", "connectOffsets"])
def test_topics_of_connect_have_tables(tmp_path: Path, table: Any) -> None:
    from brokerless.internals.tables import state

    write_partition(tmp_path, "connect-offsets", batch(0, [(b'["files",{"file":"a"}]', b'{"position":1}')]))
    write_partition(tmp_path, "mm2-offset-syncs.w.internal", batch(0, [(string("orders") + bytes(4), bytes(16))]))
    log = brokerless.open(tmp_path)
    found = log.dataset(table).to_table()
    assert found == state(log.partitions, [table])[table]
    assert found.num_rows == 1
    (counted,) = log.sql(f"SELECT count(*) AS n, max(recordOffset) AS last FROM {table}").read_all().to_pylist()
    assert counted == {"n": 1, "last": 0}


def test_topics_are_sums_of_segments(demo: brokerless.Log) -> None:
    rows = demo.dataset("topics").to_table().to_pylist()
    segments = demo.segments().to_pylist()
    assert [row["topic"] for row in rows if row["isInternal"]] == [
        "__cluster_metadata", "__consumer_offsets", "__transaction_state",
    ]  # fmt: skip
    for row in rows:
        of_topic = [each for each in segments if each["topic"] == row["topic"]]
        assert row["partitions"] == len({each["partition"] for each in of_topic})
        assert row["segments"] == len(of_topic)
        for name in ("sizeInBytes", "records", "batches"):
            assert row[name] == sum(each[name] for each in of_topic)
        assert row["maxTimestamp"] == max(each["maxTimestamp"] for each in of_topic)


def test_topics_by_name_read_nothing(demo: brokerless.Log, counted: Bytes) -> None:
    assert demo.dataset("topics").to_table(columns=["topic", "sizeInBytes"]).num_rows == 6
    assert counted.read == 0
    assert demo.dataset("topics").to_table().schema == TOPICS
    assert counted.read > 0


def test_a_table_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"there is no table or topic 'rows'; .* tables are records, batches"):
        brokerless.open(DEMO).dataset("rows")


VALUE = brokerless.open(DEMO).partition("users", 0).records(["value"]).read_all()["value"][3].as_py()
FILTERS = [
    (offset >= 1000) & (offset <= 1009),
    offset.isin([3, 1100, 10**12]),
    (topic == "orders") & (partition == 1) & (offset < 20),
    ((topic == "orders") & (offset < 5)) | ((topic == "payments") & (offset > 1500)),
    time >= datetime(2026, 11, 20, tzinfo=UTC),
    (time >= datetime(2026, 11, 20, tzinfo=UTC)) & (time < datetime(2026, 11, 21, tzinfo=UTC)),
    ds.field("key") == b"o-101457",
    ds.field("key").isin([b"o-101457", b"p-100003", b"nobody"]),
    (ds.field("key") == b"o-101457") | (offset == 3),
    (ds.field("key") == b"o-101457") & (ds.field("key") == b"o-101458"),
    ds.field("key") == b"",
    (ds.field("value") == b"") | ds.field("value").is_null(),
    ds.field("value") == VALUE,
    (ds.field("value") == VALUE) & ds.field("key").is_valid() & (offset < 10_000),
    ds.field("value").is_null(),
    ~(offset > 3),
    ds.field("headers").is_valid() & (offset == 7),
]


@pytest.mark.parametrize("number", some_quick(range(len(FILTERS))))
@pytest.mark.parametrize("columns", [None, ["partition", "key"], [], {"next": offset + 1}])
def test_a_filter_selects_what_arrow_selects(demo: brokerless.Log, number: int, columns: Any) -> None:
    everything = ds.InMemoryDataset(demo.records().read_all())
    wanted = everything.to_table(columns=columns, filter=FILTERS[number])
    found = demo.dataset("records").to_table(columns=columns, filter=FILTERS[number])
    assert found.num_rows == wanted.num_rows
    assert found == wanted
    assert demo.dataset("records").count_rows(FILTERS[number]) == wanted.num_rows
    assert demo.dataset("records").filter(FILTERS[number]).to_table(columns=columns) == wanted


ARROW = {
    "offset": (offset >= 60_000) & (offset <= 60_999),
    "in": (offset.isin([100, 60_000, 119_999])) & (topic == "b"),
    "place": (topic == "a") & (partition == 1) & (offset < 1000),
    "or": ((topic == "a") & (offset < 500)) | ((topic == "b") & (offset >= 119_500)),
    "time": time >= datetime.fromtimestamp(START_MS / 1000 + 119_000, UTC),
}


def by_arrow(log: brokerless.Log, where: str) -> int:
    return log.dataset("records").to_table(columns=["offset"], filter=ARROW[where]).num_rows


SQL = {
    "offset": '"offset" BETWEEN 60000 AND 60999',
    "in": "\"offset\" IN (100, 60000, 119999) AND topic = 'b'",
    "place": "topic = 'a' AND partition = 1 AND \"offset\" < 1000",
    "or": "(topic = 'a' AND \"offset\" < 500) OR (topic = 'b' AND \"offset\" >= 119500)",
    "time": f"timestamp >= to_timestamp({START_MS // 1000 + 119_000})",
}


def by_duckdb(log: brokerless.Log, where: str) -> int:
    connection = duckdb.connect()
    connection.register("records", log.dataset("records"))
    row = connection.execute(f'SELECT count("offset") FROM records WHERE {SQL[where]}').fetchone()
    assert row is not None
    return row[0]


def by_polars(log: brokerless.Log, where: str) -> int:
    at, name, number = (pl.col(each) for each in ("offset", "topic", "partition"))
    filters = {
        "offset": at.is_between(60_000, 60_999),
        "in": at.is_in([100, 60_000, 119_999]) & (name == "b"),
        "place": (name == "a") & (number == 1) & (at < 1000),
        "or": ((name == "a") & (at < 500)) | ((name == "b") & (at >= 119_500)),
        "time": pl.col("timestamp") >= datetime.fromtimestamp(START_MS / 1000 + 119_000, UTC),
    }
    frame = pl.scan_pyarrow_dataset(log.dataset("records")).filter(filters[where])
    return frame.select("offset").collect().height


def by_pandas(log: brokerless.Log, where: str) -> int:
    return len(log.dataset("records").filter(ARROW[where]).to_table(columns=["offset"]).to_pandas())


WANTED = {"offset": 4000, "in": 6, "place": 1000, "or": 2000, "time": 4000}


@pytest.mark.parametrize("engine", [by_arrow, by_duckdb, by_polars, by_pandas])
@pytest.mark.parametrize("where", WANTED)
def test_a_narrow_range_reads_a_twentieth(
    long_log: brokerless.Log, counted: Bytes, engine: Callable[[brokerless.Log, str], int], where: str
) -> None:
    assert len(long_log.partition("a", 0).paths[0].segments) > 3
    counted.read = 0
    assert engine(long_log, where) == WANTED[where]
    passes_it_on = where != "or" or engine is not by_duckdb or not duckdb.__version__.startswith("1.")
    assert 0 < counted.read < (NARROW if passes_it_on else 1.1) * size(long_log)


def test_all_is_read_once(long_log: brokerless.Log, counted: Bytes) -> None:
    assert long_log.dataset("records").count_rows() == 4 * ROWS
    assert size(long_log) <= counted.read < 1.1 * size(long_log)


def test_partitions_are_read_at_the_same_time_and_each_in_order(long_log: brokerless.Log) -> None:
    found = long_log.dataset("records").to_table(columns=["topic", "partition", "offset"])
    assert found.num_rows == 4 * ROWS
    for name, number in (("a", 0), ("b", 1)):
        rows = found.filter((topic == name) & (partition == number))
        assert rows["offset"].to_pylist() == list(range(ROWS))


def test_damage_is_raised_or_reported_once(tmp_path: Path) -> None:
    source = Path(DEMO) / "orders-0" / "00000000000000000656.log"
    data = bytearray(source.read_bytes())
    data[10_000] ^= 1
    (tmp_path / source.name).write_bytes(data)
    log = brokerless.open(tmp_path / source.name)
    with pytest.raises(DamageError, match="checksum"):
        log.dataset("records").to_table()
    found: list[Finding] = []
    dataset = log.dataset("records", on_damage=found.append)
    wanted: list[Finding] = []
    intact = log.records(on_damage=wanted.append).read_all()
    assert dataset.to_table() == intact
    assert found == wanted
    found.clear()
    # In ranges before and after it, of which both come by.
    assert dataset.to_table(filter=offset.isin([656, intact["offset"][-1].as_py()])).num_rows == 2
    assert len(found) <= len(wanted)


def test_what_arrow_would_read_by_itself_fails(demo: brokerless.Log) -> None:
    dataset = demo.dataset("records")
    with pytest.raises(FileNotFoundError, match="is read by the methods of its dataset"):
        ds.UnionDataset(dataset.schema, [dataset]).to_table()
    with pytest.raises(UsageError, match="has no fragments"):
        dataset.get_fragments()
    with pytest.raises(UsageError, match="is fixed"):
        dataset.replace_schema(dataset.schema)


def test_other_methods_of_a_dataset(demo: brokerless.Log) -> None:
    dataset = demo.dataset("segments")
    whole = dataset.to_table()
    assert dataset.head(2) == whole.slice(0, 2)
    assert dataset.take([0, 3], columns=["file"]) == whole.select(["file"]).take([0, 3])
    assert dataset.sort_by("sizeInBytes").to_table() == whole.sort_by("sizeInBytes")
    joined = demo.dataset("offsets").join(demo.dataset("topics"), "topic").to_table()
    assert (
        joined["sizeInBytes"].to_pylist()
        == demo.dataset("topics").to_table(filter=topic == "orders")["sizeInBytes"].to_pylist()
    )
    copy = pickle.loads(pickle.dumps(dataset.filter(topic == "users")))
    assert isinstance(copy, TableDataset)
    assert copy.count_rows() == whole.filter(topic == "users").num_rows
    assert "TableDataset" in repr(copy)


def test_a_filter_that_is_no_expression_is_refused(demo: brokerless.Log) -> None:
    records: Any = demo.dataset("records")
    for wrong in ("offset = 1", 5, brokerless.RecordFilter(keys=["a"])):
        for read in (records.to_table, records.count_rows, records.scanner):
            with pytest.raises(UsageError, match="no expression of Arrow"):
                read(filter=wrong)
        with pytest.raises(UsageError, match="no expression of Arrow"):
            records.filter(wrong)


def test_columns_and_filters_that_there_are_not(demo: brokerless.Log) -> None:
    for options in ({"columns": ["nothing"]}, {"filter": ds.field("nothing") > 1}):
        with pytest.raises(pa.ArrowInvalid, match="nothing"):
            demo.dataset("records").to_table(**options)


@pytest.mark.parametrize("table", TABLES)
def test_duckdb_and_polars_have_all_tables(demo: brokerless.Log, table: Any) -> None:
    dataset = demo.dataset(table)
    whole = dataset.to_table()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("it", dataset)
    assert connection.execute("SELECT count(*) FROM it").fetchone() == (whole.num_rows,)
    assert pl.scan_pyarrow_dataset(dataset).collect().height == whole.num_rows


def test_arrow_writes_a_dataset(tmp_path: Path) -> None:
    """Which takes what is not its own scanner as a stream."""
    records = brokerless.open(DEMO).dataset("records")
    ds.write_dataset(records.filter(ds.field("topic") == "orders"), tmp_path / "all", format="parquet")
    found = ds.dataset(tmp_path / "all").to_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    expected = records.to_table(filter=ds.field("topic") == "orders")
    expected = expected.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert found.num_rows == 3796
    assert found.cast(expected.schema).equals(expected)
    assert pa.table(records.filter(ds.field("topic") == "users")).num_rows == records.count_rows(
        ds.field("topic") == "users"
    )
    ds.write_dataset(brokerless.open(DEMO).dataset("orders"), tmp_path / "orders", format="parquet")
    assert ds.dataset(tmp_path / "orders").count_rows() == 3796


def test_what_a_prompt_prints_is_short() -> None:
    log = brokerless.open(DEMO)
    assert repr(log).startswith(f"Log({DEMO!r}, {len(log.partitions)} partitions, ")
    assert repr(log.plot) == f"Plots(partitions={len(log.partitions)})"
    assert repr(log.partition("orders", 0)) == "Log('demo/data', orders-0, 0..1264, 4 segments)"
