"""Makes a wheel that runs without Numba: ``python scripts/make_wheel.py PURE.whl KERNELS DIRECTORY``.

PURE.whl is what ``uv build --wheel`` makes of the sources, KERNELS what ``scripts/build_kernels.py`` made. The result
has the libraries and pages for ``man`` in it, is for this system and kind of processor, and needs neither Numba nor
llvmlite. The same sources give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
import sys
import zipfile
from pathlib import Path

from brokerless.cli import man_page_of
from brokerless.cli.commands import COMMANDS

BUILD_ONLY = ("numba", "llvmlite")
"""Requirements of the sources that a wheel does not have."""
PLACE = "brokerless/kernels"


def make(pure: Path, kernels: Path, directory: Path, tag: str) -> Path:
    """Writes the wheel into a directory; returns where it is."""
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(pure) as archive:
        for each in archive.namelist():
            files[each] = archive.read(each)
    (metadata,) = (each for each in files if each.endswith(".dist-info/METADATA"))
    info = metadata.rsplit("/", 1)[0]
    files[metadata] = _without_build_requirements(files[metadata])
    files[f"{info}/WHEEL"] = _for_platform(files[f"{info}/WHEEL"], tag)
    manifest = json.loads((kernels / "kernels.json").read_text())
    if manifest["checks_bounds"]:
        sys.exit(f"{kernels}: kernels that check bounds are for tests")
    for library in manifest["libraries"].values():
        files[f"{PLACE}/{library}"] = (kernels / library).read_bytes()
    for each in (None, *COMMANDS):
        page = "brokerless" if each is None else f"brokerless-{each}"
        files[f"{info.removesuffix('.dist-info')}.data/data/share/man/man1/{page}.1"] = man_page_of(each).encode()
    # An installed wheel does not change, so that its sources need not be read to see whether they did.
    installed = {**manifest, "sources": [], "built_from": manifest["digest"]}
    files[f"{PLACE}/kernels.json"] = json.dumps(installed, separators=(",", ":")).encode()
    del files[f"{info}/RECORD"]
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    name = "-".join(pure.name.split("-")[:2])
    wheel = directory / f"{name}-{tag}.whl"
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in files.items():
            entry = zipfile.ZipInfo(each, (2020, 2, 2, 0, 0, 0))
            entry.external_attr = (0o755 if each.endswith(".so") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def platform_tag() -> str:
    """This machine's. The libraries need three functions that every C library of the last twenty years has."""
    machine = platform.machine().lower()
    if platform.system() == "Darwin":
        return f"py3-none-macosx_{'11_0' if machine == 'arm64' else '10_13'}_{machine}"
    return f"py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"


def _without_build_requirements(metadata: bytes) -> bytes:
    headers, blank, text = metadata.decode().partition("\n\n")
    needed = re.compile(rf"Requires-Dist: ({'|'.join(BUILD_ONLY)})(?![\w-])")
    return ("\n".join(line for line in headers.split("\n") if not needed.match(line)) + blank + text).encode()


def _for_platform(wheel: bytes, tag: str) -> bytes:
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{each}\n" for each in platforms.split("."))
    text = re.sub(r"^Tag: .*\n", "", wheel.decode(), flags=re.M)
    return re.sub(r"^Root-Is-Purelib: .*\n", "Root-Is-Purelib: false\n" + tags, text, flags=re.M).encode()


def _record(files: dict[str, bytes], record: str) -> bytes:
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{record},,\n"]).encode()


if __name__ == "__main__":
    print(make(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), platform_tag()))
