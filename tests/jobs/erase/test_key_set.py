"""Sets of keys: which rows have one, whatever the keys are and however many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns, allocate
from brokerless.jobs.erase import key_set
from brokerless.jobs.erase.key_set import KeyFinder, KeySet, given_keys, load_keys

KEYS = st.binary(max_size=3) | st.sampled_from([b"a" * 7, b"a" * 8, b"a" * 9, b"a" * 16, b"\0" * 8, b"a" * 15 + b"b"])


def columns_of(keys: list[bytes | None]) -> RecordColumns:
    columns = allocate(len(keys) + 1, 64 + sum(len(each or b"") for each in keys), 0)
    data = b"".join(each or b"" for each in keys)
    columns.key_data[: len(data)] = np.frombuffer(data, np.uint8)
    columns.key_ends[1 : len(keys) + 1] = np.cumsum([len(each or b"") for each in keys])
    columns.key_null[: len(keys)] = [each is None for each in keys]
    columns.used[0], columns.used[1] = len(keys), len(data)
    return columns


@examples(300)
@given(st.lists(KEYS, max_size=20), st.lists(st.none() | KEYS, min_size=1, max_size=30))
def test_as_a_set_of_python(keys: list[bytes], rows: list[bytes | None]) -> None:
    found = KeyFinder(KeySet.of(keys)).find(columns_of(rows))
    assert found.tolist() == [each is not None and each in set(keys) for each in rows]


def test_many_keys() -> None:
    keys = KeySet.of(b"user-%d" % number for number in range(100_000))
    rows = [b"user-%d" % number for number in range(0, 400_000, 7)]
    found = KeyFinder(keys).find(columns_of(list(rows)))
    assert found.tolist() == [number < 100_000 for number in range(0, 400_000, 7)]


def test_a_set_has_each_key_once_in_order() -> None:
    keys = KeySet.of([b"b", b"", b"a", b"b"])
    assert (len(keys), list(keys)) == (3, [b"", b"a", b"b"])


def test_columns_that_are_broken_are_refused() -> None:
    columns = columns_of([b"a", b"b"])
    columns.key_ends[2] = 1000
    with pytest.raises(ValueError, match="row 1"):
        KeyFinder(KeySet.of([b"a"])).find(columns)


@pytest.mark.parametrize("block", [1, 2, 8 << 20])
def test_files_of_keys(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_set, "_BLOCK", block)
    path = tmp_path / "keys"
    path.write_bytes(b"a\r\n\nb c\n\xff\na\r\nlast")
    assert list(load_keys(str(path))) == [b"a", b"b c", b"last", b"\xff"]
    path.write_text("YQ==\n/w==\n")
    assert list(load_keys(str(path), "base64")) == [b"a", b"\xff"]
    path.write_text('"a"\n{"base64": "/w=="}\n')
    assert list(load_keys(str(path), "json")) == [b"a", b"\xff"]
    path.write_text('"a"\n17\n')
    with pytest.raises(UsageError, match="line 2"):
        load_keys(str(path), "json")
    path.write_text("\n\n")
    with pytest.raises(UsageError, match="no keys in this file"):
        load_keys(str(path))


@pytest.mark.parametrize("block", [1, 8 << 20])
def test_files_of_keys_as_editors_write_them(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_set, "_BLOCK", block)
    path = tmp_path / "keys"
    for text in ("u-1\nu-2\n", "u-1\r\nu-2", "u-1"):
        path.write_text(text, encoding="utf-8-sig", newline="")
        assert list(load_keys(str(path))) == [b"u-1", b"u-2"][: 1 + ("u-2" in text)]
    for data, message in (("u-1\nu-2".encode("utf-16"), "in UTF-16"), (b"u-1\ru-2\r", "end with CR alone")):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=message):
            load_keys(str(path))


def test_keys_of_python_code() -> None:
    assert list(given_keys(["b", b"a"])) == [b"a", b"b"]
    for keys, message in (("u-1", "one key"), (b"u-1", "one key"), ([1], "no key"), ([None], "no key")):
        with pytest.raises(UsageError, match=message):
            given_keys(keys)  # type: ignore[arg-type]


def test_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_set, "MOST_BYTES", 10)
    monkeypatch.setattr(key_set, "_BLOCK", 4)
    with pytest.raises(UsageError, match="erase in parts"):
        KeySet.of([b"123456", b"12345"])
    (tmp_path / "keys").write_text("x" * 20)
    with pytest.raises(UsageError, match="no file of keys"):
        load_keys(str(tmp_path / "keys"))
