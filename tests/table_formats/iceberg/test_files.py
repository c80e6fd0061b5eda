"""Files that pyiceberg writes are durable when they are closed, and what pyarrow's own are."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from brokerless.table_formats.iceberg.files import SyncedFiles

NAME = {"py-io-impl": f"{SyncedFiles.__module__}.{SyncedFiles.__qualname__}"}


def test_a_file_and_its_name_are_synced_as_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    url = f"file://{tmp_path}/new/a.avro"
    with load_file_io(NAME, url).new_output(url).create() as stream:
        stream.write(b"abc")
        synced.clear()
    own = tmp_path / "new" / "a.avro"
    assert synced == [own.stat().st_ino, own.parent.stat().st_ino]
    assert own.read_bytes() == b"abc"


def test_it_writes_what_pyarrows_files_do(tmp_path: Path) -> None:
    rows = pa.table({"n": range(1000)})
    found: list[bytes] = []
    for number, files in enumerate((SyncedFiles({}), PyArrowFileIO({}))):
        output = files.new_output(f"file://{tmp_path}/{number}.parquet")
        with output.create() as stream, pq.ParquetWriter(stream, rows.schema) as writer:
            writer.write_table(rows)
        found.append((tmp_path / f"{number}.parquet").read_bytes())
        assert len(output) == len(found[-1])
        with pytest.raises(FileExistsError):
            output.create()
        with output.create(overwrite=True) as stream:
            stream.write(b"x")
        assert output.to_input_file().open().read() == b"x"
    assert found[0] == found[1]
