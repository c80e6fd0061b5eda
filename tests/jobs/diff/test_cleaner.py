"""What Kafka's own cleaner takes out of a log is compaction, aborted data and markers, and nothing else differs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.jobs.compact.logs import DAY, Round, clean_by_kafka, copy_of, write_log
from tests.jobs.diff.planted import ModelBatch, ModelRecord, write
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.written import START
from tests.sources import sources_of

import brokerless
from brokerless.jobs.compact.job import compact, plan
from brokerless.log import names

SEEDS = range(12)
ALLOWED = {"compaction", "aborted", "control", "regrouped", "recompressed"}
ROUNDS = (Round(START + DAY), Round(START + 3 * DAY), Round(START + 5 * DAY))


def noted(partition: Path, end: int) -> Path:
    """As a broker records in its checkpoint that it has cleaned a partition."""
    (partition.parent / names.CLEANER_CHECKPOINT).write_text(f"0\n1\ntopic 0 {end}\n")
    return partition


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", [NEWEST, OLD_FORMATS])
def test_a_cleaned_log_is_the_same(version: str, tmp_path: Path) -> None:
    logs: list[tuple[Path, list[Path]]] = []
    ends: dict[Path, int] = {}
    for seed in SEEDS:
        source, end = write_log(tmp_path / f"{seed}", seed)
        copies = [copy_of(source, tmp_path / f"{seed}-{number}") for number in range(len(ROUNDS))]
        logs.append((source, copies))
        ends |= dict.fromkeys(copies, end)
    work = [(copy, how) for _, copies in logs for number, copy in enumerate(copies) for how in ROUNDS[: number + 1]]
    clean_by_kafka(work, version)
    found: set[str] = set()
    for source, copies in logs:
        for copy in copies:
            noted(copy, ends[copy])
            for left, right in ((source, copy), (copy, source)):
                (partition,) = brokerless.diff(left, right).partitions
                assert partition.is_same, (left, [*partition.lines()])
                assert {*(partition.causes or {})} <= ALLOWED
                found |= {*(partition.causes or {})}
        # once cleaned against thrice cleaned: tombstones are gone whose keys are nowhere any more
        assert brokerless.diff(copies[0], copies[-1]).is_same
    assert found >= {"compaction", "aborted", "control"}


@pytest.mark.usefixtures("kafka_jars")
def test_our_compaction_leaves_the_same_records(tmp_path: Path) -> None:
    for seed in SEEDS:
        source, end = write_log(tmp_path / f"{seed}", seed)
        cleaned = copy_of(source, tmp_path / f"{seed}-cleaned")
        clean_by_kafka([(cleaned, ROUNDS[0])])
        planned = plan(
            sources_of(source), tmp_path / f"{seed}-ours", ROUNDS[0].options("4.4"), {"topic"}, lambda _: None
        )
        assert list(compact(planned, lambda _: None))
        ours = tmp_path / f"{seed}-ours" / "topic-0"
        assert brokerless.diff(source, ours).is_same
        (partition,) = brokerless.diff(noted(cleaned, end), ours).partitions
        assert partition.is_same
        assert "compaction" not in (partition.causes or {}), "both took the same records"


@pytest.mark.usefixtures("kafka_jars")
def test_a_cleaned_log_that_lost_its_tail_is_unproven_and_the_rest_is_missing(tmp_path: Path) -> None:
    """Kafka's cleaner took a record for a later one of its key. Where that is there still, it may have been compaction,
    but nothing beside the log says that it is compacted; where it was in the lost tail, nothing explains it."""
    chance = random.Random(1)
    records = [ModelRecord(at, START + at, b"k%d" % chance.randrange(60), b"%d" % at) for at in range(400)]
    batches = [ModelBatch(tuple(records[at : at + 10])) for at in range(0, 400, 10)]
    source = write(tmp_path / "source", batches, chance, segments=5)
    cleaned = copy_of(source, tmp_path / "cleaned")
    clean_by_kafka([(cleaned, ROUNDS[0])])
    first, *others = sorted(cleaned.glob("*.log"))
    for path in (*others, *cleaned.glob("*index")):
        path.unlink()
    batches_left = brokerless.open(first).batches(["position", "lastOffset"]).read_all().to_pylist()
    half = len(batches_left) // 2
    with first.open("rb+") as file:
        file.truncate(batches_left[half]["position"])
    rows = brokerless.open(cleaned).records(["offset", "key"]).read_all().to_pylist()
    last = {row["key"]: row["offset"] for row in rows}
    kept, end = {row["offset"] for row in rows}, batches_left[half - 1]["lastOffset"] + 1
    taken = [each for each in records[:end] if each.offset not in kept]
    explained = [each for each in taken if last.get(each.key or b"", -1) > each.offset]
    assert 0 < len(explained) < len(taken)
    expected = {"unproven-compaction": len(explained), "missing": len(taken) - len(explained), "lagging": 400 - end}
    for sides in ((source, cleaned), (cleaned, source)):
        (partition,) = brokerless.diff(*sides).partitions
        causes = {cause: count for cause, count in (partition.causes or {}).items() if cause != "regrouped"}
        other = {"extra" if cause == "missing" else cause: count for cause, count in expected.items()}
        assert causes == (expected if sides[0] == source else other)
    (partition,) = brokerless.diff(source, cleaned, allow=["compaction", "lagging"]).partitions
    assert partition.missing == expected["missing"]
