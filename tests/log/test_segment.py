"""A segment is scanned chunk by chunk: through windows of any size, the batches and the findings are the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from tests.format import twin
from tests.golden import all_cases, case, cases, of_type

from brokerless.findings import Finding
from brokerless.format.read.batch_headers import checksums_match
from brokerless.log import segment
from brokerless.log.segment import Chunk, scan, scan_headers
from brokerless.log.storage import header_reader
from brokerless.log.storage.location import Location

LIMIT = 100_000
SMALL = [
    log
    for each in all_cases()
    if each.category in ("formats", "articles", "specials", "framing", "damaged")
    for log in each.logs
    if log.stat().st_size < LIMIT
]


@pytest.fixture
def memory() -> Iterator[str]:
    """A directory of files that are read by ranges."""
    root = f"memory://test_segment-{os.getpid()}"
    yield root
    fsspec.filesystem("memory").rm(root, recursive=True)


def upload(path: Path, root: str) -> str:
    url = f"{root}/{path.name}"
    fsspec.filesystem("memory").pipe_file(url, path.read_bytes())
    return url


def scanned(
    path: str,
    start: int = 0,
    end: int | None = None,
    step: int = segment.STEP,
    by: Callable[..., Iterator[Chunk]] = scan,
    chain_only: bool = False,
) -> tuple[list[int], bytes, list[tuple[str, str, int | None, int | None]]]:
    """The positions and headers of the batches, and what is told of the end."""
    told: list[Finding] = []
    with Location(path).open() as file:
        chunks = list(by(file, told.append, start, end, step, chain_only=chain_only))
        for chunk in chunks:
            assert len(chunk.batches)
        positions = [position for chunk in chunks for position in chunk.positions.tolist()]
        loaded = [part for chunk in chunks for part in chunk.load(pytest.fail)]
        assert [position for part in loaded for position in part.positions.tolist()] == positions
        for chunk in loaded:
            assert (chunk.batches.ends <= len(chunk.buffer)).all()
            for row in range(len(chunk.batches)):
                at, size = int(chunk.positions[row]), int(chunk.batches.sizes[row])
                inside = chunk.buffer[chunk.batches.positions[row] :][:size]
                assert inside.tobytes() == file.read(at, size).tobytes()
    # What lies behind a short last message is not its own.
    raw = [chunk.batches.raw[row, : chunk.batches.sizes[row]] for chunk in chunks for row in range(len(chunk.batches))]
    findings = [(each.severity, each.kind, each.position, each.offset) for each in told]
    return positions, b"".join(row.tobytes() for row in raw), findings


@pytest.mark.parametrize("window", [62, 100, 1000, 1 << 20])
def test_any_window_gives_the_same(window: int, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = SMALL if window > 100 else SMALL[::5]
    whole = [scanned(str(log)) for log in chosen]
    monkeypatch.setattr(segment, "WINDOW", window)
    monkeypatch.setattr(segment, "FIRST_WINDOW", window)
    for log, expected in zip(chosen, whole, strict=True):
        assert scanned(str(log)) == expected, log
        assert scanned(upload(log, memory)) == expected, log


def test_headers_alone_are_found_and_end_as_whole_batches(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "HEADERS_FROM", 0)  # so that no file is too small for being read by its headers
    monkeypatch.setattr(header_reader, "_TRIAL", 200)
    monkeypatch.setattr(header_reader, "_LEAST_WINDOW", 1)
    for log in SMALL:
        for path in (str(log), upload(log, memory)):
            assert scanned(path, step=700, by=scan_headers) == scanned(str(log)), log


def test_the_chain_and_its_end_are_kafkas() -> None:
    for each in cases("damaged", "specials", "articles"):
        for log in each.logs:
            if log.stat().st_size > LIMIT:
                continue
            positions, _, findings = scanned(str(log), chain_only=True)
            expected = each.expected()
            assert positions == [line["position"] for line in of_type(expected, "batch", log.name)]
            (end,) = of_type(expected, "end", log.name)
            throws = [line for line in of_type(expected, "error", log.name) if line["phase"] == "batches"]
            if throws:
                assert [(severity, position) for severity, _, position, _ in findings] == [("error", end["position"])]
            elif end["trailingBytes"]:
                ((severity, kind, position, _),) = findings
                # What cannot be the beginning of a batch is damage, though Kafka's reader ends there in silence.
                assert (severity, kind) in (
                    ("warning", "truncated-batch"), ("info", "trailing-zeros"), ("error", "no-batches")
                )  # fmt: skip
                assert position == end["position"]
            else:
                assert findings == []


@pytest.mark.parametrize("name", ["specials/segment-v0", "specials/segment-v1", "specials/segment-v2"])
def test_a_range_of_bytes_gives_the_batches_that_begin_in_it(name: str, memory: str) -> None:
    log = case(name).log
    remote = upload(log, memory)
    whole = scanned(str(log))[0]
    for start in whole[::9]:
        for end in (start, start + 1, start + 700, whole[-1], whole[-1] + 1, None):
            expected = [position for position in whole if start <= position < (1 << 40 if end is None else end)]
            for path in (str(log), remote):
                assert scanned(path, start, end)[0] == expected


@pytest.mark.parametrize("step", [1, 200, 5000])
def test_chunks_are_as_small_as_they_are_asked_for(step: int, memory: str) -> None:
    log = case("specials/segment-v2").log
    whole = scanned(str(log))
    for path in (str(log), upload(log, memory)):
        assert scanned(path, step=step) == whole
        with Location(path).open() as file:
            for chunk in scan(file, pytest.fail, step=step):
                assert chunk.positions[-1] - chunk.positions[0] < step


def test_a_batch_too_large_for_memory_is_reported_and_passed_over(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "WINDOW", 100)
    monkeypatch.setattr(segment, "LARGEST_WINDOW", 2000)
    path = tmp_path / f"{0:020}.log"
    small, large = (
        twin.write_batch(twin.write_record(b"k", b"v")),
        twin.write_batch(twin.write_record(b"k", bytes(3000))),
    )
    url = f"{memory}/{0:020}.log"
    path.write_bytes(small + large + small + large)
    fsspec.filesystem("memory").pipe_file(url, path.read_bytes())
    for each in (url, str(path)):
        positions, _, findings = scanned(each)
        assert positions == [0, len(small) + len(large)]
        assert findings == [
            ("error", "limit-exceeded", len(small), None),
            ("error", "limit-exceeded", 2 * len(small) + len(large), None),
        ]


def test_an_empty_file_has_no_batches(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.touch()
    assert scanned(str(path)) == ([], b"", [])


@pytest.mark.parametrize("by", [scan, scan_headers])
@pytest.mark.parametrize(("batches", "bytes_more"), [(0, 0), (1, 0), (3, 0), (3, 17), (3, 60), (3, 1 << 20)])
def test_a_file_that_is_shortened_while_it_is_read_ends_there_with_a_finding(
    batches: int, bytes_more: int, by: Callable[..., Iterator[Chunk]], tmp_path: Path
) -> None:
    path = tmp_path / f"{0:020}.log"
    small = twin.write_batch(twin.write_record(b"k", b"v"))
    batch = twin.write_batch(twin.write_record(b"k", bytes(2 << 20)))
    large = len(batch)
    path.write_bytes(3 * small + batch + small)
    found: list[Finding] = []
    with Location(str(path)).open() as file:
        chunks = by(file, found.append, step=1)
        positions = [int(next(chunks).positions[0])]
        os.truncate(path, batches * len(small) + bytes_more)
        positions += [int(chunk.positions[0]) for chunk in chunks]
    # What was read before the file was cut is given all the same.
    assert positions == [row * len(small) for row in range(max(1, batches))]
    (finding,) = found
    assert (finding.severity, finding.kind, finding.file) == ("error", "file-shrunk", str(path))
    assert finding.position == len(small) * max(1, batches)
    assert finding.expected == f"{4 * len(small) + large} bytes"
    assert finding.found == f"{batches * len(small) + bytes_more} bytes"


@pytest.mark.parametrize("by", [scan, scan_headers])
def test_a_file_that_is_cut_and_written_again_between_two_windows_has_shrunk(
    by: Callable[..., Iterator[Chunk]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size is what it was, but what was read ended before it."""
    path = tmp_path / f"{0:020}.log"
    small = twin.write_batch(twin.write_record(b"k", b"v"))
    path.write_bytes(30_000 * small)
    for module in (segment, header_reader):
        scan_batches = module.scan_batches

        def cut_before(*arguments: Any, scan_batches: Any = scan_batches, **keywords: Any) -> Any:
            path.write_bytes(30_000 * small)
            return scan_batches(*arguments, **keywords)

        monkeypatch.setattr(module, "scan_batches", cut_before)
    found: list[Finding] = []
    with Location(str(path)).open() as file:
        chunks = by(file, found.append, step=1 << 17)
        next(chunks)
        monkeypatch.setattr(header_reader.time, "perf_counter", lambda: 1.0)
        os.truncate(path, 1000 * len(small))
        assert sum(len(chunk.batches) for chunk in chunks) < 30_000
    assert [each.kind for each in found] == ["file-shrunk"]


