"""Where coordinators look for names. The judge of hash codes is Java's String; brokers judge in
``tests/kafka/test_coordinators.py``."""

from __future__ import annotations

import random
from base64 import b64encode
from pathlib import Path

import pytest
from tests.internals.written import batch, committed
from tests.kafka.jars import check, run

from brokerless.findings import Finding, Kind
from brokerless.internals.coordinators import Entry, count_of, current, hash_code, name_of, partition_of
from brokerless.internals.groups.positions import read_positions
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from brokerless.internals.tables import history_rows, state_rows
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location

COUNT = 4
GROUPS = [f"group-{number}" for number in range(40)]


def test_hash_codes_and_partitions_are_javas(kafka_jars: Path) -> None:
    rng = random.Random(6)
    units = [*range(0x20, 0x7F), 0xFC, 0x20AC, 0xD83D, 0xDE00, 0xD800, 0xDFFF, 0xFFFF, 0]
    names = ["".join(map(chr, rng.choices(units, k=rng.randrange(40)))) for _ in range(5000)]
    names += [f"{rng.choice('abc')}-{rng.getrandbits(40):x}" for _ in range(5000)]
    names += ["polygenelubricants", "", "😀" * 9]  # the first one's hash code is the least number, of which abs is 0
    stdin = b"\n".join(b64encode(name.encode("utf-16-be", "surrogatepass")) for name in names)
    lines = check(run("NamePartitions", "50", stdin=stdin + b"\n", helper=True)).decode().splitlines()
    for name, line in zip(names, lines, strict=True):
        assert f"{hash_code(name)} {partition_of(name, 50)}" == line, ascii(name)


def test_names_are_those_that_decide_about_the_partition() -> None:
    assert name_of(CONSUMER_OFFSETS, {"group": "g", "topic": "t", "partition": 1}) == "g"
    assert name_of(CONSUMER_OFFSETS, {"groupId": "g", "memberId": "m"}) == "g"
    assert name_of(TRANSACTION_STATE, {"transactionalId": "x"}) == "x"
    assert name_of(SHARE_GROUP_STATE, {"groupId": "g", "topicId": "id", "partition": 2}) == "g:id:2"
    assert name_of(CONSUMER_OFFSETS, {}) is name_of(SHARE_GROUP_STATE, {}) is None


def entries(*pairs: tuple[str, int]) -> list[Entry[None]]:
    return [Entry(name, partition, 0, None) for name, partition in pairs]


def in_place(count: int) -> list[Entry[None]]:
    return entries(*((name, partition_of(name, count)) for name in GROUPS))


def test_the_metadata_says_how_many_partitions_there_are() -> None:
    assert count_of(CONSUMER_OFFSETS, {CONSUMER_OFFSETS: 7}, in_place(COUNT), range(COUNT)) == 7


def test_without_metadata_directories_say_it_where_all_are_there() -> None:
    found = in_place(COUNT)
    assert count_of(CONSUMER_OFFSETS, {}, found, range(COUNT)) == COUNT
    assert count_of(CONSUMER_OFFSETS, {}, found, {0, 1, 3}) is None, "there is a gap"
    assert count_of(CONSUMER_OFFSETS, {}, found, {0, 1, 2}) is None, "the last partition's names need a fourth"
    assert count_of(CONSUMER_OFFSETS, {}, (), range(COUNT)) is None, "nothing proves that there is no fifth"
    assert count_of(CONSUMER_OFFSETS, {}, (), ()) is None
    left = entries(*((name, 0) for name in GROUPS))
    assert count_of(CONSUMER_OFFSETS, {}, [*found, *left], range(COUNT)) == COUNT, "others may have been left"


def test_of_a_known_number_the_hash_decides_and_else_the_newest_record() -> None:
    at = partition_of("group", COUNT)
    stale = (at + 1) % COUNT
    old, new = Entry("group", at, 5, "old"), Entry("group", stale, 9, "new")
    assert current([old, new], COUNT) == ([old], [new])
    assert current([old, new], None) == ([new], [old])
    assert current([new], COUNT) == ([], [new])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory without metadata: each group committed 1 when there was one partition, and half of them 2 since
    there are four."""
    batches: dict[int, list[bytes]] = {number: [] for number in range(COUNT)}
    for at, group in enumerate(GROUPS):
        batches[0].append(batch(at, [committed(group, "orders", 1)]))
    for at, group in enumerate(GROUPS[::2], len(GROUPS)):
        batches[partition_of(group, COUNT)].append(batch(at, [committed(group, "orders", 2)]))
    for number, own in batches.items():
        path = tmp_path / f"{CONSUMER_OFFSETS}-{number}"
        path.mkdir()
        (path / f"{0:020}.log").write_bytes(b"".join(own))
    return tmp_path


def readers(directory: Path) -> list[PartitionPath]:
    return list(resolve(Location(str(directory))).partitions)


def test_tables_have_the_rows_that_a_coordinator_loads(directory: Path) -> None:
    found: list[Finding] = []
    rows = state_rows(readers(directory), ["offsets"], found.append, counts={CONSUMER_OFFSETS: COUNT})["offsets"]
    moved = [group for group in GROUPS if partition_of(group, COUNT)]
    expected = dict.fromkeys(GROUPS[::2], 2) | {group: 1 for group in GROUPS[1::2] if group not in moved}
    assert {row["group"]: row["offset"] for row in rows} == expected
    assert all(row["sourcePartition"] == partition_of(row["group"], COUNT) and row["isCurrent"] for row in rows)
    (finding,) = found
    assert (finding.kind, finding.severity) == (Kind.COORDINATOR_MOVED, "info")
    assert finding.file == str(directory / f"{CONSUMER_OFFSETS}-0")
    lost = len(moved) - len([group for group in GROUPS[::2] if group in moved])
    assert f"records of {len(moved)} groups" in finding.message
    assert f"of {lost} there is no state elsewhere" in finding.message


def test_positions_are_those_of_the_tables(directory: Path) -> None:
    counts = {CONSUMER_OFFSETS: COUNT}
    rows = state_rows(readers(directory), ["offsets"], lambda _: None, counts=counts)["offsets"]
    found: list[Finding] = []
    positions = read_positions(readers(directory), {}, found.append, counts=counts)
    assert {each.group: each.offset for each in positions} == {row["group"]: row["offset"] for row in rows}
    assert [each.kind for each in found] == [Kind.COORDINATOR_MOVED]


def test_without_a_number_the_newest_copy_counts_and_is_not_called_current(directory: Path) -> None:
    own = [each for each in readers(directory) if each.partition != COUNT - 1]
    rows = state_rows(own, ["offsets"], lambda _: None)["offsets"]
    assert len(rows) == len({row["group"] for row in rows}) == len(GROUPS)
    assert {row["isCurrent"] for row in rows} == {None}
    newest = {group for group in GROUPS[::2] if partition_of(group, COUNT) != COUNT - 1}
    assert {row["group"] for row in rows if row["offset"] == 2} == newest


def test_history_has_all_records(directory: Path) -> None:
    rows = list(history_rows(readers(directory), lambda _: None))
    assert len(rows) == len(GROUPS) + len(GROUPS[::2])
    assert {row["isCurrent"] for row in rows} == {None}, "there is no metadata here"
