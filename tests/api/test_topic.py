"""Topics of a log in Python: what they have is what a filter of the whole log has."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import brokerless
from brokerless import schemas
from brokerless.api.jobs import select_topics
from brokerless.errors import UsageError

DEMO = Path(__file__).parents[2] / "demo" / "data"


@pytest.fixture(scope="module")
def log() -> brokerless.Log:
    return brokerless.open(DEMO)


def of_topic(table: pa.Table, name: str = "orders") -> pa.Table:
    return table.filter(ds.field("topic") == name)


def test_a_log_has_its_topics_and_partitions(log: brokerless.Log) -> None:
    assert [each.name for each in log.topics] == sorted({str(each.topic) for each in log.paths})
    assert list(log) == log.partitions
    assert len(log) == len(log.partitions)
    topic = log.topic("orders")
    assert list(topic) == topic.partitions == [log.partition("orders", number) for number in range(3)]
    assert (len(topic), topic.partition("orders", 1)) == (3, log.partition("orders", 1))
    assert repr(topic).startswith("Log('")
    assert ", orders, 3 partitions, " in repr(topic)
    assert "<td" in topic._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_a_log_without_partitions_is_true(tmp_path: Path) -> None:
    shutil.copyfile(DEMO / "meta.properties", tmp_path / "meta.properties")
    empty = brokerless.open(tmp_path)
    assert len(empty) == 0
    assert empty
    assert empty.topics == []


def test_tables_of_a_topic_are_those_of_the_log_filtered(log: brokerless.Log) -> None:
    topic = log.topic("orders")
    expected = of_topic(log.records().read_all())
    assert topic.records().read_all().equals(expected)
    assert topic.to_table().equals(expected)
    assert topic.batches().read_all().equals(of_topic(log.batches().read_all()))
    payments = log.topic("payments").transactions()
    assert payments.equals(of_topic(log.transactions(), "payments"))
    assert payments.num_rows
    assert topic.to_table(["offset"], start_offset=5, end_offset=7).num_rows == 6
    assert topic.dataset("orders").to_table(columns=["offset", "value"]).equals(expected.select(["offset", "value"]))


def test_other_libraries_have_the_same_rows(log: brokerless.Log) -> None:
    topic = log.topic("orders")
    expected = topic.to_table(["offset", "key"])
    assert topic.to_pandas(["offset", "key"]).equals(expected.to_pandas())
    frame = topic.to_polars(["offset", "key"])
    assert isinstance(frame, pl.DataFrame)
    assert frame["offset"].to_list() == expected["offset"].to_pylist()
    assert topic.sql("SELECT count(*) AS n FROM orders").read_all().to_pylist() == [{"n": expected.num_rows}]
    assert topic.sql("SELECT count(*) AS n FROM records").read_all().to_pylist() == [{"n": expected.num_rows}]


@pytest.mark.parametrize(("library", "extra"), [("pandas", "notebook"), ("polars", "polars")])
def test_a_library_that_is_missing_is_named(
    log: brokerless.Log, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=rf"pip install 'brokerless\[{extra}\]'"):
        getattr(log.topic("users"), f"to_{library}")()


def test_topics_are_chosen_by_names_and_patterns(log: brokerless.Log) -> None:
    table = log.records(["topic"], topics=["orders", "u*"]).read_all()
    assert set(table["topic"].to_pylist()) == {"orders", "users"}
    assert (
        log.batches(["topic"], topics="users").read_all().num_rows == log.topic("users").batches().read_all().num_rows
    )
    assert log.transactions(topics="payments").equals(log.topic("payments").transactions())
    assert log.records(topics=[]).read_all().num_rows == 0
    assert select_topics(log.paths, None) == log.paths


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (lambda log: log.topic("order"), UsageError, "there is no topic order; did you mean orders"),
        (lambda log: log.topic("ORDERS"), UsageError, "did you mean orders"),
        (lambda log: log.topic("zzz"), UsageError, "there are __cluster_metadata, "),
        (lambda log: log.records(topics=["ordrs"]), UsageError, "did you mean orders"),
        (lambda log: log.batches(topics="ordrs"), UsageError, "did you mean orders"),
        (lambda log: log.transactions(topics="ordrs"), UsageError, "did you mean orders"),
        (lambda log: log.dataset("ordrs"), UsageError, "there is no table or topic 'ordrs'; did you mean orders"),
        (lambda log: log.partition("order", 0), UsageError, "did you mean orders"),
        (lambda log: log.partition("orders", 7), UsageError, "there are 0 to 2"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(
    log: brokerless.Log, ask: Callable[[brokerless.Log], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        ask(log)


def test_a_topics_dataset_is_what_sql_has_and_arrow_writes_it(log: brokerless.Log, tmp_path: Path) -> None:
    dataset = log.dataset("orders")
    by_sql = log.sql('SELECT * FROM orders ORDER BY partition, "offset"').read_all()
    assert dataset.schema.names == by_sql.schema.names
    found = dataset.to_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert found["value"].to_pylist() == by_sql["value"].to_pylist()
    ds.write_dataset(dataset, tmp_path / "orders", format="parquet")
    assert ds.dataset(tmp_path / "orders").to_table().num_rows == by_sql.num_rows
    assert dataset.filter(ds.field("offset") == 5).count_rows() == 3


def test_tables_take_what_records_take() -> None:
    taken = inspect.signature(brokerless.Log.records).parameters
    for method in (brokerless.Log.to_table, brokerless.Log.to_pandas, brokerless.Log.to_polars):
        assert inspect.signature(method).parameters == taken


@pytest.mark.parametrize(
    ("called", "said"),
    [
        (lambda log: log.partition("orders", "0"), "partition: '0' is not a whole number"),
        (lambda log: log.partition(5, 0), "topic: 5 is not a text"),
        (lambda log: log.topic(5), "name: 5 is not a text"),
        (lambda log: log.records(topics=5), "topics: 5 is not a list of texts"),
        (lambda log: log.records(topics=[5]), "topics: [5] is not a list of texts"),
        (lambda log: log.size(codecs=["none"], levels=[3]), "only gzip, lz4 and zstd have levels"),
        (lambda log: log.erase("to", keys=5), "keys: 5 is not a list of keys"),
        (lambda log: log.trim(free=b"x"), "free: b'x' is not a number of bytes"),
        (lambda _: brokerless.open("demo/data", include=["x", 3]), "include: ['x', 3] is not a list of texts"),
        (lambda _: brokerless.pipeline(["demo/data", 3], "to"), "path: ['demo/data', 3] is not a path, or a list"),
        (lambda _: brokerless.pipeline("demo/data", "to", decode=5), "decode: 5 is not True"),
        (lambda _: brokerless.pipeline("demo/data", "to", by_date="yes"), "by_date: 'yes' is not True or False"),
        (lambda _: brokerless.explain("demo/data", storage_options=5), "storage_options: a value of type int is not"),
        (lambda _: brokerless.record_views(5), "batch: 5 is not a pyarrow.RecordBatch"),
        (lambda _: brokerless.load("abc", "to"), "batches: 'abc' is not a record batch"),
        (lambda _: brokerless.LogConfig(segment_bytes="5"), "segment_bytes: '5' is not a whole number"),
        (lambda _: brokerless.Routing(topic="t", partition="5"), "partition: '5' is not a whole number"),
        (lambda _: brokerless.Decoding(key_format=5), "key format: 5 is none of"),
        (lambda _: brokerless.Catalog(namespace=5), "namespace: 5 has other characters"),
        (lambda log: log.topic("orders").records(start_offset="5"), "start_offset: '5' is not a whole number"),
        (lambda log: log.topic("orders").to_table(limit="3"), "limit: '3' is not a whole number"),
        (lambda log: log.batches(columns="offset"), "columns: 'offset' is not a list of texts; give ['offset']"),
        (lambda log: log.partition("orders", 0).batches(max_batch_bytes="5"), "max_batch_bytes: '5' is not a whole"),
        (lambda log: log.partition("orders", 0).records(end_offset=5.5), "end_offset: 5.5 is not a whole number"),
    ],
)
def test_what_has_a_wrong_type_is_refused_by_name(called: Callable[[brokerless.Log], object], said: str) -> None:
    with pytest.raises(brokerless.UsageError, match=re.escape(said)):
        called(brokerless.open("demo/data"))


def test_a_partition_is_a_table_of_any_library_and_without_records_one_without_rows(log: brokerless.Log) -> None:
    partition = log.partition("users", 0)
    table = partition.to_table(["offset", "key"], limit=3)
    assert partition.to_pandas(["offset", "key"], limit=3).to_dict("records") == table.to_pylist()
    assert partition.to_polars(["offset", "key"], limit=3).to_dicts() == table.to_pylist()
    for own in (partition, log.topic("users")):
        nothing = {"start_offset": 1 << 40}
        assert (own.to_table(**nothing).num_rows, own.to_table(**nothing).schema.names) == (0, schemas.RECORDS.names)
        assert own.to_pandas(["offset"], **nothing).shape == own.to_polars(["offset"], **nothing).shape == (0, 1)


def test_a_notebook_shows_findings_and_they_can_be_read_afterwards(tmp_path: Path) -> None:
    shutil.copytree("demo/data/users-0", tmp_path / "users-0")
    segment = sorted((tmp_path / "users-0").glob("*.log"))[0]
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    log = brokerless.open(tmp_path)
    found = log.verify()
    assert "checksum-mismatch" in found._repr_html_()
    assert [each.kind for each in found].count("checksum-mismatch") == 1
    assert "checksum-mismatch" in log.audit()._repr_html_()
    assert "checksum-mismatch" in log.partitions[0].verify()._repr_html_()  # type: ignore[attr-defined]


def test_a_key_is_one_of_keys() -> None:
    with pytest.raises(UsageError, match=r"keys=\['a'\]"):
        brokerless.RecordFilter(key="a")  # type: ignore[call-arg]
