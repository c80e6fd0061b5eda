"""A wheel is what pip takes for one: its record, its tag, its requirements; ``make check-wheel`` uses a whole one."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import platform
import shutil
import sys
import zipfile
from email.parser import BytesParser
from pathlib import Path
from types import ModuleType

import pytest
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from scripts import build_backend, make_wheel

METADATA = """Metadata-Version: 2.4
Name: brokerless
Version: 1.2
Requires-Dist: lz4>=4.4
Requires-Dist: numba>=0.61
Requires-Dist: numpy>=2.0
Requires-Dist: numba-other; extra == 'x'

Requires-Dist: numba is also a line of text.
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: hatchling\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    """A wheel without kernels, and a directory of libraries."""
    pure, kernels = tmp_path / "brokerless-1.2-py3-none-any.whl", tmp_path / "kernels"
    with zipfile.ZipFile(pure, "w") as archive:
        archive.writestr("brokerless/__init__.py", "x = 1\n")
        archive.writestr("brokerless-1.2.dist-info/METADATA", METADATA)
        archive.writestr("brokerless-1.2.dist-info/WHEEL", WHEEL)
        archive.writestr("brokerless-1.2.dist-info/RECORD", "old\n")
    kernels.mkdir()
    (kernels / "a.so").write_bytes(b"machine code")
    (kernels / "not-named.so").write_bytes(b"older")
    write_manifest(kernels, checks_bounds=False)
    return pure, kernels


def write_manifest(kernels: Path, *, checks_bounds: bool) -> None:
    manifest = {"checks_bounds": checks_bounds, "libraries": {"x": "a.so"}, "kernels": {}, "sources": ["a.py"]}
    (kernels / "kernels.json").write_text(json.dumps({**manifest, "digest": "d"}))


def test_a_wheel_has_the_libraries_a_tag_and_a_record_of_all(parts: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = make_wheel.make(*parts, tmp_path / "out", "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64")
    name, version, _, tags = parse_wheel_filename(wheel.name)
    assert (name, str(version)) == ("brokerless", "1.2")
    archive = zipfile.ZipFile(wheel)
    files = {each: archive.read(each) for each in archive.namelist()}
    assert files["brokerless/kernels/a.so"] == b"machine code"
    assert "brokerless/kernels/not-named.so" not in files
    found = BytesParser().parsebytes(files["brokerless-1.2.dist-info/WHEEL"])
    assert found["Root-Is-Purelib"] == "false"
    assert set(found.get_all("Tag")) == {str(tag) for tag in tags}
    recorded = {row[0]: row[1:] for row in csv.reader(io.StringIO(files["brokerless-1.2.dist-info/RECORD"].decode()))}
    assert set(recorded) == set(files)
    for each, (digest, size) in recorded.items():
        if digest:
            expected = base64.urlsafe_b64encode(hashlib.sha256(files[each]).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(files[each])))
    manifest = json.loads(files["brokerless/kernels/kernels.json"])
    assert (manifest["sources"], manifest["built_from"]) == ([], "d")


def test_a_wheel_needs_all_but_the_compiler(parts: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = make_wheel.make(*parts, tmp_path / "out", "py3-none-linux_x86_64")
    metadata = BytesParser().parsebytes(zipfile.ZipFile(wheel).read("brokerless-1.2.dist-info/METADATA"))
    assert metadata.get_all("Requires-Dist") == ["lz4>=4.4", "numpy>=2.0", "numba-other; extra == 'x'"]
    assert metadata.get_payload() == "Requires-Dist: numba is also a line of text.\n"


def test_the_same_parts_give_the_same_bytes(parts: tuple[Path, Path], tmp_path: Path) -> None:
    once, again = (make_wheel.make(*parts, tmp_path / name, "py3-none-linux_x86_64") for name in ("a", "b"))
    assert once.read_bytes() == again.read_bytes()


def test_kernels_that_check_bounds_are_not_put_into_a_wheel(parts: tuple[Path, Path], tmp_path: Path) -> None:
    write_manifest(parts[1], checks_bounds=True)
    with pytest.raises(SystemExit, match="for tests"):
        make_wheel.make(*parts, tmp_path, "py3-none-linux_x86_64")


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac's tags have the version that it runs")
def test_this_machine_takes_the_wheel_that_is_made_here() -> None:
    own = make_wheel.platform_tag()
    assert platform.machine().lower() in own
    _, _, _, tags = parse_wheel_filename(f"brokerless-1.2-{own}.whl")
    assert tags & set(sys_tags())


class Hatchling:
    """Writes the wheel of the sources, as hatchling does."""

    def __init__(self, pure: Path) -> None:
        self.pure = pure

    def build_wheel(self, directory: str, *_: object) -> str:
        shutil.copy(self.pure, directory)
        return self.pure.name


@pytest.fixture
def backend(parts: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build backend; kernels are those of ``parts``, and this machine has a linker."""
    hatchling = ModuleType("hatchling")
    hatchling.build = Hatchling(parts[0])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hatchling", hatchling)
    monkeypatch.setattr(build_backend, "can_link", lambda: True)
    run = build_backend._run

    def run_or_copy(script: str, *arguments: Path | str) -> None:
        if script == "build_kernels.py":
            shutil.copytree(parts[1], arguments[0])
        else:
            run(script, *arguments)

    monkeypatch.setattr(build_backend, "_run", run_or_copy)
    return build_backend


def test_what_pip_builds_has_compiled_kernels(backend: ModuleType, tmp_path: Path) -> None:
    to = tmp_path / "to"
    to.mkdir()
    name = backend.build_wheel(str(to))
    assert [each.name for each in to.iterdir()] == [name]
    assert name == f"brokerless-1.2-{make_wheel.platform_tag()}.whl"
    assert "brokerless/kernels/a.so" in zipfile.ZipFile(to / name).namelist()
    assert any(each.startswith("numba") for each in backend.get_requires_for_build_wheel())
    assert not hasattr(backend, "prepare_metadata_for_build_wheel")  # it would say that Numba is needed


@pytest.mark.parametrize("lacking", ["linker", "numba"])
def test_without_a_linker_it_is_that_of_the_sources(
    lacking: str, backend: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking == "linker":
        monkeypatch.setattr(backend, "can_link", lambda: False)
        assert backend.get_requires_for_build_wheel() == []
    else:  # as with pip install --no-build-isolation
        monkeypatch.setattr(backend, "find_spec", lambda _: None)
    (tmp_path / "to").mkdir()
    assert backend.build_wheel(str(tmp_path / "to")) == "brokerless-1.2-py3-none-any.whl"
