"""Plans and tasks, without Spark's processes around them: which records the options leave, of real brokers' logs."""

from __future__ import annotations

import functools
import itertools
import json
import shutil
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyspark.sql import datasource as spark
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.examples import some_quick
from tests.golden import broker_data, broker_expected, case, json_lines, of_type
from tests.log.whole_batches import batch as made
from tests.log.whole_batches import batches, with_largest

from brokerless.errors import BrokerlessError, DamageError, UnreadableError, UsageError
from brokerless.jobs.run.spark_worker import keep_what_was_loaded_with
from brokerless.log import partition as log_partition
from brokerless.spark.columns import choose_columns, default_schema
from brokerless.spark.options import parse_options
from brokerless.spark.plan import plan, tasks_of
from brokerless.spark.source import BrokerlessSource, PushdownReader
from brokerless.spark.split import ReadTask, Split, split_bytes

Rows = list[dict[str, Any]]
OFFSET = StructType([StructField("offset", LongType())])


def tasks(path: Path | str, schema: StructType = OFFSET, **options: Any) -> list[Rows]:
    """The rows of each task. Batches are not kept, as their memory is that of the largest."""
    return read(BrokerlessSource(given(path, options)).reader(schema))


def given(path: Path | str, options: dict[str, Any]) -> dict[str, str]:
    return {"path": str(path), **{name: str(value) for name, value in options.items()}}


def read(reader: spark.DataSourceReader) -> list[Rows]:
    return [[row for batch in reader.read(each) for row in batch.to_pylist()] for each in reader.partitions()]


def offsets(path: Path | str, **options: Any) -> list[int]:
    return [row["offset"] for task in tasks(path, **options) for row in task]


def default(**options: Any) -> StructType:
    return default_schema(parse_options(given("-", options)))


@functools.cache
def kafkas(broker: str, directory: str) -> list[dict[str, Any]]:
    """The records that Kafka's reader found, without control records."""
    lines = json_lines(broker_expected(broker) / directory / "expected.jsonl")
    control = {(each["file"], each["position"]) for each in of_type(lines, "batch") if each["isControl"]}
    records = [each for each in of_type(lines, "record") if each["file"].endswith(".log")]
    return [each for each in records if (each["file"], each["batchPosition"]) not in control]


DATA = broker_data("clean")
SEGMENTS = [line["offset"] for line in kafkas("clean", "segments-0")]
"""A partition of many segments."""


def ending(offset: int) -> str:
    return json.dumps({"segments": {"0": offset}})


def test_offsets_are_from_the_first_on_up_to_and_without_the_last() -> None:
    assert offsets(DATA, subscribe="segments") == SEGMENTS
    first, last = SEGMENTS[100], SEGMENTS[-100]
    found = offsets(DATA, subscribe="segments", startingOffsets=ending(first), endingOffsets=ending(last))
    assert found == [offset for offset in SEGMENTS if first <= offset < last]
    assert offsets(DATA, subscribe="segments", startingOffsets=ending(-2), endingOffsets=ending(-1)) == SEGMENTS
    assert offsets(DATA, subscribe="segments", startingOffsets=ending(5), endingOffsets=ending(5)) == []


def test_offsets_by_partition_name_all_partitions() -> None:
    for options in ({"subscribe": "codec-lz4"}, {}):
        with pytest.raises(UsageError, match="all partitions"):
            tasks(DATA, **options, startingOffsets='{"codec-lz4":{"0":0}}')


def test_offsets_that_are_not_there_fail_unless_losses_are_accepted() -> None:
    for options in ({"startingOffsets": ending(10_000)}, {"endingOffsets": ending(10_000)}):
        with pytest.raises(UnreadableError, match="failOnDataLoss"):
            tasks(DATA, subscribe="segments", **options)
    late = offsets(DATA, subscribe="segments", endingOffsets=ending(10_000), failOnDataLoss="false")
    assert late == SEGMENTS
    deleted = json.dumps({"head-deleted": {"0": 0}})
    there = [line["offset"] for line in kafkas("clean", "head-deleted-0") if line["offset"] >= 105]
    assert offsets(DATA, subscribe="head-deleted", startingOffsets=deleted, failOnDataLoss="false") == there


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_query_begins_where_records_were_deleted_up_to(isolation: str) -> None:
    """Files have records from 74 on, and a consumer gets them from 105 on."""
    wanted = {"subscribe": "head-deleted", "kafka.isolation.level": isolation}
    held = [line["offset"] for line in kafkas("clean", "head-deleted-0")]
    there = [offset for offset in held if offset >= 105]
    assert offsets(DATA, **wanted, include="deleted") == held
    before = json.dumps({"head-deleted": {"0": 100}})
    assert offsets(DATA, **wanted) == there
    assert offsets(DATA, **wanted, startingOffsets=before, failOnDataLoss="false") == there
    with pytest.raises(UnreadableError, match="the log has 105 to"):
        tasks(DATA, **wanted, startingOffsets=before)


