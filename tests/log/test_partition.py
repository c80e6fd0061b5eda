"""A range gives what a filter over everything gives, from any storage; transactions are those that Kafka wrote."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.examples import some_quick
from tests.golden import BROKERS, broker_data, broker_expected, case, json_lines, of_type
from tests.jobs.exports import table
from tests.log import odd_logs, whole_batches
from tests.random_damage import damage_at_random

import brokerless
from brokerless import Finding
from brokerless.cli import main
from brokerless.format.read.one_pass import OnePass, Passed
from brokerless.log import segment
from brokerless.log.names import LOG_START_OFFSET_CHECKPOINT
from brokerless.log.partition import _PassedParts  # pyright: ignore[reportPrivateUsage]
from brokerless.log.segment import Chunk
from brokerless.schemas import BATCHES, RECORDS

CLEAN = [
    "append-time-0",
    "codec-lz4-1",
    "compacted-txn-0",
    "edges-0",
    "empty-0",
    "head-deleted-0",
    "segments-0",
    "txn-0",
    "__cluster_metadata-0",
]
NAMES = {
    "clean": CLEAN,
    "old-formats": ["upgraded-0", "v0-gzip-0", "v1-append-gzip-0", "compacted-v1-snappy-0"],
    "unclean": ["busy-0", "busy-txn-0", "busy-prealloc-0"],
}
PARTITIONS = [broker_data(broker) / name for broker, names in NAMES.items() for name in names]
SEGMENTS = [case(f"specials/segment-v{magic}").path for magic in (0, 1, 2)]
ODD = [case(f"specials/{name}").path for name in ("timestamps-v1-gzip", "timestamps-v2-none", "mixed-magic")]


@pytest.fixture
def memory() -> Iterator[str]:
    root = f"memory://test_partition-{os.getpid()}"
    yield root
    fsspec.filesystem("memory").rm(root, recursive=True)


def ignore(_: object) -> None:
    pass


def read(path: Path | str, **options: Any) -> pa.Table:
    """All records, without what says where they come from."""
    log = brokerless.open(path)
    batches = log.records(control=options.pop("control", True), on_damage=ignore, **options)
    table = pa.Table.from_batches(batches, RECORDS)
    return table.drop_columns(["file"]).unify_dictionaries()


def lines(table: pa.Table) -> list[dict[str, Any]]:
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):  # which Python has no words for, far away
            table = table.set_column(at, field.name, table.column(at).cast(pa.int64()))
    return table.to_pylist()


@pytest.mark.parametrize("path", some_quick(PARTITIONS), ids=lambda path: path.name)
def test_a_remote_directory_is_read_as_a_local_one(path: Path, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = f"{memory}/{path.name}"
    fsspec.filesystem("memory").put(str(path), remote, recursive=True)
    checkpoint = path.parent / LOG_START_OFFSET_CHECKPOINT
    if checkpoint.exists():
        fsspec.filesystem("memory").put(str(checkpoint), f"{memory}/{checkpoint.name}")
    local = read(path)
    for window in (300, 1 << 20):  # smaller than most batches, and larger than most files
        monkeypatch.setattr(segment, "WINDOW", window)
        assert lines(read(remote)) == lines(local)
    assert lines(read(remote, isolation="read_committed")) == lines(read(path, isolation="read_committed"))
    if len(local):
        middle = local["offset"][len(local) // 2].as_py()
        assert lines(read(remote, start_offset=middle)) == lines(read(path, start_offset=middle))
    ours, theirs = brokerless.open(remote), brokerless.open(path)
    for one, other in (
        (ours.segments(on_damage=ignore), theirs.segments(on_damage=ignore)),
        (ours.transactions(on_damage=ignore), theirs.transactions(on_damage=ignore)),
        *((pa.Table.from_batches(log.batches(on_damage=ignore), BATCHES) for log in (ours, theirs)),),
    ):
        dropped = ["file"] if "file" in one.column_names else []
        assert lines(one.drop_columns(dropped)) == lines(other.drop_columns(dropped))
    told = [(each.severity, each.kind, each.position, each.offset) for each in theirs.verify()]
    assert [(each.severity, each.kind, each.position, each.offset) for each in ours.verify()] == told


def ranges(table: pa.Table, chance: random.Random) -> Iterator[dict[str, int | None]]:
    offsets = table["offset"].to_pylist()
    times = table["timestamp"].cast(pa.int64()).to_pylist()

    def bound(values: list[int]) -> int | None:
        value = chance.choice(values)
        return chance.choice([None, value, min(value, 1 << 62) + 1, max(value, 0) - 1])

    for _ in range(4):
        yield {"start_offset": bound(offsets), "end_offset": bound(offsets)}
        yield {"start_timestamp": bound(times), "end_timestamp": bound(times)}
        yield {"start_offset": bound(offsets), "end_timestamp": bound(times)}
        yield {"end_offset": bound(offsets), "start_timestamp": bound(times)}


@pytest.mark.parametrize("path", some_quick([*SEGMENTS, *ODD, *PARTITIONS]), ids=lambda path: path.name)
def test_a_range_is_a_filter_over_everything(path: Path) -> None:
    whole = read(path)
    if not len(whole):
        assert lines(read(path, start_offset=0, end_timestamp=1 << 60)) == []
        return
    offset, time = whole["offset"], whole["timestamp"].cast(pa.int64())
    for options in ranges(whole, random.Random(path.name)):
        wanted = pa.chunked_array([pa.repeat(True, len(whole))])
        for column, name in ((offset, "offset"), (time, "timestamp")):
            if options.get(f"start_{name}") is not None:
                wanted = pc.and_(wanted, pc.greater_equal(column, pa.scalar(options[f"start_{name}"], pa.int64())))
            if options.get(f"end_{name}") is not None:
                wanted = pc.and_(wanted, pc.less(column, pa.scalar(options[f"end_{name}"], pa.int64())))
        assert lines(read(path, **options)) == lines(whole.filter(wanted)), options


@pytest.mark.parametrize("path", some_quick(PARTITIONS), ids=lambda path: path.name)
def test_a_range_of_committed_records_is_a_filter_over_all_committed_ones(path: Path) -> None:
    whole = read(path, isolation="read_committed")
    assert not pc.any(whole["isControl"]).as_py()
    offsets = whole["offset"].to_pylist()
    for start in offsets[:: max(1, len(offsets) // 5)]:
        for end in (None, start, start + 7):
            found = read(path, isolation="read_committed", start_offset=start, end_offset=end)["offset"].to_pylist()
            assert found == [each for each in offsets if start <= each < (1 << 60 if end is None else end)]


def test_without_control_only_control_records_are_missing() -> None:
    for path in PARTITIONS:
        whole = read(path)
        assert lines(read(path, control=False)) == lines(whole.filter(pc.invert(whole["isControl"])))


@pytest.mark.parametrize("broker", BROKERS)
def test_transactions_are_what_their_batches_and_markers_say(broker: str) -> None:
    seen = 0
    for expected in sorted(broker_expected(broker).glob("*/expected.jsonl")):
        # By the lines of Kafka's reader: a producer's transactional batches up to its next marker are one transaction.
        theirs, running = [], dict[int, list[dict[str, Any]]]()
        all_lines = [line for line in json_lines(expected) if line["file"].endswith(".log")]
        controls = {(line["file"], line["batchPosition"]): line for line in of_type(all_lines, "record")}
        for batch in of_type(all_lines, "batch"):
            if batch["isTransactional"] and not batch["isControl"]:
                running.setdefault(batch["producerId"], []).append(batch)
            elif batch["isTransactional"]:
                data = running.pop(batch["producerId"], [])
                marker = controls.get((batch["file"], batch["position"]))
                if marker is not None:
                    theirs.append((batch["producerId"], batch["lastOffset"], marker["control"]["type"], data))
        log = brokerless.open(broker_data(broker) / expected.parent.name)
        table = log.transactions(on_damage=ignore).to_pylist()
        ended = [row for row in table if row["state"] != "open"]
        assert [(row["producerId"], row["lastOffset"]) for row in ended] == [each[:2] for each in theirs]
        for row, (_, _, type_, data) in zip(ended, theirs, strict=True):
            assert row["state"] == {"COMMIT": "committed", "ABORT": "aborted"}[type_]
            assert row["firstOffset"] == (data[0]["baseOffset"] if data else None)
            assert (row["batches"], row["records"]) == (len(data), sum(batch["count"] for batch in data))
        opened = [row for row in table if row["state"] == "open"]
        assert {row["producerId"]: row["firstOffset"] for row in opened} == {
            producer: data[0]["baseOffset"] for producer, data in running.items()
        }
        seen += len(table)
    assert seen or broker == "old-formats"


def test_aborted_transactions_are_those_of_the_transaction_index() -> None:
    """What the broker itself noted beside the segments."""
    seen = 0
    for name in ("txn-0", "txn-1", "compacted-txn-0"):
        noted = [
            tuple(entry[1:4])  # producer, first offset, last offset
            for line in json_lines(broker_expected("clean") / name / "expected-index.jsonl")
            if line["file"].endswith(".txnindex")
            for entry in line["entries"]
        ]
        rows = brokerless.open(broker_data("clean") / name).transactions().to_pylist()
        aborted = [row for row in rows if row["state"] == "aborted" and row["firstOffset"] is not None]
        found = [(row["producerId"], row["firstOffset"], row["lastOffset"]) for row in aborted]
        if name.startswith("txn"):
            assert found == noted
        else:  # compaction took what was aborted, and leaves notes until its markers go
            assert set(found) <= set(noted)
        seen += len(noted)
    assert seen


def test_a_committed_range_ends_where_a_consumers_did() -> None:
    expected = json.loads((broker_expected("clean") / "read-committed.json").read_bytes())["read_committed"]
    for name, want in expected.items():
        offsets = want["offsets"]
        for start in (offsets[:1] + offsets[len(offsets) // 2 :][:1]) if offsets else []:
            table = read(broker_data("clean") / name, isolation="read_committed", start_offset=start)
            assert table["offset"].to_pylist() == [offset for offset in offsets if offset >= start]


@pytest.mark.parametrize("is_refused", [False, True])
def test_of_segments_that_overlap_each_offset_comes_once(is_refused: bool, tmp_path: Path) -> None:
    """As of a consumer: the second segment's batches at the end of the first, or again in a segment of another name."""
    disk = tmp_path / "disk"
    shutil.copytree(broker_data("clean") / "segments-0", disk / "segments-0")
    expected = read(disk)
    second = disk / "segments-0" / f"{169:020}.log"
    if is_refused:
        shutil.copy(second, disk / "segments-0" / f"{250:020}.log")
    else:
        with (disk / "segments-0" / f"{0:020}.log").open("ab") as first:
            first.write(second.read_bytes())
    severity = "error" if is_refused else "warning"
    found: list[Finding] = []
    records = pa.Table.from_batches(brokerless.open(disk).records(control=True, on_damage=found.append), RECORDS)
    assert records.drop_columns(["file"]).unify_dictionaries()["offset"].equals(expected["offset"])
    assert [(each.kind, each.severity, each.offset) for each in found] == [("offset-overlap", severity, 169)]
    found.clear()
    segments = brokerless.open(disk).segments(on_damage=found.append)
    assert sum(segments["records"].to_pylist()) == len(read(disk, control=False))
    assert [(each.kind, each.severity, each.offset) for each in found] == [("offset-overlap", severity, 169)]
    assert read(disk, start_offset=200, end_offset=300)["offset"].to_pylist() == list(range(200, 300))
    assert main(["cat", str(disk)]) == main(["ls", str(disk)]) == 1
    assert main(["export", str(disk), "--to", str(tmp_path / "out")]) == 1
    exported = [row["offset"] for row in table(tmp_path / "out")]
    assert exported == read(disk, control=False)["offset"].to_pylist()


