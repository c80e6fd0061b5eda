"""Copies of partitions that are damaged in any way: what one of them has is in the merged log, and nothing else is."""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.golden import broker_data, of_type
from tests.jobs.replicas import Batch, ModelReplica, random_cluster, shared, write_disks
from tests.jobs.salvage.test_job import positions, records
from tests.kafka.oracle import dump_everything, read_logs
from tests.random_damage import damage_at_random
from tests.sources import sources_of

import brokerless
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.jobs.merge.job import Merge, MergeResult, merge, plan
from brokerless.log.checkpoint.offset_checkpoints import PartitionOffsets, write_checkpoints
from brokerless.log.config import LogConfig

pytestmark = pytest.mark.xdist_group("merged-copies")
SEEDS = 25
PARTITIONS = [
    path
    for broker in (broker_data("clean"), broker_data("old-formats"))
    for path in sorted(broker.glob("*-*"))
    if path.is_dir() and sum(log.stat().st_size for log in path.glob("*.log"))
]
REPLICAS = Path(__file__).parents[3] / "demo" / "replicas"

Place = tuple[str, int, int]


@dataclass(frozen=True)
class Case:
    """``history``: the records that count, by offset. ``sound``: offsets of batches of it that a copy still has."""

    result: MergeResult
    findings: list[Finding]
    history: dict[int, tuple[object, ...]]
    intact: set[int]


def run(disks: list[Path], to: Path, how: Merge | None = None) -> tuple[list[MergeResult], list[Finding]]:
    findings: list[Finding] = []
    tasks = plan(sources_of(*disks), to, how or Merge(LogConfig(segment_bytes=1 << 20)))
    return list(merge(tasks, findings.append)), findings


def places(partition: Path) -> list[tuple[Path, int, int, int, int]]:
    return positions(partition) if any(log.stat().st_size for log in partition.glob("*.log")) else []


def intact(before: list[tuple[Path, int, int, int, int]], originals: dict[Path, bytes]) -> set[tuple[int, int]]:
    """First and last offsets of the batches that are still in their files."""
    found: set[tuple[int, int]] = set()
    for log, position, size, first, last in before:
        data = log.read_bytes() if log.exists() else b""
        batch = originals[log][position : position + size]
        if len(data) == len(originals[log]):  # what was moved into another batch may be part of its records
            data = data[position : position + size]
        if batch in data:
            found.add((first, last))
    return found


def of_a_cluster(seed: int, directory: Path) -> Case:
    """Copies that diverged, each damaged or not."""
    chance = random.Random(seed)
    cluster = random_cluster(chance, 150)
    disks = write_disks(cluster.replicas, directory)
    number = cluster.replicas.index(cluster.last)
    history = records(disks[number] / "orders-0") if cluster.last.batches else {}
    intact: set[int] = set()
    for disk, replica in zip(disks, cluster.replicas, strict=True):
        intact |= damaged(disk / "orders-0", chance, {each.offset for each in same_batches(replica, cluster.last)})
    (result,), findings = run(disks, directory / "to")
    return Case(result, findings, history, intact)


def same_batches(replica: ModelReplica, last: ModelReplica) -> list[Batch]:
    return replica.batches[: shared(replica, last)]


def of_a_broker(seed: int, directory: Path) -> Case:
    """The same copy of a real broker's partition three times, each damaged."""
    chance = random.Random(1000 + seed)
    original = PARTITIONS[seed % len(PARTITIONS)]
    history = records(original)
    firsts = {first for *_, first, _ in positions(original)}
    intact: set[int] = set()
    disks: list[Path] = []
    for number in range(3):
        disks.append(directory / f"disk-{number}")
        replica = shutil.copytree(original, disks[-1] / original.name)
        topic, partition = original.name.rsplit("-", 1)
        write_checkpoints(disks[-1], {(topic, int(partition)): PartitionOffsets(0, None, max(history) + 1)})
        intact |= damaged(replica, chance, firsts)
    (result,), findings = run(disks, directory / "to")
    return Case(result, findings, history, intact & history.keys())


def damaged(partition: Path, chance: random.Random, firsts: set[int]) -> set[int]:
    """Damages a copy, mostly its logs, and says which offsets of batches with these first offsets it has."""
    before = places(partition)
    originals = {log: log.read_bytes() for log, *_ in before}
    for _ in range(chance.randrange(3)):
        damage_at_random(partition, chance)
    for log, position, size, *_ in chance.choices(before, k=min(len(before), chance.randrange(12))):
        data = bytearray(log.read_bytes() if log.exists() else b"")
        at = position + chance.randrange(size)
        if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
            log.write_bytes(data)
    spans = [(first, last) for first, last in intact(before, originals) if first in firsts]
    return {offset for first, last in spans for offset in range(first, last + 1)}


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Case]:
    """The directory of each case: with many seeds, all kinds of damage are there."""
    found: dict[Path, Case] = {}
    for seed in range(SEEDS):
        for make in (of_a_cluster, of_a_broker):
            directory = tmp_path_factory.mktemp(f"{make.__name__}-{seed}-")
            found[directory] = make(seed, directory)
    return found


