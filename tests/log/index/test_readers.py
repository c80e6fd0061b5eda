"""Oracle: the entries that Kafka's index classes read, and what ``sanityCheck`` said (``expected-index.jsonl``)."""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.golden import BROKERS, broker_data, broker_expected, case, json_lines

from brokerless.format import layouts
from brokerless.log.index import readers as index_readers
from brokerless.log.index.readers import (
    load_offset_index,
    load_time_index,
    load_transaction_index,
    parse_offset_index,
    parse_time_index,
    parse_transaction_index,
)
from brokerless.log.storage.location import Location

SEGMENTS = [case(f"specials/segment-{version}") for version in ("v0", "v1", "v2")]
PLACES: list[tuple[str, Path, Path]] = [
    *((str(each), each.path, each.path) for each in SEGMENTS),
    *(
        (f"{broker}/{folder.name}", broker_data(broker) / folder.name, folder)
        for broker in BROKERS
        for folder in sorted(broker_expected(broker).iterdir())
        if (folder / "expected-index.jsonl").is_file()
    ),
]
FILES: list[tuple[Path, dict[str, Any]]] = [
    (data / line["file"], line)
    for _, data, expected in PLACES
    for line in json_lines(expected / "expected-index.jsonl")
]


def of_kind(kind: str) -> list[tuple[Path, dict[str, Any]]]:
    return [(path, line) for path, line in FILES if line["type"] == kind]


def base_offset(path: Path) -> int:
    return int(path.name[:20])


def pairs(*columns: np.ndarray) -> list[list[int]]:
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_offset_indexes_have_the_entries_that_kafka_reads() -> None:
    for path, expected in of_kind("index"):
        index = load_offset_index(Location(str(path)), base_offset(path))
        assert pairs(index.offsets, index.positions) == expected["entries"], path
        assert (index.slots, index.findings, index.is_valid) == (expected["slots"], (), True)


def test_time_indexes_have_the_entries_that_kafka_reads() -> None:
    for path, expected in of_kind("timeindex"):
        index = load_time_index(Location(str(path)), base_offset(path))
        assert pairs(index.timestamps, index.offsets) == expected["entries"], path
        assert (index.slots, index.findings) == (expected["slots"], ())


def test_transaction_indexes_have_the_entries_that_kafka_reads() -> None:
    for path, expected in of_kind("txnindex"):
        index = load_transaction_index(Location(str(path)), base_offset(path))
        columns = index.producer_ids, index.first_offsets, index.last_offsets, index.last_stable_offsets
        assert pairs(*columns) == [entry[1:] for entry in expected["entries"]], path
        assert index.findings == ()


def test_kafka_calls_insane_only_what_has_room_after_its_last_entry() -> None:
    """Preallocated zeros look as an entry of timestamp 0 to Kafka's check; they are no damage, but an unclean stop."""
    for path, expected in of_kind("timeindex"):
        is_full = len(load_time_index(Location(str(path)), base_offset(path)).offsets) == expected["slots"]
        assert is_full == (expected["sane"] is True)


def test_an_offset_is_looked_up_at_the_last_entry_before_it() -> None:
    for path, expected in of_kind("index"):
        index = load_offset_index(Location(str(path)), base_offset(path))
        offsets = [offset for offset, _ in expected["entries"]]
        for offset in [0, base_offset(path), *(each + step for each in offsets for step in (-1, 0, 1)), 2**62]:
            before = bisect.bisect_right(offsets, offset)
            found = tuple(expected["entries"][before - 1]) if before else (base_offset(path), 0)
            assert index.lookup(offset) == found


def test_a_timestamp_is_looked_up_at_the_last_entry_before_it() -> None:
    for path, expected in of_kind("timeindex"):
        index = load_time_index(Location(str(path)), base_offset(path))
        timestamps = [timestamp for timestamp, _ in expected["entries"]]
        for timestamp in [-1, 0, *(each + step for each in timestamps for step in (-1, 0, 1)), 2**62]:
            before = bisect.bisect_right(timestamps, timestamp)
            found = tuple(expected["entries"][before - 1]) if before else (-1, base_offset(path))
            assert index.lookup(timestamp) == found


def test_the_search_for_aborted_transactions_ends_where_all_before_was_stable() -> None:
    path = broker_data("clean") / "txn-0" / "00000000000000000010.txnindex"
    index = load_transaction_index(Location(str(path)), 10)
    assert pairs(index.first_offsets, index.last_offsets, index.last_stable_offsets)[:3] == [
        [0, 10, 5],
        [15, 22, 23],
        [35, 47, 41],
    ]
    touched, is_all = index.aborted(0, 12)
    assert (np.flatnonzero(touched).tolist(), is_all) == ([0], True)
    touched, is_all = index.aborted(11, 24)
    assert (np.flatnonzero(touched).tolist(), is_all) == ([1], True)
    touched, is_all = index.aborted(11, 10**6)
    assert (np.flatnonzero(touched).tolist(), is_all) == ([1, 2, 3, 4], False)


def offset_index(*entries: tuple[int, int], base: int = 100) -> index_readers.OffsetIndex:
    array = np.array([(offset - base, position) for offset, position in entries], layouts.OFFSET_INDEX_ENTRY)
    return parse_offset_index(array.view(np.uint8), "100.index", base)


def time_index(*entries: tuple[int, int], base: int = 100) -> index_readers.TimeIndex:
    array = np.array([(timestamp, offset - base) for timestamp, offset in entries], layouts.TIME_INDEX_ENTRY)
    return parse_time_index(array.view(np.uint8), "100.timeindex", base)


