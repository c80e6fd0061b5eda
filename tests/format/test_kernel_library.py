"""Kernels out of a library take and give what those that Numba compiled do, and refuse what is no array of theirs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scripts import build_kernels

from brokerless.format import kernel_library
from brokerless.format.kernel import describe_kernels
from brokerless.format.kernel_library import KernelLibrary, find_library

KERNELS = """
import numpy as np
from brokerless.format.kernel import kernel
from brokerless.format.intrinsics import load_u64
from brokerless.format.read.batch_scan_kernels import _pread

@kernel("void(Array(uint8, 1, 'C', readonly=True), uint32[::1])")
def nothing(data, out):
    out[0] = np.uint32(len(data))

@kernel("int64(int64[:, ::1], int64, int64)")
def item(table, row, column):
    return table[row, column]

@kernel("uint64(uint64, float32, boolean)")
def numbers(word, ratio, negate):
    return word - np.uint64(ratio * 2) if negate else word

@kernel("boolean(Array(int32, 1, 'C', readonly=True), int32)")
def has(values, wanted):
    for each in values:
        if each == wanted:
            return True
    return False

@kernel("UniTuple(int64, 3)(float64[::1], int8[::1])")
def three(values, small):
    values[0] = 0.5
    return len(values), np.int64(small[0]), np.int64(-7)

@kernel("UniTuple(int64, 2)()")
def two():
    return np.int64(1) << 62, np.int64(-1) << 63

@kernel("uint64(uint8[::1], int64)")
def u64(data, at):
    return load_u64(data, at)

@kernel("uint8(uint8[::1], int64)")
def byte(data, at):
    return data[np.uint64(at)]

@kernel("int64(int32, uint8[::1])")
def read(descriptor, data):
    return _pread(descriptor, data.ctypes.data, len(data), 1)
"""

ASKED = """
import sys
import numpy as np
import some_kernels as k

def refused(*arguments, by=k.nothing):
    try:
        by(*arguments)
    except (TypeError, OverflowError):
        return True
    return False

data, out = np.frombuffer(b"12345678901", np.uint8), np.zeros(1, np.uint32)
k.nothing(data, out)
table = np.arange(6).reshape(2, 3)
values, small = np.zeros(4), np.array([-3], np.int8)
print(out.tolist(), [k.item(table, row, column) for row in (0, 1) for column in (0, 1, 2)])
print(k.numbers((1 << 64) - 1, 1.5, True), k.numbers(np.uint64(5), np.float32(0), False))
print(k.has(np.array([1, -2], np.int32), -2), k.has(np.array([], np.int32), 0))
print(k.three(values, small), values[0], k.two())
print(k.has(np.array([5], np.int32).view(np.dtype("intc")), np.int64(5)), k.u64(data.copy(), 1), k.byte(data.copy(), 3))
class Mine(np.ndarray):
    pass
longs = np.arange(6).astype("longlong").reshape(2, 3)
print(k.item(longs, 1, 2), k.item(longs.view(Mine), 1, 1))
with open(sys.argv[1], "rb") as file:
    room = np.zeros(3, np.uint8)
    print(k.read(file.fileno(), room), bytes(room), k.read(-1, room))
print(
    refused(data, data), refused(None, out), refused(b"12345678", out), refused(data[::2], out), refused(data),
    refused(data.astype(np.int8), out), refused(data, np.frombuffer(bytes(4), np.uint32)),
    refused(table.T, 0, 0, by=k.item), refused(table[0], 0, 0, by=k.item), refused(table, "1", 0, by=k.item),
    refused(table, object(), 0, by=k.item), refused((data, out)), refused(table, 0, 0, 0, by=k.item),
)
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""

OUTSIDE = """
import numpy as np
import some_kernels as k

data, found = np.zeros(40, np.uint8), 0
for work, last in ((k.byte, 39), (k.u64, 32)):
    work(data, 0), work(data, last)
    for at in (last + 1, 1 << 62, -1):
        try:
            work(data, at)
        except IndexError:
            found += 1
print(found)
"""


