"""What retention deletes after a start, by the topic's settings; ``tests/kafka/test_retention.py`` asks a broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture
from tests.golden import broker_data

from brokerless.clusters.start.job import StartAt, plan_restart
from brokerless.clusters.start.retention_forecast import Retention, config_of
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

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


def test_an_empty_policy_is_one_by_which_nothing_goes_and_garbage_is_none() -> None:
    """Since 4.2 (KIP-1161)."""
    config = config_of({"cleanup.policy": "", "retention.ms": "1", "retention.bytes": "1"})
    assert config is not None
    assert not config.deletes
    assert config_of({"cleanup.policy": "garbage"}) is None


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
