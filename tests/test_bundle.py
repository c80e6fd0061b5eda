"""Parts of the file that ``make bundle`` makes; ``make check-bundle`` uses a whole one."""

from __future__ import annotations

import ast
import ctypes
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pytest
from scripts import build_bundle, bundle_libraries

from brokerless.errors import install_command

START = Path(build_bundle.__file__).parent / "bundle" / "brokerless_bundle.py"
PAGE = 4096


@pytest.fixture
def segments() -> Callable[[bytes], Iterator[tuple[int, int, int, int]]]:
    """The function of the program within a bundle, which runs nowhere else."""
    (function,) = (each for each in ast.parse(START.read_text()).body if getattr(each, "name", "") == "segments")
    names: dict[str, Any] = {"_PAGE": PAGE}
    exec(compile(ast.Module([function], []), str(START), "exec"), names)
    return names["segments"]


LIBRARIES = sorted(Path(pyarrow.__file__).parent.glob("libarrow.so*")) or sorted(
    Path(pyarrow.__file__).parent.glob("*.so")
)


@pytest.mark.skipif(sys.platform != "linux", reason="a bundle is for Linux")
def test_pages_that_are_shared_are_those_that_nobody_writes(segments: Callable[[bytes], Any]) -> None:
    library = LIBRARIES[0]
    text = subprocess.run(["objdump", "-p", str(library)], capture_output=True, text=True, check=True).stdout
    pattern = r"LOAD off +0x(\w+) vaddr 0x(\w+) .*\n +filesz 0x(\w+) memsz 0x\w+ flags (\S+)"
    loads = [(*(int(each, 16) for each in found[:3]), found[3]) for found in re.findall(pattern, text)]
    assert len(loads) > 2
    written = {
        page for at, _, size, flags in loads if "w" in flags for page in range(at // PAGE, (at + size) // PAGE + 1)
    }
    found = list(segments(library.read_bytes()[:PAGE]))
    assert len(found) >= 2
    for begin, end, address, flags in found:
        assert begin % PAGE == end % PAGE == address % PAGE == 0 < end - begin
        assert not written & {*range(begin // PAGE, end // PAGE)}
        ((at, start, _, named),) = (each for each in loads if each[0] <= begin and end <= each[0] + each[2])
        assert address - begin == start - at
        assert ("x" in named) == bool(flags & 1)
    shared = sum(end - begin for begin, end, *_ in found)
    assert shared > 0.8 * sum(size for _, _, size, flags in loads if "w" not in flags)


needs_binutils = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("strip", "nm", "objdump"))), reason="libraries of Linux"
)


@needs_binutils
def test_a_stripped_library_loads_the_same_bytes() -> None:
    library = LIBRARIES[0]
    smaller = bundle_libraries.stripped(library)
    assert len(smaller) < library.stat().st_size
    assert bundle_libraries.loaded(smaller) == bundle_libraries.loaded(library.read_bytes())


@needs_binutils
def test_a_library_that_strip_would_break_stays_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = LIBRARIES[0]

    def strip(command: list[str]) -> str:
        data = bytearray(library.read_bytes()[:-PAGE])
        data[PAGE] ^= 1  # as strip does to what patchelf moved
        Path(command[3]).write_bytes(data)
        return ""

    monkeypatch.setattr(bundle_libraries, "run", strip)
    assert bundle_libraries.stripped(library) == library.read_bytes()


@needs_binutils
def test_a_library_names_only_those_whose_symbols_it_takes(tmp_path: Path) -> None:
    inner = {
        "libused.so": "int used(void) { return 20; }",
        "libidle.so": "int idle(void) { return 30; }",
    }
    for name, text in inner.items():
        compile_library(tmp_path / name, text)
    outer = tmp_path / "libouter.so"
    options = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-lused", "-lidle", "-Wl,-rpath,$ORIGIN"]
    compile_library(outer, "int used(void); int outer(void) { return used() + 1; }", *options)
    assert {*inner} < {*bundle_libraries.needed_by(outer)}
    others = {name: tmp_path / name for name in inner}
    assert bundle_libraries.unused(outer, others) == {"libidle.so"}
    outer.write_bytes(bundle_libraries.without_needed(outer.read_bytes(), {"libidle.so"}))
    assert "libused.so" in bundle_libraries.needed_by(outer)
    assert "libidle.so" not in bundle_libraries.needed_by(outer)
    (tmp_path / "libidle.so").unlink()
    assert ctypes.CDLL(str(outer)).outer() == 21


def compile_library(target: Path, text: str, *options: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    command = [compiler, "-shared", "-fPIC", "-o", str(target), "-x", "c", "-", "-x", "none", *options]
    subprocess.run(command, input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("path", "is_module"),
    [
        ("pyarrow/lib.cpython-311-x86_64-linux-gnu.so", True),
        ("pyarrow/libarrow.so.2600", False),
        ("numpy.libs/libscipy_openblas64_-32a4b2a6.so", False),
        ("deltalake/_internal.abi3.so", True),
        ("zlib.cpython-311-x86_64-linux-gnu.so", True),
        ("_duckdb.cpython-311-x86_64-linux-gnu.so", True),
    ],
)
def test_a_library_is_a_module_or_what_modules_need(path: str, is_module: bool) -> None:
    assert build_bundle.is_module(path) is is_module


def test_the_table_of_parts_is_as_the_launcher_reads_it() -> None:
    text = (START.parent / "launcher.c").read_text()
    assert int(re.findall(r"#define NAME_SIZE (\d+)", text)[0]) + 16 == build_bundle.PART.size
    assert f'"{build_bundle.MAGIC.decode()}"' in text
    data = bytearray(b"code" + build_bundle.MAGIC + bytes(8 + 2 * build_bundle.PART.size))
    build_bundle.fill_table(data, [("loader", (4096, 10, 10)), ("python", (8192, 7, 7))])
    assert struct.unpack_from("=Q", data, 36) == (2,)
    name, *place = build_bundle.PART.unpack_from(data, 44 + build_bundle.PART.size)
    assert (name.rstrip(b"\0"), place) == (b"brokerless-python", [8192, 7])


def test_what_is_not_in_the_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brokerless_bundle", ModuleType("brokerless_bundle"))
    assert (
        install_command("spark") == "this one file has all but Spark; use a wheel of brokerless, with its extra spark"
    )
