from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.errors import UsageError

USERS = Path(__file__).parents[2] / "demo" / "data" / "users-0"


@pytest.mark.parametrize(
    ("form", "name"),
    [
        *(("delta", name) for name in ("a%41b", "a\nb", "a\tb", "a\\b", "a\x01b", "a\udcffb")),
        *(("iceberg", name) for name in ("a%b", "a\nb", "a\tb", "a?b", "a#b", "a\udcffb")),
    ],
)
def test_a_directory_that_a_library_takes_for_another_is_refused_before_anything_is_written(
    form: Any, name: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"tables cannot be below a directory with '.+' in its name") as raised:
        brokerless.open(USERS).export(tmp_path / name / "tables", as_=form)
    assert str(raised.value).isprintable()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("form", "name"), [("delta", "50 % of 'it', [or] {not}?#\u2028é"), ("iceberg", "of 'it', [or] {not}*\\\u2028é")]
)
def test_all_other_names_are_found_again(form: Any, name: str, tmp_path: Path) -> None:
    log = brokerless.open(USERS)
    (exported,) = log.export(tmp_path / name, as_=form)
    assert exported.records
    assert list(log.export(tmp_path / name, as_=form)) == []
