"""A file of ours is read strictly, up to a bound, and replaced at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.own_file import OwnFile, dump_table, end_of_lines, parse_table
from brokerless.log.storage.location import Location
from brokerless.values import Int64, Value


class _Cups(Value, frozen=True):
    kind: Literal["cups"]
    cups_version: Literal[1, 2]
    counts: dict[str, Int64]


CUPS = OwnFile(_Cups, "a list of cups", "name another file", limit=100)


def at(path: Path) -> Location:
    return Location(str(path / "cups.json"))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    assert CUPS.find(at(tmp_path)) is None
    with pytest.raises(UnreadableError, match="there is no such file"):
        CUPS.load(at(tmp_path))
    for counts in ({"red": 3}, {}):
        CUPS.save(at(tmp_path), _Cups("cups", 2, counts))
        assert CUPS.find(at(tmp_path)) == CUPS.load(at(tmp_path)) == _Cups("cups", 2, counts)
        assert [each.name for each in tmp_path.iterdir()] == ["cups.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "7",
        '{"kind": "cups", "cupsVersion": 0, "counts": {}}',
        '{"kind": "cups", "cupsVersion": 2, "counts": {"a": -1}}',
        '{"kind": "cups", "cupsVersion": 2, "counts": {}, "more": 1}',
        '{"kind": "cups", "cupsVersion": 2, "cupsVersion": 1, "counts": {}}',
    ],
)
def test_something_else_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    at(tmp_path).local.write_text(text)
    with pytest.raises(UnreadableError, match=r"cups.json: this is not a list of cups \(.*\); name another file"):
        CUPS.load(at(tmp_path))
    assert at(tmp_path).local.read_text() == text


def test_what_a_later_version_wrote_says_so_whatever_else_is_in_it(tmp_path: Path) -> None:
    at(tmp_path).local.write_text('{"cupsVersion": 3, "bowls": []}')
    with pytest.raises(UsageError, match=r"a newer brokerless wrote this \(version 3\)"):
        CUPS.find(at(tmp_path))


def test_more_than_the_bound_is_neither_read_nor_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"more than a list of cups may have \(100\)"):
        CUPS.save(at(tmp_path), _Cups("cups", 2, {"red" * 30: 1}))
    assert not list(tmp_path.iterdir())
    at(tmp_path).local.write_text(" " * 101)
    with pytest.raises(UnreadableError, match="101 bytes are more than the 100"):
        CUPS.load(at(tmp_path))


def test_a_journal_ends_with_its_last_whole_line(tmp_path: Path) -> None:
    whole = b"one\n" + b"x" * 9000 + b"\n"
    for left in (b"", b"tw", b"\0" * 5000, b"\0\0two\nthree\n", b"y" * 9000):
        (tmp_path / "journal").write_bytes(whole + left)
        with (tmp_path / "journal").open("rb") as file:
            assert end_of_lines(file) == len(whole), left[:5]
    for none in (b"", b"one", b"\0one\n"):
        (tmp_path / "journal").write_bytes(none)
        with (tmp_path / "journal").open("rb") as file:
            assert end_of_lines(file) == 0


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"kind": "cups", "cupsVersion": 2, "counts": {}}')
    at(tmp_path).local.symlink_to("other.json")
    with pytest.raises(UnreadableError, match="symbolic link"):
        CUPS.find(at(tmp_path))


TABLE = pa.schema([("path", pa.string()), ("size", pa.int64())])


def test_a_table_is_read_as_it_was_written() -> None:
    table = pa.Table.from_pylist([{"path": "a", "size": 1}, {"path": "b", "size": None}], TABLE)
    assert parse_table(dump_table(table), TABLE) == table


def test_of_another_version_the_columns_are_taken_that_are_known() -> None:
    table = pa.table({"size": pa.array([7], pa.int32()), "later": ["x"]})
    assert parse_table(dump_table(table), TABLE).to_pylist() == [{"path": None, "size": 7}]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(64) + b"PAR1"])
def test_what_is_no_table_is_an_error_of_arrow(data: bytes) -> None:
    with pytest.raises((pa.ArrowException, OSError)):
        parse_table(data, TABLE)


@pytest.mark.slow(reason="a process")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not list threads in /proc")
def test_no_other_thread_has_the_data_at_the_end_of_python() -> None:
    code = """
import os, pyarrow as pa
from brokerless.log.own_file import dump_table, parse_table

schema = pa.schema([(name, pa.int64()) for name in "abcdefgh"])
data = dump_table(pa.table([pa.array(range(100_000), pa.int64()) for _ in schema], schema=schema))
before = len(os.listdir("/proc/self/task"))
parse_table(data, schema)
print(len(os.listdir("/proc/self/task")) - before)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert result.stdout == b"0\n"
