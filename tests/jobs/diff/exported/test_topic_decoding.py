"""How a decoded table's values came to be is what the table, the schemas and the request say, or it is asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.jobs.diff.exported.test_decoding import FORMS, TOPIC, avro_log, compare, export
from tests.typed.logs import Record, write_log

import brokerless
from brokerless.errors import UnreadableError, UsageError


@pytest.mark.parametrize("form", FORMS)
def test_without_schemas_it_is_said_what_is_needed(form: str | None, tmp_path: Path) -> None:
    log = avro_log(tmp_path / "log")
    to = export(log, tmp_path / "to", form)
    for path in (log / "_schemas-0").iterdir():
        path.unlink()
    (log / "_schemas-0").rmdir()
    with pytest.raises(UsageError, match=r"decoded values of the type struct.*: say where they are with schemas="):
        compare(log, to)


def test_formats_that_were_asked_for_are_those_of_the_comparison(tmp_path: Path) -> None:
    """Tables say how they were decoded, Parquet files do not."""
    records: list[Record] = [(b"%d" % at, at.to_bytes(8, "big")) for at in range(30)]
    log = write_log(tmp_path / "log", {TOPIC: records})
    for form in FORMS:
        to = tmp_path / (form or "parquet")
        options = {} if form is None else {"as_": form}
        brokerless.open(log).topic(TOPIC).export(to, decode="long", **options)  # type: ignore[arg-type]
        assert compare(log, to, **({"value_format": "long"} if form is None else {})).is_same
    with pytest.raises(UsageError, match="value format: 'longer' is none of"):
        compare(log, tmp_path / "parquet", value_format="longer")


def test_two_decoded_tables_are_compared_by_their_values(tmp_path: Path) -> None:
    log = avro_log(tmp_path / "log")
    tables = [export(log, tmp_path / str(form), form) for form in FORMS]
    for left in tables:
        for right in tables:
            assert compare(left, right).is_same, (left, right)
    brokerless.open(log).topic(TOPIC).export(tmp_path / "bytes")
    with pytest.raises(UsageError, match="which are compared with a log on disks"):
        compare(tables[0], tmp_path / "bytes")


def test_files_whose_values_have_no_type_together_are_refused(tmp_path: Path) -> None:
    """As one run found JSON, and the next one text."""
    records: list[Record] = [(b"k", b'{"a": 1}'), (b"k", b"text")]
    for count in (1, 2):
        log = write_log(tmp_path / f"{count}", {TOPIC: records[:count]})
        (log / f"{TOPIC}-0" / "partition.metadata").unlink()
        export(log, tmp_path / "to", None)
    with pytest.raises(UnreadableError, match="its files have keys or values of types that are none together"):
        compare(tmp_path / "2", tmp_path / "to")


@pytest.mark.parametrize("name", ["keyRaw", "value", "offset"])
def test_a_decoded_table_without_a_column_of_an_export_is_refused(name: str, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", {TOPIC: [(b"k", b'{"a": 1}')]})
    to = export(log, tmp_path / "to", None)
    for path in to.rglob("*.parquet"):
        pq.write_table(pq.ParquetFile(path).read().drop_columns([name]), path)
    with pytest.raises(UnreadableError, match=r"these are no rows of an export|but has no offsets"):
        compare(log, to)
