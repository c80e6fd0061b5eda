"""A streaming query's driver and tasks without Spark's processes around them, over logs that grow, roll and vanish."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType
from tests.golden import broker_data, broker_expected
from tests.jobs.exports import partition
from tests.log import whole_batches
from tests.log.test_tail import written
from tests.log.whole_batches import shifted
from tests.spark.limits import HAS_LIMITS, needs_limits
from tests.spark.test_plan import kafkas

from brokerless.errors import DamageError, UnreadableError, UsageError
from brokerless.log.checkpoint.commit_journal import GrowingPartition, Journal, Renaming, write_journal
from brokerless.log.commit.partition_writer import unfinished_name
from brokerless.log.names import COMMIT_JOURNAL
from brokerless.spark.source import BrokerlessSource
from brokerless.spark.stream.reader import EverythingReader

DATA = broker_data("clean")
Rows = list[tuple[str, int, int]]
SCHEMA = StructType(
    [StructField("topic", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType())]
)


class Query:
    """What Spark does with a reader: a trigger asks how far to read, reads, and notes how far it is."""

    def __init__(self, path: Path | str, position: Any = None, schema: StructType = SCHEMA, **options: Any) -> None:
        given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
        self.reader: Any = BrokerlessSource(given).streamReader(schema)
        self.position, self.rows = position, Rows()

    def trigger(self, limit: Any = None) -> Rows:
        start = self.reader.initialOffset() if self.position is None else self.position
        asked = (start, limit or self.reader.getDefaultReadLimit()) if HAS_LIMITS else ()
        end = self.reader.latestOffset(*asked)
        rows = read(self.reader, start, end)
        self.position = end
        self.reader.commit(end)
        self.rows += rows
        return rows

    @property
    def offsets(self) -> Any:
        """The position without what identifies its logs."""
        return {topic: offsets for topic, offsets in self.position.items() if not topic.startswith("@")}

    @property
    def with_ids(self) -> Any:
        """The position without the last records."""
        return {name: value for name, value in self.position.items() if name != "@lastRecords"}

    def available_now(self) -> list[Rows]:
        """The rows of each micro-batch; as Spark, it ends when a trigger is where it was, but begins in any case."""
        self.reader.prepareForTriggerAvailableNow()
        found = [self.trigger()]
        while True:
            before = json.dumps(self.position)
            rows = self.trigger()
            if json.dumps(self.position) == before:
                return found
            found.append(rows)


def read(reader: DataSourceStreamReader, start: Any, end: Any) -> Rows:
    """What Spark does between: positions go through JSON, tasks through pickle."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    tasks = reader.partitions(start, end)
    return [tuple(row.values()) for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]  # type: ignore[misc]


def there(*names: str) -> Rows:
    """The records of partitions as Kafka's reader found them."""
    found: Rows = []
    for name in sorted(names):
        topic, _, partition = name.rpartition("-")
        found += [(topic, int(partition), line["offset"]) for line in kafkas("clean", name)]
    return found


def copy(name: str, to: Path) -> Path:
    return Path(shutil.copytree(DATA / name, to / name))


def at(**offsets: Any) -> str:
    return json.dumps({topic: {"0": offset} for topic, offset in offsets.items()})


def remove(log: Path, *others: str) -> None:
    """As retention does: the segment's files get another name, and a minute later they go."""
    for path in log.parent.glob(f"{log.stem}.*"):
        path.rename(f"{path}.deleted")


