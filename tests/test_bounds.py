"""No kernel touches a byte outside an array; ``make bounds`` tries far more than these."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests import bounds

OUTSIDE = """
import numpy as np
from brokerless.format.kernel import kernel
from brokerless.format.intrinsics import copy_32, copy_bytes, load_u32_be, load_u64, store_u64

@kernel("uint8(uint8[::1], int64)")
def item(array, at):
    return array[np.uint64(at)]

@kernel("uint64(uint8[::1], int64)")
def u64(array, at):
    return load_u64(array, at)

@kernel("uint32(uint8[::1], int64)")
def u32(array, at):
    return load_u32_be(array, at)

@kernel("void(uint8[::1], int64)")
def store(array, at):
    store_u64(array, at, np.uint64(1))

@kernel("void(uint8[::1], int64)")
def copy_to(array, at):
    copy_bytes(array, at, array, 0, 8)

@kernel("void(uint8[::1], int64)")
def copy_from(array, at):
    copy_bytes(array, 0, array, at, 8)

@kernel("void(uint8[::1], int64)")
def copy_wide(array, at):
    copy_32(array, 0, array, at)

array = np.zeros(40, np.uint8)
for work, size in ((item, 1), (u64, 8), (u32, 4), (store, 8), (copy_to, 8), (copy_from, 8), (copy_wide, 32)):
    work(array, 0)
    work(array, 40 - size)
    for at in (41 - size, 1 << 62, -1):
        try:
            work(array, at)
        except IndexError:
            continue
        raise SystemExit(f"{work.__name__} at {at} was not found out")
"""


def in_a_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=bounds.checked(), capture_output=True, text=True, check=False, timeout=500
    )


def test_whatever_reaches_out_of_an_array_is_found_out(tmp_path: Path) -> None:
    script = tmp_path / "outside.py"
    script.write_text(OUTSIDE)
    done = in_a_process(str(script))
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_kernel_leaves_its_arrays() -> None:
    done = in_a_process("-m", "tests.bounds", "300")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 mutations" in done.stdout


def test_checked_kernels_are_not_mixed_with_others() -> None:
    environment = {name: value for name, value in bounds.checked().items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", "import brokerless.format.codecs.payload_kernels"],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"NUMBA_CACHE_DIR" in done.stderr
