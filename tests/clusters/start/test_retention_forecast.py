"""What retention deletes after a start, by the topic's settings; ``tests/kafka/test_retention.py`` asks a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.golden import broker_data

from brokerless.clusters.start.job import StartAt, plan_restart
from brokerless.clusters.start.retention_forecast import Retention
from brokerless.log import names
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.text import format_bytes

# ruff: noqa: F811 - a fixture of another directory
NAME = "segments-0"
NEVER = 1 << 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of four segments, which begin at 0, 169, 342 and 543."""
    return Path(shutil.copytree(broker_data("clean") / NAME, tmp_path / NAME))


def retention(path: Path, now_ms: int = NEVER, settings: dict[str, str] | None = None) -> Retention | None:
    (partition,) = resolve(Location(str(path))).partitions
    return plan_restart(partition, {}, StartAt(now_ms=now_ms), clean=True, settings=settings).retention


def test_all_that_is_older_than_kafkas_default_goes(path: Path) -> None:
    found = retention(path)
    assert found is not None
    assert [Path(file).name for file, _ in found.segments] == [each.name for each in sorted(path.glob("*.log"))]
    assert (found.size, found.log_start_offset) == (sum(each.stat().st_size for each in path.glob("*.log")), 700)
    assert found.defaults == ("cleanup.policy", "retention.ms", "retention.bytes")


@pytest.mark.parametrize(
    ("settings", "starts_at"),
    [
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "1000"}, 700),
        ({"cleanup.policy": "compact"}, None),
        ({"cleanup.policy": "delete,compact"}, 700),
        ({"retention.ms": "-1", "retention.bytes": "0"}, 700),
        ({"retention.ms": "-1", "retention.bytes": "1000000000"}, None),
        ({"retention.ms": "garbage"}, None),
        ({"cleanup.policy": "garbage"}, None),
        ({"cleanup.policy": ""}, None),
    ],
    ids=str,
)
def test_the_topics_settings_decide(path: Path, settings: dict[str, str], starts_at: int | None) -> None:
    found = retention(path, settings=settings)
    assert (None if found is None else found.log_start_offset) == starts_at
    assert found is None or not settings.keys() & {*found.defaults}


def test_the_first_segments_go_where_there_are_too_many_bytes(path: Path) -> None:
    sizes = [each.stat().st_size for each in sorted(path.glob("*.log"))]
    found = retention(path, settings={"retention.ms": "-1", "retention.bytes": str(sum(sizes[2:]))})
    assert found is not None
    assert [size for _, size in found.segments] == sizes[:2]
    assert found.log_start_offset == 342


def test_what_is_young_stays_and_so_do_kafkas_own_topics(path: Path) -> None:
    assert retention(path, now_ms=0) is None
    own = Path(shutil.copytree(path, path.with_name("__consumer_offsets-0")))
    assert retention(own) is None


@pytest.mark.parametrize("name", ["users-0", "orders-1"])
def test_of_a_partition_alone_the_settings_are_in_the_metadata_beside_it(run: Run, tmp_path: Path, name: str) -> None:
    of_directory, *_ = run("restart", "--json", "demo/data", "-t", name[:-2], "-p", name[-1]).json
    (alone,) = run("restart", "--json", f"demo/data/{name}").json
    assert alone["retention"] == of_directory["retention"] is None
    shutil.copytree(f"demo/data/{name}", tmp_path / name)
    (elsewhere,) = run("restart", "--json", tmp_path / name).json
    assert elsewhere["retention"]["settings"]["retention.ms"] == "604800000"


def test_it_is_said_and_does_no_harm(run: Run, path: Path) -> None:
    done = run("restart", path)
    assert done.exit_code in (0, 1)
    (line,) = [each for each in done.lines if "retention deletes" in each]
    assert "4 segments" in line
    assert "up to offset 700, by retention.ms=604800000 (Kafka's default), or as server.properties says" in line
    (row,) = run("restart", "--json", path).json
    assert row["retention"]["logStartOffset"] == 700
    assert len(row["retention"]["segments"]) == 4
    assert row["lostBytes"] == 0


