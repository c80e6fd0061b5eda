"""Wherever one begins, nothing that was asked for is missed: with an index, without one, and with a lying one."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.examples import some_quick
from tests.golden import BROKERS, broker_data, case

import brokerless
from brokerless.log import seek
from brokerless.log.directory import PartitionPath, SegmentPaths, resolve
from brokerless.log.positions import is_batch_up_to, last_indexed, position_of_offset
from brokerless.log.seek import end_offset, last_offset, split
from brokerless.log.segment import Chunk, scan, scan_headers
from brokerless.log.storage.location import Location
from brokerless.progress import ignore

SPECIALS = ["specials/segment-v0", "specials/segment-v1", "specials/segment-v2"]
KINDS = (
    "append-time-0",
    "codec-gzip-0",
    "codec-none-1",
    "compacted-txn-0",
    "compacted-v1-lz4-0",
    "segments-0",
    "busy-0",
)
COLUMNS = ["file", "batchPosition", "offset", "timestamp"]


def directories() -> list[Path]:
    """The archive's segments with indexes, and partitions of brokers of every kind."""
    found = [case(name).path for name in SPECIALS]
    for broker in BROKERS:
        indexed = {path.parent for path in broker_data(broker).glob("*/*.index") if path.stat().st_size}
        found += [path for path in sorted(indexed) if path.name in KINDS]
    return found


def rows(path: Path) -> list[tuple[str, int, int, int]]:
    """File, position of the batch, offset and timestamp of all records."""
    batches = list(brokerless.open(path).records(COLUMNS, control=True, on_damage=ignore))
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    columns = [table["file"], table["batchPosition"], table["offset"], table["timestamp"].cast(pa.int64())]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def segments(path: Path) -> list[SegmentPaths]:
    return [segment for partition in brokerless.open(path).paths for segment in partition.segments]


def flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(3):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def swapped(data: bytes, chance: random.Random) -> bytes:
    size = 8
    entries = [data[at : at + size] for at in range(0, len(data) - size + 1, size)]
    chance.shuffle(entries)
    return b"".join(entries)


LIES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "true": lambda data, _: data,
    "missing": lambda data, _: None,
    "empty": lambda data, _: b"",
    "zeroed": lambda data, _: bytes(len(data)),
    "flipped": flipped,
    "swapped": swapped,
    "shifted by an entry": lambda data, _: data[8:],
    "shifted by a byte": lambda data, _: data[1:],
    "of something else": lambda data, chance: chance.randbytes(len(data)),
    "positions of the next entry": lambda data, _: b"".join(
        data[at : at + 4] + data[at + 12 : at + 16] for at in range(0, len(data) - 15, 8)
    ),
    "offsets of the next entry": lambda data, _: b"".join(
        data[at + 8 : at + 12] + data[at + 4 : at + 8] for at in range(0, len(data) - 15, 8)
    ),
}


def with_lies(directory: Path, target: Path, lie: str, suffix: str) -> Path:
    """A copy of a partition whose indexes of one kind say something else."""
    chance = random.Random(5)
    shutil.copytree(directory, target, ignore=shutil.ignore_patterns("expected*", "case.json"))
    for index in target.glob(f"*{suffix}"):
        data = index.read_bytes()
        changed = LIES[lie](data, chance) if data else data
        if changed is None:
            index.unlink()
        else:
            index.write_bytes(changed)
    return target


