"""Which segments go, in which order, and what is left: without a broker. What a broker makes of it is in
``tests/kafka/test_trim.py``."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.log.whole_batches import batch

import brokerless
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint, offset_checkpoint
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.storage.location import Location

HOUR = 3_600_000
START = 1_600_000_000_000
SEGMENTS, BATCHES, RECORDS = 4, 3, 5
SIZE = 9000
"""About what a segment has."""


def write_topic(directory: Path, topic: str, first_hour: int, segments: int = SEGMENTS) -> None:
    """Segments of three batches of five records, an hour from one segment to the next."""
    with open_log(directory, topic, 0, LogConfig(segment_bytes=SIZE), at_ms=START) as log:
        for segment in range(segments):
            for number in range(BATCHES):
                offset = (segment * BATCHES + number) * RECORDS
                at = START + (first_hour + segment) * HOUR
                log.append(batch(offset, RECORDS, at, b"v" * 500, epoch=segment))
            if segment < segments - 1:
                log.roll()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """``late`` begins two hours and a half after ``early``."""
    directory = tmp_path / "logs"
    directory.mkdir()
    write_topic(directory, "early", 0)
    write_topic(directory, "late", 2)
    return directory


def bases(directory: Path, topic: str) -> list[int]:
    return [int(path.stem) for path in sorted((directory / f"{topic}-0").glob("*.log"))]


def gone(trim: Any) -> list[tuple[str, int, str]]:
    return [(each.topic, segment.base_offset, segment.reason) for each in trim.partitions for segment in each.segments]


TOPICS = ["early", "late"]


def test_the_oldest_segments_of_all_topics_go_until_enough_is_free(logs: Path) -> None:
    size = sum(path.stat().st_size for path in (logs / "early-0").glob("00000000000000000000.*"))
    trim = brokerless.open(logs).trim(free=3 * size + size // 2, topics=TOPICS)
    expected = [("early", 0, "oldest"), ("early", 15, "oldest"), ("early", 30, "oldest"), ("late", 0, "oldest")]
    assert gone(trim) == expected
    assert trim.size >= 3 * size + size // 2
    assert (trim.missing, trim.is_applied) == (0, False)
    early, late = trim.partitions
    assert (early.records, early.start_offset, early.log_start_offset) == (45, 0, 45)
    assert (early.first_timestamp, early.last_timestamp) == (START, START + 2 * HOUR + RECORDS - 1)
    assert (late.records, late.log_start_offset) == (15, 15)


def test_the_last_segment_stays_and_what_is_missing_is_said(logs: Path) -> None:
    trim = brokerless.open(logs).trim(free=1 << 40, topics=TOPICS)
    assert {each[:2] for each in gone(trim)} == {(topic, base) for topic in TOPICS for base in (0, 15, 30)}
    assert trim.missing == (1 << 40) - trim.size


def test_before_takes_segments_whose_records_are_all_older(logs: Path) -> None:
    trim = brokerless.open(logs).trim(before=START + 2 * HOUR + 1, topics=TOPICS)
    assert gone(trim) == [("early", 0, "before"), ("early", 15, "before")]


def test_topics_whose_settings_are_not_known_go_only_by_name(logs: Path) -> None:
    trim = brokerless.open(logs).trim(free=1)
    assert trim.partitions == ()
    assert set(trim.retained) == set(TOPICS)
    assert all("name it with -t" in why for _, why in trim.retained.values())


def test_what_the_cleaner_has_compacted_and_kafkas_own_topics_stay_even_by_name(logs: Path) -> None:
    write_topic(logs, "__consumer_offsets", 0)
    (logs / names.CLEANER_CHECKPOINT).write_bytes(offset_checkpoint({("early", 0): 15}))
    trim = brokerless.open(logs).trim(before=START + 9 * HOUR, topics=["early", "__consumer_offsets"])
    assert trim.partitions == ()
    assert "compacted" in trim.retained["early"][1]
    assert trim.retained["__consumer_offsets"][1] == "Kafka's own topic"


def test_nothing_goes_past_the_high_watermark(logs: Path) -> None:
    (logs / names.HIGH_WATERMARK_CHECKPOINT).write_bytes(offset_checkpoint({("early", 0): 29}))
    trim = brokerless.open(logs).trim(free=1 << 40, topics=["early"])
    assert gone(trim) == [("early", 0, "oldest")]


def test_deleted_records_go_first_and_cost_nothing(logs: Path) -> None:
    (logs / names.LOG_START_OFFSET_CHECKPOINT).write_bytes(offset_checkpoint({("late", 0): 32}))
    trim = brokerless.open(logs).trim(free=1, topics=TOPICS)
    assert gone(trim) == [("late", 0, "deleted-records")]
    (late,) = trim.partitions
    assert (late.records, late.start_offset, late.log_start_offset) == (0, 32, 32)
    brokerless.open(logs).trim(before=START, topics=TOPICS, apply=True)
    assert bases(logs, "late") == [30, 45]
    assert load_offset_checkpoint(Location(str(logs / names.LOG_START_OFFSET_CHECKPOINT))).offsets == {("late", 0): 32}


def test_what_waits_for_its_deletion_counts(logs: Path) -> None:
    deleted = logs / "early-0" / f"{0:020}.log.deleted"
    (logs / "early-0" / f"{0:020}.log").rename(deleted)
    marked = logs / f"late-0.{'a' * 32}-delete"
    (logs / "late-0").rename(marked)
    trim = brokerless.open(logs).trim(free=1)
    assert {Path(path).parent for path, _ in trim.waiting} == {logs / "early-0", marked}
    assert str(deleted) in dict(trim.waiting)
    assert (trim.partitions, trim.missing) == ((), 0)
    brokerless.open(logs).trim(free=1, apply=True)
    assert not deleted.exists()
    assert not list(marked.glob("*.log"))


def test_what_is_left_is_whole(logs: Path, tmp_path: Path) -> None:
    before = brokerless.open(logs).partition("early", 0).records().read_all()
    shutil.copytree(logs, tmp_path / "copy")
    trim = brokerless.open(logs).trim(before=START + 2 * HOUR + 1, topics=TOPICS, apply=True)
    assert trim.is_applied
    assert bases(logs, "early") == [30, 45]
    assert bases(logs, "late") == [0, 15, 30, 45]
    after = brokerless.open(logs)
    assert after.partition("early", 0).records().read_all() == before.slice(30)
    assert [each for each in after.audit().partitions[0].findings if each.severity != "info"] == []
    assert (logs / "early-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n2 30\n3 45\n"
    assert (logs / names.CLEAN_SHUTDOWN).exists()
    for path in sorted((tmp_path / "copy" / "late-0").iterdir()):
        assert path.read_bytes() == (logs / "late-0" / path.name).read_bytes()


def test_a_link_in_place_of_a_partition_is_not_followed(logs: Path, tmp_path: Path) -> None:
    (logs / "early-0").rename(tmp_path / "elsewhere")
    (logs / "early-0").symlink_to(tmp_path / "elsewhere")
    trim = brokerless.open(logs).trim(free=1 << 40, topics=["early"], apply=True)
    assert trim.partitions == ()
    assert "symbolic link" in trim.retained["early"][1]
    assert len(list((tmp_path / "elsewhere").glob("*.log"))) == SEGMENTS


def test_only_a_local_log_directory_that_nobody_writes_is_trimmed(logs: Path) -> None:
    with pytest.raises(UsageError, match="log directory"):
        brokerless.open(logs / "early-0").trim(free=1)
    with pytest.raises(UsageError, match="one of free, retention and before"):
        brokerless.open(logs).trim(free=1, retention=True)
    with pytest.raises(UnreadableError):
        brokerless.open(logs).trim(free=1, log_dirs=[logs / "nothing"])
    opened = open_log(logs, "early", 0)
    try:
        with pytest.raises(UsageError):
            brokerless.open(logs).trim(free=1, topics=TOPICS, apply=True)
    finally:
        opened.close()
    assert bases(logs, "early")[0] == 0
    assert json.loads((logs / names.CLEAN_SHUTDOWN).read_text())["version"] == 0


@pytest.mark.parametrize("call", range(0, 60, 4))
def test_a_goal_is_reached_once_however_often_a_run_is_cut_short(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    once = tmp_path / "once"
    shutil.copytree(logs, once)
    goal = 3 * SIZE
    brokerless.open(once).trim(free=goal, topics=TOPICS, apply=True)
    for number in (call, call + 7):
        with monkeypatch.context() as patched, suppress(Killed, UnwritableError):
            cut_short_after(patched, number, Killed() if number % 2 else OSError(errno.EIO, "Input/output error"))
            brokerless.open(logs).trim(free=goal, topics=TOPICS, apply=True)
        if logs.joinpath(names.TRIM_MARK).exists():
            planned = brokerless.open(logs).trim(free=goal, topics=TOPICS)
            assert planned.is_resumed, "the plan is what is left of the first one"
            assert not planned.partitions
            break
        if bases(logs, "early") == bases(once, "early") and not list(logs.rglob("*.deleted")):
            return  # it was done before so many calls
    brokerless.open(logs).trim(free=goal, topics=TOPICS, apply=True)
    assert not logs.joinpath(names.TRIM_MARK).exists()
    assert {each: bases(logs, each) for each in TOPICS} == {each: bases(once, each) for each in TOPICS}
    assert not list(logs.rglob("*.deleted"))
    for each in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):
        assert (logs / each).read_bytes() == (once / each).read_bytes()


def cut_short_after(patched: pytest.MonkeyPatch, calls: int, error: BaseException) -> None:
    """End what this process does with an error, once it has changed the disk so often."""
    done = 0

    def dying(function: Any) -> Any:
        def call_or_die(*arguments: Any, **named: Any) -> Any:
            nonlocal done
            done += 1
            if done > calls:
                raise error
            return function(*arguments, **named)

        return call_or_die

    for name in ("rename", "unlink", "replace", "fsync"):
        patched.setattr(os, name, dying(getattr(os, name)))


class Killed(BaseException):
    """What ends a trim where a kill would."""


@pytest.mark.parametrize("call", range(0, 40, 3))
def test_wherever_it_is_killed_logs_have_no_hole_and_a_rerun_ends_it(
    logs: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    with monkeypatch.context() as patched:
        cut_short_after(patched, call, Killed())
        with suppress(Killed):
            brokerless.open(logs).trim(before=START + 2 * HOUR + 1, topics=TOPICS, apply=True)
    assert bases(logs, "early") in ([0, 15, 30, 45], [15, 30, 45], [30, 45])
    assert [each for each in brokerless.open(logs).verify() if each.severity == "error"] == []
    assert not [each for each in brokerless.open(logs).restart().partitions if each.lost_bytes or each.refused]
    brokerless.open(logs).trim(before=START + 2 * HOUR + 1, topics=TOPICS, apply=True)
    assert bases(logs, "early") == [30, 45]
    assert not list(logs.rglob("*.deleted"))
    # A broker begins the leader epochs where the log begins, as it loads it.
    (early,) = (each for each in brokerless.open(logs).audit().partitions if each.topic == "early")
    assert [each for each in early.findings if each.severity != "info"] == []