@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": 500}, {"maxRecordsPerPartition": 7}], ids=str)
def test_each_record_comes_once_and_in_order_as_the_log_grows(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    query = Query(tmp_path / "logs", startingOffsets="earliest", **options)
    assert query.trigger() == []
    for number, batch in enumerate(written("segments-0", tmp_path / "logs" / "segments-0")):
        assert [offset for _, _, offset in query.trigger()] == list(range(batch["baseOffset"], batch["lastOffset"] + 1))
        assert query.offsets == {"segments": {"0": batch["lastOffset"] + 1}}
        assert query.trigger() == []
        if number % 5 == 0:  # another process goes on from the checkpoint
            query = Query(tmp_path / "logs", query.position, **options)
            query.rows = there("segments-0")[: batch["lastOffset"] + 1]
    assert query.rows == there("segments-0")


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_what_a_commit_adds_is_there_when_the_commit_has_ended(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is going on, or was cut short, whatever it takes."""
    copy("segments-0", tmp_path)
    copy("edges-0", tmp_path)
    all_of_it, last = there("segments-0"), max(int(log.stem) for log in (tmp_path / "segments-0").glob("*.log"))
    before = [row for row in all_of_it if row[2] < last]
    query = Query(tmp_path, startingOffsets="earliest", mode=mode)
    growing = GrowingPartition("segments", 0, last, last, -1)
    journal = Journal.begun().grow(growing).decide([Renaming(unfinished_name("edges", 0), "edges-0")])
    write_journal(tmp_path, journal)
    assert query.trigger() == before
    assert query.trigger() == []
    (tmp_path / COMMIT_JOURNAL).unlink()
    assert query.trigger() == there("edges-0") + all_of_it[len(before) :]
    assert not caplog.records


@pytest.mark.parametrize("name", ["txn-0", "compacted-txn-0"])
def test_committed_records_come_once_their_transactions_have_ended(name: str, tmp_path: Path) -> None:
    expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())["read_committed"]
    options = {"kafka.isolation.level": "read_committed"}
    (tmp_path / "logs").mkdir()
    query = Query(tmp_path / "logs", startingOffsets="earliest", **options)
    query.trigger()
    for number, _ in enumerate(written(name, tmp_path / "logs" / name)):
        query.trigger()
        if number % 7 == 0:
            before = query
            query = Query(tmp_path / "logs", before.position, **options)
            query.rows = before.rows
    assert [offset for _, _, offset in query.rows] == expected[name]["offsets"]


def test_a_query_begins_where_its_options_say() -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        topic, ends = "txn", []
        expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())[isolation]["txn-0"]
        options = {"assign": json.dumps({topic: [0]}), "kafka.isolation.level": isolation}
        for latest in ({}, {"startingOffsets": "latest"}, {"startingOffsets": at(**{topic: -1})}):
            query = Query(DATA, **options, **latest)
            assert query.trigger() == []
            ends.append(query.offsets)
        assert ends == [{topic: {"0": expected["endOffset"]}}] * 3
        for earliest in ("earliest", at(**{topic: -2}), at(**{topic: 0})):
            rows = Query(DATA, **options, startingOffsets=earliest).trigger()
            assert [offset for _, _, offset in rows] == expected["offsets"]
    first, time = kafkas("clean", "segments-0")[310]["offset"], kafkas("clean", "segments-0")[310]["timestamp"]
    for by_time in ({"startingTimestamp": time}, {"startingOffsetsByTimestamp": at(segments=time)}):
        rows = Query(DATA, subscribe="segments", **by_time).trigger()
        assert [offset for _, _, offset in rows if offset >= first] == list(range(first, 700))
        assert rows == Query(DATA, subscribe="segments", startingOffsets=at(segments=rows[0][2])).trigger()
    late = {"subscribe": "segments", "startingTimestamp": 4_000_000_000_000}
    with pytest.raises(UsageError, match="startingOffsetsByTimestampStrategy=latest"):
        Query(DATA, **late).trigger()
    assert Query(DATA, **late, startingOffsetsByTimestampStrategy="latest").trigger() == []


@needs_limits
def test_a_limit_is_shared_out_by_what_there_is(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    query = Query(DATA, subscribe="segments,edges,prealloc,empty", startingOffsets="earliest", maxOffsetsPerTrigger=93)
    first = query.trigger()
    # 93 of 944: of 24, 0, 220 and 700.
    assert query.offsets == {
        "edges": {"0": 2},
        "empty": {"0": 0, "1": 0},
        "prealloc": {"0": 21},
        "segments": {"0": 68},
    }
    everything = there("edges-0", "prealloc-0", "segments-0")
    assert query.trigger(ReadAllAvailable()) == [row for row in everything if row not in first]
    few = Query(DATA, subscribe="edges,segments", startingOffsets="earliest", maxOffsetsPerTrigger=1)
    assert few.trigger() == [("edges", 0, 0), ("segments", 0, 0)]


@needs_limits
def test_a_trigger_waits_for_enough_offsets(tmp_path: Path) -> None:
    steps = written("segments-0", tmp_path / "segments-0")
    next(steps)
    least = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 100}
    query, hasty = Query(tmp_path, **least), Query(tmp_path, **least, maxTriggerDelay="0s", maxOffsetsPerTrigger=100)
    assert len(query.trigger()) == len(hasty.trigger()) < 100  # the first does not wait
    found = [len(query.trigger()) for batch in steps if hasty.trigger() is not None]
    assert all(count == 0 or count >= 100 for count in found)
    assert any(found)
    assert hasty.rows == there("segments-0")


@needs_limits
def test_available_now_is_what_was_there_when_it_started(tmp_path: Path) -> None:
    shutil.copytree(DATA / "prealloc-0", tmp_path / "prealloc-0")
    steps = written("segments-0", tmp_path / "segments-0")
    batch = [next(steps) for _ in range(10)][-1]
    query = Query(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger=100)
    query.reader.prepareForTriggerAvailableNow()
    for _ in steps:
        pass
    copy("edges-0", tmp_path)
    query.reader.prepareForTriggerAvailableNow = lambda: None
    found = query.available_now()
    assert sorted(query.rows) == there("prealloc-0") + there("segments-0")[: batch["lastOffset"] + 1]
    assert len(found) > 3
    again = Query(tmp_path, query.position)
    again.available_now()
    assert sorted(query.rows + again.rows) == there("edges-0", "prealloc-0", "segments-0")


def test_what_appears_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    copy("segments-0", tmp_path)
    every, pattern, one = (
        Query(tmp_path, **options) for options in ({}, {"subscribePattern": "e.*"}, {"subscribe": "segments"})
    )
    assert [query.trigger() for query in (every, pattern, one)] == [[], [], []]
    copy("edges-0", tmp_path)
    assert [query.trigger() for query in (every, pattern, one)] == [there("edges-0"), there("edges-0"), []]
    with pytest.raises(UnreadableError, match="there is no topic 'edgse'"):
        Query(tmp_path, subscribe="edgse").trigger()


def test_records_that_appear_later_begin_at_the_log_start_offset(tmp_path: Path) -> None:
    """As for a consumer: the files have records from 74 on, and ``DeleteRecords`` took those before 105."""
    shutil.copy(DATA / "log-start-offset-checkpoint", tmp_path)
    copy("segments-0", tmp_path)
    query, every = (
        Query(tmp_path, failOnDataLoss="false", **more) for more in ({"kafka.isolation.level": "read_committed"}, {})
    )
    query.trigger(), every.trigger()
    copy("head-deleted-0", tmp_path)
    rest = [row for row in there("head-deleted-0") if row[2] >= 105]
    assert (query.trigger(), every.trigger()) == (rest, rest)


LOSSES: dict[str, tuple[Callable[[Path], object], str, Rows]] = {
    "segments that retention removed": (
        lambda path: [remove(each) for each in sorted(path.glob("segments-0/*.log"))[:2]],
        "segments-0: offset 200 comes next, but the log now begins at 342",
        there("segments-0")[342:],
    ),
    "a partition": (
        lambda path: shutil.rmtree(path / "segments-0"),
        "segments-0: it was read up to offset 200, and is not there any more",
        [],
    ),
    "a segment within": (
        lambda path: remove(sorted(path.glob("segments-0/*.log"))[1]),
        "offsets 169 to 341 are not there",
        there("segments-0")[342:],
    ),
    "the end of a log": (
        lambda path: [remove(each) for each in sorted(path.glob("segments-0/*.log"))[1:]],
        "segments-0: offset 200 comes next, but the log was cut back to 169",
        [],
    ),
    "the beginning of a new partition": (
        lambda path: (copy("retention-0", path), copy("segments-0", path / "..")),
        "retention-0: it is new, but begins at offset 278",
        there("retention-0", "segments-0")[:-500],
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_lost_ends_the_query_or_is_logged(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lose, message, left = LOSSES[name]
    path = tmp_path / "logs"
    copy("segments-0", path)
    strict, lenient = (Query(path, at_offset(200), failOnDataLoss=fails) for fails in ("true", "false"))
    lose(path)
    if name.startswith("the beginning"):
        left = there("retention-0") + there("segments-0")[200:]
    with pytest.raises(UnreadableError, match=f"{message}.*failOnDataLoss=false"):
        strict.trigger()
    with caplog.at_level(logging.WARNING):
        assert lenient.trigger() == left
        assert lenient.trigger() == []
    assert [record.message for record in caplog.records if message in record.message]


def at_offset(offset: int) -> Any:
    return {"segments": {"0": offset}}


def test_a_partition_that_comes_back_is_read_on(tmp_path: Path) -> None:
    path = copy("segments-0", tmp_path)
    query = Query(tmp_path, at_offset(200), failOnDataLoss="false")
    assert query.trigger() == there("segments-0")[200:]
    path.rename(tmp_path / "elsewhere")
    assert query.trigger() == []
    (tmp_path / "elsewhere").rename(path)
    assert query.trigger() == []
    assert query.offsets == at_offset(700)


def test_a_task_reads_a_segment_that_retention_removed_meanwhile(tmp_path: Path) -> None:
    copy("segments-0", tmp_path)
    for fails, gone in (("true", False), ("true", True), ("false", True)):
        shutil.rmtree(tmp_path / "segments-0")
        first = sorted(copy("segments-0", tmp_path).glob("*.log"))[0]
        reader = BrokerlessSource({"path": str(tmp_path), "failOnDataLoss": fails}).streamReader(SCHEMA)
        tasks = reader.partitions(at_offset(0), at_offset(700))
        remove(first)
        if gone:
            first.with_name(f"{first.name}.deleted").unlink()
        given = lambda: [row["offset"] for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]  # noqa: B023, E731
        if fails == "true" and gone:
            with pytest.raises(UnreadableError, match="failOnDataLoss=false"):
                given()
        else:
            assert given() == list(range(169 if gone else 0, 700))


def test_segments_that_come_after_what_follows_them_are_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "source"
    copy("segments-0", source)
    target = tmp_path / "logs" / "segments-0"
    target.mkdir(parents=True)
    first, second, third, fourth = sorted((source / "segments-0").glob("*.log"))
    shutil.copy(first, target)
    shutil.copy(third, target)
    query = Query(tmp_path / "logs", startingOffsets="earliest", failOnDataLoss="false")
    assert query.trigger() == [row for row in there("segments-0")[:543] if not 169 <= row[2] < 342]
    shutil.copy(second, target)
    assert query.trigger() == []
    shutil.copy(fourth, target)
    assert query.trigger() == there("segments-0")[543:]
    assert any(f"{second.name}: this came into the log after" in record.message for record in caplog.records)


SEGMENT = 9 * len(shifted(0, 0))


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (0, UnreadableError, "offsets 90 to 179 are not there"),
        (SEGMENT // 3, UnreadableError, "offsets 120 to 179 are not there"),
        (SEGMENT // 3 + 30, DamageError, "ends within a batch"),
        (SEGMENT // 3 + 10, DamageError, "ends within the header of a batch"),
        (SEGMENT // 3 + 5, UnreadableError, "offsets 120 to 179 are not there"),  # zeros are as good as nothing
    ],
)
def test_a_segment_that_is_not_copied_to_its_end_is_waited_for(
    size: int, error: type[Exception], message: str, tmp_path: Path
) -> None:
    path = partition(tmp_path / "logs" / "t-0", b"".join(shifted(10 * each, 0) for each in range(9)))
    query = Query(path.parent, startingOffsets="earliest")
    assert len(query.trigger()) == 90
    whole = [b"".join(shifted(90 * number + 10 * each, 0) for each in range(9)) for number in (1, 2)]
    for number, content in enumerate(whole, 1):
        (path / f"{90 * number:020}.log").write_bytes(content[: size if number == 1 else None])
    with pytest.raises(error, match=message):
        query.trigger()
    query = Query(path.parent, query.position)
    (path / f"{90:020}.log").write_bytes(whole[0])
    assert [offset for _, _, offset in query.trigger()] == list(range(90, 270))


COMPACTED = sorted(
    path for broker in ("clean", "old-formats") for path in broker_data(broker).glob("compacted-*") if path.is_dir()
)


@pytest.mark.parametrize("source", COMPACTED, ids=lambda path: path.name)
def test_what_the_cleaner_left_is_read_without_its_checkpoint(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source, tmp_path / source.name)
    rows = Query(tmp_path, startingOffsets="earliest").trigger()
    assert [offset for _, _, offset in rows] == [each["offset"] for each in kafkas(source.parents[1].name, source.name)]


@pytest.mark.parametrize("sign", ["a hole within a file", "a batch with fewer records", "the cleaner's checkpoint"])
def test_what_compaction_took_is_not_lost(sign: str, tmp_path: Path) -> None:
    kept = [each for each in range(12) if each not in (4, 5) and not (sign == "a hole within a file" and each == 7)]
    path = partition(
        tmp_path / "logs" / "t-0", b"".join(whole_batches.batch(each).tobytes() for each in kept if each < 6)
    )
    last = [whole_batches.batch(each).tobytes() for each in kept if each >= 6]
    if sign == "a batch with fewer records":
        last[-1] = whole_batches.batch(11, 2, step=3).tobytes()
    if sign == "the cleaner's checkpoint":
        (path.parent / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 12\n")
    (path / f"{6:020}.log").write_bytes(b"".join(last))
    offsets = [offset for _, _, offset in Query(path.parent, startingOffsets="earliest").trigger()]
    assert offsets == kept + ([14] if sign == "a batch with fewer records" else [])


def test_damage_is_reported_once_and_as_the_mode_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corrupt = StructType([*SCHEMA, StructField("_corrupt_record", StringType())])
    queries = {
        mode: Query(tmp_path, at_offset(0), corrupt if mode == "PERMISSIVE" else SCHEMA, mode=mode)
        for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
    }
    damaged: dict[str, Any] = {}
    for number, batch in enumerate(written("segments-0", tmp_path / "segments-0")):
        if number == 2:
            damaged = batch
            log = tmp_path / "segments-0" / batch["file"]
            content = bytearray(log.read_bytes())
            content[batch["position"] + 70] ^= 1
            log.write_bytes(content)
        if number > 3:
            with pytest.raises(DamageError, match=f"position {damaged['position']}: the checksum"):
                queries["FAILFAST"].trigger()
        for mode in ("PERMISSIVE", "DROPMALFORMED"):
            queries[mode].trigger()
    lost = range(damaged["baseOffset"], damaged["lastOffset"] + 1)
    left = [row for row in there("segments-0") if row[2] not in lost]
    assert queries["DROPMALFORMED"].rows == left
    told = [row for row in queries["PERMISSIVE"].rows if row[3] is not None]  # type: ignore[misc]
    assert [json.loads(row[3])["kind"] for row in told] == ["checksum-mismatch"]  # type: ignore[misc]
    assert [row[:3] for row in queries["PERMISSIVE"].rows if row not in told] == left


@pytest.mark.parametrize("options", [{}, {"maxPartitionBytes": 100}, {"maxRecordsPerPartition": 7}], ids=str)
@pytest.mark.parametrize("by", [1 << 20, -20])
def test_batches_at_offsets_that_cannot_be_are_reported(by: int, options: dict[str, Any], tmp_path: Path) -> None:
    log = [shifted(10 * each, by if each == 4 else 0) for each in range(8)]
    path = partition(tmp_path / "logs" / "t-0", b"".join(log[:3]))
    queries = {
        mode: Query(path.parent, startingOffsets="earliest", mode=mode, **options)
        for mode in ("FAILFAST", "DROPMALFORMED")
    }
    for query in queries.values():
        assert len(query.trigger()) == 30
    partition(path, b"".join(log))
    position = sum(map(len, log[:4]))
    with pytest.raises(DamageError, match=f"position {position}: .* cannot be here"):
        queries["FAILFAST"].trigger()
    queries["DROPMALFORMED"].trigger()
    assert queries["DROPMALFORMED"].rows == [("t", 0, each) for each in range(80) if each not in range(40, 50)]


def test_a_file_under_anothers_name_is_reported(tmp_path: Path) -> None:
    path = partition(tmp_path / "logs" / "t-0", shifted(0, 0))
    for base, content in ((10, shifted(10, 1000)), (20, shifted(20, 0))):
        (path / f"{base:020}.log").write_bytes(content)
    with pytest.raises(DamageError, match=r"10\.log, position 0: .* cannot be here"):
        Query(path.parent, startingOffsets="earliest", mode="FAILFAST").trigger()
    query = Query(path.parent, startingOffsets="earliest", mode="DROPMALFORMED")
    assert [offset for _, _, offset in query.trigger()] == [*range(10), *range(20, 30)]


def test_a_compaction_that_was_cut_short_is_read_as_the_next_start_completes_it(tmp_path: Path) -> None:
    logs = sorted(copy("segments-0", tmp_path).glob("*.log"))
    logs[1].rename(f"{logs[1]}.swap")
    assert Query(tmp_path, at_offset(0)).trigger() == there("segments-0")


def test_what_the_next_start_deletes_is_lost_data(tmp_path: Path) -> None:
    logs = sorted(copy("segments-0", tmp_path).glob("*.log"))
    logs[1].rename(f"{logs[1]}.cleaned")
    with pytest.raises(UnreadableError, match=r"log\.cleaned: offsets .* are in no file that stays"):
        Query(tmp_path, at_offset(0)).trigger()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "batches"}, "only records can be streamed, not batches"),
        ({"endingOffsets": "latest"}, "a streaming query has no end"),
        ({"endingTimestamp": "5"}, "availableNow=True"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than maxOffsetsPerTrigger"),
        ({"maxOffsetsPerTrigger": "all"}, "above 0"),
        ({"maxTriggerDelay": "soon"}, "500ms, 30s or 15m"),
        ({"startingOffsets": '{"segments":{"0":5}}'}, "all partitions"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Query(DATA, **options).trigger()


def test_what_a_stream_cannot_follow_is_refused(tmp_path: Path) -> None:
    log = next(copy("edges-0", tmp_path / "a").glob("*.log"))
    copy("edges-0", tmp_path / "b")
    with pytest.raises(UsageError, match="give its partition's directory"):
        Query(log).trigger()
    with pytest.raises(UsageError, match="edges-0 is in two directories"):
        Query(tmp_path / "*").trigger()
    with pytest.raises(UnreadableError, match="no such file or directory"):
        Query(tmp_path / "c").trigger()
    with pytest.raises(UsageError, match="a checkpointLocation of its own"):
        Query(tmp_path / "a", {"logOffset": 3}).trigger()


def test_spark_4_1_is_given_everything_and_refused_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(DataSourceStreamReader, "getDefaultReadLimit", raising=False)
    steps = written("segments-0", tmp_path / "segments-0")
    next(steps)
    source = BrokerlessSource({"path": str(tmp_path), "startingOffsets": "earliest"})
    reader = source.streamReader(SCHEMA)
    assert isinstance(reader, EverythingReader)
    start, rows = reader.initialOffset(), Rows()
    for number, _ in enumerate(steps):
        end = reader.latestOffset()
        rows += read(reader, start, end)
        start = end
        if number == 5:
            reader = source.streamReader(SCHEMA)
            assert isinstance(reader, EverythingReader)
    rows += read(reader, start, reader.latestOffset())
    assert rows == there("segments-0")
    with pytest.raises(UsageError, match=r"Spark 4\.2 or newer"):
        BrokerlessSource({"path": str(tmp_path), "maxOffsetsPerTrigger": "5"}).streamReader(SCHEMA).latestOffset()


def made_again(path: Path, topic_id: str, count: int) -> None:
    """A topic of one partition, with an ID; in place of one that was there."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    batches = [whole_batches.batch(offset, 10) for offset in range(0, count, 10)]
    (path / f"{0:020d}.log").write_bytes(whole_batches.batches(*batches).tobytes())
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


OLD, NEW = "yPjNkh68RpC5VmRiulNUsQ", "sT8tjnE0RTycdQSGC5x__g"


@pytest.mark.parametrize("count", [50, 500])
@pytest.mark.parametrize("is_new_process", [False, True])
def test_a_topic_that_was_made_again_is_lost_data_and_begins_anew(
    count: int, is_new_process: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets have nothing to do with those of the topic that had its name, whether there are more or fewer."""
    made_again(tmp_path / "ev-0", OLD, 100)
    query = Query(tmp_path, startingOffsets="earliest")
    assert len(query.trigger()) == 100
    assert query.with_ids == {"@topicIds": {"ev": OLD}, "ev": {"0": 100}}
    made_again(tmp_path / "ev-0", NEW, count)
    failing = Query(tmp_path, query.position) if is_new_process else query
    with pytest.raises(UnreadableError, match=f"ev: it was deleted and made again.*topic ID {OLD}, and has {NEW} now"):
        failing.trigger()
    going_on = Query(tmp_path, query.position, failOnDataLoss=False)
    assert [offset for _, _, offset in going_on.trigger()] == list(range(count))
    assert going_on.with_ids == {"@topicIds": {"ev": NEW}, "ev": {"0": count}}
    assert going_on.trigger() == []
    assert "it was deleted and made again" in caplog.text


def test_a_topic_that_is_made_again_while_a_trigger_is_planned_is_not_read_by_its_old_offsets(tmp_path: Path) -> None:
    made_again(tmp_path / "ev-0", OLD, 100)
    query = Query(tmp_path, startingOffsets="earliest", failOnDataLoss=False)
    start = query.reader.initialOffset()
    asked = (start, query.reader.getDefaultReadLimit()) if HAS_LIMITS else ()
    end = query.reader.latestOffset(*asked)
    made_again(tmp_path / "ev-0", NEW, 500)
    assert read(query.reader, start, end) == []
    query.position = end
    assert [offset for _, _, offset in query.trigger()] == list(range(500))


def test_a_checkpoint_without_topic_ids_goes_on(tmp_path: Path) -> None:
    """As an earlier version wrote it, and spark-sql-kafka does."""
    made_again(tmp_path / "ev-0", OLD, 100)
    query = Query(tmp_path, {"ev": {"0": 40}})
    assert [offset for _, _, offset in query.trigger()] == list(range(40, 100))
    assert query.with_ids == {"@topicIds": {"ev": OLD}, "ev": {"0": 100}}


def test_a_topic_that_was_made_again_without_ids_is_known_by_its_last_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written_again(tmp_path, ((0, 0, 100),))
    query = Query(tmp_path, startingOffsets="earliest")
    assert len(query.trigger()) == 100
    assert query.trigger() == []
    written_again(tmp_path, ((0, 5000, 150),))
    with pytest.raises(UnreadableError, match=r"ev-0: at offset 99 was a record of .* made again, or"):
        Query(tmp_path, query.position).trigger()
    going_on = Query(tmp_path, query.position, failOnDataLoss=False)
    assert [offset for _, _, offset in going_on.trigger()] == list(range(150))
    assert going_on.trigger() == []
    assert "made again" in caplog.text


def test_a_log_that_was_cut_back_is_read_on_from_the_cut(tmp_path: Path) -> None:
    """As spark-sql-kafka does: the batch that notices it has no records, and ends at the cut."""
    for available_now in (False, True):
        path = tmp_path / str(available_now)
        written_again(path, ((0, 0, 100),))
        query = Query(path, startingOffsets="earliest")
        assert len(query.trigger()) == 100
        written_again(path, ((0, 0, 50),))
        with pytest.raises(UnreadableError, match="offset 100 comes next, but the log was cut back to 50"):
            Query(path, query.position).trigger()
        query = Query(path, query.position, failOnDataLoss=False)
        if available_now and HAS_LIMITS:
            query.available_now()
        else:
            query.trigger()
        assert query.rows == []
        assert query.offsets == {"ev": {"0": 50}}
        written_again(path, ((0, 0, 50), (1, 5000, 110)))
        assert [offset for _, _, offset in Query(path, query.position).trigger()] == list(range(50, 110))


def test_a_log_that_was_cut_back_and_has_grown_since_is_read_from_where_its_epoch_ends(tmp_path: Path) -> None:
    """KIP-320: a record of epoch 3 was read at offset 99, and epoch 4 begins at offset 50."""
    written_again(tmp_path, ((3, 0, 100),))
    query = Query(tmp_path, startingOffsets="earliest", maxRecordsPerPartition=7)
    assert len(query.trigger()) == 100
    written_again(tmp_path, ((3, 0, 50), (4, 5000, 130)))
    with pytest.raises(UnreadableError, match="the log was cut back to offset 50, and written again from there; the"):
        Query(tmp_path, query.position).trigger()
    going_on = Query(tmp_path, query.position, failOnDataLoss=False)
    assert [offset for _, _, offset in going_on.trigger()] == list(range(50, 130))
    assert going_on.trigger() == []


def test_a_log_that_is_cut_back_while_a_trigger_is_planned_is_not_read_by_its_old_offsets(tmp_path: Path) -> None:
    written_again(tmp_path, ((3, 0, 100),))
    query = Query(tmp_path, startingOffsets="earliest", failOnDataLoss=False)
    start = query.reader.initialOffset()
    asked = (start, query.reader.getDefaultReadLimit()) if HAS_LIMITS else ()
    end = query.reader.latestOffset(*asked)
    written_again(tmp_path, ((3, 0, 50), (4, 5000, 130)))
    assert read(query.reader, start, end) == []
    query.position = end
    assert [offset for _, _, offset in query.trigger()] == list(range(50, 130))


def test_a_compacted_log_is_the_same_one(tmp_path: Path) -> None:
    """Another checksum, and no record at the last offset, or the same one."""
    for left in ((95, 96, 99), (90, 94, 100)):
        path = tmp_path / str(left[-1]) / "ev-0"
        written_again(path.parent, ((0, 0, 100),))
        query = Query(path.parent, startingOffsets="earliest")
        assert len(query.trigger()) == 100
        kept = [whole_batches.batch(offset, 10, 1_000_000 + offset) for offset in range(0, 90, 10)]
        kept += [whole_batches.batch(offset, 1, 1_000_090 + offset - 90) for offset in left]
        (path / f"{0:020d}.log").write_bytes(whole_batches.batches(*kept).tobytes())
        assert [offset for _, _, offset in query.trigger()] == [each for each in left if each > 99]


def written_again(directory: Path, epochs: tuple[tuple[int, int, int], ...]) -> None:
    """A log of one partition without a topic ID. ``epochs``: each leader epoch, the age of its records (ms), and the
    offset that it ends before."""
    path = directory / "ev-0"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    made, starts = list[Any](), list[str]()
    begin = 0
    for epoch, age, end in epochs:
        starts.append(f"{epoch} {begin}")
        made += [
            whole_batches.batch(offset, 10, 1_000_000 - age + offset, epoch=epoch) for offset in range(begin, end, 10)
        ]
        begin = end
    (path / f"{0:020d}.log").write_bytes(whole_batches.batches(*made).tobytes())
    (path / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(starts)), *starts, ""]))
