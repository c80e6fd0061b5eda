"""Windows that are read ahead give a scan the same bytes as reading in turn, whatever their borders cut."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.object_server import ObjectServer, serving
from numpy.typing import NDArray
from tests.format import twin

from brokerless.findings import Finding
from brokerless.log import segment
from brokerless.log.segment import Windows, scan
from brokerless.log.storage import read_ahead
from brokerless.log.storage.files import LocalFile, RemoteFile
from brokerless.log.storage.location import Location
from brokerless.log.storage.read_ahead import ReadAhead


def log_of(path: Path, sizes: list[int]) -> Path:
    batches = [twin.write_batch(twin.write_record(b"k", bytes([at % 251]) * size)) for at, size in enumerate(sizes)]
    path.write_bytes(b"".join(batches))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    chance = random.Random(1)
    return log_of(tmp_path / f"{0:020}.log", [chance.choice([5, 50, 300, 3000]) for _ in range(400)])


def open_local(path: Path) -> LocalFile:
    file = Location(str(path)).open()
    assert isinstance(file, LocalFile)
    return file


def scanned(
    file: LocalFile | RemoteFile, windows: Windows | None, start: int = 0
) -> tuple[list[tuple[int, bytes]], list[Finding]]:
    """Each batch's position and bytes, copied while its chunk is the newest, and what was found."""
    findings: list[Finding] = []
    batches: list[tuple[int, bytes]] = []
    for chunk in scan(file, findings.append, start, None, 1 << 30, windows):
        for at, end in zip(chunk.batches.positions.tolist(), chunk.batches.ends.tolist(), strict=True):
            batches.append((chunk.base + at, chunk.buffer[at:end].tobytes()))
    return batches, findings


def fetching(ahead: ReadAhead, fetched: Iterator[bool]) -> Windows:
    """Before each read, another window is planned, and fetched or not."""

    def read(position: int, useful: int, needed: int) -> tuple[NDArray[np.uint8], int]:
        window = ahead.plan()
        if window is not None and next(fetched):
            ahead.fetch(window)
        return ahead.read(position, useful, needed)

    return read


@pytest.mark.parametrize("space", [0, 40, 400, 1 << 20])
@pytest.mark.parametrize("most", [100, 1000, 5000, 1 << 20])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.0])
def test_any_windows_give_what_reading_in_turn_gives(
    log: Path, space: int, most: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "HEADROOM", space)
    chance = random.Random(most)
    with open_local(log) as file:
        expected = scanned(file, None)
        start = expected[0][7][0]
        for begin in (0, start):
            ahead = ReadAhead(file, begin, file.size, 50, most)
            found = scanned(file, fetching(ahead, iter(lambda: chance.random() < share, None)), begin)
            assert found == (expected[0][7 if begin else 0 :], expected[1])


def test_windows_that_were_fetched_far_ahead_and_in_any_order_give_the_same(log: Path) -> None:
    with open_local(log) as file:
        ahead = ReadAhead(file, 0, file.size, 500, 4000)
        windows = [window for window in iter(ahead.plan, None) if window is not None]
        assert [window.position for window in windows[1:]] == [window.end for window in windows[:-1]]
        assert windows[-1].end == file.size
        random.Random(2).shuffle(windows)
        for window in windows:
            ahead.fetch(window)
        assert scanned(file, ahead.read) == scanned(file, None)


def test_each_byte_is_read_once_where_what_is_cut_has_space(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    preadv, pread = os.preadv, os.pread

    def counting_preadv(descriptor: int, rooms: list[memoryview], position: int) -> int:
        counted.append(preadv(descriptor, rooms, position))
        return counted[-1]

    def counting_pread(descriptor: int, length: int, position: int) -> bytes:
        counted.append(length)
        return pread(descriptor, length, position)

    with open_local(log) as file:
        ahead = ReadAhead(file, 0, file.size, 500, 8000)
        monkeypatch.setattr(os, "preadv", counting_preadv)
        monkeypatch.setattr(os, "pread", counting_pread)
        found = scanned(file, fetching(ahead, iter(lambda: True, None)))
        assert sum(counted) == file.size
        assert found == scanned(file, None)


def test_what_a_window_gave_stays_what_it_is_while_others_are_read(log: Path) -> None:
    with open_local(log) as file:
        file.expect_windows(3)
        ahead = ReadAhead(file, 0, file.size, 70_000, 70_000)
        chunks = list(scan(file, pytest.fail, 0, None, 1 << 30, fetching(ahead, iter(lambda: True, None))))
        assert len(chunks) > 4
        data = log.read_bytes()
        for chunk in chunks:
            assert not chunk.buffer.flags.writeable
            assert chunk.buffer.tobytes() == data[chunk.base : chunk.base + len(chunk.buffer)]


def test_a_file_that_became_shorter_ends_with_the_same_finding(log: Path) -> None:
    with open_local(log) as file:
        size = file.size
        ahead = ReadAhead(file, 0, file.size, 500, 4000)
        os.truncate(log, size // 2)
        found = scanned(file, fetching(ahead, iter(lambda: True, None)))
        assert found == scanned(file, None)
        assert [each.kind for each in found[1]] == ["file-shrunk"]


def test_a_window_that_could_not_be_fetched_is_read_again(log: Path) -> None:
    with open_local(log) as file:
        expected = scanned(file, None)
        ahead = ReadAhead(file, 0, file.size, 500, 4000)
        windows = [window for window in iter(ahead.plan, None) if window is not None]
        descriptor, file.descriptor = file.descriptor, -1  # the system refuses
        ahead.fetch(windows[0])
        file.descriptor = descriptor
        assert windows[0].array is None
        for window in windows[1:]:
            ahead.fetch(window)
        assert scanned(file, ahead.read) == expected


@pytest.fixture
def remote(log: Path) -> Iterator[tuple[ObjectServer, RemoteFile]]:
    """The log in a store that counts requests."""
    with serving(log.parent, 0) as server:
        opened = Location(f"{server.url}/{log.name}", server.options).open()
        assert isinstance(opened, RemoteFile)
        server.requests()
        with opened:
            yield server, opened


def test_a_remote_file_gives_what_a_local_one_gives_and_each_byte_is_requested_once(
    log: Path, remote: tuple[ObjectServer, RemoteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "WINDOW", 20_000)
    server, file = remote
    with open_local(log) as local:
        expected = scanned(local, None)
        assert scanned(file, None) == expected
        seen = server.requests()
        assert seen == {"GetObject": -(-local.size // 20_000), "bytes": local.size}
        start = expected[0][200][0]
        assert scanned(file, None, start) == scanned(local, None, start)


def test_small_ranges_that_are_near_are_one_request(log: Path, remote: tuple[ObjectServer, RemoteFile]) -> None:
    server, file = remote
    data = log.read_bytes()
    assert len(data) > 100_000
    for position in (90_000, 90_100, 80_000, 30_000):
        assert file.read(position, 61).tobytes() == data[position : position + 61]
    assert server.requests()["GetObject"] == 1
    assert file.kept_after(30_000) > 100_000
    with open_local(log) as local:
        start = next(at for at, _ in scanned(local, None)[0] if at > 80_000)
    assert sum(len(each.batches) for each in scan(file, pytest.fail, start, start + 50_000)) > 5
    assert server.requests() == {}


def test_reading_that_ends_early_requests_few_windows(
    remote: tuple[ObjectServer, RemoteFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "WINDOW", 4000)
    server, file = remote
    chunks = scan(file, pytest.fail)
    next(chunks)
    assert server.requests() == {"GetObject": 1, "bytes": 4000}
    chunks.close()
    assert server.requests() == {}
