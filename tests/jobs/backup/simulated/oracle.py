"""Backs up simulated brokers while they work, and compares the snapshot with what they have had."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.jobs.backup.simulated.brokers import COMPACTED, TRANSACTIONS, Brokers, Partition, Place, Transaction
from tests.jobs.backup.simulated.logs import Batch, Row

import brokerless
from brokerless import internals
from brokerless.internals.coordinators import partition_of
from brokerless.jobs.backup import closing, cut
from brokerless.jobs.backup.cut import BackupCut
from brokerless.jobs.backup.job import BackupResult
from brokerless.log.backups.snapshot import SnapshotPartition
from brokerless.log.storage import location
from brokerless.log.storage.files import LocalFile
from brokerless.log.storage.location import Location
from brokerless.progress import ignore

STEPS = 400
"""How many the brokers do in one run, at most; they go on while they are waited for."""


@contextmanager
def working(brokers: Brokers, seed: int) -> Generator[list[BackupCut]]:
    """Gives the cuts that are taken. The brokers do some steps at each call that lists, opens or reads their files."""
    chance, is_inside = random.Random(seed), False
    pace, left = chance.choice((0.05, 0.2, 0.6, 1.5)), STEPS
    listed, opened, read = location._local_entries, Location.open, LocalFile.read

    def go_on(path: str) -> None:
        nonlocal is_inside, left
        if is_inside or left < 0 or not path.startswith(f"{brokers.root}/"):
            return
        is_inside, steps = True, int(pace) + (chance.random() < pace % 1)
        left -= steps
        brokers.run(steps)
        is_inside = False

    def entries(directory: Location) -> Any:
        go_on(directory.path)
        return listed(directory)

    def opens(self: Location) -> Any:
        go_on(self.path)
        return opened(self)

    def reads(self: LocalFile, position: int, length: int) -> Any:
        go_on(self.path)
        return read(self, position, length)

    now = 0.0

    def waits(seconds: float) -> None:
        nonlocal now
        now += seconds
        brokers.run(10)

    def clock() -> float:
        return now

    def take(*args: Any) -> BackupCut:
        cuts.append(cut.take_cut(*args))
        return cuts[-1]

    cuts: list[BackupCut] = []
    with (
        mock.patch("brokerless.jobs.backup.plan.take_cut", take),
        mock.patch.object(location, "_local_entries", entries),
        mock.patch.object(Location, "open", opens),
        mock.patch.object(LocalFile, "read", reads),
        mock.patch("time.sleep", waits),
        mock.patch("time.monotonic", clock),
        mock.patch.object(closing, "_PATIENCE_S", 60 * closing._PAUSE_S),
        mock.patch("brokerless.jobs.backup.plan.is_running", return_value=True),
        mock.patch("os.fsync"),
    ):
        yield cuts


def check(root: Path, seed: int, runs: int = 1, seen: Counter[str] | None = None) -> Iterator[str]:
    """What is wrong with snapshots of brokers that work; the first is of logs that were written before. ``seen``: what
    there was to see is counted there."""
    brokers, place = Brokers(root / "disks", seed), root / "backup"
    brokers.run(250)
    for number in range(runs):
        begun = brokers.tick
        with working(brokers, seed + 1000 * number) as cuts:
            result = brokerless.backup(brokers.disks, place, name=f"run-{number}")
        assert cuts[0].metadata is not None
        ends = {Path(path).name: end for path, end in cuts[0].ends.items()}
        if seen is not None and result.snapshot.cut is not None:
            seen["transactions closed"] += result.snapshot.cut.closed
            seen["left open"] += len(result.snapshot.cut.open)
            seen["snapshots"] += 1
            seen["with open ones"] += bool(result.snapshot.cut.open)
        for wrong in _differences(brokers, place, result, begun, cuts[0].metadata.end_offset):
            yield f"seed {seed}, run {number}: {wrong}"
        for wrong in _older_transactions(brokers, result, ends, begun):
            yield f"seed {seed}, run {number}: {wrong}"


def _differences(brokers: Brokers, place: Path, result: BackupResult, begun: int, first_end: int) -> Iterator[str]:
    snapshot = result.snapshot
    assert snapshot.metadata is not None
    stored = {each.place: each for each in snapshot.partitions}
    opened = brokerless.open(f"{place}@{snapshot.id}")
    logs = {each.topic_partition: each for each in opened.partitions}
    ends = {(each.topic, each.partition): each for each in snapshot.partitions}
    copied: dict[Place, Sequence[Batch]] = {}
    named = [str(each) for each in result.findings] + [f"{each.topic}-{each.partition}" for each in snapshot.missing]
    for each in brokers.ever:
        own = stored.get((each.topic_id, each.number))
        if own is not None:
            if own.lost:
                yield f"{each.name} has lost {own.lost}"
            rows = _rows(logs[each.place])
            copied[each.place] = _version_of(each, own, rows, begun)[0]
            yield from (f"{each.name}: {wrong}" for wrong in _wrong_log(each, own, rows, begun))
        elif not any(each.name in text for text in named) and any(
            each.described < end <= each.removed for end in (first_end, snapshot.metadata.end_offset)
        ):
            yield f"{each.name} is neither found nor named"
    for each in result.findings:
        if each.severity == "error" and not (each.kind == "partition-missing" and snapshot.missing):
            yield f"a finding: {each}"
    own = snapshot.cut
    assert own is not None
    listed = {one.transactional_id for one in own.open}, {one.producer_id for one in own.open}
    for each in brokers.transactions:
        if each.name not in listed[0] and each.producer not in listed[1]:
            yield from _wrong_transaction(brokers, each, ends, copied)
    for row in internals.state(opened, ["offsets"])["offsets"].to_pylist():
        partition = ends.get((row["topic"], row["partition"]))
        if partition is not None and row["offset"] > partition.end_offset:
            yield f"{row['group']} is at {row['offset']} of {partition.name}, which ends at {partition.end_offset}"


def _older_transactions(brokers: Brokers, result: BackupResult, ends: dict[str, int], begun: int) -> Iterator[str]:
    """Transactions that a log had decided at the cut, and their coordinator's log had not: it would give out epochs of
    producers again. ``ends``: where each log ended at the cut, by its name."""
    stored = {(each.topic, each.partition): each for each in result.snapshot.partitions}
    kept = {each.place for each in brokers.ever if each.versions[-1][0] <= begun and each.topic not in COMPACTED}
    for each in brokers.transactions:
        home = stored.get((TRANSACTIONS, partition_of(each.name, 2)))
        if home is not None and (each.prepared is None or each.prepared >= home.end_offset):
            for place, offset in each.offsets.items():
                if place in kept and 0 <= offset < ends.get(f"{place[0]}-{place[1]}", -1):
                    yield f"the log of transactions is older than the transaction of {each.name}, {each.offsets}"


def _rows(log: brokerless.Log) -> list[Row]:
    columns = ["offset", "key", "value"]
    return [
        tuple(row.values())
        for batch in log.records(columns, control=True, on_damage=ignore)
        for row in batch.to_pylist()
    ]


def _wrong_log(partition: Partition, own: SnapshotPartition, rows: list[Row], begun: int) -> Iterator[str]:
    before = [each for each in partition.known if each[0] <= begun][-1:]
    since = [*before, *(each for each in partition.known if each[0] > begun)]
    if own.end_offset < min([each[2] for each in since]):
        yield f"it ends at {own.end_offset}, and {since[0][2]} was committed before"
    if wrong := _version_of(partition, own, rows, begun)[1]:
        yield f"[{own.start_offset}, {own.end_offset}): {wrong}"
    if partition.topic not in COMPACTED and own.start_offset < min(each[1] for each in since):
        yield f"it begins at {own.start_offset}, which was deleted"


def _version_of(
    partition: Partition, own: SnapshotPartition, rows: list[Row], begun: int
) -> tuple[Sequence[Batch], str | None]:
    """Return the batches of the version of a log that was copied, or of the last one and what is wrong with it."""
    alive = [
        version
        for at, (_, version) in enumerate(partition.versions)
        if at + 1 == len(partition.versions) or partition.versions[at + 1][0] > begun
    ]
    wrong = [(version, _wrong_rows(partition, version, own, rows)) for version in alive]
    return next((each for each in reversed(wrong) if each[1] is None), wrong[-1])


def _wrong_rows(partition: Partition, version: Sequence[Any], own: SnapshotPartition, rows: list[Row]) -> str | None:
    expected = [row for batch in version for row in batch.rows if own.start_offset <= row[0] < own.end_offset]
    if own.end_offset not in {0, *(batch.last + 1 for batch in version)}:
        return f"no batch ends at {own.end_offset}"
    if partition.topic not in COMPACTED:
        return None if rows == expected else _first_difference(expected, rows)
    if set(rows) - set(expected):
        return f"records that the log never had: {sorted(set(rows) - set(expected))[:3]}"
    markers = {batch.first for batch in version if batch.is_marker}
    aborted = _undone(version, own.end_offset)
    last, found = ({row[1]: row for row in each if row[0] not in markers | aborted} for each in (expected, rows))
    changed = [key for key in last if found.get(key) != last[key]]
    return f"of {changed[:3]} it is not the last record" if changed else None


def _undone(version: Sequence[Any], end: int) -> set[int]:
    """The offsets of records of transactions that are aborted or open."""
    found: set[int] = set()
    pending: dict[int, list[int]] = {}
    for batch in version:
        if batch.last >= end:
            break
        if batch.is_marker:
            own = pending.pop(batch.producer, [])
            found.update([] if batch.rows[0][1] == b"\0\0\0\1" else own)
        elif batch.is_transactional:
            pending.setdefault(batch.producer, []).extend(row[0] for row in batch.rows)
    return found.union(*pending.values())


def _first_difference(expected: list[Row], rows: list[Row]) -> str:
    for one, other in zip([*expected, None], [*rows, None], strict=False):
        if one != other:
            return f"{other} where {one} was"
    return "?"


def _is_deleted(brokers: Brokers, each: Transaction, place: tuple[str, int], own: SnapshotPartition) -> bool:
    """Return whether retention has deleted all of a transaction before it was a partition's turn."""
    (partition,) = [one for one in brokers.ever if one.place == place and one.topic_id == own.topic_id]
    end = each.offsets.get(place, 1 << 60)
    return each.data.get(place, -1) < own.start_offset and end < partition.known[-1][1]


