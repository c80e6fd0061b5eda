"""The scan of a buffer for its batches is that of Kafka's reader: in Python, in the kernel, and in both together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.format import twin
from tests.golden import case, cases

from brokerless.format.read import batch_scan
from brokerless.format.read.batch_scan import ScanStop, python_scans_left, scan_batches
from brokerless.format.read.batch_scan_kernels import scan_buffer

LOGS = [path.read_bytes() for each in cases("formats", "articles") for path in each.logs if path.stat().st_size < 20000]
LOGS.append(case("specials/mixed-magic").log.read_bytes())


def array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def by_kernel(data: bytes, start: int = 0, until: int = 1 << 62, capacity: int = 3) -> tuple[list[int], int, int]:
    """The kernel's walk, a few batches a call."""
    found: list[int] = []
    positions = np.empty(capacity, np.int64)
    stop = 0
    while stop == 0 and start < until:
        count, start, stop = scan_buffer(array(data), start, until, positions)
        found.extend(positions[:count].tolist())
    return found, start, stop


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Logs with some bytes set to what makes trouble, bytes cut out, put in or cut off."""
    data = bytearray(draw(st.sampled_from(LOGS)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, min(len(data) - 1, draw(st.sampled_from([20, 300, 1 << 20]))))))
        match draw(st.sampled_from(["set", "cut", "put", "end"])):
            case "set":
                data[at : at + 1] = draw(st.sampled_from([b"\0", b"\x7f", b"\x80", b"\xff", b"\x0d", b"\x0e"]))
            case "cut":
                del data[at : at + draw(st.integers(1, 100))]
            case "put":
                data[at:at] = draw(st.binary(max_size=40))
            case _:
                del data[at:]
    return bytes(data)


@examples(200)
@given(data=mutated(), capacity=st.integers(1, 5))
def test_python_kernel_and_twin_scan_alike(data: bytes, capacity: int) -> None:
    positions, stopped_at, throws = twin.chain(data)
    stop = ScanStop.SIZE_TOO_SMALL if throws else ScanStop.END
    assert by_kernel(data, capacity=capacity) == (positions, stopped_at, stop)
    for plainly in (0, capacity, 1 << 40):  # the kernel alone, the two together, and plain Python alone
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_scan, "python_scans_left", lambda left=plainly: left)
            scan = scan_batches(array(data))
        assert (scan.positions.tolist(), scan.stopped_at, scan.stop) == (positions, stopped_at, stop)


@examples(100)
@given(data=st.sampled_from(LOGS), limit=st.integers(0, 30), max_bytes=st.integers(1, 5000))
def test_a_scan_ends_after_so_many_batches_or_bytes_and_can_go_on(data: bytes, limit: int, max_bytes: int) -> None:
    positions = twin.chain(data)[0]
    assert scan_batches(array(data), limit=limit).positions.tolist() == positions[:limit]
    found: list[int] = []
    at, stop = 0, ScanStop.LIMIT
    while stop == ScanStop.LIMIT:
        scan = scan_batches(array(data), at, max_bytes=max_bytes)
        assert all(position < at + max_bytes for position in scan.positions)
        found.extend(scan.positions.tolist())
        at, stop = scan.stopped_at, scan.stop
    assert found == positions


def test_the_kernel_goes_on_where_plain_python_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "_scanned_in_python", 0)
    one = LOGS[0][: scan_batches(array(LOGS[0]), limit=1).stopped_at]
    many = one * 40_000
    scan = scan_batches(array(many))
    assert python_scans_left() == 0
    assert np.array_equal(scan.positions, np.arange(40_000) * len(one))
    assert (scan.stopped_at, scan.stop) == (len(many), ScanStop.END)