@pytest.mark.slow(reason="many clusters")
def test_what_is_sound_in_a_copy_is_in_the_merged_log_and_nothing_else(merged: dict[Path, Case]) -> None:
    lost = filled = diverged = 0
    for directory, case in merged.items():
        name = case.result.task.name
        found = records(directory / "to" / name) if case.result.batches else {}
        assert found.items() <= case.history.items(), directory
        assert case.intact & case.history.keys() <= found.keys(), directory
        missing = case.history.keys() - found.keys()
        told = {
            offset
            for loss in case.result.losses
            for offset in range(loss.first_offset, (1 << 20 if loss.last_offset is None else loss.last_offset) + 1)
        }
        if "compact" not in name:
            assert missing <= told, directory
        assert case.result.records >= len(found)
        lost += bool(missing)
        filled += len({piece.replica for piece in case.result.contributions}) > 1
        diverged += bool(case.result.divergences)
    counts = lost, filled, diverged
    assert min(counts) > SEEDS // 3, counts


def test_kafka_reads_it_and_finds_nothing_wrong(merged: dict[Path, Case], kafka_jars: Path) -> None:
    logs = [log for directory in merged for log in sorted((directory / "to").rglob("*.log")) if log.stat().st_size]
    counted = 0
    for lines in read_logs(logs).values():
        assert not list(of_type(lines, "error"))
        # Where the last records are lost, an empty batch leads to the end; those of compaction have a producer.
        counted += sum(each["count"] != 0 or each["producerId"] >= 0 for each in of_type(lines, "batch"))
    assert counted == sum(case.result.batches for case in merged.values())
    text = dump_everything(path for directory in merged for path in (directory / "to").glob("*-*/*"))
    assert not re.search(r"mismatch|do not have|out of order|isvalid: false|invalid|corrupt", text, re.IGNORECASE)
    for directory in merged:
        assert not [each for each in brokerless.open(directory / "to").verify() if each.severity == "error"]


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """The three that real brokers left."""
    return [Path(shutil.copytree(disk, tmp_path / disk.name)) for disk in sorted(REPLICAS.iterdir())]


def test_a_wrong_epoch_in_a_header_changes_nothing(disks: list[Path], tmp_path: Path) -> None:
    """No checksum covers it; it could make a copy that of the last leader, or void what follows. Nothing could tell the
    very last one, if it is not far off."""
    (result,), _ = run(disks, tmp_path / "to")
    expected = [path.read_bytes() for path in sorted((tmp_path / "to" / "orders-0").iterdir())]
    told = 0
    for number, disk in enumerate(disks):
        batches = positions(disk / "orders-0")
        for at, (log, position, _, first, _) in enumerate(batches):
            if first >= result.agreements[number].until:
                continue  # what it has alone may claim anything
            before = log.read_bytes()
            data = bytearray(before)
            data[position + 12 + at % 4] ^= 1 << at % 7
            log.write_bytes(data)
            to = tmp_path / f"{number}-{at}"
            (again,), findings = run(disks, to)
            log.write_bytes(before)
            is_last = number == 2 and at == len(batches) - 1
            if not is_last:
                assert [path.read_bytes() for path in sorted((to / "orders-0").iterdir())] == expected, (number, first)
                assert again.agreements == result.agreements
                told += [each.kind for each in findings] == ["leader-epoch-wrong"]
    assert told > 20


