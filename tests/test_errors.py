"""Findings and errors keep what they say through a pickle, as tasks of Spark send them."""

from __future__ import annotations

import pickle

import pytest

from brokerless.errors import DamageError, RefusedError, raise_errors
from brokerless.findings import Finding

FOUND = Finding("error", "checksum-mismatch", "a.log", 61, 7, "the checksum does not match", "1", "2")


def test_a_finding_is_one_line_with_its_place_and_what_was_expected() -> None:
    assert str(FOUND) == "a.log, position 61: the checksum does not match (expected 1, found 2)"
    assert str(Finding("info", "kind", "a.log", None, None, "a message")) == "a.log: a message"
    assert Finding(**FOUND.as_dict()) == FOUND


def test_errors_survive_a_pickle() -> None:
    damage = pickle.loads(pickle.dumps(DamageError(FOUND)))
    assert (damage.finding, str(damage)) == (FOUND, str(FOUND))
    refused = pickle.loads(pickle.dumps(RefusedError("OffsetsOutOfOrderException", "offset 3 after 5")))
    assert (refused.reason, str(refused)) == ("OffsetsOutOfOrderException", "offset 3 after 5")


def test_by_default_only_errors_are_raised() -> None:
    raise_errors(Finding("warning", "kind", "a.log", None, None, "a message"))
    with pytest.raises(DamageError, match="checksum"):
        raise_errors(FOUND)
