"""Tables of ours: what was written is read, with the columns that are asked for, and by this thread alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from brokerless.log.own_table import dump_table, parse_table

SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64())])


def test_a_table_is_read_as_it_was_written() -> None:
    table = pa.Table.from_pylist([{"path": "a", "size": 1}, {"path": "b", "size": None}], SCHEMA)
    assert parse_table(dump_table(table), SCHEMA) == table


def test_of_another_version_the_columns_are_taken_that_are_known() -> None:
    table = pa.table({"size": pa.array([7], pa.int32()), "later": ["x"]})
    assert parse_table(dump_table(table), SCHEMA).to_pylist() == [{"path": None, "size": 7}]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(64) + b"PAR1"])
def test_what_is_no_table_is_an_error_of_arrow(data: bytes) -> None:
    with pytest.raises((pa.ArrowException, OSError)):
        parse_table(data, SCHEMA)


@pytest.mark.slow(reason="a process")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads in /proc")
def test_no_other_thread_has_the_data_at_the_end_of_python() -> None:
    code = """
import os, pyarrow as pa
from brokerless.log.own_table import dump_table, parse_table

schema = pa.schema([(name, pa.int64()) for name in "abcdefgh"])
data = dump_table(pa.table([pa.array(range(100_000), pa.int64()) for _ in schema], schema=schema))
before = len(os.listdir("/proc/self/task"))
parse_table(data, schema)
print(len(os.listdir("/proc/self/task")) - before)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout == b"0\n"
