"""A report's sizes in other formats are those of ``size``, and the commands beside them write them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from tests.jobs.size.topics import STORED, event, write_topic

from brokerless import arrow
from brokerless.cli import main
from brokerless.jobs.report import topic_sizes
from brokerless.jobs.report.topic_sizes import topic_sizes_table
from brokerless.jobs.run.types import ALONE
from brokerless.jobs.size.choices import Choice
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"
FEW = (Choice(2, "none"), Choice(2, "zstd"), Choice(2, "zstd", batch_bytes=16384))


def table(path: Path) -> list[dict[str, object]]:
    directory = resolve(Location(str(path)))
    return arrow.rows(topic_sizes_table(directory, directory.partitions, 1 << 27, ALONE))


def test_the_command_of_a_topic_writes_the_size_that_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(topic_sizes, "compared", lambda: FEW)
    monkeypatch.chdir(tmp_path)
    rows = table(DEMO)
    best = [row for row in rows if row["command"]]
    assert [row["topic"] for row in best][:3] == ["orders", "payments", "users"]  # the largest first
    for row in best[:3]:
        program, *words = shlex.split(str(row["command"]))
        words[words.index("--to") + 1] = str(tmp_path / str(row["topic"]))
        assert (program, main([*words, "--json"])) == ("brokerless", 0)
        written = [json.loads(line)["sizeInBytes"] for line in capfd.readouterr().out.splitlines()]
        assert row["sizeInBytes"] == sum(written)
        assert row["isExact"]


def test_each_format_and_codec_has_its_smallest_batches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(topic_sizes, "compared", lambda: FEW)
    rows = table(DEMO / "users-0")
    assert [(row["format"], row["compression"], row["isCurrent"]) for row in rows] == [
        ("v2", "none", True), ("v2", "zstd", False), ("v2", "none", False),
    ]  # fmt: skip
    now, smallest, _ = rows
    assert (
        now["sizeInBytes"]
        == now["currentSizeInBytes"]
        == sum(path.stat().st_size for path in (DEMO / "users-0").glob("*.log"))
    )
    assert (smallest["batchBytes"], smallest["isBest"]) == (16384, True)
    assert " -t " not in str(smallest["command"])  # a partition's directory has no other topic


def test_only_the_largest_topics_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, size in (("one", 8000), ("two", 900_000), ("three", 16_000)):
        (made := tmp_path / "made" / name).mkdir(parents=True)
        write_topic(made, 1, event, "small", size, STORED[0])
        (tmp_path / "log").mkdir(exist_ok=True)
        (made / "t-0").rename(tmp_path / "log" / f"{name}-0")
    monkeypatch.setattr(topic_sizes, "compared", lambda: (Choice(2, "lz4"),))
    monkeypatch.setattr(topic_sizes, "MOST_TOPICS", 2)
    rows = table(tmp_path / "log")
    assert list(dict.fromkeys(row["topic"] for row in rows)) == ["two", "three"]
    assert [row["isExact"] for row in rows] == [False, False, True, True]
    (_, estimate) = rows[:2]
    assert estimate["low"] < estimate["sizeInBytes"] < estimate["high"]  # type: ignore[operator]


def test_a_log_without_records_has_no_sizes(tmp_path: Path):
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / "00000000000000000000.log").touch()
    assert table(tmp_path) == []
