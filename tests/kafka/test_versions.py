"""Rules in which versions of Kafka differ: brokers of each start on directories of 3.9.1, and what they do is what the
dry run of that version says."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from brokerless.clusters.start.directories import plan_directories
from brokerless.log.directory import resolve
from brokerless.log.settings.rules import has_rule
from brokerless.log.storage.location import Location
from tests.kafka import recorded_starts
from tests.states.bases import VERSIONS, base_of
from tests.states.placements import PLACEMENTS, make_placement
from tests.states.record import RECORD_SETTINGS, Starter
from tests.states.states import Pack, make_as_it_was

pytestmark = pytest.mark.xdist_group("versions")

OLDER = tuple(each for each in VERSIONS if base_of(each) == VERSIONS[-1])
"""All that start on directories of the oldest one; the newest has directories of its own in other tests."""
RECORDED = "versions"
STATES: dict[str, tuple[Callable[[str, Path], list[Path]], int]] = {
    "in-two-cleaner-checkpoints": (
        lambda version, to: make_placement(version, PLACEMENTS["in-two-cleaner-checkpoints"], to), 1500
    ),
    "small-segments": (lambda version, to: [make_as_it_was(version, Pack("few", True, {}), to / "data")], 0),
}  # fmt: skip
"""Log directories that are made for a version, and how long (ms) its broker runs."""


@dataclass(frozen=True)
class Answer:
    """What a broker of a version did."""

    is_started: bool
    is_cleaner_ended: bool


def ask(version: str, log_dirs: list[Path], wait_ms: int, root: Path) -> Answer:
    starter = Starter(version, root)
    try:
        is_started = starter.start(log_dirs, wait_ms)["outcome"] == "started"
        return Answer(is_started, "Duplicate key" in starter.errors.read_text(errors="replace"))
    finally:
        starter.close()


def digest(version: str, log_dirs: list[Path], wait_ms: int) -> str:
    return recorded_starts.digest(version, repr((RECORD_SETTINGS, wait_ms)), log_dirs)


def record_starts() -> None:
    lines: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as directory:
        for version in OLDER:
            for name, (make, wait_ms) in STATES.items():
                root = Path(directory) / version / name
                log_dirs = make(version, root / "state")
                known_by = digest(version, log_dirs, wait_ms)
                answer = ask(version, log_dirs, wait_ms, root)
                lines.append({"version": version, "name": name, "digest": known_by, **asdict(answer)})
    recorded_starts.write_lines(RECORDED, lines)


@dataclass(frozen=True)
class Started:
    """What the dry run of a version says of a state, as :func:`kinds` has it, and what its broker did."""

    log_dirs: list[Path]
    said: list[tuple[str, str]]
    answer: Answer


def start(version: str, name: str, root: Path) -> Started:
    make, wait_ms = STATES[name]
    log_dirs = make(version, root / "state")
    said, known_by = kinds(log_dirs, version), digest(version, log_dirs, wait_ms)
    line = recorded_starts.lines(RECORDED).get(known_by)
    if line is not None:
        return Started(log_dirs, said, Answer(line["is_started"], line["is_cleaner_ended"]))
    recorded_starts.warn([f"{name} of {version}"])
    return Started(log_dirs, said, ask(version, log_dirs, wait_ms, root))


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


@pytest.mark.parametrize("version", OLDER)
def test_a_partition_in_two_checkpoints_of_the_cleaner_ends_it_since_4_1(
    kafka_jars: Path, tmp_path: Path, version: str
) -> None:
    started = start(version, "in-two-cleaner-checkpoints", tmp_path)
    assert len(started.log_dirs) == 2
    assert started.answer.is_started
    assert started.answer.is_cleaner_ended == has_rule(version, "repeated-cleaner-checkpoint")
    of_settings = ("warning", "setting-refused")  # what 3.9 takes; for others it is taken out
    said = [each for each in started.said if each != of_settings]
    assert said == [("warning", "cleaner-checkpoint-repeated")] * started.answer.is_cleaner_ended


@pytest.mark.parametrize("version", OLDER)
def test_segments_below_a_mebibyte_end_a_broker_since_4_1(kafka_jars: Path, tmp_path: Path, version: str) -> None:
    started = start(version, "small-segments", tmp_path)
    assert started.answer.is_started == (version in ("3.9.1", "4.0.2"))
    what = "warning" if started.answer.is_started else "refused"  # another version refuses it
    assert started.said == [(what, "setting-refused")] * 3
