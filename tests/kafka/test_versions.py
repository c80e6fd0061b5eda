"""Rules in which versions of Kafka differ: brokers of each start on directories of 3.9.1, and what they do is what the
dry run of that version says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerless.clusters.start.directories import plan_directories
from brokerless.log.directory import resolve
from brokerless.log.settings.rules import has_rule
from brokerless.log.storage.location import Location
from tests.kafka.recorded_starts import ASK_ALWAYS
from tests.states.bases import VERSIONS, base_of
from tests.states.placements import PLACEMENTS, make_placement
from tests.states.record import Starter
from tests.states.states import Pack, make_as_it_was

pytestmark = pytest.mark.xdist_group("versions")

ASKED = ("4.1.2", "3.9.1")
"""Those on both sides of each rule."""
OLDER = tuple(each for each in VERSIONS if base_of(each) == VERSIONS[-1] and (ASK_ALWAYS or each in ASKED))
"""Of all that start on directories of the oldest one; the newest has directories of its own in other tests."""


@pytest.fixture(params=OLDER)
def starter(request: pytest.FixtureRequest, kafka_jars: Path, tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(request.param, tmp_path)
    yield starter
    starter.close()


def kinds(paths: list[Path], version: str) -> list[tuple[str, str]]:
    """Of what a dry run of the version says of these directories: where it ends, and warnings."""
    planned = plan_directories([resolve(Location(str(path))) for path in paths], version=version)
    assert {each.version for each in planned} == {version}
    return [
        (what, each.kind or "")
        for directory in planned
        for what, findings in (("refused", directory.refused), ("warning", directory.warnings))
        for each in findings
    ]


def test_a_partition_in_two_checkpoints_of_the_cleaner_ends_it_since_4_1(starter: Starter, tmp_path: Path) -> None:
    paths = make_placement(starter.version, PLACEMENTS["in-two-cleaner-checkpoints"], tmp_path / "state")
    assert len(paths) == 2
    said = kinds(paths, starter.version)
    assert starter.start(paths, 1500)["outcome"] == "started"
    is_ended = "Duplicate key" in starter.errors.read_text(errors="replace")
    assert is_ended == has_rule(starter.version, "repeated-cleaner-checkpoint")
    of_settings = ("warning", "setting-refused")  # what 3.9 takes; for others it is taken out
    assert [each for each in said if each != of_settings] == [("warning", "cleaner-checkpoint-repeated")] * is_ended


def test_segments_below_a_mebibyte_end_a_broker_since_4_1(starter: Starter, tmp_path: Path) -> None:
    directory = make_as_it_was(starter.version, Pack("few", True, {}), tmp_path / "state" / "data")
    said = kinds([directory], starter.version)
    is_started = starter.start([directory], 0)["outcome"] == "started"
    assert is_started == (starter.version in ("3.9.1", "4.0.2"))
    what = "warning" if is_started else "refused"  # another version refuses it
    assert said == [(what, "setting-refused")] * 3
