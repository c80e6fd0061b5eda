"""Recognizes files that are no logs by their first bytes, and says how to get at a log in one."""

from __future__ import annotations

import shlex

_TAR_MAGIC = slice(257, 262)
LONGEST_MAGIC = _TAR_MAGIC.stop
"""Bytes at the beginning of a file that name it."""
_PIPED = "it is read with: {} FILE | brokerless cat -"
_OTHER_FILES = {
    b"\x1f\x8b": f"this is gzip; {_PIPED.format('zcat')}",
    b"\x28\xb5\x2f\xfd": f"this is zstd; {_PIPED.format('zstdcat')}",
    b"\x04\x22\x4d\x18": f"this is lz4; {_PIPED.format('lz4cat')}",
    b"BZh": f"this is bzip2; {_PIPED.format('bzcat')}",
    b"\xfd7zXZ\x00": f"this is xz; {_PIPED.format('xzcat')}",
    b"PK\x03\x04": "this is a zip archive; a log in it is zip://NAME::FILE, or unpack it and give the directory",
    b"PAR1": "this is Parquet; brokerless load makes a log of it, and other tools read it",
    b"ARROW1": "this is an Arrow file; other tools read it",
    b"Obj\x01": "this is an Avro file; other tools read it",
    b"SQLite format 3": "this is a database of SQLite",
}
"""First bytes of files that are given for logs by mistake."""


def name_contents(head: bytes, path: str) -> str | None:
    """Return what a file is whose first bytes are ``head``, and what to do; None if that is not known."""
    for magic, text in _OTHER_FILES.items():
        if head.startswith(magic):
            return text.replace("FILE", "FILE" if path == "-" else shlex.quote(path))
    if head[_TAR_MAGIC] == b"ustar":
        unpack = "tar -x" if path == "-" else f"tar -xf {shlex.quote(path)}"
        return f"this is a tar archive; unpack it ({unpack}), and give the directory"
    return None
