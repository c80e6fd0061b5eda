"""Makes shared libraries smaller for a bundle (``scripts/build_bundle.py``): without symbols that only debuggers read,
and without the libraries that they name but use nothing of."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ELF_HEADER = 64
"""Bytes. Where ``strip`` says that the sections lie, which nothing reads that loads a library."""
SEGMENT = struct.Struct("<IIQQQQQQ")
LOADED, DYNAMIC = 1, 2
ENTRY = struct.Struct("<QQ")
NEEDED, STRING_TABLE = 1, 5


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def stripped(path: Path) -> bytes:
    """Return a library without what is never loaded. Where ``strip`` changes more than that it is returned unchanged:
    it breaks some that ``patchelf`` wrote, such as NumPy's OpenBLAS."""
    data = path.read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "stripped"
        run(["strip", "--strip-unneeded", "-o", str(target), str(path)])
        smaller = target.read_bytes()
    is_same = len(smaller) < len(data) and loaded(smaller) == loaded(data)
    return smaller if is_same else data


def loaded(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Return what of a library is loaded: address, size in memory, flags and bytes of each segment."""
    found: list[tuple[int, int, int, bytes]] = []
    for kind, flags, at, address, _, size, in_memory, _ in segments(data):
        if kind == LOADED:
            found.append((address, in_memory, flags, data[max(at, ELF_HEADER) : at + size]))
    return found


def segments(data: bytes) -> Iterable[tuple[int, ...]]:
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    return (SEGMENT.unpack_from(data, table + number * size) for number in range(count))


def needed_by(path: Path) -> list[str]:
    return re.findall(r"^\s*NEEDED\s+(\S+)", run(["objdump", "-p", str(path)]), re.MULTILINE)


def symbols(path: Path, *which: str) -> set[str]:
    """Return the names of dynamic symbols: ``--defined-only`` or ``--undefined-only``."""
    text = run(["nm", "--dynamic", "--without-symbol-versions", *which, str(path)])
    return {line.split()[-1] for line in text.splitlines() if line.strip()}


def unused(path: Path, others: dict[str, Path]) -> set[str]:
    """Return the libraries that ``path`` needs by name and takes no symbol of. ``others``: those that may be left out,
    by name."""
    candidates = [each for each in needed_by(path) if each in others]
    if not candidates:
        return set()
    wanted = symbols(path, "--undefined-only")
    used = {each for each in candidates if wanted & own_symbols(others[each], others)}
    return set(candidates) - used


def own_symbols(path: Path, others: dict[str, Path]) -> set[str]:
    """Return what only this library defines of those that it needs itself: templates of C++ are in several."""
    below = [others[each] for each in needed_by(path) if each in others]
    return symbols(path, "--defined-only").difference(*(symbols(each, "--defined-only") for each in below))


def without_needed(data: bytes, names: set[str]) -> bytes:
    """Return a library that does not name these others any more: one that stays is named twice in place of each."""
    (place,) = ((at, size) for kind, _, at, _, _, size, *_ in segments(data) if kind == DYNAMIC)
    entries = [(at, *ENTRY.unpack_from(data, at)) for at in range(place[0], sum(place), ENTRY.size)]
    strings = in_file(data, next(value for _, tag, value in entries if tag == STRING_TABLE))
    found = {at: value for at, tag, value in entries if tag == NEEDED}
    kept = [value for value in found.values() if name_at(data, strings + value) not in names]
    changed = bytearray(data)
    for at, value in found.items():
        if name_at(data, strings + value) in names:
            ENTRY.pack_into(changed, at, NEEDED, kept[-1])
    return bytes(changed)


def in_file(data: bytes, address: int) -> int:
    return next(
        address - begin + at
        for kind, _, at, begin, _, size, *_ in segments(data)
        if kind == LOADED and begin <= address < begin + size
    )


def name_at(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()
