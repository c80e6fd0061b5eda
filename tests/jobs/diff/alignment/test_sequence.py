"""A mirror with other offsets: offset syncs as Kafka's own classes write them, and planted differences."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.internals.connect.written import made
from tests.internals.written import batch, write_partition
from tests.jobs.diff.planted import START, Batches, ModelBatch, ModelRecord, random_log

import brokerless
from brokerless.errors import UsageError
from brokerless.jobs.diff.alignment import sequence
from brokerless.jobs.diff.partition_diff import PartitionDiff

SYNCS = "mm2-offset-syncs.west.internal"
Records = list[ModelRecord]


def sync(topic: str, partition: int, source: int, target: int) -> tuple[bytes, bytes]:
    """Key and value, as ``OffsetSync`` writes them."""
    name = topic.encode()
    return struct.pack(f">h{len(name)}si", len(name), name, partition), struct.pack(">qq", source, target)


def test_syncs_are_written_here_as_by_mirror_maker(kafka_jars: Path) -> None:
    first = next(each for each in made() if each.table == "mirrorOffsetSyncs")
    assert sync("orders", 0, 120, 118) == (first.key, first.value)


def write_log(directory: Path, topic: str, batches: Batches) -> Path:
    partition = directory / f"{topic}-0"
    partition.mkdir(parents=True)
    path = partition / f"{batches[0].first:020}.log"
    path.write_bytes(b"".join(each.encoded() for each in batches))
    return directory


def later(log: Batches, offsets: int) -> Batches:
    return [
        replace(each, records=tuple(replace(one, offset=one.offset + offsets) for one in each.records)) for each in log
    ]


def mirrored(records: Records, shift: int = -7, size: int = 9) -> Batches:
    """Records as a mirror has them: without gaps, from another offset on, in other batches."""
    first = max(0, records[0].offset + shift)
    moved = [replace(each, offset=first + number) for number, each in enumerate(records)]
    return [ModelBatch(tuple(moved[at : at + size]), "lz4") for at in range(0, len(moved), size)]


def compare(
    tmp_path: Path,
    log: Batches,
    change: Callable[[Records], Records] = list,
    anchors: Callable[[Records], list[tuple[int, int]]] | None = None,
    topic: str = "west.topic",
    allow: Sequence[str] = (),
) -> tuple[PartitionDiff, Records]:
    records = [one for each in log for one in each.records if each.marker is None]
    right = write_log(tmp_path / "right", topic, mirrored(change(records)))
    left = write_log(tmp_path / "left", "topic", log)
    pairs = [(records[0].offset, 0)] if anchors is None else anchors(records)
    write_partition(tmp_path / "syncs", SYNCS, batch(0, [sync("topic", 0, *each) for each in pairs]))
    (partition,) = brokerless.diff(left, right, offset_syncs=tmp_path / "syncs", allow=allow).partitions
    return partition, records


@pytest.mark.parametrize("topic", ["topic", "west.topic", "west_topic"])
@pytest.mark.parametrize("seed", range(6))
def test_a_mirror_is_the_same(seed: int, topic: str, tmp_path: Path) -> None:
    partition, records = compare(tmp_path, random_log(random.Random(seed)), topic=topic)
    assert (partition.is_same, partition.causes) == (True, {})
    assert partition.same == partition.records == len(records)


PLANTS: dict[str, tuple[Callable[[Records], Records], dict[str, int]]] = {
    "missing": (lambda each: [*each[:20], *each[23:]], {"missing": 3}),
    "extra": (lambda each: [*each[:20], ModelRecord(0, START, b"new", b"new"), *each[20:]], {"extra": 1}),
    "duplicate": (lambda each: [*each[:25], *each[21:]], {"duplicate": 4}),
    "changed": (lambda each: [*each[:20], replace(each[20], value=b"other"), *each[21:]], {"changed": 1}),
    "changed at first": (lambda each: [replace(each[0], value=b"other"), *each[1:]], {"changed": 1}),
    "timestamps": (lambda each: [*each[:20], replace(each[20], timestamp=5), *each[21:]], {"timestamps": 1}),
    "headers": (lambda each: [*each[:20], replace(each[20], headers=(("new", b"1"),)), *each[21:]], {"headers": 1}),
    "order": (lambda each: [*each[:20], each[21], each[20], *each[22:]], {"order": 2}),
    "order of others": (lambda each: [*each[:20], each[24], *each[21:24], each[20], *each[25:]], {"order": 2}),
    "order of one": (lambda each: [*each[:20], *each[21:27], each[20], *each[27:]], {"order": 2}),
    "order at the end": (lambda each: [*each[:-2], each[-1], each[-2]], {"order": 2}),
    "lagging": (lambda each: each[:-6], {"lagging": 6}),
    "retention": (lambda each: each[11:], {"retention": 11}),
}


@pytest.mark.parametrize("window", [1 << 16, 40])
@pytest.mark.parametrize("name", PLANTS)
@pytest.mark.parametrize("seed", range(4))
def test_a_planted_difference_is_found_and_nothing_else(
    seed: int, name: str, window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequence, "WINDOW", window)
    change, causes = PLANTS[name]
    log = [replace(each, producer=(-1, -1, -1)) for each in random_log(random.Random(f"{name} {seed}"))]
    partition, records = compare(tmp_path, later(log, 500), change)
    assert partition.causes == causes
    assert partition.is_same == (name == "retention")
    if name in ("missing", "changed", "timestamps", "headers"):
        assert partition.differences[0].first_offset == records[20].offset


def traced(record: ModelRecord) -> ModelRecord:
    return replace(record, headers=(*record.headers, ("traceparent", b"00")))


def stamped(record: ModelRecord) -> ModelRecord:
    return replace(record, timestamp=record.timestamp + 3_000_000)


@pytest.mark.parametrize(("on_the_way", "allow", "cause"), [
    ([traced], [], "headers"),
    ([stamped], [], "timestamps"),
    ([traced, stamped], [], "headers"),
    ([traced, stamped], ["headers"], "timestamps"),
    ([traced, stamped], ["headers", "timestamps"], "headers"),
])  # fmt: skip
def test_what_all_records_got_on_the_way_is_their_cause(
    on_the_way: list[Callable[[ModelRecord], ModelRecord]], allow: list[str], cause: str, tmp_path: Path
) -> None:
    """And a record that was lost among them is missing, as by offsets."""

    def change(records: Records) -> Records:
        for each in on_the_way:
            records = [each(one) for one in records]
        return [*records[:50], *records[51:]]

    partition, records = compare(tmp_path, random_log(random.Random(7)), change, allow=allow)
    assert partition.causes == {cause: len(records) - 1, "missing": 1}
    lost = next(each for each in partition.differences if each.cause == "missing")
    assert lost.first_offset == records[50].offset


def test_both_records_of_a_difference_are_shown(tmp_path: Path) -> None:
    partition, _ = compare(tmp_path, random_log(random.Random(7)), lambda each: [traced(each[0]), *each[1:]])
    assert "other headers" in str(partition.differences[0])
    assert "traceparent on the right" in str(partition.differences[0])


@pytest.mark.parametrize("at", [0, 1, 200, 399])
def test_of_records_with_one_key_and_value_the_lost_one_is_missing(at: int, tmp_path: Path) -> None:
    """As of a heartbeat: what tells them from each other is their time."""
    records = [ModelRecord(offset, START + offset, b"host", b"alive") for offset in range(400)]
    log = [ModelBatch(tuple(records[first : first + 10])) for first in range(0, 400, 10)]
    partition, _ = compare(tmp_path, log, lambda each: [*each[:at], *each[at + 1 :]])
    assert partition.causes == {"lagging" if at == 399 else "missing": 1}
    assert partition.differences[0].first_offset == at


def test_without_a_record_in_common_it_goes_on_at_the_next_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror lost more records than the window has, and the source has others in their place."""
    monkeypatch.setattr(sequence, "WINDOW", 30)
    records = [ModelRecord(offset, START + offset, b"k", b"%d" % offset) for offset in range(400)]
    log = [ModelBatch(tuple(records[at : at + 10])) for at in range(0, 400, 10)]

    def lose(each: Records) -> Records:
        others = [ModelRecord(0, START, b"o", b"other %d" % number) for number in range(50)]
        return [*each[:100], *others, *each[200:]]

    partition, _ = compare(tmp_path, log, lose, lambda _: [(0, 0), (99, 99), (200, 150)])
    assert partition.causes == {"missing": 100, "extra": 50}
    assert partition.same == 300


