"""``cat --decode`` selects by what it prints: a text, a key, a regular expression of keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, run  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.jobs.tables import avro
from tests.log.whole_batches import batch

import brokerless
from brokerless.tables.record_filter import RecordFilter
from brokerless.typed.topic_type import Decoding
from brokerless.views.records.printed_filter import PrintedFilter

KEY = {"type": "string"}
VALUE = {"type": "record", "name": "V", "fields": [
    {"name": "n", "type": "int"}, {"name": "color", "type": {"type": "enum", "name": "C", "symbols": ["RED", "GREEN"]}},
]}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> tuple[Any, ...]:
    """Forty records, each fourth of them green, and one of bytes that no schema is for."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "1.avsc").write_text(json.dumps(KEY))
    (tmp_path / "schemas" / "2.avsc").write_text(json.dumps(VALUE))
    (tmp_path / "t-0").mkdir()
    with (tmp_path / "t-0" / "00000000000000000000.log").open("wb") as file:
        for offset in range(40):
            value = avro(VALUE, 2, {"n": offset, "color": "RED" if offset % 4 else "GREEN"})
            value = b"\0\0\0\0\7GREEN" if offset == 39 else value
            own = batch(offset, 1, 1_700_000_000_000 + offset, value, key=avro(KEY, 1, f"k{offset}"))
            file.write(own.tobytes())
    return tmp_path / "t-0", "--decode", "--schemas", tmp_path / "schemas"


GREEN = [*range(0, 40, 4), 39]


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (("--grep", "GREEN"), GREEN),
        (("--grep", '"n":7,'), [7]),
        (("--key", "k12"), [12]),
        (("--key", "k12", "--key", "k13", "--grep", "GREEN"), [12]),
        (("--key-regex", "^k1.$", "--grep", "GREEN"), [12, 16]),
        (("--grep", "GREEN", "-n", "2"), [0, 4]),
        (("--grep", "GREEN", "--tail", "2"), [36, 39]),
        (("--grep", "GREEN", "--offset", "10:20"), [12, 16]),
        (("--grep", "BLUE"), []),
    ],
)
def test_it_looks_at_what_is_printed(
    run: Run,  # noqa: F811
    log: tuple[Any, ...],
    options: tuple[str, ...],
    offsets: list[int],
) -> None:
    done = run("cat", *log, *options, "-f", "%o %s\\n")
    assert [int(line.split()[0]) for line in done.lines] == offsets
    assert ("no record was found" in done.err) == (not offsets)
    found = run("cat", *log, *options, "--json")
    assert [json.loads(line)["offset"] for line in found.lines] == offsets
    assert len(run("cat", *log, *options).lines) == len(offsets)


def test_without_decoding_it_looks_at_bytes(run: Run, log: tuple[Any, ...]) -> None:  # noqa: F811
    assert len(run("cat", log[0], "--grep", "GREEN").lines) == 1
    assert run("cat", log[0], "--key", "k12").lines == []


def test_a_batch_is_selected_as_a_whole(log: tuple[Any, ...]) -> None:
    found = brokerless.open(log[0]).records(decode=Decoding(str(log[3])), on_damage=lambda _: None).read_all()
    (batch_,) = found.combine_chunks().to_batches()
    selected = PrintedFilter(RecordFilter(key_regex="^k1", grep="GREEN")).matches(batch_)
    assert selected.nonzero()[0].tolist() == [12, 16]
