"""Compares compaction with Kafka's own cleaner: ``python -m tests.jobs.compact.judge 300`` with as many logs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tests.format.test_filter import assert_same
from tests.jobs.compact.logs import DAY, Round, clean_by_kafka, copy_of, write_log
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.written import START

from brokerless.errors import Finding
from brokerless.jobs.compact.job import CompactResult, compact, plan
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import offset_checkpoint
from brokerless.log.directory import resolve


def compare(seeds: Iterable[int], directory: Path, version: str) -> None:
    """Generates a log for each seed, and has it cleaned twice, by Kafka and by us; asserts that both leave the same.
    The second time is two days later, of what Kafka left."""
    rounds: list[tuple[Path, Path, Round]] = []
    for seed in seeds:
        log, end = write_log(directory / f"{seed}", seed)
        settings = {"segment.bytes": 40_000 if seed % 5 else 1 << 30}
        if seed % 7 == 3:
            settings["min.compaction.lag.ms"] = 55_000
        how = Round(START + 60_000, end // 3 if seed % 4 == 2 else None, seed % 4 != 0, settings)
        rounds.append((log, copy_of(log, directory / f"{seed}-kafka"), how))
    for number in range(2):
        answers = clean_by_kafka([(theirs, how) for _, theirs, how in rounds], version)
        again: list[tuple[Path, Path, Round]] = []
        for (log, theirs, how), answer in zip(rounds, answers, strict=True):
            assert "error" not in answer, (log, answer)
            to = directory / f"{number}-{log.parent.name}"
            result = compacted(log, to, how, "3.9" if version == OLD_FORMATS else "4.4")
            assert result.clean_offset == answer["clean"], log
            assert_as_kafka(to / "topic-0", theirs)
            source = copy_of(theirs, directory / f"{number}-{log.parent.name}-again")
            again.append((source, theirs, Round(how.now_ms + 2 * DAY, 0, True, how.settings)))
        rounds = again


def compacted(partition: Path, to: Path, how: Round, kafka: str = "4.4") -> CompactResult:
    """Of the log directory that a partition is in, with the line of that round in the cleaner's checkpoint."""
    lines = {} if how.cleaned is None else {("topic", 0): how.cleaned}
    (partition.parent / names.CLEANER_CHECKPOINT).write_bytes(offset_checkpoint(lines))
    directory = resolve(str(partition))
    tasks = plan(directory.partitions, [str(partition)], to, how.options(kafka))
    findings = list[Finding]()
    (result,) = compact(tasks, findings.append)
    assert not [each for each in findings if each.severity == "error"]
    return result


def files_of(partition: Path, suffix: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob(f"*.{suffix}")) if path.stat().st_size}


def assert_as_kafka(ours: Path, theirs: Path) -> None:
    """The same segments with the same batches; the same bytes of batches without a codec, and transaction indexes."""
    segments = [[path.name for path in sorted(each.glob("*.log"))] for each in (ours, theirs)]
    if len(segments[0]) < len(segments[1]):  # one that was begun for the cleaner's sake, where it did not reach the end
        assert (theirs / segments[1].pop()).stat().st_size == 0
    assert segments[0] == segments[1], ours
    mine, kafka = files_of(ours, "log"), files_of(theirs, "log")
    assert list(mine) == list(kafka), ours
    for name, data in mine.items():
        assert_same(np.frombuffer(data, np.uint8), np.frombuffer(kafka[name], np.uint8))
    assert files_of(ours, "txnindex") == files_of(theirs, "txnindex"), ours


if __name__ == "__main__":
    for start in range(0, int(sys.argv[1]), 20):
        for version in (NEWEST, OLD_FORMATS):
            with tempfile.TemporaryDirectory() as directory:
                compare(range(start, min(start + 20, int(sys.argv[1]))), Path(directory), version)
        print(f"{min(start + 20, int(sys.argv[1]))} logs: as Kafka {NEWEST} and {OLD_FORMATS} clean them", flush=True)