def test_timestamps_start_and_end_at_the_first_record_that_is_not_before() -> None:
    records = kafkas("clean", "segments-0")
    for at in (0, len(records) // 2, len(records) - 1):
        time = records[at]["timestamp"]
        first = next(each["offset"] for each in records if each["timestamp"] >= time)
        assert offsets(DATA, subscribe="segments", startingTimestamp=time) == [x for x in SEGMENTS if x >= first]
        assert offsets(DATA, subscribe="segments", endingTimestamp=time) == [x for x in SEGMENTS if x < first]
        by_partition = json.dumps({"segments": {"0": time}})
        found = offsets(DATA, subscribe="segments", startingOffsetsByTimestamp=by_partition)
        assert found == [x for x in SEGMENTS if x >= first]


def test_a_starting_timestamp_after_all_records_fails_or_reads_nothing() -> None:
    late = 4_000_000_000_000
    with pytest.raises(UsageError, match="startingOffsetsByTimestampStrategy"):
        tasks(DATA, subscribe="segments", startingTimestamp=late)
    options = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(DATA, subscribe="segments", **options) == []
    assert offsets(DATA, subscribe="segments", endingTimestamp=late) == SEGMENTS


def test_topics_that_are_asked_for_by_name_have_to_be_there() -> None:
    with pytest.raises(UnreadableError, match=r"there is no topic 'orders' in .*; topics: .*append-time"):
        tasks(DATA, subscribe="segments,orders")
    with pytest.raises(UnreadableError, match="there is no partition segments-1"):
        tasks(DATA, assign='{"segments":[0,1]}')
    assert offsets(DATA, subscribePattern="orders.*") == []
    assert offsets(DATA, assign='{"segments":[0]}') == SEGMENTS


@functools.cache
def whole(broker: str) -> Rows:
    return [row for task in tasks(broker_data(broker), default(includeHeaders="true")) for row in task]


@pytest.mark.parametrize("broker", some_quick(["clean", "old-formats"]))
@pytest.mark.parametrize(
    "options", some_quick([{"minPartitions": 1000}, {"maxRecordsPerPartition": 7}, {"maxPartitionBytes": 1}])
)
def test_splits_have_each_record_once_and_in_order(broker: str, options: dict[str, int]) -> None:
    split = tasks(broker_data(broker), default(includeHeaders="true"), **options)
    assert len(split) > 100
    assert [row for task in split for row in task] == whole(broker)
    if "maxRecordsPerPartition" in options:
        assert max(map(len, split)) <= 7


def test_tasks_are_as_many_as_asked_for_or_a_multiple_and_of_one_size() -> None:
    def size(total: int, **options: int) -> int:
        return split_bytes(parse_options(given(DATA, options)), total)

    assert size(1000, maxPartitionBytes=300) == 300
    assert size(1000, minPartitions=2) == 500
    assert size(1000, minPartitions=2, maxPartitionBytes=500) == 500
    assert size(1000, minPartitions=2, maxPartitionBytes=499) == 250
    assert size(1000, minPartitions=3, maxPartitionBytes=150) == 112
    assert size(0, minPartitions=3) == 1


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 10_000])
def test_small_files_share_as_many_tasks_as_are_asked_for(count: int) -> None:
    splits = [Split("orders", 0, None, start=row, cost=1000 * (row % 7)) for row in range(count)]
    planned = [
        cast(ReadTask, each).splits for each in tasks_of(splits, parse_options(given(DATA, {"minPartitions": 64})))
    ]
    assert len(planned) == min(64, count)
    assert [each for task in planned for each in task] == splits
    assert max(map(len, planned)) <= -(-count // 64) + 1


def test_one_large_file_among_small_ones_has_tasks_of_its_own() -> None:
    options = given(DATA, {"minPartitions": 8, "maxPartitionBytes": 100 << 20})
    costs = [*[1000] * 50, *[90 << 20] * 10, *[1000] * 50]
    splits = [Split("orders", 0, None, start=row, cost=cost) for row, cost in enumerate(costs)]
    planned = [cast(ReadTask, each).splits for each in tasks_of(splits, parse_options(options))]
    assert len(planned) == 16
    assert max(sum(each.cost for each in task) for task in planned) < 100 << 20


def test_a_query_is_planned_without_kernels() -> None:
    """Spark plans in a process of its own, which would have to load them."""
    program = f"""
import sys
from brokerless.spark.options import parse_options
from brokerless.spark.plan import plan
options = {{"path": {str(DATA / "__transaction_state-1")!r}, "maxPartitionBytes": "3000"}}
options |= {{"endingOffsets": '{{"__transaction_state": {{"1": 200}}}}'}}
print(len(plan(parse_options(options))), "numba" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    tasks, has_numba = ran.stdout.split()
    assert int(tasks) > 5
    assert has_numba == "False"


FAR: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"startingTimestamp": 1}, ("segments-0", "txn-1")),
    ({"maxRecordsPerPartition": 30}, ("segments-0",)),
]


@pytest.mark.parametrize(("options", "partitions"), FAR)
def test_what_is_far_away_is_planned_side_by_side_and_the_same(
    options: dict[str, Any], partitions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions, and the segments of one. Nobody goes on before a second file is opened at the same time."""
    directory = f"side-by-side-{len(partitions)}"
    memory: Any = MemoryFileSystem()
    for name in partitions:
        memory.put(str(DATA / name), f"/{directory}/{name}", recursive=True)
    local = [reads(split) for name in partitions for split in splits(DATA / name, options)]
    together, opened = Barrier(2, timeout=20), itertools.count()
    open_one: Any = MemoryFileSystem._open  # type: ignore[reportPrivateUsage]

    def open_two(*arguments: Any, **named: Any) -> Any:
        if next(opened) < 2:
            together.wait()
        return open_one(*arguments, **named)

    monkeypatch.setattr(MemoryFileSystem, "_open", open_two)
    far = splits(f"memory://{directory}", options)
    assert [reads(split) for split in far] == local
    assert next(opened) > 2


def splits(path: Path | str, options: dict[str, Any]) -> list[Split]:
    return [split for task in plan(parse_options(given(path, options))) for split in cast(ReadTask, task).splits]


def reads(split: Split) -> tuple[object, ...]:
    assert split.segment is not None
    return split.topic, split.partition, split.segment.base_offset, split.start, split.end, split.bounds, split.first


def test_a_task_keeps_what_it_loaded_for_the_next_ones() -> None:
    keep_what_was_loaded_with.cache_clear()
    assert tasks(DATA)
    assert keep_what_was_loaded_with.cache_info().currsize >= 1


def test_what_makes_a_source_and_what_plans_keep_what_they_loaded() -> None:
    keep_what_was_loaded_with.cache_clear()
    source = BrokerlessSource({"path": str(DATA)})
    assert keep_what_was_loaded_with.cache_info().currsize >= 1
    reader = source.reader(source.schema())
    keep_what_was_loaded_with.cache_clear()
    assert reader.partitions()
    assert keep_what_was_loaded_with.cache_info().currsize >= 1


def test_splits_are_the_same_without_an_index(tmp_path: Path) -> None:
    for log in (DATA / "segments-0").glob("*.log"):
        (tmp_path / log.name).write_bytes(log.read_bytes())
    parts = tasks(tmp_path, minPartitions=1000)
    assert len(parts) > len(list(tmp_path.iterdir()))
    assert [row["offset"] for task in parts for row in task] == SEGMENTS


@pytest.mark.slow(reason="many tasks")
def test_small_files_share_a_task() -> None:
    assert len(tasks(DATA)) < 10
    assert len(tasks(DATA, maxPartitionBytes=1)) > 50


def test_the_batches_table_is_split_too() -> None:
    schema = default(table="batches")
    whole = [row for task in tasks(DATA, schema, table="batches") for row in task]
    split = tasks(DATA, schema, table="batches", minPartitions=1000)
    assert [row for task in split for row in task] == whole
    unchecked = [row for task in tasks(DATA, schema, table="batches", checksums="false") for row in task]
    assert unchecked == [{**row, "isValid": None} for row in whole]


def test_a_pattern_of_paths_reads_all_that_match() -> None:
    both = len(offsets(DATA / "codec-lz4-0")) + len(offsets(DATA / "codec-lz4-1"))
    assert len(offsets(DATA / "codec-lz4-[01]")) == both
    assert len(offsets(DATA / "segments-0" / "*")) == len(SEGMENTS)
    with pytest.raises(UnreadableError, match="no path matches"):
        tasks(DATA / "nothing-*")


def test_damage_fails_a_task_after_what_is_before_it() -> None:
    log = case("damaged/all-crcs-wrong").log
    with pytest.raises(DamageError, match=f"{log.name}, position 0: the checksum"):
        tasks(log)
    assert offsets(log, mode="DROPMALFORMED") == []
    assert offsets(log, mode="PERMISSIVE") == []


@pytest.mark.parametrize("cut", [0, 1], ids=["within", "at the end"])
@pytest.mark.parametrize("table", ["records", "batches"])
def test_a_file_that_ends_within_a_batch_is_damaged_unless_it_is_the_last(table: str, cut: int, tmp_path: Path) -> None:
    """Of the last one, a broker may be about to write the rest."""
    schema = OFFSET if table == "records" else StructType([StructField("baseOffset", LongType())])
    for number in range(2):
        first, second = (made(offset, 5).tobytes() for offset in (10 * number, 10 * number + 5))
        content = first + second[: 20 if number == cut else None]
        (tmp_path / "t-0").mkdir(exist_ok=True)
        (tmp_path / "t-0" / f"{10 * number:020}.log").write_bytes(content)
    if cut:
        assert tasks(tmp_path, schema, table=table)
    else:
        with pytest.raises(DamageError, match=r"0\.log, position .*the file ends within a batch"):
            tasks(tmp_path, schema, table=table)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_a_damaged_offset_ends_no_range_wherever_splits_begin(size: int, tmp_path: Path) -> None:
    """And damage after the range is none of the query's."""
    own = [made(10 * each, 10) for each in range(40)]
    own[20][:8] = np.frombuffer((10**7).to_bytes(8, "big"), np.uint8)
    own[31][-1] ^= 1
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(batches(*own).tobytes())
    range_of = {"startingOffsets": "earliest", "endingOffsets": json.dumps({"t": {"0": 305}})}
    expected = [each for each in range(305) if each // 10 != 20]
    assert offsets(tmp_path, maxPartitionBytes=size, **range_of) == expected


@pytest.mark.parametrize("name", ["", "no such path"])
def test_a_path_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(BrokerlessError, match=str(tmp_path)):
        tasks(tmp_path / name)


A, P, O, T = ("topic",), ("partition",), ("offset",), ("timestamp",)  # noqa: E741
TIME = datetime.fromtimestamp(kafkas("clean", "segments-0")[350]["timestamp"] / 1000, UTC)


@pytest.mark.parametrize(
    ("filters", "is_wanted", "is_left"),
    [
        ([spark.EqualTo(A, "segments")], lambda t, p, o, ms: t == "segments", False),
        ([spark.EqualTo(A, "segments"), spark.EqualTo(A, "txn")], lambda *_: False, False),
        ([spark.GreaterThan(O, 300), spark.LessThanOrEqual(O, 310)], lambda t, p, o, ms: 300 < o <= 310, True),
        ([spark.In(O, (4, 7))], lambda t, p, o, ms: 4 <= o <= 7, True),
        ([spark.GreaterThanOrEqual(T, TIME)], lambda t, p, o, ms: ms >= TIME.timestamp() * 1000, True),
        ([spark.LessThan(T, TIME)], lambda t, p, o, ms: ms <= TIME.timestamp() * 1000, True),
        ([spark.Not(spark.EqualTo(A, "txn")), spark.IsNotNull(O)], lambda *_: True, True),
    ],
    ids=["topic", "two topics", "offsets", "some offsets", "since", "until", "neither"],
)
def test_filters_leave_what_can_pass_them(filters: list[spark.Filter], is_wanted: Any, is_left: bool) -> None:
    options = parse_options({"path": str(DATA)})
    reader = PushdownReader(options, choose_columns(default(), options))
    assert bool(list(reader.pushFilters(filters))) == is_left
    found = Counter((row["topic"], row["partition"], row["offset"]) for task in read(reader) for row in task)
    wanted: Counter[tuple[str, int, int]] = Counter()
    for directory in DATA.glob("*-[0-9]"):
        topic, _, partition = directory.name.rpartition("-")
        for each in kafkas("clean", directory.name):
            is_deleted = topic == "head-deleted" and each["offset"] < 105
            if not is_deleted and is_wanted(topic, int(partition), each["offset"], each["timestamp"]):
                wanted[topic, int(partition), each["offset"]] += 1
    assert found == wanted


def test_a_filter_of_times_passes_over_what_is_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the time index, as the option ``startingTimestamp`` does."""
    starts: list[int] = []

    def read_file(file: Any, reading: Any, report: Any, start: int, *rest: Any) -> Any:
        starts.append(start)
        return log_partition_read(file, reading, report, start, *rest)

    log_partition_read = log_partition.read_file
    monkeypatch.setattr(log_partition, "read_file", read_file)
    options = parse_options({"path": str(DATA / "segments-0")})
    reader = PushdownReader(options, choose_columns(default(), options))
    records = kafkas("clean", "segments-0")
    since = max(each["timestamp"] for each in records if each["offset"] < 342)
    reader.pushFilters([spark.GreaterThanOrEqual(T, datetime.fromtimestamp(since / 1000, UTC))])
    found = [row["offset"] for task in read(reader) for row in task]
    assert found == [each["offset"] for each in records if each["timestamp"] >= since]
    assert len(found) < len(records) / 2
    assert len(starts) == 4
    assert all(starts[:2])  # of segments that end before, the last batches are looked at


@pytest.mark.parametrize("prune", ["true", "false"])
def test_without_pruning_a_filter_of_times_reads_what_headers_hide(
    prune: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    time = 1_600_000_000_000
    own = [made(each, 2, time + 10 * each) for each in range(0, 8, 2)]
    with_largest(own[1], time + 20)
    with_largest(own[3], -1)
    (tmp_path / "ev-0").mkdir()
    (tmp_path / "ev-0" / f"{0:020d}.log").write_bytes(batches(*own).tobytes())
    options = parse_options({"path": str(tmp_path), "prune": prune})
    reader = PushdownReader(options, choose_columns(default(), options))
    reader.pushFilters([spark.GreaterThanOrEqual(T, datetime.fromtimestamp((time + 15) / 1000, UTC))])
    found = [row["offset"] for task in read(reader) for row in task]
    assert found == ([2, 3, 4, 5] if prune == "true" else [2, 3, 4, 5, 6, 7])
    assert ("--no-prune" in caplog.text or "prune=False" in caplog.text) == (prune == "true")


def without_a_segment(to: Path) -> Path:
    """``segments-0``, of which the segment from 169 to 341 is not there."""
    shutil.copytree(DATA / "segments-0", to / "segments-0")
    for path in (to / "segments-0").glob(f"{169:020}.*"):
        path.unlink()
    return to


@pytest.mark.parametrize("table", ["records", "batches", "segments"])
@pytest.mark.parametrize("more", [{}, {"maxPartitionBytes": 1000}, {"maxRecordsPerPartition": 13}])
def test_a_missing_segment_is_damage(table: str, more: dict[str, Any], tmp_path: Path) -> None:
    data, name = without_a_segment(tmp_path), {"records": "offset", "batches": "baseOffset", "segments": "baseOffset"}
    plain = StructType([StructField(name[table], LongType())])
    options = {"table": table, **more}
    with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
        tasks(data, plain, **options)
    rows = [row for task in tasks(data, plain, mode="DROPMALFORMED", **options) for row in task]
    corrupt = StructType([*plain.fields, StructField("_corrupt_record", StringType())])
    permissive = [row for task in tasks(data, corrupt, mode="PERMISSIVE", **options) for row in task]
    told = [json.loads(row["_corrupt_record"]) for row in permissive if row["_corrupt_record"] is not None]
    assert [(each["kind"], each["offset"]) for each in told] == [("missing-segment", 169)]
    assert len(permissive) == len(rows) + 1


@pytest.mark.parametrize("more", [{}, {"maxPartitionBytes": 1000}, {"maxRecordsPerPartition": 13}])
@pytest.mark.parametrize(("start", "end", "is_told"), [(0, 169, False), (0, 170, True), (341, -1, True),
                                                      (342, -1, False), (200, 300, True)])  # fmt: skip
def test_what_is_missing_outside_of_a_query_does_not_matter(
    start: int, end: int, is_told: bool, more: dict[str, Any], tmp_path: Path
) -> None:
    data = without_a_segment(tmp_path)
    limits = {
        "startingOffsets": json.dumps({"segments": {"0": start}}),
        "endingOffsets": json.dumps({"segments": {"0": end}}),
    }
    if is_told:
        with pytest.raises(DamageError, match="offsets 169 to 341 are missing"):
            tasks(data, subscribe="segments", **limits, **more)
    else:
        assert tasks(data, subscribe="segments", **limits, **more)
