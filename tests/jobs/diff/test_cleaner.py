"""What Kafka's own cleaner takes out of a log is compaction, aborted data and markers, and nothing else differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.compact.logs import DAY, Round, clean_by_kafka, copy_of, write_log
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
