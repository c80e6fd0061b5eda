"""A run with a budget does what comes first, and keeps what it has done where the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.ledger import Checked
from brokerless.jobs.turns import choose, open_ledger


def test_those_that_come_first_are_chosen_up_to_the_budget_and_one_at_least() -> None:
    sizes = {"a": 5, "b": 50, "c": 20}
    order = "cab".index
    assert choose(sizes, 1, order) == ["c"]
    assert choose(sizes, 25, order) == ["c", "a"]
    assert choose(sizes, 74, order) == ["c", "a"]
    assert choose(sizes, 75, order) == ["c", "a", "b"]
    assert choose({}, 75, order) == []


def test_the_directory_is_made_and_its_parent_is_not(tmp_path: Path) -> None:
    partitions = list(brokerless.open("demo/data").paths)
    ledger = open_ledger(partitions, 1, str(tmp_path / "state"))
    assert ledger is not None
    ledger.add(Checked("segment", "/a", "1", 1000, "r1", "t", 0))
    ledger.flush()
    again = open_ledger(partitions, 1, str(tmp_path / "state"))
    assert again is not None
    assert again.entries == ledger.entries
    with pytest.raises(brokerless.UnwritableError, match="nowhere"):
        open_ledger(partitions, 1, str(tmp_path / "nowhere" / "state"))


def test_without_a_budget_there_is_no_state() -> None:
    assert open_ledger([], None, None) is None
    with pytest.raises(UsageError, match="a budget needs a directory for the state"):
        open_ledger([], None, "state")