@pytest.fixture(scope="module")
def some_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories ``plain`` and ``checked`` of libraries with a few kernels, and the module that declares them."""
    if shutil.which("cc" if sys.platform == "darwin" else "ld") is None:
        pytest.skip("there is no linker, with which wheels are built")
    place = tmp_path_factory.mktemp("kernels")
    (place / "some_kernels.py").write_text(KERNELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(place))
        modules = ["some_kernels", "brokerless.format.read.batch_scan_kernels"]
        build_kernels.build(place / "plain", modules, check_bounds=False)
        build_kernels.build(place / "checked", modules, check_bounds=True)
    return place


def ask(place: Path, program: str, *arguments: str, **environment: str) -> str:
    without = {name: value for name, value in os.environ.items() if not name.startswith(("BROKERLESS_", "NUMBA_"))}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**without, "PYTHONPATH": str(place), "NUMBA_CACHE_DIR": str(place / "numba"), **environment},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow(reason="compiles nine kernels, four times")
def test_a_kernel_out_of_a_library_does_what_numba_made_of_it(some_kernels: Path) -> None:
    file = str(some_kernels / "some_kernels.py")
    own = ask(some_kernels, ASKED, file, BROKERLESS_KERNELS=str(some_kernels / "plain")).splitlines()
    numba = ask(some_kernels, ASKED, file, BROKERLESS_KERNELS="numba").splitlines()
    assert own[:-1] == numba[:-1]
    assert own[0] == "[11] [0, 1, 2, 3, 4, 5]"
    assert own[-2] == " ".join(["True"] * 13)
    assert (own[-1], numba[-1]) == ("False False", "True True")


@pytest.mark.slow(reason="runs after the libraries are built")
def test_a_checked_library_finds_what_reaches_out_of_an_array(some_kernels: Path) -> None:
    checked = {"BROKERLESS_KERNELS": str(some_kernels / "checked"), "BROKERLESS_CHECK_BOUNDS": "1"}
    assert ask(some_kernels, OUTSIDE, **checked) == "6\n"


@pytest.mark.slow(reason="runs after the libraries are built")
def test_a_library_needs_three_functions_of_c_and_no_more(some_kernels: Path) -> None:
    for library in (some_kernels / "plain").glob("*.so"):
        assert build_kernels._undefined(library) <= {"memmove", "memset", "pread"}


@pytest.mark.slow(reason="runs after the libraries are built")
def test_a_library_of_other_sources_or_for_another_processor_is_not_used(
    some_kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kernels"
    shutil.copytree(some_kernels / "plain", place)
    manifest = json.loads((place / "kernels.json").read_text())
    monkeypatch.delenv("BROKERLESS_KERNELS", raising=False)
    monkeypatch.setattr(kernel_library, "DIRECTORY", place)
    monkeypatch.setattr(kernel_library, "CHECK_BOUNDS", False)
    assert isinstance(find_library(), KernelLibrary)

    def with_manifest(**changes: object) -> object:
        (place / "kernels.json").write_text(json.dumps({**manifest, **changes}))
        return find_library()

    assert with_manifest(digest="0" * 64) == "kernels of other sources than these"
    assert isinstance(with_manifest(sources=[], digest=""), KernelLibrary)  # as in a wheel
    assert with_manifest(checks_bounds=True) == "kernels that check bounds"
    assert with_manifest(libraries={"plan9-mips": "x"}) == "kernels for plan9-mips, and not for this processor"
    shutil.rmtree(place)
    assert find_library() == "no library of kernels: No such file or directory"
    monkeypatch.setenv("BROKERLESS_KERNELS", str(place))
    with pytest.raises(ImportError, match="no library of kernels"):
        find_library()


def test_the_best_library_that_the_processor_runs_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    v2, v3 = (kernel_library._LEVELS[level] for level in ("x86-64-v2", "x86-64-v3"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    for flags, expected in (
        (v2 | v3 | {"fpu"}, ["linux-x86-64-v3", "linux-x86-64-v2"]),
        (v2 | v3 - {"avx2"}, ["linux-x86-64-v2"]),
        (v3, []),
        (set[str](), []),
    ):
        monkeypatch.setattr(kernel_library, "_flags", lambda flags=flags: flags)
        assert kernel_library._targets() == expected
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert kernel_library._targets() == ["linux-aarch64"]


def test_without_numba_and_without_a_library_one_sentence_says_it(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ModuleNotFoundError('No module named numba', name='numba')\n")
    program = "import sys\nfrom brokerless.cli import main\nprint(main(sys.argv[1:]))"
    log = Path(__file__).parents[2] / "demo/data/orders-0/00000000000000000000.log"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "BROKERLESS_KERNELS": "numba"}
    done = subprocess.run(
        [sys.executable, "-c", program, "cat", str(log)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "2\n"
    assert done.stderr == (
        "brokerless: brokerless has no machine code: BROKERLESS_KERNELS=numba, and numba, which "
        "compiles it, is not installed\n"
    )


def test_arrays_are_where_the_library_reads_them() -> None:
    assert kernel_library._has_known_layout()
    assert np.dtype("int64") is np.dtype(np.int64)  # by such an object a type is known


def test_it_is_said_where_kernels_come_from() -> None:
    found = find_library()
    place = Path(describe_kernels())
    assert place == found.path if isinstance(found, KernelLibrary) else place.suffix != ".so"
