"""What salvage and convert write begins its segments where the source does, unless something has to change."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.conftest import (
    Run,
    run,  # noqa: F401
)
from tests.golden import broker_data
from tests.sources import sources_of

import brokerless
from brokerless.format.convert import ConversionTarget
from brokerless.jobs.convert.job import Conversion, convert
from brokerless.jobs.convert.job import plan as plan_convert
from brokerless.jobs.salvage.job import Salvage, salvage
from brokerless.jobs.salvage.job import plan as plan_salvage
from brokerless.log import names
from brokerless.log.config import LogConfig

CLEAN = broker_data("clean")
MANY = "segments-0"


def base_offsets(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def partitions(directory: Path) -> dict[str, list[int]]:
    return {path.name: base_offsets(path) for path in directory.iterdir() if list(path.glob("*.log"))}


def salvaged(source: Path, to: Path, how: Salvage | None = None) -> list[Any]:
    return list(salvage(plan_salvage(sources_of(source), to, how or Salvage()), lambda _: None))


def converted(source: Path, to: Path, how: Conversion) -> list[Any]:
    return list(convert(plan_convert(sources_of(source), to, how), lambda _: None))


def test_the_source_has_what_is_to_be_kept() -> None:
    assert len(base_offsets(CLEAN / MANY)) > 3


@pytest.mark.parametrize("broker", ["clean", "old-formats", "unclean"])
def test_salvage_keeps_where_segments_begin(broker: str, tmp_path: Path) -> None:
    results = salvaged(broker_data(broker), tmp_path)
    expected = partitions(broker_data(broker))
    for result in results:
        name = result.task.name
        if not result.losses:
            assert base_offsets(tmp_path / name) == expected[name], name
            assert not result.has_other_segments


@pytest.mark.parametrize(
    "target",
    [
        ConversionTarget(codec="zstd"),
        ConversionTarget(2, "lz4", batch_size=50_000),
        ConversionTarget(1, "gzip"),
        ConversionTarget(0, batch_size=0),
    ],
    ids=["codec", "batch size", "v1", "v0"],
)
def test_convert_keeps_where_segments_begin(target: ConversionTarget, tmp_path: Path) -> None:
    results = converted(CLEAN, tmp_path, Conversion(target))
    expected = partitions(CLEAN)
    # A log whose last batch a format does not have (a transaction's marker) ends with a segment more.
    written = [each for each in results if not each.damages and not each.totals.lost["controlBatches"]]
    assert len(written) > 20
    assert {each.task.name: base_offsets(tmp_path / each.task.name) for each in written} == {
        each.task.name: expected[each.task.name] for each in written
    }


def test_empty_segments_stay_where_they_are(tmp_path: Path) -> None:
    source = shutil.copytree(CLEAN / MANY, tmp_path / MANY)
    first, second, third, *rest = base_offsets(source)
    (source / f"{second:020d}.log").write_bytes(b"")  # as compaction leaves one
    topic, _, partition = MANY.rpartition("-")
    (tmp_path / names.CLEANER_CHECKPOINT).write_text(f"0\n1\n{topic} {partition} {third}\n")
    end = max(rest) + 1_000_000
    (source / f"{end:020d}.log").write_bytes(b"")
    salvaged(source, tmp_path / "salvaged")
    converted(source, tmp_path / "converted", Conversion(ConversionTarget(codec="zstd")))
    for name in ("salvaged", "converted"):
        assert base_offsets(tmp_path / name / MANY) == [first, second, third, *rest, end]


def test_other_segments_are_made_where_they_are_asked_for_and_that_is_said(run: Run, tmp_path: Path) -> None:  # noqa: F811
    before = len(base_offsets(CLEAN / MANY))
    for command in (["salvage"], ["convert", "--codec", "none"]):
        to = tmp_path / command[0]
        result = run(*command, CLEAN / MANY, "--to", to, "--segment-bytes", 1 << 30)
        after = len(base_offsets(to / MANY))
        assert after != before
        assert f"{MANY}: segments begin at other offsets than before: {before} segments, now {after}" in result.err
        kept = run(*command, CLEAN / MANY, "--to", tmp_path / f"{command[0]}-kept")
        assert "segments begin" not in kept.err
        assert kept.exit_code == 0


def test_nothing_is_left_of_a_segment(run: Run, tmp_path: Path) -> None:  # noqa: F811
    source = shutil.copytree(CLEAN / MANY, tmp_path / MANY)
    first, second, *rest = base_offsets(source)
    path = source / f"{second:020d}.log"
    path.write_bytes(np.random.default_rng(1).bytes(path.stat().st_size))
    result = run("salvage", source, "--to", tmp_path / "to")
    # The next one takes the name of the lost one: what is missing is said once, and not found again in what was saved.
    assert base_offsets(tmp_path / "to" / MANY) == [first, second, *rest[1:]]
    assert "segments begin at other offsets than before" in result.err


def test_settings_that_are_given_divide_the_log_again(tmp_path: Path) -> None:
    salvaged(CLEAN / MANY, tmp_path, Salvage(LogConfig(segment_bytes=2_000)))
    assert len(base_offsets(tmp_path / MANY)) > len(base_offsets(CLEAN / MANY))


@pytest.mark.parametrize("words", [["salvage"], ["merge"], ["carve"], ["convert", "--codec", "gzip"]], ids=" ".join)
def test_a_batch_that_is_larger_than_a_segment_is_alone_in_its_own(
    words: list[str],
    run: Run,  # noqa: F811
    tmp_path: Path,
) -> None:
    files = sorted((CLEAN / MANY).glob("*.log"))
    result = run(*words, *(files if words == ["carve"] else [CLEAN / MANY]), "--to", tmp_path, "--segment-bytes", 100)
    assert result.exit_code == 0, result.err
    text = " ".join((result.out.decode() + result.err).split())
    assert "more bytes than a segment" in text or "larger than a segment was to be" in text
    written = [path for path in tmp_path.iterdir() if names.parse_partition_directory(path.name)]
    logs = [brokerless.open(log) for path in written for log in path.glob("*.log")]
    assert {sum(each.num_rows for each in log.batches()) for log in logs} == {1}
    assert records(written) == records([CLEAN / MANY])


def records(partitions: Iterable[Path]) -> list[tuple[int, bytes, bytes]]:
    rows = [row for path in partitions for row in brokerless.open(path).records().read_all().to_pylist()]
    return sorted((row["offset"], row["key"], row["value"]) for row in rows)
