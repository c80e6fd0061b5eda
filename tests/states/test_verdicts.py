"""Each verdict of placement has the kind that is written down (:mod:`tests.states.verdicts`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.clusters.placement import KINDS, Verdict
from tests.states.verdicts import EXPECTED, said


def test_all_verdicts_are_written_down() -> None:
    assert EXPECTED.keys() == KINDS.keys() == set(Verdict) - {Verdict.HERE}


@pytest.mark.parametrize("verdict", EXPECTED)
def test_audit_says_the_kind_of_its_path(verdict: Verdict, tmp_path: Path) -> None:
    kinds = {kind for _, _, kind in EXPECTED.values()}
    assert said(verdict, tmp_path) & kinds == {EXPECTED[verdict][2]}
