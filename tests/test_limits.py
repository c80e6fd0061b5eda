"""Memory is bounded whatever a file says: bombs, huge records and huge segments, each in a process of its own or one
after the other in one whose peak is set back."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from tests.format.twin import COMPRESS, write_batch, write_record, write_varint
from tests.golden import cases
from tests.require import require

NAME = f"{0:020}.log"

SERVER = """
import contextlib, io, json, os, sys, tempfile, traceback
import brokerless
from brokerless.cli import main

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

def measure(how, path):
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    log, told = brokerless.open(path), []
    if how == "records":
        rows = sum(batch.num_rows for batch in log.records(control=True, on_damage=told.append))
    elif how == "batches":
        rows = sum(batch.num_rows for batch in log.batches(on_damage=told.append))
    elif how == "segments":
        rows = log.segments(on_damage=told.append).num_rows
    elif how == "transactions":
        rows = log.transactions(on_damage=told.append).num_rows
    elif how == "diff":
        found = brokerless.diff(path, path.replace("left", "right"))
        rows = sum(each.same for each in found.partitions)
        told.extend(found.differences().column("cause").to_pylist())
        return {"path": path, "how": how, "rows": rows, "errors": told, "peak": peak()}
    elif how.startswith("carve"):
        rows = carved(path, told, how == "carve-tables")
    else:
        told.extend(log.verify())
        rows = 0
    kinds = [finding.kind for finding in told if finding.severity == "error"]
    return {"path": path, "how": how, "rows": rows, "errors": kinds, "peak": peak()}

def carved(path, told, parquet):
    from brokerless.jobs.salvage.carve import Carving, carve
    from brokerless.log.commit.partition_writer import output_directory
    from brokerless.log.config import LogConfig
    from brokerless.log.storage.location import Location

    with tempfile.TemporaryDirectory() as to:
        carving = Carving(Location(path), output_directory(Location(to)), LogConfig(), parquet=parquet)
        return sum(each.records for each in carve([carving], told.append))

def load(path, *options):
    said = io.StringIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(said):
        code = main(["load", path, "--topic", "t", "--spark", "none", "--dry-run", *options])
    return {"code": code, "peak": peak(), "said": said.getvalue()}

def answer(how, *words):
    if how == "load":
        return [load(*words)]
    return [measure(way, path) for path in words for way in how.split(",")]

for line in sys.argv[1:]:
    answer(*json.loads(line))
for line in sys.stdin:
    if not os.fork():
        try:
            print(json.dumps(answer(*json.loads(line))), flush=True)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
        os._exit(0)
    if os.wait()[1]:
        print(json.dumps("killed"), flush=True)
