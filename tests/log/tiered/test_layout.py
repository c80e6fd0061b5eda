from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.log.tiered import cases, golden, rows_of, summary_of

import brokerless
from brokerless import UnreadableError, UsageError
from brokerless.log.tiered.layout import parse_layout


def test_names() -> None:
    layout = parse_layout("{topic}/{partition}/{offset}-*.log")
    found = layout.parse("orders.v1/3/00042-node7.log")
    assert found is not None
    assert (found.topic, found.partition, found.start_offset, found.kind) == ("orders.v1", 3, 42, "log")
    index = layout.parse("orders.v1/3/00042-node7.timeindex")
    assert index is not None
    assert index.kind == "timeindex"
    for other in ("orders/3/42.log", "orders/03/42-a.log", "a/orders/3/42-a.log", "orders/3/42-a.txt", "../3/42-a.log"):
        assert layout.parse(other) is None
    dashed = parse_layout("backup/{topic}-{partition}/{offset}.log").parse("backup/a-b-7/0.log")
    assert dashed is not None
    assert (dashed.topic, dashed.partition) == ("a-b", 7)


@pytest.mark.parametrize(
    "text",
    ["", "{topic}", "{topic}/{partition}/{offset}/{offset}", "{topic}/{part}/{offset}", "/{topic}/{partition}/{offset}",
     "**/{topic}/{partition}/{offset}", "{topic}//{partition}/{offset}"],
)  # fmt: skip
def test_what_is_no_layout(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="layout: "):
        brokerless.open(tmp_path, layout=text)


@pytest.mark.parametrize("has_indexes", [True, False])
def test_copies_of_segments(tmp_path: Path, has_indexes: bool) -> None:
    """What LocalTieredStorage wrote, under other names."""
    own = [each for each in cases() if each.set == "local"]
    suffixes = ("log", "index", "timeindex", "txnindex") if has_indexes else ("log",)
    for case in own:
        (source,) = (case.bucket / "kafka-tiered-storage").glob(f"{case.topic}-{case.partition}-*")
        for file in source.iterdir():
            if file.suffix[1:] in suffixes:
                target = tmp_path / "2026" / case.topic / f"p{case.partition}" / f"{file.name[:20]}-x{file.suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)
    (tmp_path / "2026" / "notes.txt").write_text("x")
    log = brokerless.open(tmp_path, layout="2026/{topic}/p{partition}/{offset}-*.log")
    assert {each.name for each in log.topics} == {each.topic for each in own}
    for case in own:
        rows = rows_of(log.partition(case.topic, case.partition))
        assert summary_of(rows) == case.expected["read_uncommitted"]["remote"]
    assert [each for each in log.verify() if each.severity != "info"] == []


@pytest.mark.parametrize("layout", ["{topic}/x/{partition}/{offset}.log", "{topic}/{partition}/{offset}.log"])
def test_a_pattern_that_nothing_matches(layout: str) -> None:
    with pytest.raises(UnreadableError, match=r"nothing here has a name as layout=.*; there are append-time-mf5dYK"):
        brokerless.open(golden() / "plain" / "bucket", layout=layout)
