"""Sizes by reading everything are those that Kafka's own builder gives, and those that ``convert`` writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.examples import some_quick
from tests.golden import Part, all_cases, broker_data, parts
from tests.jobs.size.topics import STORED, event, write_topic
from tests.kafka.jars import OLD_FORMATS, KafkaUnavailableError, check, run
from tests.require import require
from tests.sources import sources_of

import brokerless
from brokerless.findings import Finding
from brokerless.jobs.convert.job import Conversion, convert, plan
from brokerless.jobs.size.choices import Choice
from brokerless.jobs.size.exact import ExactSizes, measure_partition
from brokerless.log.directory import PartitionPath, resolve
from brokerless.log.storage.location import Location

KAFKAS = [
    Choice(0, "none"),
    Choice(1, "none"),
    *(Choice(2, "none", batch_records=count) for count in (1, 7, 100)),
    Choice(2, "none", batch_bytes=3000),
    *(Choice(magic, codec, batch_records=200) for magic in (0, 1, 2) for codec in ("gzip", "snappy", "lz4")),
    Choice(2, "zstd", batch_records=200),
]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> PartitionPath:
    to = tmp_path_factory.mktemp("topic")
    write_topic(to, 4, event, "skewed", 150_000, STORED[3])
    return resolve(Location(str(to))).partitions[0]


def measured(partition: PartitionPath, choices: Sequence[Choice]) -> tuple[ExactSizes, list[Finding]]:
    findings: list[Finding] = []
    return measure_partition(partition, choices, findings.append, lambda _: None), findings


def for_kafka(choice: Choice, records: list[list[object]], base_offset: int) -> dict[str, object]:
    alone = choice.magic < 2 and not choice.is_compressed
    return {
        "magic": choice.magic,
        "codec": choice.codec,
        "batchSize": choice.batch_bytes or (0 if alone else 1 << 28),
        "ratio": 1.0,
        "baseOffset": base_offset,
        "appendTime": -1,
        "producerId": -1,
        "producerEpoch": -1,
        "baseSequence": -1,
        "isTransactional": False,
        "leaderEpoch": -1,
        "records": records,
    }


def test_sizes_are_those_of_kafkas_builder(topic: PartitionPath, kafka_jars: Path) -> None:
    rows = brokerless.open(topic.path).records(["timestamp", "key", "value"]).read_all().to_pylist()
    records: list[list[object]] = [
        [
            int(row["timestamp"].timestamp() * 1000 + 0.5),
            *(None if row[name] is None else base64.b64encode(row[name]).decode() for name in ("key", "value")),
            [],
        ]
        for row in rows
    ]
    lines: list[str] = []
    counts: list[int] = []
    for choice in KAFKAS:
        step = choice.batch_records or len(records)
        cases = [for_kafka(choice, records[at : at + step], at) for at in range(0, len(records), step)]
        lines += map(json.dumps, cases)
        counts.append(len(cases))
    try:
        out = check(run("BuildBatches", version=OLD_FORMATS, stdin="\n".join(lines).encode(), helper=True))
    except KafkaUnavailableError as error:
        require(False, str(error))
    built = [sum(len(base64.b64decode(batch)) for batch in line.split()) for line in out.splitlines()]
    sizes, findings = measured(topic, KAFKAS)
    assert not findings
    for choice, count in zip(KAFKAS, counts, strict=True):
        expected, built = sum(built[:count]), built[count:]
        if choice.is_compressed:
            assert sizes.bytes[choice] == pytest.approx(expected, rel=0.02), choice
        else:
            assert sizes.bytes[choice] == expected, choice


CONVERTED = [
    Choice(2, "zstd", batch_bytes=16384),
    Choice(2, "none", batch_bytes=1 << 20),
    Choice(2, "gzip"),
    Choice(1, "lz4", batch_bytes=5000),
    Choice(0, "none"),
]


def places() -> list[Path]:
    return [broker_data("clean") / name for name in ("txn-0", "edges-0", "segments-0")]


@pytest.mark.parametrize("choice", CONVERTED, ids=str)
def test_sizes_are_those_that_convert_writes(choice: Choice, tmp_path: Path) -> None:
    partitions = [resolve(Location(str(path))).partitions[0] for path in places()]
    tasks = plan(sources_of(*places()), tmp_path / "to", Conversion(choice.target))
    for each, result in zip(partitions, convert(tasks, lambda _: None), strict=True):
        written = sum(path.stat().st_size for path in (tmp_path / "to" / result.task.name).glob("*.log"))
        size = measured(each, [choice])[0].bytes[choice]
        # gzip is measured with zlib, as Kafka has it, and written with libdeflate.
        assert size == (pytest.approx(written, rel=0.05) if choice.codec == "gzip" else written)


@pytest.mark.parametrize("part", some_quick(parts(all_cases(), 16)), ids=str)
def test_every_golden_file_is_measured_and_its_damage_reported(part: Part) -> None:
    choices = [Choice(2, "zstd", batch_bytes=16384), Choice(1, "gzip", batch_records=10), Choice(0, "none")]
    for log in [log for case in part.cases for log in sorted(case.path.rglob("*.log"))]:
        for partition in resolve(Location(str(log))).partitions:
            sizes, findings = measured(partition, choices)
            assert findings or sizes.bytes.keys() == set(choices), log
            assert sizes.contents.stored + sizes.bytes_other <= partition.size + 1e-6, log


def test_what_is_after_damage_is_measured_as_well(topic: PartitionPath, tmp_path: Path) -> None:
    log = bytearray(Path(topic.segments[0].log.path).read_bytes())
    log[5000:9000] = bytes(4000)
    (tmp_path / "00000000000000000000.log").write_bytes(log)
    choice = Choice(2, "none")
    whole, damaged = measured(topic, [choice])[0], measured(resolve(Location(str(tmp_path))).partitions[0], [choice])
    assert {finding.severity for finding in damaged[1]} == {"error", "info"}
    assert whole.bytes[choice] - 6000 < damaged[0].bytes[choice] < whole.bytes[choice] - 4000
    assert whole.contents.records > damaged[0].contents.records > 0.9 * whole.contents.records