@pytest.mark.parametrize("lie", LIES)
def test_all_from_an_offset_on_follows_the_position(lie: str, tmp_path: Path) -> None:
    for number, directory in enumerate(directories()):
        copy = with_lies(directory, tmp_path / str(number) / directory.name, lie, ".index")
        records = rows(copy)
        for segment in segments(copy):
            own = [(offset, position) for file, position, offset, _ in records if file == segment.log.path]
            with segment.log.location.open() as file:
                starts = {position for chunk in scan(file, ignore) for position in chunk.positions.tolist()}
                asked = [offset for offset, _ in own[:: max(1, len(own) // 12)]] + [segment.base_offset, 1 << 40]
                found = {offset: position_of_offset(file, segment, offset) for offset in asked}
                for offset, position in found.items():
                    assert position in starts | {0}
                    assert all(at >= position for each, at in own if each >= offset), (segment, offset)
                if lie == "true" and own and segment.offset_index and segment.offset_index.size:
                    assert max(found.values()) > 0  # the index is used where it can be


@pytest.mark.parametrize("lie", LIES)
def test_where_a_segment_ends_is_known_whatever_its_index_says(lie: str, tmp_path: Path) -> None:
    begun: list[int] = []
    for number, directory in enumerate(directories()):
        for segment in segments(with_lies(directory, tmp_path / str(number) / directory.name, lie, ".index")):
            with segment.log.location.open() as file:
                lasts = [int(chunk.batches.last_offset.max()) for chunk in scan(file, ignore)]
                assert last_offset(file, segment) == max(lasts, default=None)
                begun.append(last_indexed(file, segment))
    if lie == "true":
        assert sum(position > 0 for position in begun) > len(begun) // 3, "the index is used where it can be"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("lie", some_quick(["flipped", "true", "missing", "zeroed", "of something else"]))
def test_the_first_record_since_a_time_is_found(lie: str, suffix: str, tmp_path: Path) -> None:
    for number, directory in enumerate(directories()):
        copy = with_lies(directory, tmp_path / str(number) / directory.name, lie, suffix)
        records = rows(copy)
        (partition,) = brokerless.open(copy).partitions
        times = sorted({time for _, _, _, time in records})
        asked = {each + more for each in times[:: max(1, len(times) // 8)] for more in (0, 1)}
        for time in sorted(asked | {0, times[-1] + 1}):
            expected = next((offset for _, _, offset, each in records if each >= time), None)
            assert partition.offset_for_timestamp(time) == expected, (directory, time)


@pytest.mark.parametrize("size", [1, 100, 1000, 20_000, 1 << 30])
def test_pieces_have_each_batch_once_and_are_as_large_as_asked_for(size: int) -> None:
    for directory in directories():
        for segment in segments(directory):
            with segment.log.location.open() as file:
                chunks = list(scan(file, ignore))
                whole = [position for chunk in chunks for position in chunk.positions.tolist()]
                largest = max((int(chunk.batches.sizes.max()) for chunk in chunks), default=0)
                pieces = list(split(file, 0, file.size, size))
                assert [end for _, end in pieces[:-1]] == [start for start, _ in pieces[1:]]
                assert not whole or (pieces[0][0], pieces[-1][1]) == (0, file.size)
                found = [
                    position
                    for start, end in pieces
                    for chunk in scan(file, ignore, start, end)
                    for position in chunk.positions.tolist()
                ]
                assert found == whole
                for start, end in pieces[:-1]:
                    assert size <= end - start < size + largest


def test_pieces_are_alike_wherever_chunks_of_headers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    size, smaller = 1000, 700
    paths = [segment.log.path for directory in directories() for segment in segments(directory)]
    with monkeypatch.context() as patched:
        patched.setattr(seek, "scan_headers", lambda *arguments, step: scan_headers(*arguments, step=smaller))
        cut = {path: pieces_of(path, size) for path in paths}
    assert cut == {path: pieces_of(path, size) for path in paths}


def pieces_of(path: str, size: int) -> list[tuple[int, int]]:
    with Location(path).open() as file:
        return list(split(file, 0, file.size, size))


def test_a_position_is_believed_only_if_a_true_batch_begins_there_and_not_after_the_offset() -> None:
    for name in SPECIALS:
        (segment,) = segments(case(name).path)
        records = rows(case(name).path)
        last_of_batch = {position: offset for _, position, offset, _ in records}
        first_of_batch = {position: offset for _, position, offset, _ in reversed(records)}
        with segment.log.location.open() as file:
            for position, last in last_of_batch.items():
                assert is_batch_up_to(file, position, last)
                assert is_batch_up_to(file, position, 1 << 60)
                assert not is_batch_up_to(file, position + 1, last)
                assert not is_batch_up_to(file, position, first_of_batch[position] - 1)
            for position in (-1, file.size, file.size + 1, file.size - 5, 1 << 40):
                assert not is_batch_up_to(file, position, 1 << 60)


def partition_of(tmp_path: Path) -> PartitionPath:
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    for index in (tmp_path / "segments-0").glob("*index"):
        index.unlink()
    return resolve(Location(str(tmp_path / "segments-0"))).partitions[0]


def test_the_headers_that_say_where_a_log_ends_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the last segment, as they are in the file, while they are not many."""
    partition, headers = partition_of(tmp_path), list[Chunk]()
    end = end_offset(partition, headers)
    assert end == end_offset(partition) == int(headers[-1].batches.end_of_records[-1]) + 1
    with partition.segments[-1].log.location.open() as file:
        there = [each.tobytes() for chunk in scan_headers(file, ignore) for each in chunk.batches.raw]
    assert [each.tobytes() for chunk in headers for each in chunk.batches.raw] == there
    monkeypatch.setattr(seek, "_MOST_HEADERS", len(there) - 1)
    assert (end_offset(partition, headers), headers) == (end, [])


def test_no_headers_are_kept_of_a_damaged_segment_or_where_an_index_was_used(tmp_path: Path) -> None:
    partition, headers = partition_of(tmp_path), list[Chunk]()
    with Path(partition.segments[-1].log.path).open("ab") as file:
        file.write(b"no batch")
    assert (end_offset(partition, headers), headers) == (end_offset(partition), [])
    whole = resolve(Location(str(broker_data("clean") / "segments-0"))).partitions[0]
    with whole.segments[-1].log.location.open() as opened:
        is_indexed = last_indexed(opened, whole.segments[-1]) > 0
    end_offset(whole, headers)
    assert bool(headers) != is_indexed
