"""All commands, Python and Spark judge a directory as a real broker's start and a real consumer did: ``README.md``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from tests.states import placed, placements
from tests.states.bases import VERSIONS
from tests.states.outcomes import count_of_recorded, judged_otherwise, load
from tests.states.parity import Disagreement, disagreements, known
from tests.states.states import SHARES, all_states, shares

NEWEST = VERSIONS[0]
SLOW = pytest.mark.slow("all commands on 40 directories")
COMPARED = (0, 3, 7)
"""A quarter of the shares; ``python -m tests.states.known`` compares all, and says what is new."""
PARTS = 4


@SLOW
@pytest.mark.parametrize("share", COMPARED)
def test_commands_agree_with_brokers(share: int, tmp_path: Path) -> None:
    names = shares(load(NEWEST).states, SHARES)[share]
    compare(NEWEST, names, disagreements(NEWEST, names, tmp_path))


@SLOW
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_commands_agree_with_older_brokers_where_these_judge_otherwise(version: str, tmp_path: Path) -> None:
    names = judged_otherwise(version)
    compare(version, names, disagreements(version, names, tmp_path))


@SLOW
@pytest.mark.parametrize(
    ("version", "share"), [*((NEWEST, each) for each in range(PARTS)), *((each, None) for each in VERSIONS[1:])]
)
def test_commands_agree_with_brokers_on_directories(version: str, share: int | None, tmp_path: Path) -> None:
    """Of the newest, in parts, which run side by side; of others, there are only those that they judge otherwise."""
    names = placements.chosen(version)
    names = names if share is None else [*names][share::PARTS]
    compare(version, names, placed.disagreements(version, names, tmp_path))


@pytest.mark.parametrize("version", VERSIONS)
def test_each_state_was_recorded(version: str) -> None:
    assert load(version).states.keys() == all_states().keys()
    assert count_of_recorded(version) == len(all_states())
    assert placements.load(version).keys() == placements.PLACEMENTS.keys()


def compare(version: str, names: Collection[str], found: Iterable[Disagreement]) -> None:
    of_today = set(found)
    expected = {each for each in known() if each.state in {f"{version} {name}" for name in names}}
    assert not of_today - expected, "new disagreements"
    assert not expected - of_today, "these are settled: python -m tests.states.known takes them out of known.json"
