"""Of segments that overlap, Spark's tasks return each offset once, as all other reads do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.golden import broker_data
from tests.log.odd_logs import write_odd_log
from tests.spark.test_live_splits import SIZES, Batch

import brokerless
from brokerless.errors import DamageError
from brokerless.format import layouts

COUNTS = StructType([StructField("records", LongType())])


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return Path(shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "disk" / "segments-0"))


def offsets(partition: Path, **options: Any) -> list[int]:
    found = [row["offset"] for row in Batch(partition.parent, **options).rows()]
    assert len(set(found)) == len(found)
    return sorted(found)


def expected(partition: Path) -> list[int]:
    records = brokerless.open(partition).records(["offset"], on_damage=lambda _: None)
    return pa.Table.from_batches(records, records.schema)["offset"].to_pylist()


def append(partition: Path, *bases: int) -> None:
    """Puts later segments at the end of the first as well."""
    with (partition / f"{0:020}.log").open("ab") as first:
        for base in bases:
            first.write((partition / f"{base:020}.log").read_bytes())


def bases(partition: Path) -> list[int]:
    return sorted(int(each.stem) for each in partition.glob("*.log"))


@pytest.mark.parametrize("options", SIZES, ids=str)
def test_a_segment_that_has_later_ones_as_well(options: dict[str, Any], partition: Path) -> None:
    intact = expected(partition)
    append(partition, *bases(partition)[1:])
    assert offsets(partition, **options) == expected(partition) == intact


def test_a_range_of_overlapping_segments(partition: Path) -> None:
    append(partition, *bases(partition)[1:])
    first, last = bases(partition)[1], bases(partition)[2]
    options = {
        "startingOffsets": f'{{"segments": {{"0": {first - 5}}}}}',
        "endingOffsets": f'{{"segments": {{"0": {last}}}}}',
    }
    assert offsets(partition, **options) == list(range(first - 5, last))


def test_what_the_later_segment_has_damaged_comes_from_the_earlier_one(partition: Path) -> None:
    intact, base = expected(partition), bases(partition)[1]
    append(partition, base)
    path = partition / f"{base:020}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert offsets(partition, mode="DROPMALFORMED") == intact


@pytest.mark.parametrize("options", SIZES, ids=str)
def test_a_segment_that_begins_below_its_base_offset_is_an_error(options: dict[str, Any], partition: Path) -> None:
    """A copy of a segment under another name, which a broker refuses."""
    intact, base = expected(partition), bases(partition)[-1]
    shutil.copy(partition / f"{base:020}.log", partition / f"{intact[-1] + 1:020}.log")
    with pytest.raises(DamageError, match="offsets are repeated that another segment has"):
        offsets(partition, **options)
    assert offsets(partition, mode="DROPMALFORMED", **options) == intact


def test_offsets_that_no_other_segment_has_are_returned(partition: Path) -> None:
    intact, base = expected(partition), bases(partition)[1]
    append(partition, base)
    (partition / f"{base:020}.log").write_bytes(b"")
    assert offsets(partition, mode="DROPMALFORMED") == expected(partition) == intact


def test_a_damaged_offset_does_not_hide_what_is_at_its_place(partition: Path) -> None:
    intact = expected(partition)
    path = partition / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    count = int(np.frombuffer(data, layouts.BATCH_V2, 1)["last_offset_delta"][0]) + 1
    data[:8] = (intact[-1] - 2 * count).to_bytes(8, "big")
    path.write_bytes(data)
    assert offsets(partition) == intact[count:]


def test_segments_count_the_records_that_are_returned(partition: Path) -> None:
    append(partition, *bases(partition)[1:])
    query = Batch(partition.parent, COUNTS, table="segments")
    assert sum(row["records"] for row in query.rows()) == len(expected(partition))


@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": "200"}], ids=str)
def test_of_wrappers_in_two_segments_each_offset_is_read_once(options: dict[str, str], tmp_path: Path) -> None:
    partition = write_odd_log("overlapping-segments-of-wrappers", tmp_path)
    assert offsets(partition, mode="PERMISSIVE", **options) == [*range(10)]


@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": "200"}], ids=str)
@pytest.mark.parametrize("name", ["overlapping-batches", "overlapping-wrappers", "last-offset-delta-zero"])
def test_batches_of_one_file_that_overlap_are_read_once(name: str, options: dict[str, str], tmp_path: Path) -> None:
    partition = write_odd_log(name, tmp_path)
    assert offsets(partition, **options) == expected(partition)
