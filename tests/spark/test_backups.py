"""Backups are written, checked and erased on Spark as in one process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.jobs.backup.disks import DEMO, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.lock_holder import held_by_another

import brokerless
from brokerless import UsageError
from brokerless.log.backups.place import BackupPlace
from brokerless.log.storage.location import Location


def stored(place: Path) -> list[tuple[Any, ...]]:
    """What the last snapshot has of each segment, but for its random name and what is made of that."""
    backup = BackupPlace(Location(str(place)))
    name = backup.names()[-1]
    return [
        (each.topic, each.partition, each.start_offset, each.end_offset, each.sha256, each.records, each.producers)
        for each in backup.segments(name, backup.snapshot(name))
    ]


def test_a_snapshot_is_that_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    here = brokerless.backup(DEMO, tmp_path / "here", segment_size=20_000)
    there = brokerless.backup(DEMO, tmp_path / "there", segment_size=20_000, spark=spark)
    assert stored(tmp_path / "there") == stored(tmp_path / "here")
    assert there.snapshot.partitions == here.snapshot.partitions
    assert brokerless.Backup(tmp_path / "there").check("all").findings == ()
    assert rows_of(tmp_path / "there") == rows_of(tmp_path / "here")


def test_a_check_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    brokerless.backup(DEMO, place, segment_size=20_000)
    for each in sorted(place.glob("orders-*/*/*.log"))[1:4]:
        data = bytearray(each.read_bytes())
        data[len(data) // 2] ^= 1
        each.write_bytes(data)
    here, there = (brokerless.Backup(place).check("all", spark=where) for where in ("none", spark))
    assert len(here.findings) >= 3
    assert there == here


def test_records_are_erased_alike_also_encrypted_ones(spark: SparkSession, tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    brokerless.backup(DEMO, tmp_path / "here", public_keys=public)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    erased: list[Any] = []
    for place, where in (("here", "none"), ("there", spark)):
        result = brokerless.Backup(tmp_path / place).erase(
            keys=["u-0048"], manifest=tmp_path / f"{place}.json", apply=True, key_pairs=private, spark=where
        )
        erased.append((result.partitions, result.findings))
    assert erased[1] == erased[0]
    assert sum(each.selected for each in erased[0][0]) > 0
    here, there = (rows_of(brokerless.open(tmp_path / place, key_pairs=private)) for place in ("here", "there"))
    assert there == here


def test_what_is_of_one_process_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is of one process"):
        brokerless.backup(DEMO, tmp_path / "backup", rate=1 << 20, spark=spark)
    shutil.copytree(DEMO, tmp_path / "disk")
    with held_by_another(tmp_path / "disk"), pytest.raises(UsageError, match="these brokers run"):
        brokerless.backup(tmp_path / "disk", tmp_path / "backup", spark=spark)