def test_aborted_records_and_markers_are_not_mirrored(tmp_path: Path) -> None:
    log = random_log(random.Random(5))
    at = 11
    data = replace(log[at], producer=(99, 0, 0), is_transactional=True)
    marker_offset = data.records[-1].offset + 1
    marker = ModelBatch((ModelRecord(marker_offset, START, None, None),), producer=(99, 0, -1), marker=False)
    aborted = {one.offset for one in data.records}
    log = [*log[:at], data, replace(marker, is_transactional=True), *later(log[at + 1 :], 1)]
    partition, records = compare(tmp_path, log, lambda each: [one for one in each if one.offset not in aborted])
    assert partition.causes == {"aborted": len(aborted)}
    assert partition.is_same
    assert partition.same == len(records) - len(aborted)


def test_damage_is_no_difference(tmp_path: Path) -> None:
    log = random_log(random.Random(9))
    compare(tmp_path, log)
    (path,) = (tmp_path / "right" / "west.topic-0").glob("*.log")
    batches = brokerless.open(path.parent).batches(["position", "sizeInBytes", "count"]).read_all().to_pylist()
    data = bytearray(path.read_bytes())
    data[batches[4]["position"] + batches[4]["sizeInBytes"] - 1] ^= 1
    path.write_bytes(data)
    found = brokerless.diff(tmp_path / "left", tmp_path / "right", offset_syncs=tmp_path / "syncs")
    (partition,) = found.partitions
    assert (partition.causes, partition.differences, partition.is_same) == ({}, (), False)
    assert [(each.side, each.records) for each in partition.uncompared] == [("right", batches[4]["count"])]


