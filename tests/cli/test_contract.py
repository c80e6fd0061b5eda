"""The JSON of ``batches`` and ``cat`` over all golden files: what Kafka's own reader gave, value for value.

Where the chain of sizes breaks, Kafka's reader ends; what is read after it is in ``tests/test_mutations.py``.
How to compare is said in the README of the golden archive.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.golden import BROKERS, broker_data, broker_expected, cases, first_at_their_offsets, json_lines

Line = dict[str, Any]
Expected = dict[str, list[Line]]
"""What Kafka read, by the path of each file."""

CATEGORIES = ("formats", "articles", "specials", "framing", "damaged")


def expected_of_category(category: str) -> tuple[list[Path], Expected]:
    logs = {case.log: case.expected() for case in cases(category)}
    return list(logs), {str(log): lines for log, lines in logs.items()}


def expected_of_broker(broker: str) -> tuple[list[Path], Expected]:
    data = broker_data(broker)
    expected: Expected = defaultdict(list)
    for path in broker_expected(broker).glob("*/expected.jsonl"):
        for line in json_lines(path):
            if line["file"].endswith(".log"):
                expected[str(data / path.parent.name / line["file"])].append(line)
    return [data], expected


DAMAGED = pytest.param("damaged", marks=pytest.mark.slow(reason="all damaged files"))
SOURCES = [*CATEGORIES[:-1], DAMAGED, *BROKERS]
"""Kafka reads golden batches of up to 100 MB."""


def source(name: str) -> tuple[list[Path], Expected]:
    return expected_of_category(name) if name in CATEGORIES else expected_of_broker(name)


def topic_and_partition(path: str) -> tuple[str | None, int | None]:
    match = re.fullmatch(r"(.+)-(\d+)", Path(path).parent.name)
    return (match[1], int(match[2])) if match and "brokers" in path else (None, None)


def errors(expected: Expected, *phases: str) -> dict[str, set[int]]:
    """Positions of what Kafka's reader threw, by file."""
    return {
        path: {line["position"] for line in lines if line["type"] == "error" and line["phase"] in phases}
        for path, lines in expected.items()
    }


def by_file(lines: list[Line]) -> dict[str, list[Line]]:
    grouped: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        grouped[line["file"]].append(line)
    return grouped


@pytest.mark.parametrize("name", SOURCES)
def test_batches_are_what_kafka_lists(run: Run, name: str) -> None:
    paths, expected = source(name)
    result = run("batches", "--json", *paths)
    listed = by_file(result.json)
    for path, lines in expected.items():
        topic, partition = topic_and_partition(path)
        batches = [line for line in lines if line["type"] == "batch"]
        later = listed.pop(path, [])
        assert len(later) == len(batches) or goes_on(result.err, path)
        for ours, theirs in zip(later[: len(batches)], batches, strict=True):
            assert (ours.pop("topic"), ours.pop("partition")) == (topic, partition)
            assert ours.pop("file") == path
            assert ours == {key: theirs[key] for key in theirs if key not in ("type", "file", "fieldErrors")}
    assert not listed
    assert_told(result.err, errors(expected, "batches", "ensureValid"))
    is_damaged = any(errors(expected, "batches", "ensureValid").values()) or any(
        goes_on(result.err, each) for each in expected
    )
    assert result.exit_code == (1 if is_damaged else 0)


def goes_on(err: str, path: str) -> bool:
    """Whether a file has intact batches after the end of the chain of sizes, and says so."""
    return re.search(rf"^{re.escape(path)}, position .*; batches go on at position \d+", err, re.MULTILINE) is not None


@pytest.mark.parametrize("name", SOURCES)
def test_records_are_what_kafka_reads(run: Run, name: str) -> None:
    paths, expected = source(name)
    everything = ("--control", "--include", "deleted")
    result = run("cat", "--json", "--bytes", "base64", *everything, *paths)
    given = by_file(result.json)
    broken = errors(expected, "records")
    wrong_inside = {  # of which the file reader takes no notice, but a consumer throws there
        (match[1], int(match[2]))
        for match in re.finditer(r"^(.+), position (\d+): the checksum of an inner message", result.err, re.MULTILINE)
    }
    for path, lines in expected.items():
        compressed = {line["position"] for line in lines if line["type"] == "batch" and line["compression"] != "none"}
        may_be_fewer = broken[path] & compressed
        undecoded = {line["offset"] for line in lines if "controlError" in line}
        ours = [as_expected(line, path, undecoded) for line in given.pop(path, [])]
        if goes_on(result.err, path):
            known = {line["position"] for line in lines if line["type"] == "batch"}
            ours = [line for line in ours if line["batchPosition"] in known]
        theirs = [comparable(line) for line in first_at_their_offsets(lines)]
        may_be_fewer |= {position for file, position in wrong_inside if file == path}
        assert by_position(ours, may_be_fewer) == by_position(theirs, may_be_fewer), path
    assert not given
    assert_told(result.err, errors(expected, "batches", "ensureValid", "records"))
    leaves_out = "were left out, as a consumer gets" in result.err
    is_damaged = bool(wrong_inside) or leaves_out or any(errors(expected, "batches", "ensureValid", "records").values())
    assert result.exit_code == (1 if is_damaged else 0)


def assert_told(err: str, errors: dict[str, set[int]]) -> None:
    """One line on stderr for each damaged place."""
    told = {(match[1], int(match[2])) for match in re.finditer(r"^(.+), position (\d+): ", err, re.MULTILINE)}
    missing = {(path, position) for path, positions in errors.items() for position in positions} - told
    assert not missing


def as_expected(line: Line, path: str, undecoded: set[int]) -> Line:
    assert (line.pop("topic"), line.pop("partition")) == topic_and_partition(path)
    assert line.pop("file") == path
    for name in ("key", "value"):
        value = None if line[name] is None else base64.b64decode(line[name], validate=True)
        if value is not None and len(value) > 1024:
            del line[name]
            line |= {f"{name}Len": len(value), f"{name}Sha256": hashlib.sha256(value).hexdigest()}
    if line["offset"] in undecoded:
        del line["control"]  # Kafka gives the record, but cannot tell what it controls
    return line


def comparable(line: Line) -> Line:
    line = {key: line[key] for key in line if key not in ("type", "file", "recordInvalid", "controlError")}
    line["headers"] = [list(header.values()) if isinstance(header, dict) else header for header in line["headers"]]
    return line


def by_position(records: list[Line], left_out: set[int]) -> dict[int, list[Line]]:
    """Records of each batch. How many are read of one that breaks in its compressed payload is a matter of buffers."""
    grouped: dict[int, list[Line]] = defaultdict(list)
    for record in records:
        if record["batchPosition"] not in left_out:
            grouped[record["batchPosition"]].append(record)
    return grouped


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_consumer_of_either_isolation_level_got_the_same_offsets(run: Run, isolation: str) -> None:
    (text,) = json_lines(broker_expected("clean") / "read-committed.json")
    partitions = text[isolation]
    result = run("cat", "--json", "--isolation", isolation, *(broker_data("clean") / name for name in partitions))
    offsets: dict[str, list[int]] = {name: [] for name in partitions}
    for line in result.json:
        offsets[f"{line['topic']}-{line['partition']}"].append(line["offset"])
    assert offsets == {name: partition["offsets"] for name, partition in partitions.items()}
    assert not any("control" in line for line in result.json)
