"""Where a log ends while somebody writes it: judged by the batches that Kafka's reader found in a broker's logs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.golden import broker_data, broker_expected, json_lines, of_type

from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.positions import end_position, first_position
from brokerless.log.storage.location import Location
from brokerless.log.tail import Tail, look, look_committed

DATA = broker_data("clean")
Batch = dict[str, Any]


def batches(name: str) -> list[Batch]:
    """Those of a partition's logs as Kafka's reader found them, in order."""
    found = of_type(json_lines(broker_expected("clean") / name / "expected.jsonl"), "batch")
    return [each for each in found if each["file"].endswith(".log")]


def partition(path: Path) -> PartitionPath:
    (found,) = resolve(Location(str(path))).partitions
    return found


def written(name: str, path: Path) -> Iterator[Batch]:
    """A partition's logs as a broker writes them, batch by batch: gives each batch after it was written."""
    path.mkdir()
    for batch in batches(name):
        at, size = batch["position"], batch["sizeInBytes"]
        with (DATA / name / batch["file"]).open("rb") as source, (path / batch["file"]).open("ab") as target:
            source.seek(at)
            target.write(source.read(size))
        yield batch


@pytest.mark.parametrize("name", ["segments-0", "txn-0", "compacted-none-0", "head-deleted-0"])
def test_the_end_is_after_the_last_batch_with_and_without_what_was_known(name: str, tmp_path: Path) -> None:
    before: Tail | None = None
    for batch in written(name, tmp_path / name):
        paths = partition(tmp_path / name)
        before = look(paths, before)
        assert before.end_offset == batch["lastOffset"] + 1
        assert look(paths) == before
        assert look(paths, before) is before


def test_the_end_is_found_near_the_last_entry_of_the_index() -> None:
    for name in ("segments-0", "codec-none-1", "append-time-0", "prealloc-0", "empty-0"):
        last = batches(name)[-1:]
        assert look(partition(DATA / name)).end_offset == (last[0]["lastOffset"] + 1 if last else 0)


@pytest.mark.parametrize("rest", [b"", bytes(4000)], ids=["cut-off", "zeros"])
def test_what_is_not_whole_is_not_there_yet(rest: bytes, tmp_path: Path) -> None:
    name, log = "prealloc-0", "00000000000000000000.log"
    content, found, chance = (DATA / name / log).read_bytes(), batches("prealloc-0"), random.Random(5)
    (tmp_path / name).mkdir()
    before: Tail | None = None
    for at in sorted(chance.sample(range(len(content)), 60)):
        (tmp_path / name / log).write_bytes(content[:at] + rest)
        before = look(partition(tmp_path / name), before)
        whole = [each for each in found if each["position"] + each["sizeInBytes"] <= at]
        assert before.end_offset == (whole[-1]["lastOffset"] + 1 if whole else 0)


def test_a_wrong_checksum_hides_the_last_batches_but_not_one_in_the_middle(tmp_path: Path) -> None:
    name, log = "segments-0", "00000000000000000000.log"
    content = bytearray((DATA / name / log).read_bytes())
    found = [each for each in batches(name) if each["file"] == log]
    (tmp_path / name).mkdir()
    for wrong, last in (([-1], -2), ([-1, -2], -3), ([3], -1), ([0], -1)):
        damaged = bytearray(content)
        for each in wrong:
            damaged[found[each]["position"] + found[each]["sizeInBytes"] - 1] ^= 1
        (tmp_path / name / log).write_bytes(damaged)
        assert look(partition(tmp_path / name)).end_offset == found[last]["lastOffset"] + 1


def test_a_log_that_was_cut_back_and_written_on_is_read_again(tmp_path: Path) -> None:
    name, log = "prealloc-0", "00000000000000000000.log"
    content = (DATA / name / log).read_bytes()
    first, *rest = [each for each in batches(name) if each["file"] == log]
    (tmp_path / name).mkdir()
    path = tmp_path / name / log
    path.write_bytes(content[: rest[4]["position"]])
    before = look(partition(path.parent))
    other = content[rest[7]["position"] :]
    path.write_bytes(content[: first["sizeInBytes"]] + other)
    assert look(partition(path.parent), before).end_offset == rest[-1]["lastOffset"] + 1
    path.write_bytes(content[: first["sizeInBytes"]])
    assert look(partition(path.parent), before).end_offset == first["lastOffset"] + 1


@pytest.mark.parametrize("name", ["txn-0", "txn-1", "compacted-txn-0"])
def test_the_last_stable_offset_is_the_first_of_the_earliest_open_transaction(name: str, tmp_path: Path) -> None:
    before: Tail | None = None
    open_: dict[int, int] = {}
    begun_later = dict.fromkeys((7, 20))
    for step, batch in enumerate(written(name, tmp_path / name)):
        producer = batch["producerId"]
        if batch["isControl"]:
            open_.pop(producer, None)
        elif batch["isTransactional"]:
            open_.setdefault(producer, batch["baseOffset"])
        paths, end = partition(tmp_path / name), batch["lastOffset"] + 1
        before = look_committed(paths, before)
        assert (before.end_offset, before.stable_offset) == (end, min(open_.values(), default=end))
        for at, later in begun_later.items():
            if step >= at:  # followed from a stable offset on, as a query that starts again does
                start = before.stable_offset if later is None else None
                begun_later[at] = look_committed(paths, later, start)
                assert begun_later[at].stable_offset == before.stable_offset


@pytest.mark.parametrize("name", ["segments-0", "txn-0", "compacted-lz4-0", "codec-none-1"])
def test_positions_divide_a_segment_exactly_where_offsets_do(name: str) -> None:
    found = batches(name)
    for segment in partition(DATA / name).segments:
        own = [each for each in found if each["file"] == Path(segment.log.path).name]
        with segment.log.location.open() as file:
            for batch in own:
                for offset in {batch["baseOffset"], batch["lastOffset"], batch["lastOffset"] + 1}:
                    since = [each["position"] for each in own if each["lastOffset"] >= offset]
                    until = [each for each in own if each["baseOffset"] < offset]
                    end = until[-1]["position"] + until[-1]["sizeInBytes"] if until else 0
                    assert first_position(file, segment, offset) == (since[0] if since else file.size)
                    assert end_position(file, segment, offset) == end