def test_what_was_not_mirrored_and_what_is_no_topic_of_syncs(tmp_path: Path) -> None:
    compare(tmp_path, random_log(random.Random(2)))
    write_log(tmp_path / "left", "other", random_log(random.Random(3)))
    found = brokerless.diff(tmp_path / "left", tmp_path / "right", offset_syncs=tmp_path / "syncs")
    assert {each.name: each.problem for each in found.partitions} == {"other-0": "not-restored", "topic-0": None}
    assert "the offset syncs have nothing of it: not mirrored" in next(found.lines())
    with pytest.raises(UsageError, match="there is no topic of MirrorMaker's offset syncs"):
        brokerless.diff(tmp_path / "left", tmp_path / "right", offset_syncs=tmp_path / "left")
    write_log(tmp_path / "right", "east.topic", random_log(random.Random(2)))
    with pytest.raises(UsageError, match="may be mirrors of topic"):
        brokerless.diff(tmp_path / "left", tmp_path / "right", offset_syncs=tmp_path / "syncs")
    sides = tmp_path / "left" / "topic-0", tmp_path / "right" / "west.topic-0"
    assert brokerless.diff(*sides, offset_syncs=tmp_path / "syncs").is_same


def test_another_log_is_no_mirror(tmp_path: Path) -> None:
    def other(each: Records) -> Records:
        return [replace(one, value=b"other") for one in each]

    partition, _ = compare(tmp_path, later(random_log(random.Random(4)), 500), other)
    assert (partition.problem, partition.is_same) == ("no-common-offset", False)
    assert partition.explanation == "no record in common: no mirror of this log"


def test_of_several_disks_the_replica_that_counts_is_compared(tmp_path: Path) -> None:
    log = random_log(random.Random(6))
    compare(tmp_path, log)
    short = write_log(tmp_path / "short", "west.topic", mirrored([one for each in log[:5] for one in each.records]))
    for disks in ([short, tmp_path / "right"], [tmp_path / "right", short]):
        (partition,) = brokerless.diff(
            [tmp_path / "left", write_log(tmp_path / f"{len(list(tmp_path.iterdir()))}", "topic", log[:3])], disks,
            offset_syncs=tmp_path / "syncs",
        ).partitions  # fmt: skip
        assert partition.is_same
        assert partition.same == sum(len(each.records) for each in log)
