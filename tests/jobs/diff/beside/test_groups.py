"""A group's position on the other side is at the same record, earlier, later, past the end, or on one side only."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.errors import UnreadableError
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.internals.groups.positions import GroupPosition, LostPosition, read_positions
from brokerless.jobs.diff.beside.groups import GroupDiff
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[4] / "demo" / "data"
OFFSETS = "__consumer_offsets-0"


def position() -> GroupPosition:
    """The one in the demo: of the group ``shipping``, offset 500 of orders-2."""
    (found,) = read_positions(
        resolve(Location(str(DEMO / OFFSETS))).partitions, {}, lambda _: None, counts={"__consumer_offsets": 1}
    )
    assert (found.group, found.topic, found.partition, found.offset) == ("shipping", "orders", 2, 500)
    return found


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DEMO, tmp_path / "copy"))


def move(disk: Path, offset: int | None) -> Path:
    """Another position is committed in a copy; None: it is deleted."""
    key, value = LostPosition(position(), 0, offset or 0).record("end", 1_800_000_000_000)
    end = brokerless.open(disk).partition("__consumer_offsets", 0).end_offset
    assert end is not None
    builder = BatchBuilder(attributes=BatchAttributes(end))
    builder.append(1_800_000_000_000, key, None if offset is None else value, [], end)
    with sorted((disk / OFFSETS).glob("*.log"))[-1].open("ab") as file:
        file.write(builder.close())
    return disk


def compared(disk: Path, **options: Any) -> GroupDiff:
    (group,) = brokerless.diff(DEMO, disk, only=["groups"], **options).groups
    return group


def test_a_position_at_the_same_record(copy: Path) -> None:
    group = compared(copy)
    assert (group.group, group.positions, group.same, group.is_same) == ("shipping", 1, 1, True)
    assert str(group) == "group shipping: 1 of 1 position at the same record"


@pytest.mark.parametrize(("offset", "cause", "text"), [
    (460, "earlier", "orders-2 40 records earlier (read again)"),
    (501, "later", "orders-2 1 record later (lost to the group)"),
    (1296, "later", "orders-2 796 records later (lost to the group)"),
    (1297, "past-end", "orders-2 past the end, at offset 1297"),
    (None, "no-position", "orders-2 without a position on the right"),
])  # fmt: skip
def test_another_position_says_what_the_group_reads_again_or_loses(
    offset: int | None, cause: str, text: str, copy: Path
) -> None:
    group = compared(move(copy, offset))
    assert [each.cause for each in group.differences] == [cause]
    assert str(group) == f"group shipping: 0 of 1 position at the same record; {text}"
    assert not brokerless.diff(DEMO, copy).is_same
    assert compared(copy, allow=[cause]).is_same


def test_positions_that_no_record_is_between_are_the_same(copy: Path) -> None:
    """As the cleaner took the records between them."""
    (log,) = (copy / "orders-2").glob("00000000000000000452.log")
    batches = (
        brokerless.open(log).batches(["position", "sizeInBytes", "baseOffset", "lastOffset"]).read_all().to_pylist()
    )
    inside = next(each for each in batches if each["baseOffset"] <= 500 <= each["lastOffset"])
    data = log.read_bytes()
    end = inside["position"] + inside["sizeInBytes"]
    log.write_bytes(data[: inside["position"]] + data[end:])
    for index in (copy / "orders-2").glob("*452.*index"):
        index.unlink()
    assert compared(move(copy, inside["lastOffset"] + 1)).is_same


def test_groups_are_compared_by_topics(copy: Path) -> None:
    move(copy, 460)
    assert brokerless.diff(DEMO, copy, topics=["users"]).groups == ()
    (group,) = brokerless.diff(DEMO, copy, topics=["orders"]).groups
    assert not group.is_same


def test_a_side_without_groups_is_not_compared_unless_it_is_requested(tmp_path: Path) -> None:
    without = shutil.copytree(DEMO, tmp_path / "copy", ignore=shutil.ignore_patterns(OFFSETS))
    assert brokerless.diff(DEMO, without).is_same
    with pytest.raises(UnreadableError, match="no partition of __consumer_offsets"):
        brokerless.diff(DEMO, without, only=["groups"])
    with pytest.raises(UnreadableError, match="no partition of __cluster_metadata"):
        brokerless.diff(DEMO / "orders-0", DEMO / "orders-0", only=["settings"])
