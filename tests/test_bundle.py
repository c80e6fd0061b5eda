"""Parts of the file that ``make bundle`` makes; ``make check-bundle`` uses a whole one."""

from __future__ import annotations

import ast
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow
import pytest
from scripts import build_bundle

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