def test_what_leads_past_others_leads_to_nothing_that_was_read_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a file that is written again meanwhile, a batch that was read may have another size by now."""
    path = tmp_path / f"{0:020}.log"
    small = twin.write_batch(twin.write_record(b"k", b"v"))
    path.write_bytes(100 * small + bytes([7] * 50) + 100 * small)
    found_break = segment._break  # pyright: ignore[reportPrivateUsage]

    def again(*arguments: Any, **keywords: Any) -> Any:
        return replace(found_break(*arguments, **keywords), resume_at=0)

    monkeypatch.setattr(segment, "_break", again)
    found: list[Finding] = []
    with Location(str(path)).open() as file:
        positions = [int(each) for chunk in scan(file, found.append) for each in chunk.positions]
    assert positions == [row * len(small) for row in range(100)]
    assert found


def test_headers_whose_batches_are_gone_when_they_are_loaded_are_reported(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    small = twin.write_batch(twin.write_record(b"k", b"v"))
    path.write_bytes(30_000 * small)
    found: list[Finding] = []
    with Location(str(path)).open() as file:
        chunks = list(scan_headers(file, pytest.fail))
        assert not any(len(chunk.buffer) for chunk in chunks)
        os.truncate(path, 20_000 * len(small) + 7)
        loaded = [part for chunk in chunks for part in chunk.load(found.append)]
    assert sum(len(part.batches) for part in loaded) == 20_000
    assert all(checksums_match(part.buffer, part.batches).all() for part in loaded)
    assert {each.kind for each in found} == {"file-shrunk"}


@pytest.mark.parametrize("zeros", [1, 17, 18, 61, 70_000])
def test_zeros_at_the_end_are_reported_by_how_many_they_are(zeros: int, memory: str, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    batch = twin.write_batch(twin.write_record(b"k", b"v"))
    path.write_bytes(batch + bytes(zeros))
    for each in (str(path), upload(path, memory)):
        kind = ("info", "trailing-zeros") if zeros <= 17 else ("error", "zero-tail")
        assert scanned(each)[2] == [(*kind, len(batch), None)]
        assert np.array_equal(scanned(each)[0], [0])
