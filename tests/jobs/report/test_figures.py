"""The figures agree with the tables of batches and segments, and stay within their bounds."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brokerless
from brokerless import arrow
from brokerless.clock import HOUR_MS
from brokerless.jobs.report.figures import Figures, read_figures
from brokerless.jobs.report.schemas import FIGURES

DEMO = Path(__file__).parents[3] / "demo" / "data"
HEADERS = (
    "topic", "partition", "sizeInBytes", "magic", "compression", "maxTimestamp", "producerId", "isControl", "count",
    "lastOffset",
)  # fmt: skip
Row = dict[str, Any]


@pytest.fixture(scope="module")
def log() -> brokerless.Log:
    return brokerless.open(DEMO)


@pytest.fixture(scope="module")
def figures(log: brokerless.Log) -> Figures:
    return read_figures(log.paths)


@pytest.fixture(scope="module")
def batches(log: brokerless.Log) -> list[Row]:
    """Batch headers as the table of batches has them; those that reach to the log start offset."""
    starts = {each.topic_partition: each.start_offset or 0 for each in log.partitions}
    rows = arrow.rows(log.batches(HEADERS).read_all())
    return [row for row in rows if row["lastOffset"] >= starts[row["topic"], row["partition"]]]


def counted(rows: list[Row], *names: str) -> dict[tuple[Any, ...], int]:
    return {tuple(row[name] for name in names): row["batches"] for row in rows}


def test_schemas_are_those_that_are_declared(figures: Figures):
    assert {name: table.schema for name, table in figures.items()} == {name: FIGURES[name] for name in figures}


def test_segments_are_those_of_the_table(figures: Figures, log: brokerless.Log):
    segments = log.segments()
    assert figures["segments"].select(segments.column_names).equals(segments)


def test_partitions_add_up_their_segments(figures: Figures):
    for row in arrow.rows(figures["partitions"]):
        own = [each for each in arrow.rows(figures["segments"]) if each["file"].split("/")[-2].startswith(row["topic"])]
        own = [each for each in own if each["partition"] == row["partition"]]
        assert row["segments"] == len(own)
        assert row["records"] == sum(each["records"] for each in own)
        assert row["lastOffset"] == max(each["lastOffset"] for each in own)


def test_gaps_are_offsets_that_are_missing_between_segments(tmp_path: Path):
    (directory := tmp_path / "orders-0").mkdir()
    files = sorted((DEMO / "orders-0").glob("*.log"))
    for file in (files[0], files[2], files[3]):
        (directory / file.name).write_bytes(file.read_bytes())
    rows = arrow.rows(read_figures(brokerless.open(directory).paths, on_damage=lambda _: None)["segments"])
    assert [row["gapBefore"] for row in rows] == [0, rows[1]["firstOffset"] - rows[0]["lastOffset"] - 1, 0]
    assert rows[1]["gapBefore"] > 0
    for before, row in pairwise(rows):
        assert row["firstOffset"] == before["lastOffset"] + 1 + row["gapBefore"]


def test_throughput_adds_up_batches_by_hour(figures: Figures, batches: list[Row]):
    expected: dict[tuple[str, int], list[int]] = {}
    for row in batches:
        sums = expected.setdefault((row["topic"], row["maxTimestamp"] // HOUR_MS * HOUR_MS), [0, 0, 0])
        for index, value in enumerate((1, 0 if row["isControl"] else row["count"], row["sizeInBytes"])):
            sums[index] += value
    rows = arrow.rows(figures["throughput"])
    found = {(row["topic"], row["start"]): [row["batches"], row["records"], row["sizeInBytes"]] for row in rows}
    assert found == expected
    assert {row["end"] - row["start"] for row in rows} == {HOUR_MS}


def test_sizes_codecs_and_producers_add_up_all_batches(figures: Figures, batches: list[Row]):
    sizes = Counter((row["topic"], 1 << (row["sizeInBytes"].bit_length() - 1)) for row in batches)
    assert counted(arrow.rows(figures["batchSizes"]), "topic", "fromBytes") == sizes
    codecs = Counter((row["topic"], row["magic"], row["compression"]) for row in batches)
    assert counted(arrow.rows(figures["compression"]), "topic", "magic", "compression") == codecs
    producers = Counter((row["topic"], row["partition"], row["producerId"]) for row in batches)
    assert counted(arrow.rows(figures["producers"]), "topic", "partition", "producerId") == producers


@pytest.mark.parametrize("name", ["v0-gzip", "v1-lz4", "v1-none"])
def test_wrapper_messages_are_counted_by_what_is_in_them(golden: Path, name: str):
    files = [path for path in golden.rglob("*.log") if name in str(path)][:1]
    assert files
    log = brokerless.open(files[0])
    figures = read_figures(log.paths, on_damage=lambda _: None)
    records = sum(log.segments(on_damage=lambda _: None)["records"].to_pylist())
    assert sum(figures["compression"]["records"].to_pylist()) == records > 0


def test_what_is_before_the_log_start_offset_is_not_counted(figures: Figures):
    users = [row for row in arrow.rows(figures["compression"]) if row["topic"] == "users"]
    whole = brokerless.open(DEMO / "users-0").batches(["count"]).read_all().num_rows
    assert 0 < sum(row["batches"] for row in users) <= whole
    assert (
        np.sum([row["records"] for row in users])
        == brokerless.open(DEMO / "users-0").records(["offset"]).read_all().num_rows
    )
