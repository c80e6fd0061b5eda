"""Oracle: the batches that Kafka reads in brokers' logs (``expected.jsonl``), beside the indexes of those brokers."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import BROKERS, broker_data, broker_expected, case, json_lines

from brokerless.findings import Finding
from brokerless.log.index.checks import SegmentBatches, check_offset_index, check_time_index, check_transaction_index
from brokerless.log.index.readers import (
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    load_offset_index,
    load_time_index,
    load_transaction_index,
    parse_offset_index,
    parse_time_index,
)
from brokerless.log.storage.location import Location

MISMATCH = "transaction-index-mismatch"
SPECIALS = ["specials/segment-v0", "specials/segment-v1", "specials/segment-v2"]


@dataclass(frozen=True)
class Segment:
    name: str
    batches: SegmentBatches
    offset_index: OffsetIndex
    time_index: TimeIndex
    transaction_index: TransactionIndex | None
    aborted: tuple[np.ndarray, np.ndarray, np.ndarray]
    is_last: bool

    def findings(self) -> list[Finding]:
        return [
            *check_offset_index(self.offset_index, self.batches, self.is_last),
            *check_time_index(self.time_index, self.batches, self.is_last),
            *check_transaction_index(self.transaction_index, f"{self.name}.txnindex", *self.aborted),
        ]


def segments(data: Path, expected: Path) -> list[Segment]:
    """The segments of a partition, their batches and aborted transactions by what Kafka read."""
    batches: dict[str, list[dict[str, Any]]] = defaultdict(list)
    aborted: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    started: dict[int, int] = {}
    for line in json_lines(expected / "expected.jsonl"):
        file = line["file"].removesuffix(".log")
        if line["type"] == "batch":
            batches[file].append(line)
            if line["isTransactional"] and not line["isControl"]:
                started.setdefault(line["producerId"], line["baseOffset"])
        elif line["type"] == "record" and line.get("control"):
            producer_id, kind = batches[file][-1]["producerId"], json.dumps(line["control"])
            first = started.pop(producer_id, -1)
            if "ABORT" in kind.upper():
                aborted[file].append((producer_id, first, line["offset"]))
    logs = sorted(path.stem for path in data.glob("*.log"))
    sizes = {name: len((data / f"{name}.log").read_bytes().rstrip(b"\0")) for name in logs}
    return [
        Segment(
            f"{data.name}/{name}",
            segment_batches(batches[name], max(sizes[name], end_of_batches(batches[name]))),
            load_offset_index(Location(str(data / f"{name}.index")), int(name)),
            load_time_index(Location(str(data / f"{name}.timeindex")), int(name)),
            load_transaction_index(Location(str(path)), int(name))
            if (path := data / f"{name}.txnindex").exists()
            else None,
            tuple(np.array(aborted[name], np.int64).reshape(-1, 3).T),  # type: ignore[arg-type]
            name == logs[-1],
        )
        for name in logs
    ]


def end_of_batches(lines: list[dict[str, Any]]) -> int:
    return lines[-1]["position"] + lines[-1]["sizeInBytes"] if lines else 0


def segment_batches(lines: list[dict[str, Any]], size: int) -> SegmentBatches:
    def column(key: str) -> np.ndarray:
        return np.array([line[key] for line in lines], np.int64)

    return SegmentBatches(
        positions=column("position"),
        last_offsets=column("lastOffset"),
        max_timestamps=column("maxTimestamp"),
        is_legacy=column("magic") < 2,
        valid=column("isValid") == 1,
        end=end_of_batches(lines),
        size=size,
    )


def broker_segments(broker: str) -> list[Segment]:
    return [
        segment
        for expected in sorted(broker_expected(broker).iterdir())
        if (expected / "expected-index.jsonl").is_file()
        for segment in segments(broker_data(broker) / expected.name, expected)
    ]


def special_segments() -> list[Segment]:
    return [segment for name in SPECIALS for segment in segments(case(name).path, case(name).path)]


ALL = [segment for broker in BROKERS for segment in broker_segments(broker)] + special_segments()
WITH_OFFSETS = [segment for segment in ALL if len(segment.offset_index.offsets) >= 3]
WITH_TIMES = [segment for segment in ALL if len(segment.time_index.offsets) >= 3]
(TXN,) = (segment for segment in ALL if segment.name == "txn-0/00000000000000000010")


def worst(findings: list[Finding], kind: str | None = None) -> str | None:
    """The severity of the worst finding, or of the worst of a kind."""
    found = {finding.severity for finding in findings if kind in (None, finding.kind)}
    return next((severity for severity in ("error", "warning", "info") if severity in found), None)


def changed(column: np.ndarray, row: int, value: int) -> np.ndarray:
    copy = column.copy()
    copy[row] = value
    return copy


def flipped(data: np.ndarray, bit: int) -> np.ndarray:
    copy = data.copy()
    copy[bit // 8] ^= 0x80 >> bit % 8
    return copy


def test_there_is_something_to_check() -> None:
    assert len(ALL) >= 140
    assert len(WITH_OFFSETS) >= 40
    assert len(WITH_TIMES) >= 40
    assert sum(len(segment.aborted[0]) for segment in ALL) >= 70


@pytest.mark.parametrize("broker", ["clean", "old-formats"])
def test_after_a_clean_stop_the_indexes_fit_their_logs(broker: str) -> None:
    assert [finding for segment in broker_segments(broker) for finding in segment.findings()] == []


def test_the_indexes_of_segments_that_kafka_closed_fit_their_logs() -> None:
    assert [finding for segment in special_segments() for finding in segment.findings()] == []


def test_after_an_unclean_stop_only_the_last_segments_indexes_have_room_for_more() -> None:
    found = [(segment.is_last, each) for segment in broker_segments("unclean") for each in segment.findings()]
    assert {(is_last, each.severity, each.kind) for is_last, each in found} == {(True, "info", "index-not-trimmed")}


def test_every_changed_entry_of_an_offset_index_is_found() -> None:
    for segment in WITH_OFFSETS:
        index = segment.offset_index
        for row in range(len(index.offsets)):
            for step in (-1, 1, 61, 2**30):
                moved = replace(index, positions=changed(index.positions, row, index.positions[row] + step))
                assert worst(list(check_offset_index(moved, segment.batches)), "offset-index-mismatch") == "error"
            at = int(np.searchsorted(segment.batches.positions, index.positions[row]))
            before = int(segment.batches.last_offsets[at - 1])
            missed = replace(index, offsets=changed(index.offsets, row, before))
            assert worst(list(check_offset_index(missed, segment.batches)), "offset-index-mismatch") == "error"
            beyond = replace(index, offsets=changed(index.offsets, row, 2**40))
            assert worst(list(check_offset_index(beyond, segment.batches)), "offset-index-mismatch") == "warning"


def test_every_changed_entry_of_a_time_index_is_found() -> None:
    for segment in WITH_TIMES:
        index = segment.time_index
        for row in range(len(index.offsets)):
            for step, severity in ((-1, "error"), (1, "warning"), (2**40, "warning")):
                changed_time = replace(index, timestamps=changed(index.timestamps, row, index.timestamps[row] + step))
                assert worst(list(check_time_index(changed_time, segment.batches)), "time-index-mismatch") == severity
            beyond = replace(index, offsets=changed(index.offsets, row, 2**40))
            assert worst(list(check_time_index(beyond, segment.batches)), "time-index-mismatch") == "error"


@pytest.mark.slow(reason="each bit")
def test_a_flipped_bit_of_an_offset_index_is_an_error_or_leads_no_reader_astray() -> None:
    errors = 0
    for segment in WITH_OFFSETS[::4]:
        batches = segment.batches
        data = np.fromfile(segment.offset_index.file, np.uint8)[: len(segment.offset_index.offsets) * 8]
        for bit in range(len(data) * 8):
            index = parse_offset_index(flipped(data, bit), "x", segment.offset_index.base_offset)
            if worst([*index.findings, *check_offset_index(index, batches)]) == "error":
                errors += 1
                continue
            for offset, position in zip(batches.last_offsets.tolist(), batches.positions.tolist(), strict=True):
                start = index.lookup(offset)[1]
                assert start <= position
                assert start in batches.positions
    assert errors > 1000


@pytest.mark.slow(reason="each bit")
def test_a_flipped_bit_of_a_time_index_is_an_error_or_leads_no_reader_astray() -> None:
    errors = 0
    for segment in WITH_TIMES[::4]:
        batches = segment.batches
        data = np.fromfile(segment.time_index.file, np.uint8)[: len(segment.time_index.offsets) * 12]
        for bit in range(len(data) * 8):
            index = parse_time_index(flipped(data, bit), "x", segment.time_index.base_offset)
            if worst([*index.findings, *check_time_index(index, batches)]) == "error":
                errors += 1
                continue
            for timestamp in batches.max_timestamps.tolist():
                first = batches.last_offsets[np.argmax(batches.max_timestamps >= timestamp)]
                assert index.lookup(timestamp - 1)[1] <= first
    assert errors > 1000


def test_entries_that_are_swapped_zeroed_or_cut_are_found() -> None:
    for segment in WITH_OFFSETS:
        data = np.fromfile(segment.offset_index.file, np.uint8)[: len(segment.offset_index.offsets) * 8]
        entries = data.reshape(-1, 8)
        swapped, zeroed = entries[[1, 0, *range(2, len(entries))]], np.array(entries)
        zeroed[1] = 0
        for damaged, kind in (
            (swapped.reshape(-1), "index-not-sorted"),
            (zeroed.reshape(-1), "index-not-sorted"),
            (data[:-3], "index-corrupt"),
        ):
            index = parse_offset_index(np.ascontiguousarray(damaged), "x", segment.offset_index.base_offset)
            assert worst(list(index.findings), kind) == "error"


def test_the_indexes_of_another_segment_are_found() -> None:
    one, other, *_ = (segment for segment in WITH_OFFSETS if segment.name.startswith("txn-1/"))
    assert worst(list(check_offset_index(other.offset_index, one.batches)), "offset-index-mismatch") == "error"
    assert worst(list(check_time_index(other.time_index, one.batches)), "time-index-mismatch") == "error"
    assert worst(list(check_transaction_index(other.transaction_index, "x", *one.aborted)), MISMATCH) == "error"


def test_a_log_that_lost_its_end_is_found_by_its_indexes() -> None:
    for segment in WITH_OFFSETS:
        first = int(segment.offset_index.positions[0])
        kept = segment.batches.positions < first
        batches = select(segment.batches, kept, end=first, size=first)
        (finding,) = check_offset_index(replace(segment.offset_index, slots=0), batches)
        assert (finding.severity, finding.position) == ("error", 0)
        assert finding.message.startswith(f"{len(segment.offset_index.offsets)} entries are wrong: no batch starts")


def test_after_a_break_in_the_log_entries_are_not_judged() -> None:
    for segment in WITH_OFFSETS:
        position = int(segment.offset_index.positions[1])
        batches = select(segment.batches, segment.batches.positions < position, position, segment.batches.size)
        for findings in (
            check_offset_index(replace(segment.offset_index, slots=0), batches),
            check_time_index(replace(segment.time_index, slots=0), batches),
        ):
            assert {(each.severity, each.kind) for each in findings} <= {("info", "index-not-checked")}


def test_damaged_batches_raise_no_doubts_about_the_indexes() -> None:
    """What a batch with a wrong checksum says of its offsets and timestamps may be what is damaged."""
    for segment in WITH_OFFSETS:
        for row in range(len(segment.batches.positions)):
            damaged = replace(
                segment.batches,
                valid=changed(segment.batches.valid, row, 0),
                last_offsets=changed(segment.batches.last_offsets, row, 2**62),
                max_timestamps=changed(segment.batches.max_timestamps, row, 2**62),
            )
            findings = [
                *check_offset_index(segment.offset_index, damaged),
                *check_time_index(segment.time_index, damaged),
            ]
            assert {each.severity for each in findings} <= {"info"}


def test_indexes_that_lost_their_end_to_zeros_or_a_cut() -> None:
    for segment in WITH_TIMES:
        index = segment.time_index
        zeroed = replace(index, timestamps=index.timestamps[:-1], offsets=index.offsets[:-1], findings=())
        found = list(check_time_index(zeroed, segment.batches, is_last=False))
        assert worst(found, "index-not-trimmed") == "warning"
        cut = replace(zeroed, slots=len(zeroed.offsets))
        found = list(check_time_index(cut, segment.batches, is_last=False))
        assert [(each.severity, each.kind) for each in found] == [("warning", "time-index-mismatch")]


def test_an_aborted_transaction_that_is_not_in_the_index_is_found() -> None:
    index = TXN.transaction_index
    assert index is not None
    producer_ids, first_offsets, last_offsets = TXN.aborted
    shorter = replace(index, producer_ids=index.producer_ids[1:], last_offsets=index.last_offsets[1:],
                      first_offsets=index.first_offsets[1:])  # fmt: skip
    (finding,) = check_transaction_index(shorter, index.file, *TXN.aborted)
    assert (finding.severity, finding.kind, finding.offset) == ("error", MISMATCH, int(last_offsets[0]))
    (finding,) = check_transaction_index(None, index.file, *TXN.aborted)
    assert finding.message.startswith("5 aborted transactions are not in the index")
    nothing_left = np.full_like(first_offsets, -1)
    assert list(check_transaction_index(None, index.file, producer_ids, nothing_left, last_offsets)) == []


@pytest.mark.parametrize(("column", "step"), [("producer_ids", 1), ("last_offsets", 1), ("first_offsets", 1)])
def test_every_changed_entry_of_a_transaction_index_is_found(column: str, step: int) -> None:
    index = TXN.transaction_index
    assert index is not None
    for row in range(len(index.producer_ids)):
        values = getattr(index, column)
        other = replace(index, **{column: changed(values, row, values[row] + step)})
        assert worst(list(check_transaction_index(other, index.file, *TXN.aborted)), MISMATCH) == "error"


def test_entries_for_an_empty_log_are_found() -> None:
    empty = select(TXN.batches, np.zeros(len(TXN.batches.positions), np.bool_), end=0, size=0)
    assert worst(list(check_offset_index(TXN.offset_index, empty)), "offset-index-mismatch") == "error"
    assert worst(list(check_time_index(TXN.time_index, empty)), "time-index-mismatch") == "error"


def test_indexes_by_the_rules_of_old_kafkas_are_no_mismatch() -> None:
    """Before 0.11 an entry held the first offset of a message set; several batches in one append have one entry."""
    batches = SegmentBatches(
        positions=np.array([0, 100, 200, 300]),
        last_offsets=np.array([9, 19, 29, 39]),
        max_timestamps=np.array([5, 6, 7, 8]),
        is_legacy=np.ones(4, np.bool_),
        valid=np.ones(4, np.bool_),
        end=400,
        size=400,
    )
    first_offset = OffsetIndex("0.index", 0, np.array([15]), np.array([100]), 1)
    of_three = OffsetIndex("0.index", 0, np.array([39]), np.array([100]), 1)
    assert list(check_offset_index(first_offset, batches)) == []
    assert list(check_offset_index(of_three, batches)) == []
    assert list(check_offset_index(of_three, replace(batches, is_legacy=~batches.is_legacy))) == []
    v2 = replace(batches, is_legacy=~batches.is_legacy)
    assert [each.severity for each in check_offset_index(first_offset, v2)] == ["warning"]


def select(batches: SegmentBatches, rows: np.ndarray, end: int, size: int) -> SegmentBatches:
    columns = ("positions", "last_offsets", "max_timestamps", "is_legacy", "valid")
    return SegmentBatches(*(getattr(batches, name)[rows] for name in columns), end=end, size=size)
