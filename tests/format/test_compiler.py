"""Kernels are compiled when they are called, cached where something can be written, and work where nothing can."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numba
import numba.core.caching
import pytest
from tests.golden import case

from brokerless.format.compiler import kernel, load_kernels


@pytest.fixture(autouse=True)
def with_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts compile, also where all others run kernels out of a library."""
    monkeypatch.setenv("BROKERLESS_KERNELS", "numba")


@pytest.fixture
def nowhere_to_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As where neither the sources' directory nor the home directory can be written to."""
    everywhere = numba.core.caching.CacheImpl._locator_classes
    told = [each for each in everywhere if "UserProvided" in each.__name__]
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", told)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr("brokerless.format.compiler.unkept", "")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def double(number: int) -> int:
    return number * 2


def test_without_another_place_the_cache_is_in_a_directory_of_ones_own(nowhere_to_write: Path) -> None:
    assert kernel("int64(int64)")(double)(21) == 42
    (place,) = nowhere_to_write.iterdir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert list(place.rglob("*.nbi"))


def test_a_directory_that_others_can_write_to_is_not_trusted(nowhere_to_write: Path) -> None:
    assert kernel("int64(int64)")(double)(21) == 42
    (place,) = nowhere_to_write.iterdir()
    for file in place.rglob("*.nb?"):
        file.unlink()
    place.chmod(0o777)
    numba.config.CACHE_DIR = ""
    assert kernel("int64(int64)")(double)(21) == 42
    assert not list(place.rglob("*.nb?"))


READ = """
import sys
import brokerless
rows = sum(batch.num_rows for batch in brokerless.open(sys.argv[1]).records())
print(rows, sys.modules["brokerless.format.compiler"].compiled, int("numba.cpython.setobj" in sys.modules))
"""


DOUBLES = """
from helper import twice
from brokerless.format.compiler import kernel
import brokerless.format.compiler

@kernel("int64(int64)")
def double(number):
    return twice(number)

if __name__ == "__main__":
    print(double(21), brokerless.format.compiler.compiled)
"""


def test_a_kernel_is_compiled_again_when_a_helper_of_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "doubles.py").write_text(DOUBLES)
    helper = "from brokerless.format.compiler import inlined\n\n@inlined\ndef twice(number):\n    return number * {}\n"

    def run() -> list[str]:
        command = [sys.executable, str(tmp_path / "doubles.py")]
        return subprocess.run(command, capture_output=True, check=True, timeout=120, text=True).stdout.split()

    (tmp_path / "helper.py").write_text(helper.format("2"))
    assert (run(), run()) == (["42", "1"], ["42", "0"])
    (tmp_path / "helper.py").write_text(helper.format("1 * 3"))
    assert (run(), run()) == (["63", "1"], ["63", "0"])


COMPILED = """
kernel = sys.modules["brokerless.format.compiler"]
print(kernel.compiled, sum(each.is_loaded for each in kernel._kernels), file=sys.stderr)
"""


READING = ["intact_batch_kernels.decode_intact_batches", "kernels.crc32c_ranges"]
"""Kernels that a log without a codec needs."""


def read(codec: str, cache: Path) -> tuple[int, int, bool]:
    """Read a log in a process of its own: how many rows it has, how many kernels that process compiled, and whether it
    loaded what only compiling needs."""
    command = [sys.executable, "-c", READ, str(case(f"formats/v2-{codec}-create").log)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
    assert done.stderr == b""
    rows, compiled, has_compiler = map(int, done.stdout.split())
    return rows, compiled, bool(has_compiler)


def compiled_in(cache: Path) -> list[str]:
    return sorted(file.name.split("-")[0] for file in cache.rglob("*.nbi"))


@dataclass(frozen=True)
class Cache:
    """As the first process leaves it that reads a log without a codec, and what :func:`read` said of that."""

    directory: Path
    found: tuple[int, int, bool]

    def copied(self, to: Path) -> Path:
        return Path(shutil.copytree(self.directory, to / "cache"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """Made once: to compile these two takes longer than all else here."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BROKERLESS_KERNELS", "numba")
        return Cache(directory, read("none", directory))


@pytest.mark.slow(reason="compiles three kernels")
def test_only_kernels_that_a_log_needs_are_compiled_and_that_once(cache: Cache, tmp_path: Path) -> None:
    rows, compiled, has_compiler = cache.found
    assert rows > 0
    assert has_compiler
    assert compiled in (1, 2)  # the other was compiled at the same time, by a process of its own
    assert compiled_in(cache.directory) == READING
    here = cache.copied(tmp_path)
    assert read("none", here) == (rows, 0, False)  # what only compiling needs takes as long to import as Numba
    first = next(here.rglob("kernels.crc32c_ranges-*.nbi"))
    first.unlink()
    assert read("none", here) == (rows, 1, True)  # compiled after others came from the cache


@pytest.mark.slow(reason="compiles three kernels")
def test_a_log_with_a_codec_needs_that_of_the_codec_and_no_other_one(cache: Cache, tmp_path: Path) -> None:
    here = cache.copied(tmp_path)
    rows, compiled, _ = read("lz4", here)
    assert rows > 0
    assert compiled == 1
    assert compiled_in(here) == [*READING, "payload_kernels.inflate_lz4"]
    assert read("lz4", here) == (rows, 0, False)


def test_without_another_python_this_process_compiles_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    kernels = [kernel("int64(int64)")(double), kernel("float64(float64)")(double)]
    load_kernels(kernels)
    assert (kernels[0](21), kernels[1](0.5)) == (42, 1)


@pytest.mark.slow(reason="compiles four kernels")
def test_a_kernel_that_another_process_compiles_is_waited_for(cache: Cache, tmp_path: Path) -> None:
    """``cat --json`` has its lines' kernel compiled while it compiles those that it needs first."""
    here = cache.copied(tmp_path)
    known = len(compiled_in(here))
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(here)}
    line = '{"file":'

    def cat() -> tuple[int, list[int]]:
        code = "import sys\nfrom brokerless.cli import main\nmain(sys.argv[1:])" + COMPILED
        command = [sys.executable, "-c", code, "cat", "--json", str(case("formats/v2-none-create").log)]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120, text=True)
        return done.stdout.count(line), [int(number) for number in done.stderr.split()]

    rows, (compiled, loaded) = cat()
    assert rows > 0
    assert 0 < compiled < len(compiled_in(here)) - known  # others compiled some of them
    assert cat() == (rows, [0, loaded])


def test_a_kernel_takes_its_own_types_only() -> None:
    with pytest.raises(TypeError, match="No matching definition"):
        kernel("int64(int64)")(double)("text")


@pytest.mark.slow(reason="compiles two kernels")
def test_commands_work_where_nothing_can_be_written_and_say_it_once(tmp_path: Path) -> None:
    """As on a full disk: each write to a file fails in the kernel."""

    def refuse_to_write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "brokerless", "verify", str(case("formats/v2-none-create").log)]
    done = subprocess.run(
        command, env=environment, capture_output=True, check=False, timeout=120, preexec_fn=refuse_to_write
    )
    assert (done.returncode, done.stdout) == (0, b"0 errors, 0 warnings\n")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("brokerless: compiled code could not be kept")
