"""Packs a golden directory into the one archive that the tests unpack: ``python -m tests.golden.pack SOURCE``.

The same source gives the same bytes (with the same zstd): entries are sorted, and carry no times, owners or modes.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from pathlib import Path

import zstandard

from tests.golden import ARCHIVE


def check_sums(source: Path) -> list[Path]:
    """The files of ``source``, each of which ``SHA256SUMS`` must list with its digest (but itself and its README)."""
    listed: dict[str, str] = {}
    for line in (source / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        listed[name] = digest
    files = sorted(path for path in source.rglob("*") if path.is_file())
    names = {path.relative_to(source).as_posix(): path for path in files}
    for unlisted in ("SHA256SUMS", "README.md"):
        names.pop(unlisted)
    if names.keys() != listed.keys():
        raise SystemExit(f"SHA256SUMS and the directory differ: {sorted(names.keys() ^ listed.keys())[:10]}")
    wrong = [name for name, path in names.items() if hashlib.sha256(path.read_bytes()).hexdigest() != listed[name]]
    if wrong:
        raise SystemExit(f"digests differ: {wrong[:10]}")
    return files


def pack(source: Path, archive: Path) -> None:
    # Like beside like: all expected.jsonl together and all raw files together are half the size of the plain order.
    files = sorted(check_sums(source), key=lambda path: (path.suffix, path.relative_to(source).as_posix()))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(source).as_posix())
            entry.size = path.stat().st_size
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(path.read_bytes()))
    parameters = zstandard.ZstdCompressionParameters.from_level(22, window_log=27, enable_ldm=True)
    archive.write_bytes(zstandard.ZstdCompressor(compression_params=parameters).compress(buffer.getvalue()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    pack(Path(sys.argv[1]), ARCHIVE)
    print(
        f"{ARCHIVE.name}: {ARCHIVE.stat().st_size:,} bytes, sha256 {hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()}"
    )
