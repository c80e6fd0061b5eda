"""The four tables from S3: the same rows as from a directory, with credentials as options, on the executors as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from s3fs.core import S3FileSystem
from tests.golden import broker_data
from tests.s3 import S3

from brokerless.jobs.run.types import RunOptions
from brokerless.log.storage.location import Location

NAMES = ("txn-1", "segments-0")


@pytest.fixture(scope="module")
def url(s3: S3) -> str:
    for name in NAMES:
        s3.upload(broker_data("clean") / name, f"spark/{name}")
    return s3.url("spark")


def load(spark: SparkSession, path: str, table: str, **options: Any) -> DataFrame:
    paths = [f"{path}/{name}" for name in NAMES]
    return spark.read.format("brokerless").option("table", table).options(**options).load(paths)


@pytest.mark.parametrize("table", ["records", "batches", "segments", "transactions"])
def test_each_table_is_the_same(table: str, spark: SparkSession, url: str, s3: S3) -> None:
    options: dict[str, Any] = {"includeHeaders": True} if table == "records" else {}
    local = load(spark, str(broker_data("clean")), table, **options)
    remote = load(spark, url, table, storageOptions=json.dumps(s3.storage_options), **options)
    assert remote.schema == local.schema
    if "file" in remote.columns:
        remote, local = (each.withColumn("file", expr("right(file, 24)")) for each in (remote, local))
    rows = sorted(map(str, local.collect()))
    assert rows
    assert sorted(map(str, remote.collect())) == rows


def test_offsets_and_isolation(spark: SparkSession, url: str, s3: S3) -> None:
    storage = json.dumps(s3.storage_options)

    def offsets(path: str, **options: Any) -> list[int]:
        found = spark.read.format("brokerless").options(**options).load(path).select("offset")
        return sorted(row.offset for row in found.collect())

    committed = {"kafka.isolation.level": "read_committed"}
    local = offsets(str(broker_data("clean") / "txn-1"), **committed)
    assert offsets(f"{url}/txn-*", storageOptions=storage, **committed) == local
    asked = {"assign": '{"segments":[0]}', "startingOffsets": '{"segments":{"0":650}}'}
    assert offsets(url, storageOptions=storage, **asked) == list(range(650, 700))


def test_a_job_on_spark_exports_from_there_to_there(
    spark: SparkSession, url: str, s3: S3, tmp_path: Path
) -> None:  # fmt: skip
    from brokerless.jobs.export.job import export, plan
    from brokerless.jobs.export.tasks import Export
    from brokerless.log.directory import resolve

    partitions = resolve(Location(url, s3.storage_options)).partitions
    target = s3.url("spark-exported")
    planned = plan(partitions, [url], Location(target, s3.storage_options), Export())
    results = list(export(planned, pytest.fail, RunOptions(spark=spark)))
    assert {(each.topic, each.records) for each in results} == {("txn", 136), ("segments", 700)}
    local = plan(
        resolve(Location(str(broker_data("clean") / "segments-0"))).partitions, [], Location.of(tmp_path), Export()
    )
    list(export(local, pytest.fail))
    (path,) = tmp_path.rglob("*.parquet")
    fs = s3.file_system()
    assert fs.cat_file(f"{target}/{path.relative_to(tmp_path)}") == path.read_bytes()


def test_opening_a_file_is_one_request(url: str, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    call: Any = S3FileSystem._call_s3  # type: ignore[reportPrivateUsage]

    async def noted(self: Any, method: str, *arguments: Any, **named: Any) -> Any:
        asked.append(method)
        return await call(self, method, *arguments, **named)

    monkeypatch.setattr(S3FileSystem, "_call_s3", noted)
    with Location(f"{url}/segments-0/{0:020}.log", s3.storage_options).open() as file:
        assert file.read(0, 8).tolist() == [0] * 8
    assert asked == ["head_object", "get_object"]
