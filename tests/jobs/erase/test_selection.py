"""Records are selected by keys, by a condition, or by a header; and a commitment shows nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import broker_data

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.erase.key_set import KeySet
from brokerless.jobs.erase.selection import Selection
from brokerless.tables.record_filter import given_header

DATA = broker_data("clean")


@pytest.fixture(scope="module")
def rows() -> list[dict[str, object]]:
    return brokerless.open(DATA / "txn-0").records().read_all().to_pylist()


def selected(tmp_path: Path, **how: object) -> list[int]:
    """The offsets that are gone, by the rows that are left."""
    brokerless.open(DATA / "txn-0").erase(tmp_path / "to", **how)  # pyright: ignore[reportArgumentType]
    left = brokerless.open(tmp_path / "to" / "txn-0").records(["offset"]).read_all().column("offset").to_pylist()
    return sorted({row["offset"] for row in brokerless.open(DATA / "txn-0").records().read_all().to_pylist()} - {*left})


def test_by_keys(rows: list[dict[str, object]], tmp_path: Path) -> None:
    keys = sorted({row["key"] for row in rows if row["key"]})[:5]  # pyright: ignore
    assert selected(tmp_path, keys=[*keys, b"no such key"]) == [r["offset"] for r in rows if r["key"] in keys]


def test_by_a_header_of_this_very_value(rows: list[dict[str, object]], tmp_path: Path) -> None:
    headers = [(header["key"], header["value"]) for row in rows for header in row["headers"]]  # pyright: ignore
    name, value = next(each for each in headers if each[1])
    expected = [r["offset"] for r in rows if {"key": name, "value": value} in r["headers"]]  # pyright: ignore
    assert selected(tmp_path, header=(name, value)) == expected
    assert expected


def test_by_a_condition_on_the_columns_and_on_json(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"key": "a", "value": "{\\"user\\": 1}"}\n{"key": "b", "value": "no json"}\n{"value": null}\n')
    from brokerless.cli import main

    assert main(["load", str(lines), "--topic", "t", "--to", str(tmp_path / "logs"), "--timestamp", "1"]) == 0
    log = brokerless.open(tmp_path / "logs")
    for number, (where, left) in enumerate(
        {
            "value_json->>'$.user' = '1'": [1, 2],
            "key_text = 'b'": [0, 2],
            "value IS NULL": [0, 1],
            "\"offset\" > 0 AND topic = 't'": [0],
        }.items()
    ):
        log.erase(tmp_path / str(number), where=where)
        assert brokerless.open(tmp_path / str(number)).records(["offset"]).read_all()["offset"].to_pylist() == left


def test_a_wrong_condition_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"where: .*nothing_of_this_name"):
        brokerless.open(DATA).erase(tmp_path / "to", where="nothing_of_this_name = 1")
    assert not (tmp_path / "to").exists()


def test_exactly_one_kind_of_selection() -> None:
    with pytest.raises(UsageError, match="exactly one"):
        Selection()
    with pytest.raises(UsageError, match="exactly one"):
        Selection(KeySet.of((b"k",)), "true")
    with pytest.raises(UsageError, match="no keys"):
        Selection(KeySet.of(()))


def test_a_commitment_is_the_same_in_any_order_and_different_for_anything_else() -> None:
    salt = bytes(16)
    first = Selection(KeySet.of((b"a", b"b"))).commitment(salt)
    assert first == Selection(KeySet.of((b"b", b"a", b"a"))).commitment(salt)
    others = {Selection(KeySet.of((b"ab",))).commitment(salt), Selection(KeySet.of((b"a", b"b"))).commitment(b"1" * 16)}
    assert first not in others | {Selection(where="a").commitment(salt), Selection(header=("a", b"b")).commitment(salt)}


def test_a_header_of_python_code_is_a_pair() -> None:
    assert given_header(("h", "1")) == given_header(("h", b"1")) == ("h", b"1")
    for header in ("h=1", "hh", ("h",), (b"h", "1"), ("h", 1)):
        with pytest.raises(UsageError, match="is no pair"):
            given_header(header)  # type: ignore[arg-type]
