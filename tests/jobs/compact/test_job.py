"""Compaction leaves what Kafka's own cleaner leaves: the same records, empty batches and delete horizons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.format.test_filter import assert_same
from tests.jobs.compact.logs import DAY, Round, clean_by_kafka, copy_of, write_log
from tests.kafka.written import START

import brokerless
from brokerless.jobs.compact.job import CompactResult, compact, plan
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import offset_checkpoint
from brokerless.log.directory import resolve

SEEDS = range(12)


def compacted(partition: Path, to: Path, how: Round, kafka: str = "4.4") -> CompactResult:
    """Of the log directory that a partition is in, with the line of that round in the cleaner's checkpoint."""
    lines = {} if how.cleaned is None else {("topic", 0): how.cleaned}
    (partition.parent / names.CLEANER_CHECKPOINT).write_bytes(offset_checkpoint(lines))
    directory = resolve(str(partition))
    tasks = plan(directory.partitions, [str(partition)], to, how.options(kafka))
    findings = list[brokerless.Finding]()
    (result,) = compact(tasks, findings.append)
    assert not [each for each in findings if each.severity == "error"]
    return result


def files_of(partition: Path, suffix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob(f"*.{suffix}")) if path.stat().st_size}


def assert_as_kafka(ours: Path, theirs: Path) -> None:
    segments = [[path.name for path in sorted(each.glob("*.log"))] for each in (ours, theirs)]
    if len(segments[0]) < len(segments[1]):  # the one that was begun for the cleaner's sake, where it cleaned nothing
        assert (theirs / segments[1].pop()).stat().st_size == 0
    assert segments[0] == segments[1]
    mine, kafka = files_of(ours, "log"), files_of(theirs, "log")
    assert list(mine) == list(kafka)
    for name, data in mine.items():
        assert_same(np.frombuffer(data, np.uint8), np.frombuffer(kafka[name], np.uint8))
    assert files_of(ours, "txnindex") == files_of(theirs, "txnindex")


@pytest.mark.usefixtures("kafka_jars")
def test_generated_logs_are_cleaned_as_kafka_cleans_them(tmp_path: Path) -> None:
    """Twice: two days later, tombstones and markers are gone, and producers forgotten."""
    rounds: list[tuple[Path, Path, Round]] = []
    for seed in SEEDS:
        log, end = write_log(tmp_path / f"{seed}", seed)
        how = Round(START + 60_000, None, seed % 4 != 0, {"segment.bytes": 40_000 if seed % 5 else 1 << 30})
        if seed % 4 == 2:
            how = Round(how.now_ms, end // 3, True, how.settings)
        rounds.append((log, copy_of(log, tmp_path / f"{seed}-kafka"), how))
    for number in range(2):
        answers = clean_by_kafka([(theirs, how) for _, theirs, how in rounds])
        again: list[tuple[Path, Path, Round]] = []
        for (log, theirs, how), answer in zip(rounds, answers, strict=True):
            assert "error" not in answer
            to = tmp_path / f"{number}-{log.parent.name}"
            result = compacted(log, to, how)
            assert result.clean_offset == answer["clean"]
            assert_as_kafka(to / "topic-0", theirs)
            source = copy_of(theirs, tmp_path / f"{number}-{log.parent.name}-again")
            again.append((source, theirs, Round(how.now_ms + 2 * DAY, 0, True, how.settings)))
        rounds = again