@pytest.mark.parametrize("name", ["wrong-size-over-one", "wrong-size-to-the-end"])
@pytest.mark.parametrize("window", [4096, 150])
def test_batches_that_a_wrong_size_led_over_are_read_and_reported_where_it_is(
    name: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it leads to the beginning of another batch as well, at which the chain of sizes goes on."""
    monkeypatch.setattr(segment, "WINDOW", window)
    monkeypatch.setattr(segment, "LEAST_WINDOW", min(window, segment.LEAST_WINDOW))
    monkeypatch.setattr(segment, "FIRST_WINDOW", window)
    source = odd_logs.write_odd_log(name, tmp_path / "disk")
    size = len(odd_logs.batch(0, odd_logs.numbered(0, 3)))
    rows, found = rows_and_findings(source)
    assert [row["offset"] for row in rows] == [0, 1, 2, *range(6, 15)]
    assert [(each.kind, each.position) for each in found] == [
        ("checksum-mismatch", size),
        ("batches-resume", 2 * size),
    ]
    for start in range(15):
        offsets = [row["offset"] for row in rows_and_findings(source, start_offset=start, end_offset=start + 2)[0]]
        assert offsets == [each for each in range(start, min(start + 2, 15)) if not 3 <= each < 6]
    result = tmp_path / "saved"
    brokerless.open(source).salvage(str(result), on_damage=lambda _: None)
    assert [row["offset"] for row in rows_and_findings(result)[0]] == [0, 1, 2, *range(6, 15)]


def test_batches_that_a_wrong_size_led_over_to_the_end_are_listed_and_exported(tmp_path: Path) -> None:
    """Where nothing but headers is read, it is the last batch whose checksum says so."""
    source = odd_logs.write_odd_log("wrong-size-to-the-end", tmp_path / "disk")
    (partition,) = brokerless.open(source).partitions
    assert partition.end_offset == 15
    found: list[Finding] = []
    (segment_row,) = partition.segments(on_damage=found.append).to_pylist()
    assert (segment_row["batches"], segment_row["firstOffset"], segment_row["lastOffset"]) == (5, 0, 14)
    assert [each.kind for each in found] == ["checksum-mismatch", "batches-resume"]
    assert main(["export", str(source), "--to", str(tmp_path / "out")]) == 1
    assert [row["offset"] for row in table(tmp_path / "out")] == [0, 1, 2, *range(6, 15)]


def rows_and_findings(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[Finding]]:
    findings: list[Finding] = []
    batches: list[pa.RecordBatch] = []
    for batch in brokerless.open(path).records(on_damage=findings.append, **options):
        for each in findings:  # what is damaged is reported after all records before it
            own = zip(batch.column("file").to_pylist(), batch.column("batchPosition").to_pylist(), strict=True)
            assert not any(file == each.file and at < (each.position or 0) for file, at in own)
        batches.append(batch)
    return lines(pa.Table.from_batches(batches, RECORDS).unify_dictionaries()), findings


@pytest.fixture
def in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read in chunks of a few batches, so that small ones have many, and in threads, or by one of these in
    one pass, however small."""
    monkeypatch.setattr(segment, "STEP", 500)
    monkeypatch.setattr(segment, "ONE_PASS_FROM", 0)
    monkeypatch.setattr(segment, "WINDOW", 4096)
    monkeypatch.setattr(segment, "LEAST_WINDOW", 1024)
    for name in ("_FIRST", "_MOST"):
        monkeypatch.setattr(f"brokerless.format.read.one_pass.{name}", 500)
    monkeypatch.setattr("brokerless.log.partition._PART_OF_THREADS", 4096)
    monkeypatch.setattr("brokerless.log.partition.THREADS_FROM", 0)


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.parametrize("path", some_quick([*PARTITIONS, *SEGMENTS, *ODD]), ids=lambda path: path.name)
def test_threads_give_what_one_gives(path: Path) -> None:
    everything = read(path)
    chance = random.Random(path.name)
    requests: list[dict[str, Any]] = [{"control": True}, {"isolation": "read_committed"}, {"limit": 7}]
    requests += ranges(everything, chance) if len(everything) else ()
    if len(everything):
        key = chance.choice(everything["key"].to_pylist())
        requests += [] if not key else [{"filter": brokerless.RecordFilter(keys=[key])}]
    for request in requests:
        one = rows_and_findings(path, jobs=1, **request)
        assert rows_and_findings(path, jobs=3, **request) == one


@pytest.mark.usefixtures("in_small_chunks")
@pytest.mark.parametrize("seed", range(12))
def test_threads_report_the_same_damage_in_the_same_order(seed: int, tmp_path: Path) -> None:
    source = PARTITIONS[CLEAN.index("segments-0")] if seed % 2 else broker_data("unclean") / "busy-txn-0"
    chance = random.Random(seed)
    shutil.copytree(source, tmp_path / source.name)
    damage_at_random(tmp_path / source.name, chance)
    for request in ({"control": True}, {"isolation": "read_committed"}):
        one = rows_and_findings(tmp_path / source.name, jobs=1, **request)
        assert rows_and_findings(tmp_path / source.name, jobs=3, **request) == one


@pytest.mark.usefixtures("in_small_chunks")
def test_threads_read_in_one_pass_up_to_a_damaged_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = max((broker_data("clean") / "codec-lz4-1").glob("*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 1
    (log := tmp_path / source.name).write_bytes(data)
    passed: list[tuple[bool, int]] = []
    one_pass = OnePass.read

    def counted(self: OnePass, *arguments: int) -> Passed | None:
        found = one_pass(self, *arguments)
        passed.append((threading.current_thread() is threading.main_thread(), 0 if found is None else found.size))
        return found

    monkeypatch.setattr(OnePass, "read", counted)
    several = rows_and_findings(log, jobs=3)
    assert not any(is_main for is_main, _ in passed)
    assert 0 < sum(size for _, size in passed) < len(data)
    assert several == rows_and_findings(log, jobs=1)
    assert "checksum-mismatch" in [each.kind for each in several[1]]


def test_a_batch_in_a_value_is_none_where_a_thread_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Threads begin at the first intact batch that they find in their part of a file."""
    monkeypatch.setattr("brokerless.log.partition._PART_OF_THREADS", 2048)
    monkeypatch.setattr("brokerless.log.partition.THREADS_FROM", 0)
    begun: list[bool] = []
    is_next = _PassedParts.is_next

    def counted(self: _PassedParts, chunk: Chunk) -> bool:
        begun.append(is_next(self, chunk))
        return begun[-1]

    monkeypatch.setattr(_PassedParts, "is_next", counted)
    inner = b"".join(whole_batches.batch(each, 1, value=b"inner") for each in range(40))
    for number, value in enumerate((b"v" * 500, inner)):
        batches = [whole_batches.batch(3 * each, 3, value=value) for each in range(40)]
        (log := tmp_path / str(number) / f"{0:020}.log").parent.mkdir()
        log.write_bytes(b"".join(batches))
        begun.clear()
        several = rows_and_findings(log, jobs=3)
        assert several == rows_and_findings(log, jobs=1)
        assert len(several[0]) == 120
        assert len(begun) > 1
        assert all(begun) == (value is not inner)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_lost_byte_hides_no_batch_after_it(tmp_path: Path, jobs: int) -> None:
    """The damaged batch's size leads into the one after it, where a false header leads over many."""
    batches = [bytearray(whole_batches.batch(10 * each, 10, value=b"v%d" % each * 50)) for each in range(2000)]
    del batches[5][100]
    (log := tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    findings: list[Finding] = []
    found = brokerless.open(log).records(["offset"], jobs=jobs, on_damage=findings.append).read_all()
    assert found["offset"].to_pylist() == [*range(50), *range(60, 20_000)]
    assert findings[0].kind == "checksum-mismatch"
    assert findings[0].offset == 50


@pytest.mark.parametrize("jobs", [1, 3])
def test_one_batch_whose_first_offset_is_past_the_range_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """No checksum covers that offset. Here it is alone in its chunk."""
    monkeypatch.setattr(segment, "STEP", 50)
    monkeypatch.setattr("brokerless.log.partition._WINDOW_OF_THREADS", 50)
    monkeypatch.setattr("brokerless.log.partition.THREADS_FROM", 0)
    batches = [bytearray(whole_batches.batch(2 * each, 2)) for each in range(40)]
    batches[9][:8] = (10_000_000).to_bytes(8, "big")
    (log := tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    reader = brokerless.open(log).records(["offset"], end_offset=50, jobs=jobs, on_damage=[].append)
    assert reader.read_all()["offset"].to_pylist() == [*range(18), *range(20, 50)]


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize(("limit", "is_told"), [(10, False), (11, True), (300, True), (390, True)])
def test_damage_before_the_last_row_of_a_limit_is_told_and_none_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, limit: int, is_told: bool
) -> None:
    monkeypatch.setattr("brokerless.log.partition.THREADS_FROM", 0)
    batches = [bytearray(whole_batches.batch(10 * each, 10)) for each in range(40)]
    batches[1][-1] ^= 1
    for topic in ("t-0", "t-1"):
        (tmp_path / topic).mkdir()
        (tmp_path / topic / f"{0:020}.log").write_bytes(b"".join(batches))
    log, findings = brokerless.open(tmp_path), list[Finding]()
    found = log.records(["offset"], limit=limit, jobs=jobs, on_damage=findings.append).read_all()["offset"]
    assert found.to_pylist() == [*range(10), *range(20, 400)][:limit]
    assert [each.offset for each in findings] == [10] * is_told
    both = log.records(["offset"], limit=390 + limit, jobs=jobs, on_damage=findings.append).read_all()
    assert (both.num_rows, len(findings)) == (min(390 + limit, 780), 2 * is_told + 1)
    if is_told:
        with pytest.raises(brokerless.DamageError):
            log.records(limit=limit, jobs=jobs).read_all()


@pytest.mark.usefixtures("in_small_chunks")
def test_leaving_a_reader_ends_its_threads() -> None:
    before = set(threading.enumerate())
    reader = brokerless.open(broker_data("clean") / "codec-lz4-1").records(jobs=4)
    assert next(reader).num_rows
    assert set(threading.enumerate()) - before
    del reader
    gc.collect()
    assert not set(threading.enumerate()) - before


@pytest.mark.usefixtures("in_small_chunks")
def test_a_file_that_shrinks_while_threads_read_it_gives_its_first_records_and_a_finding(tmp_path: Path) -> None:
    source = PARTITIONS[CLEAN.index("segments-0")]
    file = max(source.glob("*.log"), key=lambda each: each.stat().st_size)
    offsets = read(file)["offset"].to_pylist()
    before, findings, found = set(threading.enumerate()), list[Finding](), list[int]()
    shutil.copyfile(file, tmp_path / file.name)
    reader = brokerless.open(tmp_path / file.name).records(["offset"], jobs=3, on_damage=findings.append)
    found += next(reader)["offset"].to_pylist()
    os.truncate(tmp_path / file.name, file.stat().st_size // 2)
    for batch in reader:
        found += batch["offset"].to_pylist()
    assert found == offsets[: len(found)]
    assert len(found) < len(offsets)
    assert "file-shrunk" in [each.kind for each in findings]
    assert not set(threading.enumerate()) - before
