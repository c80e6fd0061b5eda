"""Compares compaction with Kafka's own cleaner: ``python -m tests.jobs.compact.judge 300`` with as many logs."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.format.test_filter import assert_same
from tests.golden import golden
from tests.jobs.compact.logs import DAY, Round, clean_by_kafka, copy_of, write_log
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.written import START
from tests.sources import sources_of

from brokerless.findings import Finding, Kind
from brokerless.jobs.compact.job import CompactResult, compact, plan
from brokerless.jobs.compact.settings import KEY_BYTES
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import offset_checkpoint

REFUSED = ("InvalidTxnStateException", "Invalid control record type", "Empty batches are only supported for magic v2")
"""What Kafka says of golden logs that it does not load, and of those of v0 and v1 that 4.4's cleaner cannot finish,
as it would retain the last batch of them without any record."""
NO_TOPICS = {"extreme-offsets", "producer-batches", "varint-boundaries"}
"""Golden logs that are none of a broker: offsets that come again (we refuse those), or too far from their segment's."""


def compare(seeds: Iterable[int], directory: Path, version: str, key_bytes: int = KEY_BYTES) -> list[CompactResult]:
    """Generates a log for each seed, and compares what becomes of it; gives our results."""
    logs: list[tuple[Path, Round]] = []
    for seed in seeds:
        log, end = write_log(directory / f"{seed}", seed)
        settings = {"segment.bytes": 40_000 if seed % 5 else 1 << 30}
        if seed % 7 == 3:
            settings["min.compaction.lag.ms"] = 55_000
        logs.append((log, Round(START + 60_000, end // 3 if seed % 4 == 2 else None, seed % 4 != 0, settings)))
    return compare_logs(logs, directory, version, key_bytes)


def compare_golden(golden_logs: Sequence[Path], directory: Path, version: str) -> None:
    """Logs of the golden archive, each as a topic of its own."""
    logs: list[tuple[Path, Round]] = []
    for log in golden_logs:
        to = directory / "-".join(log.relative_to(golden()).parts) / "topic-0"
        to.parent.mkdir()
        for path in (shutil.copytree(log, to), *to.iterdir()):
            if path.name.endswith((".json", ".jsonl", ".deleted")):
                path.unlink()
        logs.append((to, Round(START + 400 * DAY, None, True, {})))
    compare_logs(logs, directory, version)


def golden_logs() -> list[Path]:
    """The directories of partitions that Kafka wrote, and that its cleaner takes."""
    brokers = [golden() / f"brokers/{each}/data" for each in ("clean", "old-formats")]
    partitions = [path for each in brokers for path in each.glob("*-*/")]
    cases = [path for each in ("articles", "formats", "specials") for path in (golden() / each).iterdir()]
    return sorted(path for path in partitions + cases if path.name not in NO_TOPICS and list(path.glob("*.log")))


def compare_logs(
    logs: Iterable[tuple[Path, Round]], directory: Path, version: str, key_bytes: int = KEY_BYTES
) -> list[CompactResult]:
    """Has logs cleaned twice, by Kafka and by us; asserts that both leave the same. The second time is two days later,
    of what Kafka left."""
    rounds = [(log, copy_of(log, directory / f"{log.parent.name}-kafka"), how) for log, how in logs]
    results: list[CompactResult] = []
    for number in range(2):
        answers = clean_by_kafka([(theirs, how) for _, theirs, how in rounds], version)
        again: list[tuple[Path, Path, Round]] = []
        for (log, theirs, how), answer in zip(rounds, answers, strict=True):
            if any(text in answer.get("error", "") for text in REFUSED):
                continue
            assert "error" not in answer, (log, answer)
            to = directory / f"{number}-{log.parent.name}"
            result = compacted(log, to, how, "3.9" if version == OLD_FORMATS else "4.4", key_bytes)
            results.append(result)
            if number == 0 or files_of(log, "log"):  # one without batches is not cleaned
                assert result.clean_offset == answer["clean"], log
            assert_as_kafka(to / "topic-0", theirs)
            source = copy_of(theirs, directory / f"{number}-{log.parent.name}-again")
            again.append((source, theirs, Round(how.now_ms + 2 * DAY, 0, True, how.settings)))
        rounds = again
    return results


def compacted(partition: Path, to: Path, how: Round, kafka: str = "4.4", key_bytes: int = KEY_BYTES) -> CompactResult:
    """Of the log directory that a partition is in, with the line of that round in the cleaner's checkpoint."""
    lines = {} if how.cleaned is None else {("topic", 0): how.cleaned}
    (partition.parent / names.CLEANER_CHECKPOINT).write_bytes(offset_checkpoint(lines))
    tasks = plan(sources_of(partition), to, replace(how.options(kafka), key_bytes=key_bytes))
    findings = list[Finding]()
    (result,) = compact(tasks, findings.append)
    assert not [each for each in findings if each.severity == "error" and each.kind != Kind.MISSING_SEGMENT]
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
    assert [_modified(ours / name) for name in mine] == [_modified(theirs / name) for name in mine], ours
    for name, data in mine.items():
        assert_same(np.frombuffer(data, np.uint8), np.frombuffer(kafka[name], np.uint8))
    assert files_of(ours, "txnindex") == files_of(theirs, "txnindex"), ours


def _modified(path: Path) -> int:
    """In ms, as the cleaner sets it."""
    return path.stat().st_mtime_ns // 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", type=int)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    options = parser.parse_args()
    for version in (NEWEST, OLD_FORMATS):
        with tempfile.TemporaryDirectory() as directory:
            compare_golden(golden_logs(), Path(directory), version)
        print(f"{len(golden_logs())} golden logs: as Kafka {version} cleans them", flush=True)
    for start in range(options.first, options.logs, 20):
        seeds = range(start, min(start + 20, options.logs))
        for version in (NEWEST, OLD_FORMATS):
            with tempfile.TemporaryDirectory() as directory:
                compare(seeds, Path(directory), version)
        print(f"seeds {start} to {seeds[-1]}: as Kafka {NEWEST} and {OLD_FORMATS} clean them", flush=True)


if __name__ == "__main__":
    main()
