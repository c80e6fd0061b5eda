"""Converted partitions: what a broker wrote is served by a broker as before, and read as before in every format."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.examples import some_quick
from tests.golden import broker_data, broker_expected, case, json_lines, of_type
from tests.kafka.broker import KafkaBroker
from tests.kafka.oracle import dump_everything
from tests.kafka.producers import consume
from tests.log.cleaner import clean, left, write_log, write_segment
from tests.sources import sources_of

import brokerless
from brokerless.errors import DamageError, UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.format.convert import ConversionTarget
from brokerless.jobs.convert.job import Conversion, ConvertResult, ConvertTask, convert, plan
from brokerless.log.checkpoint.leader_epochs import load_leader_epochs
from brokerless.log.checkpoint.offset_checkpoints import read_checkpoints
from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.commit import partition_copy
from brokerless.log.config import LogConfig
from brokerless.log.directory import resolve
from brokerless.log.storage.location import DirectoryEntry, Location

pytestmark = pytest.mark.xdist_group("converted")
NAMES = [path.parent.name for path in sorted(broker_data("clean").glob("*-*/leader-epoch-checkpoint"))]


def paths(source: Path) -> Any:
    return resolve(Location(str(source))).partitions


def run(source: Path, to: Path, conversion: Conversion, findings: list[Finding] | None = None) -> list[ConvertResult]:
    tasks = plan(sources_of(source), to, conversion)
    told = list[Finding]() if findings is None else findings
    results = list(convert(tasks, told.append))
    assert findings is not None or not told
    return results


def rows(path: Path, isolation: Any = "read_uncommitted") -> list[tuple[Any, ...]]:
    columns = ["offset", "timestamp", "timestampType", "key", "value", "headers"]
    return [
        tuple(row.values())
        for partition in brokerless.open(path).partitions
        for batch in partition.records(columns, isolation=isolation)
        for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def recompressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that a broker had, in small segments of larger batches."""
    to = tmp_path_factory.mktemp("recompressed") / "data"
    conversion = Conversion(ConversionTarget(2, "lz4", batch_size=50_000), LogConfig(segment_bytes=60_000))
    assert not any(result.damages for result in run(broker_data("clean"), to, conversion))
    return to


def test_every_partition_is_there_and_intact(recompressed: Path) -> None:
    assert sorted(each.name for each in recompressed.iterdir() if each.is_dir()) == NAMES
    assert not [each for each in brokerless.open(recompressed).verify() if each.severity != "info"]


@pytest.mark.parametrize("name", some_quick(NAMES))
def test_records_ids_epochs_and_the_ends_of_the_log_stay(recompressed: Path, name: str) -> None:
    source, target = broker_data("clean") / name, recompressed / name
    assert rows(target) == rows(source)
    assert rows(target, "read_committed") == rows(source, "read_committed")
    before, after = brokerless.open(source).partitions[0], brokerless.open(target).partitions[0]
    assert after.end_offset == before.end_offset
    metadata = [
        load_partition_metadata(Location(str(path / "partition.metadata"))).topic_id for path in (source, target)
    ]
    assert metadata[0] == metadata[1]
    epochs = [load_leader_epochs(Location(str(path / "leader-epoch-checkpoint"))) for path in (source, target)]
    assert epochs[0].epochs.tolist() == epochs[1].epochs.tolist()
    assert epochs[0].start_offsets.tolist() == epochs[1].start_offsets.tolist()
    topic, _, number = name.rpartition("-")
    noted = [read_checkpoints(path.parent, topic, int(number)).log_start_offset for path in (source, target)]
    assert noted[0] == noted[1]
    assert noted[0] == 105 or name != "head-deleted-0"


def test_kafkas_dump_tool_finds_nothing_in_logs_and_indexes(recompressed: Path, kafka_jars: Path) -> None:
    text = dump_everything(recompressed.rglob("*-*/*"), "--deep-iteration")
    assert text.count("isvalid: true") > 100
    assert not re.search(r"mismatch|do not have|out of order|isvalid: false|invalid|corrupt", text, re.IGNORECASE)