def _wrong_transaction(
    brokers: Brokers, each: Transaction, stored: dict[Place, SnapshotPartition], copied: dict[Place, Sequence[Batch]]
) -> Iterator[str]:
    """A transaction that is decided in some of its partitions and not in others, or in the log of its coordinator and
    not in all of them; and one that is open, and is not listed. ``copied``: the batches of what was copied."""

    def has(place: Place, offset: int) -> bool:
        return offset < stored[place].end_offset and any(
            one.first == offset and one.producer == each.producer for one in copied[place]
        )

    places = [place for place in each.places if place in stored and each.offsets.get(place) != -1]
    places = [place for place in places if not _is_deleted(brokers, each, place, stored[place])]
    is_decided = {place: has(place, each.offsets.get(place, 1 << 60)) for place in places}
    own = [one for one in stored if one[0] == TRANSACTIONS]
    home = (TRANSACTIONS, partition_of(each.name, 2))
    is_prepared = home in own and each.prepared is not None and each.prepared < stored[home].end_offset
    if (is_prepared or any(is_decided.values())) and not all(is_decided.values()):
        yield f"the transaction of {each.name}, {each.offsets}, is prepared: {is_prepared}, decided in {is_decided}"
    for place, offset in each.data.items():
        own = stored.get(place)
        is_there = own is not None and own.start_offset <= offset and has(place, offset)
        is_open = is_there and not is_decided.get(place, True)
        if is_open and each.producer not in {one.producer_id for one in stored[place].open_transactions}:
            yield f"the transaction of {each.name} is open in {place}, and not listed"