"""
"""Answers each line in a process of its own: a fork of one that has loaded everything, as it did all of it once."""


WAYS = ("records", "batches,segments,transactions", "verify")
CARVING = ("carve", "carve-tables")
Measured = dict[tuple[str, str], dict[str, Any]]
Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """What the server answers to a line of words."""
    require(Path("/proc/self/clear_refs").exists(), "a system that tells a process's peak of memory")
    directory = tmp_path_factory.mktemp("first")
    log, lines = write(directory / "log", write_batch(SMALLEST)), directory / "lines.jsonl"
    lines.write_text('{"value":"good"}\n')
    first = [[way, str(log)] for way in (*WAYS, *CARVING)] + [["load", str(lines), "--to", str(directory / "to")]]
    command = [sys.executable, "-c", SERVER, *map(json.dumps, first)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        words_to, answers = process.stdin, process.stdout

        def ask(*words: str) -> list[dict[str, Any]]:
            print(json.dumps(words), file=words_to, flush=True)
            answer = json.loads(answers.readline())
            assert isinstance(answer, list), answer
            return answer

        yield ask
        words_to.close()


def measure(ask: Ask, paths: Iterable[Path], ways: Iterable[str] = WAYS) -> Measured:
    """What was read of each file, by its directory's name and how; and the peak of resident memory meanwhile (MiB).
    Each way is a process of its own."""
    names = [str(path) for path in paths]
    return {(Path(line["path"]).parent.name, line["how"]): line for way in ways for line in ask(way, *names)}


def assert_peaks(found: Measured, mebibytes: int) -> None:
    assert {key: line["peak"] for key, line in found.items() if line["peak"] >= mebibytes} == {}


def of_each(found: Measured, how: str, what: str) -> dict[str, Any]:
    return {name: line[what] for (name, each), line in found.items() if each == how}


def write(directory: Path, data: bytes) -> Path:
    directory.mkdir()
    path = directory / NAME
    path.write_bytes(data)
    return path


def zstd_of(piece: bytes, times: int) -> bytes:
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(compressor.compress(piece) for _ in range(times)) + compressor.flush()


def zstd_zeros(blocks: int) -> bytes:
    """A frame of so many times 128 KiB of zeros, in four bytes each (RFC 8878: blocks of one repeated byte)."""
    block, last = ((131072 << 3 | 1 << 1 | end).to_bytes(3, "little") + b"\0" for end in (0, 1))
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * (blocks - 1) + last


def wrapper(magic: int, messages: bytes, offset: int = 0) -> bytes:
    """A v0 or v1 wrapper message around messages, by gzip. ``offset``: that of the last one."""
    value = gzip.compress(messages, 1)
    body = bytes([magic, 1]) + (struct.pack(">q", 0) if magic else b"") + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


SMALLEST = write_record(None, None)
assert len(SMALLEST) == 7


def record_of_headers(mebi: int) -> bytes:
    """A record with so many times 2^20 headers, each an empty key and a null value."""
    body = b"\0\0\0\x01\x01" + write_varint(mebi << 20) + b"\x00\x01" * (mebi << 20)
    return write_varint(len(body)) + body


def smallest_records(count: int) -> bytes:
    """Records with nothing but an offset, each its own; in varints of four bytes, so that all are as long."""
    deltas = 2 * np.arange(count, dtype=np.int64)
    records = np.tile(np.frombuffer(b"\x12\0\0\x80\x80\x80\0\x01\x01\0", np.uint8), (count, 1))
    for byte in range(4):
        records[:, 3 + byte] |= (deltas >> 7 * byte & 0x7F).astype(np.uint8)
    return records.tobytes()


def smallest_messages(count: int) -> bytes:
    """Messages of v1 with nothing but an offset, each its own, relative to that of their wrapper."""
    body = struct.pack(">bbqii", 1, 0, 0, -1, -1)
    message = np.frombuffer(struct.pack(">qiI", 0, 22, zlib.crc32(body)) + body, np.uint8)
    messages = np.tile(message, (count, 1))
    messages[:, :8] = np.arange(count, dtype=">i8").view(np.uint8).reshape(-1, 8)
    return messages.tobytes()


def many_records(count: int) -> bytes:
    payload = COMPRESS["zstd"](smallest_records(count))
    return write_batch(payload, attributes=4, count=count, last_offset_delta=count - 1)


@cache
def bombs() -> dict[str, bytes]:
    three = smallest_records(3)
    return {
        "4 GiB": write_batch(zstd_zeros(1 << 15), attributes=4, count=2**31 - 1),
        "64 GiB behind a record": write_batch(
            COMPRESS["zstd"](SMALLEST) + zstd_zeros(1 << 19), attributes=4, count=2, last_offset_delta=1
        ),
        "a count of 2^31 - 1": write_batch(three, count=2**31 - 1, last_offset_delta=2),
        "a count of 2^31 - 1, zstd": write_batch(
            COMPRESS["zstd"](three), attributes=4, count=2**31 - 1, last_offset_delta=2
        ),
        "16 million records": many_records(16_000_000),
        "9 million records": many_records(9_000_000),
        "9 million records at one offset": write_batch(zstd_of(SMALLEST * 1000, 9_000), attributes=4, count=9_000_000),
        "3 Mi headers": write_batch(COMPRESS["zstd"](record_of_headers(3)), attributes=4),
        "40 Mi headers": write_batch(COMPRESS["zstd"](record_of_headers(40)), attributes=4),
        "2 million messages in a wrapper": wrapper(1, smallest_messages(2_000_000), 1_999_999),
        "6 million messages in a wrapper": wrapper(1, smallest_messages(6_000_000), 5_999_999),
    }


def test_golden_bombs_take_less_than_512_mib(ask: Ask) -> None:
    found = measure(ask, (each.log for each in cases("damaged") if each.name.startswith("damaged/bomb")))
    assert len(found) >= 13 * 5
    assert_peaks(found, 512)


def test_bombs_take_less_than_512_mib(ask: Ask, tmp_path: Path) -> None:
    good = write_batch(SMALLEST, base_offset=1 << 30)
    paths = [write(tmp_path / name, data + good) for name, data in bombs().items()]
    found = measure(ask, paths[:-2])
    for path in paths[-2:]:  # what an allocator keeps of one of these is much beside the next
        found |= measure(ask, [path])
    assert_peaks(found, 512)
    assert set(of_each(found, "batches", "rows").values()) == {2}

    # What can be read is read, and always the batch behind it.
    rows = of_each(found, "records", "rows")
    assert rows.pop("16 million records") > 1_000_000
    assert {name: count for name, count in rows.items() if count > 1} == {
        "64 GiB behind a record": 2,
        "9 million records at one offset": 2,
        "a count of 2^31 - 1": 4,
        "a count of 2^31 - 1, zstd": 4,
        "9 million records": 9_000_001,
        "3 Mi headers": 2,
        "2 million messages in a wrapper": 2_000_001,
    }
    errors = of_each(found, "records", "errors")
    assert {name: kinds for name, kinds in errors.items() if kinds} == {
        "4 GiB": ["limit-exceeded"],
        "64 GiB behind a record": ["limit-exceeded"],
        "a count of 2^31 - 1": ["record-invalid"],
        "a count of 2^31 - 1, zstd": ["record-invalid"],
        "16 million records": ["limit-exceeded"],
        "40 Mi headers": ["limit-exceeded"],
        "6 million messages in a wrapper": ["limit-exceeded"],
    }
    # Verifying keeps no headers, so that many of them are no matter.
    verified = of_each(found, "verify", "errors")
    assert verified == {**errors, "40 Mi headers": []}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_one_huge_record_after_another_is_read_in_bounded_memory(ask: Ask, codec: str, tmp_path: Path) -> None:
    record = write_record(b"key", np.random.default_rng(1).bytes(1000) * (64 << 10))
    payload, attributes = COMPRESS[codec](record), list(COMPRESS).index(codec)
    batches = b"".join(write_batch(payload, attributes=attributes, base_offset=offset) for offset in range(3))
    found = measure(ask, [write(tmp_path / "huge", batches)], ["records", "verify"])
    assert of_each(found, "records", "rows") == {"huge": 3}
    assert_peaks(found, 512)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_of_100_megabytes_are_compared_in_bounded_memory(ask: Ask, codec: str, tmp_path: Path) -> None:
    """Four of them on each side, of which the last one has another last byte."""
    value, attributes = np.random.default_rng(1).bytes(1000) * 100_000, list(COMPRESS).index(codec)
    payloads = [COMPRESS[codec](write_record(b"key", value[:-1] + last)) for last in (b"a", b"b")]
    for side, of_last in (("left", 0), ("right", 1)):
        batches = [
            write_batch(payloads[of_last if offset == 3 else 0], attributes=attributes, base_offset=offset)
            for offset in range(4)
        ]
        (tmp_path / side).mkdir()
        write(tmp_path / side / "t-0", b"".join(batches))
    found = measure(ask, [tmp_path / "left" / "t-0" / NAME], ["diff"])
    assert of_each(found, "diff", "rows") == {"t-0": 3}
    assert of_each(found, "diff", "errors") == {"t-0": ["changed"]}
    assert_peaks(found, 900)


def test_a_segment_of_a_gibibyte_is_read_in_bounded_memory(ask: Ask, tmp_path: Path) -> None:
    value = np.random.default_rng(2).bytes(900)
    records = b"".join(write_record(b"key", value, [], number) for number in range(1000))
    batch = np.frombuffer(write_batch(records, count=1000, last_offset_delta=999, max_timestamp=5), np.uint8)
    path = tmp_path / "large" / NAME
    path.parent.mkdir()
    count = (1 << 30) // len(batch)
    with path.open("wb") as file:
        for number in range(count):  # the checksum does not cover the base offset
            file.write(struct.pack(">q", number * 1000) + batch[8:].tobytes())
    try:
        found = measure(ask, [path])
    finally:
        path.unlink()
    assert of_each(found, "records", "rows") == {"large": count * 1000}
    assert of_each(found, "batches", "rows") == {"large": count}
    assert all(line["errors"] == [] for line in found.values())
    assert_peaks(found, 400)


def false_batches(size: int) -> bytes:
    """Headers that make sense, one behind the other, each of which claims all that follows."""
    header = np.frombuffer(write_batch(b"", count=1)[:61], np.uint8)
    headers = np.tile(header, (size // len(header), 1))
    left = headers.size - len(header) * np.arange(len(headers)) - 12
    headers[:, 8:12] = left.astype(">i4").view(np.uint8).reshape(-1, 4)
    return headers.tobytes()


def test_bytes_of_unknown_content_are_carved_in_bounded_memory(ask: Ask, tmp_path: Path) -> None:
    chance = np.random.default_rng(3)
    good = write_batch(SMALLEST, base_offset=1)
    one_by_one = np.tile(np.frombuffer(write_batch(b"", count=1), np.uint8), 200_000)
    harmful = [part for bomb in bombs().values() for part in (bomb, chance.bytes(1 << 20))]
    contents = {
        "chance": [chance.bytes(1 << 20) * 64] * 9,
        "false batches": [false_batches(64 << 20)],
        "batches with wrong checksums": [one_by_one.tobytes()],
        "bombs": harmful[:-4],
        "wrappers": harmful[-4:],
    }
    paths: list[Path] = []
    for name, parts in contents.items():
        paths.append(write(tmp_path / name, parts[0]))
        with paths[-1].open("ab") as file:
            file.writelines([*parts[1:], good, chance.bytes(100_000)])
    assert paths[0].stat().st_size > 512 << 20
    try:
        found = measure(ask, paths[:-2], CARVING)
        for path in paths[-2:]:  # what an allocator keeps of one of these is much beside the next
            found |= measure(ask, [path], CARVING)
    finally:
        paths[0].unlink()
    for how in CARVING:
        assert of_each(found, how, "rows") == {**dict.fromkeys(contents, 1), "bombs": 9_000_003, "wrappers": 2_000_001}
    # Batches have no limit of headers, but rows have one.
    assert of_each(found, "carve-tables", "errors")["bombs"] == ["limit-exceeded"]
    assert_peaks(found, 512)


def load_line(
    ask: Ask, path: Path, start: bytes, piece: bytes, times: int, end: bytes, *options: str
) -> tuple[int, int, str]:
    """Exit code, peak of memory (MiB) and what is said, for ``load`` of a line after a good one."""
    with path.open("wb") as file:
        file.writelines([b'{"value":"good"}\n{"value":', start, *([piece] * times), end, b"}\n"])
    (found,) = ask("load", str(path), "--to", str(path.parent / "to"), *options)
    path.unlink()
    return found["code"], found["peak"], found["said"]


MEBI = 1 << 20
HEADERS = b'["",""],' * (MEBI // 8)


def test_lines_of_json_take_a_few_times_their_size(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    small = load_line(ask, path, b'"', b"x", 1, b'"')
    assert small[0] == 0
    lines = {
        "text": (b'"', b"x" * MEBI, 60, b'"'),
        "characters of four bytes": (b'"', "\U0001f600".encode() * (MEBI // 4), 60, b'"'),
        "base64": (b'{"base64":"', b"AAAA" * (MEBI // 4), 60, b'"}'),
        "headers": (b'null,"headers":[', HEADERS, 60, b'["",""]]'),
        "values": (b"[", b"[],0" * (MEBI // 4), 60, b"]"),
        "an end that is missing": (b'"', b'\\"' * (MEBI // 2), 60, b""),
        "more than is allowed": (b'"', b"x" * MEBI, 400, b'"'),
    }
    found = {name: load_line(ask, path, *line) for name, line in lines.items()}
    assert {name: peak for name, (_, peak, _) in found.items() if peak >= small[1] + 6 * 60} == {}
    refused = {name: said for name, (code, _, said) in found.items() if code == 2}
    assert refused.keys() == {"values", "an end that is missing", "more than is allowed"}
    assert all(f"{path}, line 2: " in said for said in refused.values())
    assert "longer than 67108864 bytes" in refused["more than is allowed"]
    assert "--max-line-bytes" in refused["more than is allowed"]


def test_a_higher_limit_lets_longer_lines_pass(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    line = b'"', b"x" * MEBI, 70, b'"'
    assert load_line(ask, path, *line)[0] == 2
    assert load_line(ask, path, *line, "--max-line-bytes", "100MiB")[0] == 0
