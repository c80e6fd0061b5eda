"""The source as a Spark job sees it: found without registering, with spark-sql-kafka's schema, and Spark's modes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType
from tests.golden import broker_data, case

import brokerless

DATA = str(broker_data("clean"))
KAFKA = """
    key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int
"""


def load(spark: SparkSession, path: str = DATA, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("brokerless").options(**options)
    return (reader if schema is None else reader.schema(schema)).load(path)


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_columns_are_those_of_spark_sql_kafka(spark: SparkSession) -> None:
    assert load(spark).schema == StructType.fromDDL(KAFKA)
    headers = "headers array<struct<key: string, value: binary>>"
    assert load(spark, includeHeaders=True).schema == StructType.fromDDL(f"{KAFKA}, {headers}")


def test_a_given_schema_takes_and_orders_columns(spark: SparkSession) -> None:
    row = load(spark, f"{DATA}/edges-0", "isControl boolean, Offset long, sequence int, batchPosition long").first()
    assert row is not None
    assert row.asDict() == {"isControl": False, "Offset": 0, "sequence": row.sequence, "batchPosition": 0}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("offset int", "column offset: its type is bigint, not int"),
        ("value string", "column value: its type is binary, not string"),
        ("offsets long", "there is no column 'offsets' in the table records"),
        ("_corrupt_record string", "mode PERMISSIVE reports corrupt records"),
    ],
)
def test_a_wrong_schema_is_refused(spark: SparkSession, schema: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        load(spark, schema=schema).count()


def test_a_wrong_option_and_a_wrong_path_are_reported_on_the_driver(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="option mode: 'IGNORE' is none of FAILFAST"):
        load(spark, mode="IGNORE")
    with pytest.raises(AnalysisException, match="no path"):
        spark.read.format("brokerless").load()
    with pytest.raises(AnalysisException, match="/no/such/path: there is no such file or directory"):
        load(spark, "/no/such/path").count()


def test_a_table_is_refused_as_it_would_lose_its_options_and_a_view_is_the_way(spark: SparkSession) -> None:
    options = f"USING brokerless OPTIONS (path '{DATA}')"
    way = "use CREATE TEMPORARY VIEW name USING brokerless OPTIONS"
    with pytest.raises(AnalysisException, match=rf"CREATE TABLE \.\.\. USING brokerless is not possible.*{way}"):
        spark.sql(f"CREATE TABLE refused {options}")
    with pytest.raises(AnalysisException, match=rf"CREATE TABLE \.\.\. USING brokerless is not possible.*{way}"):
        spark.sql(f"CREATE TABLE refused USING brokerless LOCATION '{DATA}'")
    spark.sql(f"CREATE TABLE with_a_schema (offset LONG) {options}")
    try:
        with pytest.raises(AnalysisException, match=f"no path: .*{way}"):
            spark.sql("SELECT * FROM with_a_schema").count()
    finally:
        spark.sql("DROP TABLE with_a_schema")
    with pytest.raises(AnalysisException, match=r"saveAsTable\(\) and CREATE TABLE are not possible"):
        load(spark).write.format("brokerless").mode("append").saveAsTable("refused")
    spark.sql(f"CREATE TEMPORARY VIEW logs {options}")
    assert spark.sql("SELECT offset FROM logs").count() == load(spark).count()
    spark.catalog.dropTempView("logs")


def test_failfast_fails_the_query_and_says_where(spark: SparkSession) -> None:
    log = str(case("damaged/all-crcs-wrong").log)
    with pytest.raises(PythonException, match=f"{log}, position 0: the checksum of the batch does not match"):
        load(spark, log).count()
    assert load(spark, log, mode="DROPMALFORMED").count() == 0


def test_permissive_reports_damage_in_the_column_that_the_user_names(spark: SparkSession) -> None:
    log = str(case("damaged/all-crcs-wrong").log)
    rows = load(spark, log, "bad string, offset long", mode="PERMISSIVE", columnNameOfCorruptRecord="bad").collect()
    findings = list(brokerless.open(log).verify())
    assert [json.loads(row.bad) for row in rows] == [finding.as_dict() for finding in findings]
    assert {row.offset for row in rows} == {None}


def test_segments_and_transactions_are_the_librarys(spark: SparkSession) -> None:
    log = brokerless.open(DATA)
    for table, ours in (("segments", log.segments()), ("transactions", log.transactions())):
        found = (
            load(spark, table=table).drop("minTimestamp", "maxTimestamp", "firstTimestamp", "lastTimestamp").toArrow()
        )
        assert found.num_rows == ours.num_rows
        assert found.to_pylist() == ours.select(found.column_names).to_pylist()


def test_a_query_that_filters_reads_the_same_with_pushdown_and_without(spark: SparkSession, pushdown: None) -> None:
    where = "topic = 'segments' and offset between 100 and 199 and timestamp > '2020-01-01' and value is not null"
    for options in ({}, {"pushFilters": "false"}):
        assert load(spark, **options).where(where).count() == 100
    pushed = load(spark, pushFilters="true", maxPartitionBytes=1)
    if hasattr(DataSourceReader, "pushLimit"):
        plain = load(spark, pushFilters="false", maxPartitionBytes=1)
        assert pushed.where("topic = 'segments'").rdd.getNumPartitions() < plain.rdd.getNumPartitions()
    else:  # a second query of the frame would get the rows of the first
        with pytest.raises(PySparkException, match="this Spark keeps one plan for all queries of a DataFrame"):
            pushed.where("topic = 'segments'").count()


def test_one_data_frame_serves_queries_with_different_filters(spark: SparkSession, pushdown: None) -> None:
    frame = load(spark)
    one, other = frame.where("topic = 'segments'"), frame.where("topic = 'edges'")
    everything = sum(batch.num_rows for batch in brokerless.open(DATA).records(["offset"]))
    assert one.union(other).groupBy("topic").count().count() == 2
    assert one.count() < frame.count() == everything
