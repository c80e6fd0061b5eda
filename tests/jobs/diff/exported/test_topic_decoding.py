"""How a decoded table's values came to be is what the table, the schemas and the request say, or it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.diff.exported.test_decoding import FORMS, TOPIC, avro_log, compare, export
from tests.typed.logs import Record, write_log

import brokerless
from brokerless.errors import UsageError


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
