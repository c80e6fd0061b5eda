"""Files that are given for logs by mistake are known by what real programs write."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import lz4.frame
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import zstandard
from tests.golden import broker_data

from brokerless.format.other_files import LONGEST_MAGIC, name_contents


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(broker_data("clean") / "segments-0", "segments-0")
    return out.getvalue()


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.log", b"a")
    return out.getvalue()


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    return out.getvalue()


def arrow() -> bytes:
    table, out = pa.table({"a": [1]}), io.BytesIO()
    with pyarrow.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (gzip.compress(b"a"), "this is gzip; it is read with: zcat 'a b' | brokerless cat -"),
        (bz2.compress(b"a"), "this is bzip2; "),
        (lzma.compress(b"a"), "this is xz; "),
        (zstandard.compress(b"a"), "this is zstd; "),
        (lz4.frame.compress(b"a"), "this is lz4; "),
        (tar(), "this is a tar archive; unpack it (tar -xf 'a b')"),
        (archive(), "this is a zip archive; a log in it is zip://NAME::'a b'"),
        (parquet(), "this is Parquet; "),
        (arrow(), "this is an Arrow file; "),
    ],
    ids=("gzip", "bzip2", "xz", "zstd", "lz4", "tar", "zip", "parquet", "arrow"),
)
def test_a_file_is_called_what_it_is(content: bytes, said: str) -> None:
    assert str(name_contents(content[:LONGEST_MAGIC], "a b")).startswith(said)


def test_a_database_is_called_so(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as database:
        database.execute("CREATE TABLE a (b)")
    database.close()
    assert name_contents((tmp_path / "x.db").read_bytes()[:LONGEST_MAGIC], "x") == "this is a database of SQLite"


def test_no_log_is_called_something_else() -> None:
    for log in broker_data("clean").rglob("*.log"):
        assert name_contents(log.read_bytes()[:LONGEST_MAGIC], "x") is None
    assert name_contents(b"", "x") is None
