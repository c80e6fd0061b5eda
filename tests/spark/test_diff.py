"""Logs are compared on a session as in one process, whatever a side is and however records are paired."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless.errors import UnreadableError

DEMO = Path(__file__).parents[2] / "demo"
LOG = DEMO / "data"


def damaged(to: Path) -> Path:
    shutil.copytree(LOG, to)
    path = to / "users-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    return to


def encrypted(to: Path) -> brokerless.Log:
    private, public = key_files(to.parent, "ops", "safe")
    brokerless.backup(LOG, to, public_keys=public)
    return brokerless.open(f"{to}@latest", key_pairs=private)


def exported(form: str | None, *, decode: bool = False) -> Callable[[Path], Path]:
    def write(to: Path) -> Path:
        options: dict[str, Any] = {} if form is None else {"as_": form}
        brokerless.open(LOG).topic("users").export(to, decode=decode, **options)
        return to

    return write


SIDES: dict[str, Callable[[Path], Any]] = {
    "a damaged disk": damaged,
    "an encrypted backup": encrypted,
    "Parquet": exported(None),
    "Iceberg": exported("iceberg"),
    "Delta": exported("delta"),
    "decoded Parquet": exported(None, decode=True),
    "decoded Iceberg": exported("iceberg", decode=True),
}


@pytest.mark.parametrize("align", ["offset", "key"])
@pytest.mark.parametrize("side", SIDES)
def test_a_side_is_compared_as_in_one_process(side: str, align: Any, spark: SparkSession, tmp_path: Path) -> None:
    right = SIDES[side](tmp_path / "right")
    there, here = (brokerless.diff(LOG, right, topics=["users"], align=align, spark=each) for each in (spark, "none"))
    assert [*there.lines()] == [*here.lines()]
    assert [(each.same, each.causes) for each in there.partitions] == [
        (each.same, each.causes) for each in here.partitions
    ]
    assert there.is_same == here.is_same == (side != "a damaged disk")
    assert sum(each.same for each in there.partitions) > 100


def test_a_bucket_and_replicas_are_compared_on_executors(spark: SparkSession) -> None:
    assert brokerless.diff(DEMO / "bucket", DEMO / "bucket", spark=spark).is_same
    disks = [DEMO / "replicas" / f"broker-{number}" for number in (1, 2, 3)]
    assert [each.records for each in brokerless.diff_replicas(disks, spark=spark).partitions] == [120, 120]


def test_a_side_that_is_not_there_is_an_error_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no such file or directory"):
        brokerless.diff(LOG, tmp_path / "nowhere", spark=spark)
