"""Whichever way headers are read, they are the same; and the way that is faster is the one that is taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.format import twin
from tests.golden import all_cases, case

from brokerless.errors import UnreadableError
from brokerless.format.read.batch_headers import Batches, read_headers
from brokerless.format.read.batch_scan import BatchScan, ScanStop, scan_batches
from brokerless.log.storage import header_reader as headers
from brokerless.log.storage.files import LocalFile
from brokerless.log.storage.header_reader import header_reader, headers_by_reads, headers_by_windows
from brokerless.log.storage.location import Location

LOGS = [
    log
    for each in all_cases()
    if each.category in ("formats", "articles", "specials", "framing", "damaged")
    for log in each.logs
    if 0 < log.stat().st_size < 100_000
]
SMALL = twin.write_batch(twin.write_record(b"k", b"v"))


@pytest.fixture(params=["plain", "kernel"])
def plainly(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(headers, "python_scans_left", lambda: int(request.param == "plain"))
    return request.param


def opened(path: Path) -> LocalFile:
    file = Location(str(path)).open()
    assert isinstance(file, LocalFile)
    return file


def contents(read: tuple[BatchScan, Batches]) -> tuple[list[int], int, ScanStop, bytes, int]:
    walked, batches = read
    assert np.array_equal(walked.positions, batches.positions)
    return walked.positions.tolist(), walked.stopped_at, walked.stop, batches.raw.tobytes(), batches.buffer_size


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize(
    ("way", "window"), [(headers_by_windows, 1 << 20), (headers_by_windows, 100), (headers_by_reads, 0)]
)
def test_headers_are_those_of_the_buffer(
    way: Callable[..., tuple[BatchScan, Batches]], window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headers, "_WINDOW", window)
    monkeypatch.setattr(headers, "_LEAST_WINDOW", window)
    for log in LOGS if window != 100 else LOGS[::5]:
        data = np.fromfile(log, np.uint8)
        positions = twin.chain(data.tobytes())[0] or [0]
        with opened(log) as file:
            for start in positions[::7]:
                for until in (start + 1, start + 700, len(data)):
                    for end in (len(data), (start + len(data)) // 2 + 1):
                        buffer = data[start:end]
                        walked = scan_batches(buffer, max_bytes=until - start)
                        expected = contents((walked, read_headers(buffer, walked.positions)))
                        assert contents(way(file, start, until, end)) == expected, (log, start, until, end)


@pytest.mark.usefixtures("plainly")
def test_more_batches_than_a_chunk_has_are_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "_MOST", 3)
    log = case("specials/segment-v2").log
    positions = twin.chain(log.read_bytes())[0]
    with opened(log) as file:
        walked, batches = headers_by_reads(file, 0, file.size, file.size)
        assert (walked.positions.tolist(), walked.stopped_at, walked.stop) == (
            positions[:3],
            positions[3],
            ScanStop.LIMIT,
        )
        assert len(batches) == 3


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize("left", [0, 10, 40, 60])
def test_reads_end_where_a_broker_has_shortened_the_file_meanwhile(left: int, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(5 * SMALL)
    with opened(path) as file:
        os.truncate(path, 2 * len(SMALL) + left)
        walked, _ = headers_by_reads(file, 0, 5 * len(SMALL), 5 * len(SMALL))
    assert (walked.positions.tolist(), walked.stop) == ([0, len(SMALL)], ScanStop.END)


@pytest.mark.usefixtures("plainly")
def test_what_the_system_does_not_read_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(SMALL)
    with opened(path) as file:
        os.dup2(other := os.open(tmp_path, os.O_RDONLY), file.descriptor)
        os.close(other)
        with pytest.raises(UnreadableError, match=r"0\.log: this is a directory"):
            headers_by_reads(file, 0, file.size, file.size)


def test_the_way_that_takes_less_time_is_taken_until_the_other_may_take_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{0:020}.log"
    path.touch()
    now, seconds, taken = 0.0, {"windows": 2.0, "reads": 1.0}, []

    def way(name: str) -> Callable[..., tuple[BatchScan, Batches]]:
        def read(_: LocalFile, start: int, until: int, end: int) -> tuple[BatchScan, Batches]:
            nonlocal now
            taken.append((name, until - start))
            now += seconds[name] * (until - start)
            nothing = np.empty(0, np.int64)
            return BatchScan(nothing, until - start, ScanStop.LIMIT), read_headers(np.empty(0, np.uint8), nothing)

        return read

    monkeypatch.setattr(headers, "headers_by_windows", way("windows"))
    monkeypatch.setattr(headers, "headers_by_reads", way("reads"))
    monkeypatch.setattr(headers, "_times", lambda: headers.Times(now, 0.0, None))
    with opened(path) as file:
        read = header_reader(file)
        step, at = 10 * headers._TRIAL, 0

        def go_on(times: int) -> list[str]:
            nonlocal at
            taken.clear()
            for _ in range(times):
                at += read(at, at + step, 1 << 40)[0].stopped_at
            return [name for name, _ in taken]

        assert go_on(2) == ["reads", "windows"]
        assert taken == [("reads", headers._TRIAL), ("windows", headers._TRIAL)]
        assert go_on(8) == ["reads"] * 8
        assert taken == [("reads", headers._TRIAL), *[("reads", step)] * 7]
        seconds["reads"] = 3.0
        assert go_on(4) == ["reads", "windows", "windows", "windows"]
        seconds["windows"] = seconds["reads"] = 1.0
        assert {*go_on(100)} == {"windows", "reads"}


@pytest.mark.parametrize(
    ("waits", "seconds"), [((7, 7), 0.5), ((7, 8), 3.0), ((None, None), 3.0)], ids=["in memory", "waited", "unknown"]
)
def test_the_turn_of_another_process_does_not_count(waits: tuple[int | None, int | None], seconds: float) -> None:
    one, other = headers.Times(10.0, 1.0, waits[0]), headers.Times(13.0, 1.5, waits[1])
    assert headers.seconds_between(one, other) == seconds
