"""Partitions of one topic get one ID; where that is impossible, nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.log.whole_batches import batch
from tests.sources import sources_of

import brokerless
from brokerless.api.loading import load
from brokerless.errors import UsageError
from brokerless.jobs.load.routing import Routing
from brokerless.jobs.merge.job import Merge
from brokerless.jobs.merge.job import plan as plan_merge
from brokerless.jobs.salvage.job import Salvage
from brokerless.jobs.salvage.job import plan as plan_salvage
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.checkpoint.topic_ids import random_id, topic_ids_there
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.storage.location import Location

ONE, OTHER = "P4KqAlm-RcmdL3bLO8vOmg", "GGfzE_HvRoGT7m9N-0_chw"


def write(directory: Path, partition: int, topic_id: str | None) -> Path:
    directory.mkdir(exist_ok=True)
    with PartitionWriter(NewPartition(directory, "orders", partition, topic_id=topic_id)) as output:
        output.append(batch(0))
        output.commit()
    path = directory / f"orders-{partition}"
    if topic_id is None:
        (path / "partition.metadata").unlink()
    return path


def ids(directory: Path) -> set[str | None]:
    return {load_partition_metadata(Location(str(path))).topic_id for path in directory.glob("*/partition.metadata")}


def by_convert(source: Path, to: Path) -> set[str | None]:
    brokerless.open(source).convert(to)
    return ids(to)


def by_salvage(source: Path, to: Path) -> set[str | None]:
    return {each.topic_id for each in plan_salvage(sources_of(source), to, Salvage()).tasks}


def by_merge(source: Path, to: Path) -> set[str | None]:
    return {each.topic_id for each in plan_merge(sources_of(source), to, Merge()).tasks}


Way = Callable[[Path, Path], set[str | None]]
WAYS: list[Way] = [by_convert, by_salvage, by_merge]


@pytest.mark.parametrize("way", WAYS)
def test_partitions_of_another_topic_of_that_name_are_refused(way: Way, tmp_path: Path) -> None:
    write(tmp_path / "to", 1, ONE)
    source = write(tmp_path / "source", 0, OTHER).parent
    with pytest.raises(UsageError, match=f"orders-0 has the topic ID {OTHER}, but the partitions of orders in .*{ONE}"):
        way(source, tmp_path / "to")
    assert ids(tmp_path / "to") == {ONE}


@pytest.mark.parametrize("way", WAYS)
def test_partitions_that_do_not_know_their_topic_get_the_id_that_is_there(way: Way, tmp_path: Path) -> None:
    write(tmp_path / "to", 1, ONE)
    source = write(tmp_path / "source", 0, None).parent
    assert way(source, tmp_path / "to") == {ONE}


def test_partitions_that_do_not_know_their_topic_get_the_id_of_those_that_do(tmp_path: Path) -> None:
    write(tmp_path / "source", 0, None)
    write(tmp_path / "source", 1, ONE)
    by_convert(tmp_path / "source", tmp_path / "to")
    assert ids(tmp_path / "to") == {ONE}
    assert topic_ids_there(tmp_path / "to", {"orders", "order"}) == {"orders": ONE}


def test_of_two_that_load_a_new_topic_at_once_the_second_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokerless.jobs.load.loader._GROUP", 1)  # each batch is written as it comes
    rows = pa.RecordBatch.from_pydict({"value": [b"one"]})

    def slowly() -> Iterator[pa.RecordBatch]:
        yield rows
        load([rows], str(tmp_path), Routing("orders", 1))
        yield rows

    with pytest.raises(UsageError, match="meanwhile somebody else has written partitions of orders, with the ID"):
        load(slowly(), str(tmp_path), Routing("orders", 0))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["orders-1"]
    load([rows], str(tmp_path), Routing("orders", 0))
    assert len(ids(tmp_path)) == 1


def test_ids_are_random_uuids_as_kafka_writes_them() -> None:
    ids = {random_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in ids)