def test_a_broker_serves_what_was_converted(recompressed: Path, kafka_jars: Path, tmp_path: Path) -> None:
    data = tmp_path / "broker" / "data"
    shutil.copytree(recompressed, data)
    shutil.rmtree(data / "__cluster_metadata-0")  # with what a controller keeps beside its log
    for name in ("__cluster_metadata-0", "meta.properties", "bootstrap.checkpoint"):
        original = broker_data("clean") / name
        (shutil.copytree if original.is_dir() else shutil.copy)(original, data / name)
    (expected,) = json_lines(broker_expected("clean") / "read-committed.json")
    with KafkaBroker(tmp_path / "broker") as broker:
        for isolation in ("read_committed", "read_uncommitted"):
            for name in ("txn-0", "txn-1", "compacted-txn-0"):
                topic, _, partition = name.rpartition("-")
                records = consume(broker, topic, int(partition), isolation)
                assert [each.offset for each in records] == expected[isolation][name]["offsets"], name
                wanted = {row[0]: row for row in rows(broker_data("clean") / name)}
                for each in records:
                    offset, timestamp, _, key, value, _ = wanted[each.offset]
                    assert (each.timestamp, each.key, each.value) == (int(timestamp.timestamp() * 1000), key, value)
                    assert each.offset == offset
    shutil.rmtree(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_where_markers_are_left_out_the_log_ends_where_it_did(magic: int, tmp_path: Path) -> None:
    name = "__consumer_offsets-1"
    source = broker_data("clean") / name
    (result,) = run(source, tmp_path / "to", Conversion(ConversionTarget(magic, "gzip")))
    before, after = (brokerless.open(path).partitions[0] for path in (source, tmp_path / "to" / name))
    lines = json_lines(broker_expected("clean") / name / "expected.jsonl")
    markers = [line for line in of_type(lines, "batch") if line["isControl"]]
    assert markers[-1]["lastOffset"] == max(line["lastOffset"] for line in of_type(lines, "batch"))
    assert result.totals.lost["controlBatches"] == len(markers)
    assert after.end_offset == before.end_offset == result.end_offset
    assert not list(after.verify())


@pytest.mark.parametrize("name", ["txn-0", "txn-1", "compacted-txn-0"])
def test_read_committed_leaves_out_what_a_consumer_would_not_get(name: str, tmp_path: Path) -> None:
    (expected,) = json_lines(broker_expected("clean") / "read-committed.json")
    conversion = Conversion(ConversionTarget(1), isolation="read_committed")
    (result,) = run(broker_data("clean") / name, tmp_path, conversion)
    assert [row[0] for row in rows(tmp_path / name)] == expected["read_committed"][name]["offsets"]
    gone = expected["read_uncommitted"][name]["records"] - expected["read_committed"][name]["records"]
    lost = result.totals.lost
    assert lost["aborted"] + lost["undecided"] >= gone > 0 or not gone
    totals, source = result.totals, brokerless.open(broker_data("clean") / name)
    counts = [count for batch in source.batches(["count"]) for count in batch["count"].to_pylist()]
    assert totals.records_in - totals.records_out == lost["controlBatches"] + lost["aborted"] + lost["undecided"]
    assert (totals.records_in, totals.bytes_in) == (sum(counts), sum(source.segments()["sizeInBytes"].to_pylist()))


def test_old_formats_become_new_ones(tmp_path: Path) -> None:
    results = run(broker_data("old-formats"), tmp_path / "v2", Conversion(ConversionTarget(2, "zstd")))
    assert len(results) > 10
    for result in results:
        name = f"{result.task.topic}-{result.task.partition}"
        before, after = rows(broker_data("old-formats") / name), rows(tmp_path / "v2" / name)
        # v0 has neither timestamps nor a type of them.
        assert after == [(*row[:2], max(row[2], 0), *row[3:]) for row in before]
    assert not [each for each in brokerless.open(tmp_path / "v2").verify() if each.severity != "info"]


def test_a_dry_run_counts_the_same_and_writes_nothing(tmp_path: Path) -> None:
    source, target = broker_data("clean") / "txn-0", ConversionTarget(1, "snappy", batch_size=2000)
    (dry,) = run(source, tmp_path / "to", Conversion(target, dry_run=True))
    assert not (tmp_path / "to").exists()
    (wet,) = run(source, tmp_path / "to", Conversion(target))
    assert (dry.totals, dry.start_offset, dry.end_offset) == (wet.totals, wet.start_offset, wet.end_offset)


@pytest.mark.parametrize(
    ("position", "kind"), [(200, "checksum-mismatch"), (None, "truncated-batch")], ids=["flipped", "cut off"]
)
def test_a_damaged_partition_is_reported_and_not_written_and_others_are(
    position: int | None, kind: str, tmp_path: Path
) -> None:
    source = tmp_path / "from"
    for name in ("codec-gzip-1", "codec-lz4-1"):
        shutil.copytree(broker_data("clean") / name, source / name)
    log = source / "codec-gzip-1" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    if position is None:
        del data[-7:]
    else:
        data[position] ^= 1
    log.write_bytes(data)
    findings: list[Finding] = []
    damaged, sound = run(source, tmp_path / "to", Conversion(ConversionTarget(2, "zstd")), findings)
    assert [each.kind for each in damaged.damages] == [kind]
    assert findings == list(damaged.damages)
    assert not sound.damages
    assert sorted(each.name for each in (tmp_path / "to").iterdir() if each.is_dir()) == ["codec-lz4-1"]


def test_a_broken_inside_under_a_right_checksum_is_damage(tmp_path: Path) -> None:
    source = tmp_path / "from" / "orders-0"
    source.mkdir(parents=True)
    shutil.copy(case("damaged/bomb-gzip-after-record").log, source / "00000000000000000000.log")
    findings: list[Finding] = []
    (result,) = run(source, tmp_path / "to", Conversion(ConversionTarget(2, "zstd")), findings)
    assert result.damages == tuple(findings)
    assert not list((tmp_path / "to").glob("orders*"))


def test_nothing_is_begun_that_cannot_be_written(tmp_path: Path) -> None:
    source = broker_data("clean") / "txn-0"
    copy = shutil.copytree(source, tmp_path / "copy" / "txn-0")
    for sources, to, text in (
        ([copy], tmp_path / "copy", "exists already"),
        ([copy], copy / "inside", "is within"),
        ([copy], copy, "is within"),
        ([source, copy], tmp_path / "to", "is both in"),
        ([copy / "00000000000000000000.log"], tmp_path / "to", "give its directory"),
    ):
        with pytest.raises(UsageError, match=text):
            plan(sources_of(*sources), to, Conversion())
    assert not (tmp_path / "to").exists()


def test_a_task_is_a_value(tmp_path: Path) -> None:
    (task,) = plan(sources_of(broker_data("clean") / "txn-0"), tmp_path, Conversion(ConversionTarget(1))).tasks
    assert isinstance(task, ConvertTask)
    assert pickle.loads(pickle.dumps(task)) == task


def test_the_library_converts_a_partition_or_a_log(tmp_path: Path) -> None:
    log = brokerless.open(broker_data("old-formats"))
    (result,) = log.partitions[-1].convert(tmp_path / "one", message_format=2, codec="zstd", level=1)
    assert result.totals.records_out == result.totals.records_in > 0
    assert len(log.convert(tmp_path / "all", message_format=2)) == len(log.partitions)
    assert len(brokerless.open(tmp_path / "all").partitions) == len(log.partitions)


def test_the_library_raises_damage_unless_it_is_to_be_reported(tmp_path: Path) -> None:
    source = shutil.copytree(broker_data("clean") / "txn-0", tmp_path / "txn-0")
    last = max(source.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    partition = brokerless.open(source).partitions[0]
    with pytest.raises(DamageError, match="ends within a batch"):
        partition.convert(tmp_path / "to", codec="gzip")
    findings: list[Finding] = []
    (result,) = partition.convert(tmp_path / "to", codec="gzip", on_damage=findings.append)
    assert result.damages == tuple(findings)
    assert not list((tmp_path / "to").glob("txn*"))


@pytest.mark.parametrize("number", range(0, 15, 2))
def test_kafkas_own_topics_are_copied_while_a_broker_compacts_them(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any of the files is copied, those of some segments are replaced by others."""
    monkeypatch.setattr(partition_copy, "PAUSE_S", 0)
    source = write_log(tmp_path / "disk" / "__consumer_offsets-0")
    (tmp_path / "disk" / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 10\n")
    copied = list[str]()
    copy = partition_copy.copy_file

    def copy_and_clean(entry: DirectoryEntry, *how: Any) -> None:
        if len(copied) == number:
            clean(source, [0, 10, 20])
        copied.append(entry.name)
        copy(entry, *how)

    monkeypatch.setattr(partition_copy, "copy_file", copy_and_clean)
    (result,) = brokerless.open(tmp_path / "disk").convert(tmp_path / "to")
    assert (result.task.is_copied, result.damages) == (True, ())
    assert left(tmp_path / "to" / source.name) == left(source)


def test_files_that_change_all_the_time_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_copy, "PAUSE_S", 0)
    source = write_log(tmp_path / "disk" / "__consumer_offsets-0")
    first = source / f"{0:020}.log"
    monkeypatch.setattr(partition_copy, "copy_file", lambda *_: os.truncate(first, first.stat().st_size + 1))
    with pytest.raises(UnreadableError, match="replaced each time"):
        brokerless.open(tmp_path / "disk").convert(tmp_path / "to")
    assert not list((tmp_path / "to").glob("__consumer*"))


def test_the_last_segment_of_a_copied_topic_may_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_log(tmp_path / "disk" / "__consumer_offsets-0")
    before, copy = left(source), partition_copy.copy_file

    def copy_and_append(entry: DirectoryEntry, *how: Any) -> None:
        copy(entry, *how)
        write_segment(source, 40, range(40, len(left(source)) + 1))

    monkeypatch.setattr(partition_copy, "copy_file", copy_and_append)
    brokerless.open(tmp_path / "disk").convert(tmp_path / "to")
    found = left(tmp_path / "to" / source.name)
    assert found[: len(before)] == before