def disk(tmp_path: Path, log_start_offset: int) -> Path:
    """A log directory with the four segments, and a line of their partition in its checkpoint of log starts."""
    found = Path(shutil.copytree(broker_data("clean"), tmp_path / "disk", ignore=_all_but_the_partition))
    note = f"segments 0 {log_start_offset}"
    (found / names.LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\n{note}\n")
    return found


def _all_but_the_partition(directory: str, found: list[str]) -> set[str]:
    keep = (NAME, f"{names.CLUSTER_METADATA}-0")
    return {each for each in found if (Path(directory) / each).is_dir() and each not in keep}


@pytest.mark.parametrize(
    ("now_ms", "settings", "before", "expired", "starts_at"),
    [
        (NEVER, {"retention.ms": "-1"}, 2, 0, 400),
        (NEVER, {"cleanup.policy": "compact"}, 2, 0, 400),
        (0, {}, 2, 0, 400),
        (NEVER, {}, 2, 2, 700),
        (0, {"retention.ms": "-1", "retention.bytes": "0"}, 2, 2, 700),
    ],
    ids=str,
)
def test_segments_before_the_log_start_go_by_no_setting(
    path: Path, now_ms: int, settings: dict[str, str], before: int, expired: int, starts_at: int
) -> None:
    """A broker says "due to log start offset breach" of these."""
    (partition,) = resolve(Location(str(path))).partitions
    lines = {names.LOG_START_OFFSET_CHECKPOINT: (0, 400)}
    found = plan_restart(partition, lines, StartAt(now_ms=now_ms), clean=True, settings=settings).retention
    assert found is not None
    assert (len(found.superseded), len(found.expired), found.log_start_offset) == (before, expired, starts_at)
    assert found.segments == (*found.superseded, *found.expired)
    assert bool(found.deciding) == bool(expired)


def test_they_are_said_apart_from_those_that_go_by_age(run: Run, tmp_path: Path) -> None:
    path = disk(tmp_path, 400)
    sizes = [each.stat().st_size for each in sorted((path / NAME).glob("*.log"))]
    lines = [each.strip() for each in run("restart", path).lines]
    said = f"deletes 2 segments of {format_bytes(sum(sizes[:2]))} some minutes later, which are before the log start "
    assert f"{said}offset 400, as usual: nothing of this is served now either" in lines
    (by_age,) = [each for each in lines if each.startswith("retention deletes")]
    assert by_age.startswith(f"retention deletes 2 segments of {format_bytes(sum(sizes[2:]))} some minutes later")
    (row,) = [each for each in run("restart", "--json", path).json if each["topic"] == "segments"]
    assert len(row["retention"]["segments"]) == 4
    assert row["retention"]["segmentsBeforeLogStart"] == 2
    assert [each["kind"] for each in row["effects"]][-4:] == [*["before-log-start"] * 2, *["expired"] * 2]
    (line,) = [each for each in run("audit", path).lines if each.startswith("retention")]
    assert f"deletes 2 segments of {format_bytes(sum(sizes[2:]))} in 1 partition" in line


@pytest.mark.parametrize("metadata", ["lost", "of another topic"])
def test_nothing_is_foreseen_of_a_directory_that_becomes_stray(run: Run, tmp_path: Path, metadata: str) -> None:
    """A broker deletes nothing of it for its age."""
    path = disk(tmp_path, 0)
    before, *_ = (each for each in run("restart", "--json", path).json if each["topic"] == "segments")
    assert before["retention"] is not None
    file = path / NAME / names.PARTITION_METADATA
    if metadata == "lost":
        file.unlink()
    else:
        file.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAfw\n")
    after, *_ = (each for each in run("restart", "--json", path).json if each["topic"] == "segments")
    assert after["stray"] is not None
    assert after["retention"] is None
    assert not any(each.startswith("retention") for each in run("audit", path).lines)