def transaction_index(*entries: tuple[int, int, int, int, int]) -> index_readers.TransactionIndex:
    array = np.array(list(entries), layouts.TRANSACTION_INDEX_ENTRY)
    return parse_transaction_index(array.view(np.uint8), "100.txnindex", 100)


@pytest.mark.parametrize(
    ("index", "kind", "position", "offset"),
    [
        (offset_index((110, 5000), (99, 9000)), "index-corrupt", 8, 99),
        (offset_index((110, 5000), (110, 9000)), "index-not-sorted", 8, 110),
        (offset_index((110, 5000), (120, 5000), (130, 6000)), "index-not-sorted", 8, 120),
        (offset_index((110, -5000), (120, 5000)), "index-not-sorted", 0, 110),
        (offset_index((100, 0), (120, 5000), (100, 0), (130, 6000)), "index-not-sorted", 16, 100),
        (time_index((7, 110), (8, 99)), "index-corrupt", 12, 99),
        (time_index((7, 110), (7, 120)), "index-not-sorted", 12, 120),
        (time_index((7, 110), (8, 120), (9, 119)), "index-not-sorted", 24, 119),
        (transaction_index((0, 1, 90, 110, 111), (0, 1, 95, 99, 100)), "index-corrupt", 34, 99),
        (transaction_index((0, 1, 90, 110, 111), (256, 1, 120, 130, 131)), "index-corrupt", 34, None),
        (transaction_index((0, 1, 120, 110, 111)), "index-corrupt", 0, 110),
        (transaction_index((0, 1, 90, 110, 112)), "index-corrupt", 0, 110),
        (transaction_index((0, 1, 90, 110, 111), (0, 2, 95, 110, 111)), "index-not-sorted", 34, 110),
    ],
)
def test_what_cannot_be_is_found_at_its_entry(index: Any, kind: str, position: int, offset: int | None) -> None:
    finding = index.findings[0]
    assert (finding.severity, finding.kind, finding.position, finding.offset) == ("error", kind, position, offset)
    assert finding.file == index.file
    assert not index.is_valid


def test_an_index_that_is_not_intact_leads_to_the_start_of_the_segment() -> None:
    assert offset_index((110, 5000), (110, 9000)).lookup(500) == (100, 0)
    assert time_index((7, 110), (7, 120)).lookup(500) == (-1, 100)


def test_two_entries_of_a_time_index_may_have_one_offset() -> None:
    """Of a compressed v1 wrapper whose records have rising timestamps, as TimeIndex.maybeAppend allows it."""
    assert time_index((7, 110), (8, 110)).findings == ()


def test_an_index_of_a_broken_size_is_one_that_kafka_rebuilds() -> None:
    whole = offset_index((110, 5000), (120, 9000))
    data = np.zeros(8 * 512 + 3, np.uint8)
    data[:16] = np.array([(10, 5000), (20, 9000)], layouts.OFFSET_INDEX_ENTRY).view(np.uint8)
    index = parse_offset_index(data, "100.index", 100)
    assert pairs(index.offsets, index.positions) == pairs(whole.offsets, whole.positions)
    assert [(each.severity, each.kind, each.position) for each in index.findings] == [("error", "index-corrupt", 4096)]


def test_a_cut_off_last_entry_of_a_transaction_index_is_left_alone_as_kafka_does() -> None:
    data = np.array([(0, 1, 90, 110, 111)] * 2, layouts.TRANSACTION_INDEX_ENTRY).view(np.uint8)[:-1]
    index = parse_transaction_index(data, "100.txnindex", 100)
    assert index.last_offsets.tolist() == [110]
    assert [(each.severity, each.kind) for each in index.findings] == [("warning", "index-corrupt")]
    assert index.is_valid


@pytest.mark.parametrize("parse", [parse_offset_index, parse_time_index])
def test_a_preallocated_index_is_empty_however_large_it_is(parse: Any) -> None:
    index = parse(np.zeros(12 << 20, np.uint8), "100.index", 100)
    assert (len(index.offsets), index.findings) == (0, ())


def test_twelve_zero_bytes_are_an_entry_of_a_time_index() -> None:
    """As a segment is closed whose largest timestamp is 0, that of its first record (``TimeIndex.maybeAppend``)."""
    index = parse_time_index(np.zeros(12, np.uint8), "100.timeindex", 100)
    assert (index.timestamps.tolist(), index.offsets.tolist(), index.findings) == ([0], [100], ())


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_read_as_an_index_without_raising(seed: int) -> None:
    noise = np.frombuffer(np.random.default_rng(seed).bytes(seed * 17), np.uint8)
    for parse in (parse_offset_index, parse_time_index, parse_transaction_index):
        for base in (0, 2**63 - 1):
            assert all(each.kind.startswith("index-") for each in parse(noise, "noise", base).findings)


def test_an_index_that_cannot_be_read_is_empty_with_a_finding(tmp_path: Path) -> None:
    missing = load_offset_index(Location(str(tmp_path / "00000000000000000000.index")), 0)
    assert [(each.kind, each.message) for each in missing.findings] == [
        ("unreadable-file", "there is no such file or directory")
    ]
    huge = tmp_path / "00000000000000000000.timeindex"
    with huge.open("wb") as file:
        file.truncate(index_readers.LIMIT + 1)
    assert [each.kind for each in load_time_index(Location(str(huge)), 0).findings] == ["limit-exceeded"]
