"""Spark reads buckets of tiered storage: executors decrypt their own chunks, with keys that came with their tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.log.tiered import Case, cases, key_pairs

KEYS = json.dumps({name: str(file) for name, file in key_pairs().items()})


@pytest.mark.parametrize(
    "case", [each for each in cases() if each.set == "compressed-encrypted"], ids=lambda each: each.id
)
def test_records(case: Case, spark: SparkSession) -> None:
    reader = spark.read.format("brokerless").option("keyPairs", KEYS).option("subscribe", case.topic)
    expected = case.expected["read_uncommitted"]
    remote = reader.load(str(case.bucket))
    assert remote.count() == expected["remote"]["records"]
    whole = reader.option("remote", str(case.bucket)).load(str(case.data)).select("offset", "value").collect()
    assert len({each.offset for each in whole}) == len(whole) == expected["all"]["records"]


def test_no_text_has_a_key(spark: SparkSession, tmp_path: Path) -> None:
    case = next(each for each in cases() if each.set == "encrypted")
    frame = spark.read.format("brokerless").option("keyPairs", KEYS).load(str(case.bucket))
    plan = frame._jdf.queryExecution().toString()
    assert "PRIVATE" not in plan
    assert key_pairs()["key1"].read_text().splitlines()[3] not in plan