def test_what_is_recorded_of_epochs_but_not_so_is_reported(disks: list[Path], tmp_path: Path) -> None:
    checkpoint = disks[2] / "orders-0" / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n2\n0 0\n5 100\n")
    (result,), (finding,) = run(disks, tmp_path / "to")
    assert (finding.kind, finding.file, finding.offset) == ("leader-epoch-mismatch", str(checkpoint), 102)
    assert [each.until for each in result.agreements] == [120, 220, 270]
    checkpoint.write_text("0\n3\n0 0\n")
    (result,), (finding,) = run(disks, tmp_path / "again")
    assert (finding.kind, finding.file) == ("checkpoint-corrupt", str(checkpoint))
    assert [each.until for each in result.agreements] == [120, 220, 270]
    assert (tmp_path / "again/orders-0/leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 120\n4 220\n"


def test_a_lost_first_segment_is_taken_from_another_copy_but_not_what_retention_deleted(
    disks: list[Path], tmp_path: Path
) -> None:
    partition = disks[2] / "orders-0"
    for path in partition.glob(f"{0:020}.*"):
        path.unlink()
    (result,), _ = run(disks, tmp_path / "lost")
    assert (result.start_offset, result.records, result.losses) == (0, 270, ())
    first = min(int(log.stem) for log in partition.glob("*.log"))
    checkpoint = partition / "leader-epoch-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("0 0\n", f"0 {first}\n"))
    (result,), _ = run(disks, tmp_path / "deleted")
    assert (result.start_offset, result.records, result.losses) == (first, 270 - first, ())


def test_the_log_start_offset_is_that_of_the_leading_copy(disks: list[Path], tmp_path: Path) -> None:
    write_checkpoints(disks[2], {("orders", 0): PartitionOffsets(0, 20, 270)})
    epochs = disks[2] / "orders-0" / "leader-epoch-checkpoint"
    epochs.write_text(epochs.read_text().replace("0 0\n", "0 20\n"))
    for name in (f"{0:020}.log", f"{0:020}.index"):
        (disks[2] / "orders-0" / name).unlink()
    (result,), _ = run(disks, tmp_path / "to")
    assert (result.start_offset, result.end_offset, result.losses) == (20, 270, ())
    assert min(records(tmp_path / "to" / "orders-0")) <= 20
    noted = (tmp_path / "to" / "log-start-offset-checkpoint").read_text().splitlines()
    assert noted[-1] == "orders 0 20"


def test_only_what_is_known_to_be_committed_if_that_is_asked_for(disks: list[Path], tmp_path: Path) -> None:
    """The last leader notes less than it has; of the others, none has got what is behind."""
    write_checkpoints(disks[2], {("orders", 0): PartitionOffsets(0, None, 250)})
    (result,), _ = run(disks, tmp_path / "all")
    assert (result.committed, result.reach, result.end_offset, result.is_whole) == (250, 270, 270, False)
    (result,), _ = run(disks, tmp_path / "committed", Merge(committed_only=True))
    found = records(tmp_path / "committed" / "orders-0")
    assert (result.end_offset, max(found) < 250) == (250, True)
    assert found.items() <= records(tmp_path / "all" / "orders-0").items()
    assert not result.losses


def test_without_two_copies_or_notes_nothing_is_known_to_be_committed(disks: list[Path], tmp_path: Path) -> None:
    (disks[2] / "replication-offset-checkpoint").unlink()
    (result,), _ = run(disks[2:], tmp_path / "all")
    assert (result.committed, result.records, result.is_whole) == (None, 270, True)
    (result,), findings = run(disks[2:], tmp_path / "none", Merge(committed_only=True))
    assert (result.records, result.is_whole) == (0, False)
    assert [each.kind for each in findings] == ["nothing-known-to-be-committed"]


def test_of_compacted_copies_the_fuller_one_leads(tmp_path: Path) -> None:
    """A copy that lost a whole file looks as if it was compacted once more; the keys' last records are in the other."""
    whole = broker_data("clean") / "compacted-lz4-0"
    replicas = [tmp_path / name / whole.name for name in "ab"]
    for replica in replicas:
        shutil.copytree(whole, replica)
    for path in replicas[0].glob(f"{sorted(whole.glob('*.log'))[1].stem}.*"):
        path.unlink()
    assert len(records(replicas[0])) < len(records(whole))
    for order, names in enumerate(("ab", "ba")):
        ((result,), findings) = run([tmp_path / name for name in names], tmp_path / f"to-{order}")
        assert findings == []
        assert result.leading == names.index("b")
        assert records(tmp_path / f"to-{order}" / whole.name) == records(whole)


def test_a_dry_run_says_the_same_and_writes_nothing(disks: list[Path], tmp_path: Path) -> None:
    (wet,), _ = run(disks, tmp_path / "wet")
    (dry,), _ = run(disks, tmp_path / "dry", Merge(dry_run=True))
    assert not (tmp_path / "dry").exists()
    assert (dry.contributions, dry.divergences, dry.losses) == (wet.contributions, wet.divergences, wet.losses)


def test_each_partition_is_merged_of_the_disks_that_have_it(disks: list[Path], tmp_path: Path) -> None:
    (disks[1] / "orders-0").rename(disks[1] / "orders-1")
    first, second = run(disks, tmp_path / "to")[0]
    assert [result.task.paths for result in (first, second)] == [
        tuple(str(disk / "orders-0") for disk in (disks[0], disks[2])),
        (str(disks[1] / "orders-1"),),
    ]
    assert (first.records, second.records) == (270, 300)


def test_nothing_is_begun_that_cannot_be_written(disks: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(disks[0], other)
    metadata = other / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: P4KqAlm-RcmdL3bLO8vOmg")
    foreign = Path(shutil.copytree(disks[1], tmp_path / "foreign"))
    (foreign / "orders-0" / "partition.metadata").unlink()
    (foreign / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
    unknown = Path(shutil.copytree(disks[0], tmp_path / "unknown"))
    (unknown / "orders-0" / "partition.metadata").unlink()
    for sources, to, text in (
        ([disks[0], other], tmp_path / "to", "they are of two topics"),
        ([unknown, foreign], tmp_path / "to", "of the cluster"),
        ([disks[0], disks[0] / ".." / disks[0].name], tmp_path / "to", "given twice"),
        (disks, disks[0] / "inside", "is within"),
        (disks, other, "exists already"),
        ([disks[0] / "orders-0" / f"{0:020}.log"], tmp_path / "to", "give its directory"),
    ):
        with pytest.raises(UsageError, match=text):
            plan(sources_of(*sources), to, Merge())
    assert not (tmp_path / "to").exists()
