"""What is measured of a source, and which partitions are chosen. The oracle is the table of its records."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from tests.golden import broker_data

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.restore.results import Limits
from brokerless.jobs.restore.source import SourceReading, choose_partitions, measure, sizes_of
from brokerless.log.partition import transactions_of

PATH = broker_data("clean")


def reader(name: str) -> brokerless.Log:
    topic, _, number = name.rpartition("-")
    return brokerless.open(PATH).partition(topic, int(number))


def test_records_that_were_not_committed_are_not_restored() -> None:
    found = measure(reader("txn-0").paths[0], SourceReading(), Limits())
    rows = reader("txn-0").records(isolation="read_committed").read_all()
    assert found.records == rows.num_rows
    assert found.records < reader("txn-0").records().read_all().num_rows
    times = rows.column("timestamp").cast("int64")
    assert (found.first_timestamp, found.last_timestamp) == (pc.min(times).as_py(), pc.max(times).as_py())  # type: ignore[attr-defined]


def test_an_open_transaction_ends_what_is_restored() -> None:
    """What a consumer of committed records does not get is counted, as it would be missing without a word."""
    for name in ("txn-0", "txn-1"):
        stable = transactions_of(reader(name).paths[0]).last_stable_offset
        assert stable is not None
        found = measure(reader(name).paths[0], SourceReading(), Limits())
        rows = reader(name).records(["offset"], start_offset=stable).read_all()
        assert found.undecided == (stable, rows.num_rows)
        assert found.end_offset == stable
    whole = SourceReading("read_uncommitted")
    assert measure(reader("txn-0").paths[0], whole, Limits()).undecided is None
    assert measure(reader("segments-0").paths[0], SourceReading(), Limits()).undecided is None


def test_sizes_are_those_of_keys_values_and_headers() -> None:
    batch = reader("txn-0").records().read_all().combine_chunks().to_batches()[0]
    expected = [
        len(row["key"] or b"") + len(row["value"] or b"")
        + sum(len(each["key"].encode()) + len(each["value"] or b"") for each in row["headers"])
        for row in batch.to_pylist()
    ]  # fmt: skip
    assert sizes_of(batch).tolist() == expected
    assert sizes_of(batch.slice(3, 5)).tolist() == expected[3:8]


def test_a_point_in_time_ends_a_partition_before_its_first_later_record() -> None:
    rows = reader("segments-0").records(["offset", "timestamp"]).read_all().to_pylist()
    middle = rows[len(rows) // 2]
    until = int(middle["timestamp"].timestamp() * 1000)
    found = measure(reader("segments-0").paths[0], SourceReading(until=until), Limits())
    first = next(row["offset"] for row in rows if row["timestamp"] >= middle["timestamp"])
    assert found.end_offset == first
    assert found.records == sum(row["offset"] < first for row in rows)
    assert found.late == sum(row["offset"] >= first and row["timestamp"] < middle["timestamp"] for row in rows)


def test_what_meets_a_limit_is_counted() -> None:
    rows = reader("segments-0").records().read_all().to_pylist()
    times = sorted(int(row["timestamp"].timestamp() * 1000) for row in rows)
    limits = Limits(expired_before=times[3] + 1, earliest=times[0] + 1, latest=times[-1] - 1, largest=1)
    found = measure(reader("segments-0").paths[0], SourceReading(), limits)
    assert found.expired[0] == sum(time <= times[3] for time in times)
    assert found.out_of_range == times.count(times[0]) + times.count(times[-1])
    assert found.too_large == len(rows)
    assert found.without_key == sum(row["key"] is None for row in rows)


def test_kafkas_own_topics_are_left_out_and_refused_by_name() -> None:
    partitions = brokerless.open(PATH).directory.partitions
    assert not [topic for topic in choose_partitions(partitions, ()) if topic.startswith("__")]
    internal = next(each.topic for each in partitions if (each.topic or "").startswith("__"))
    with pytest.raises(UsageError, match="Kafka's own topic"):
        choose_partitions(partitions, [internal or ""])


def test_a_partition_that_is_there_twice_is_refused() -> None:
    partitions = brokerless.open(PATH).directory.partitions
    with pytest.raises(UsageError, match="combine replicas with merge first"):
        choose_partitions([*partitions, *partitions], ())


def test_nothing_to_restore_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no partition to restore"):
        choose_partitions([], ())
