from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.golden import broker_data
from tests.jobs.size.topics import START

import brokerless
from brokerless.api.loading import load
from brokerless.jobs.size.contents import MOST_NAMES, Contents
from brokerless.jobs.size.exact import ExactSizes, measure_partition
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.tables.batcher import BatchSettings


@pytest.fixture(scope="module", params=["none", "zstd"])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExactSizes]:
    to = tmp_path_factory.mktemp("topic")
    count = 1000
    rows = {
        "topic": ["t"] * count,
        "partition": [0] * count,
        "timestamp": [START + 10_000 * row for row in range(count)],
        "key": [None if row % 10 == 9 else b"heavy" if row % 2 else b"light-%d" % row for row in range(count)],
        "value": [b"x" * (500 if row % 2 else 20) for row in range(count)],
    }
    types = {"partition": pa.int32(), "key": pa.binary(), "value": pa.binary()}
    columns = {name: pa.array(values, types.get(name)) for name, values in rows.items()}
    load([pa.record_batch(columns)], str(to), settings=BatchSettings(request.param))
    (partition,) = resolve(Location(str(to))).partitions
    yield measure_partition(partition, [], lambda _: None, lambda _: None)
    assert sum(each.stat().st_size for each in to.rglob("*.log")) == partition.size


def test_the_parts_add_up_to_what_is_there(measured: ExactSizes) -> None:
    contents = measured.contents
    (kind,) = contents.kinds
    if kind == (2, 0):
        assert contents.before_compression == contents.stored
    assert contents.stored == pytest.approx(sum(contents.by_key.values()))
    assert contents.stored == pytest.approx(sum(contents.by_hour.values()))
    assert contents.stored == sum(contents.by_producer.values()) == contents.kinds[kind]
    assert (contents.records, contents.values) == (1000, 500 * 520)
    assert contents.batch_headers == 61 * contents.batches
    assert contents.varints == contents.overhead < contents.without_deltas < contents.fixed_width


def test_the_heaviest_names_come_first(measured: ExactSizes) -> None:
    (first, heavy), (second, _) = measured.contents.by_key.most_common(2)
    assert (first, second) == (b"heavy", None)
    assert heavy > 0.7 * measured.contents.stored
    assert measured.contents.by_hour.keys() == {(START + 10_000 * row) // 3_600_000 for row in range(1000)}


def test_headers_and_producers_are_those_of_the_records() -> None:
    for name in ("txn-0", "edges-0"):
        path = broker_data("clean") / name
        contents = measure_partition(
            resolve(Location(str(path))).partitions[0], [], lambda _: None, lambda _: None
        ).contents
        log = brokerless.open(path)
        expected: Counter[bytes | None] = Counter()
        for headers in log.records(["headers"]).read_all()["headers"].to_pylist():
            for header in headers:
                expected[header["key"].encode()] += len(header["key"].encode()) + len(header["value"] or b"")
        assert contents.by_header == expected
        batches = log.batches(["producerId", "isControl", "sizeInBytes"]).read_all().to_pylist()
        of_producers: Counter[int] = Counter()
        for batch in batches:
            of_producers[batch["producerId"]] += 0 if batch["isControl"] else batch["sizeInBytes"]
        assert contents.by_producer == +of_producers


def test_of_too_many_names_the_lightest_are_forgotten() -> None:
    total, more = Contents(), Contents()
    more.by_key = Counter({b"%d" % number: 1.0 + (number == 7) for number in range(2 * MOST_NAMES + 1)})
    total.add(more)
    assert len(total.by_key) == MOST_NAMES
    assert total.by_key[b"7"] == 2
