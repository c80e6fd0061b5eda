"""Verify's first error is where Kafka's reader first throws; where that ends in silence, what is lost is one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.golden import CONSUMERS_THROW, Case, broker_data, cases, of_type

import brokerless
from brokerless.jobs.segment_checks import verify_file
from brokerless.log.storage.location import Location

CATEGORIES = ["formats", "articles", "specials", "framing", "damaged"]


def first_error(case: Case, name: str) -> tuple[int, int] | None:
    lines = [line for line in of_type(case.expected(), "error", name) if line["phase"] != "recordsNonStreaming"]
    return min((line["position"] for line in lines), default=None)


@pytest.mark.parametrize("category", CATEGORIES)
def test_the_first_error_is_where_kafkas_reader_first_throws(category: str) -> None:
    for case in cases(category):
        for log in case.logs:
            with Location(str(log)).open() as file:
                findings = list(verify_file(file))
            is_silent = first_error(case, log.name) is None
            errors = [each for each in findings if each.severity == "error"]
            if is_silent:  # an end that cannot be a batch, or after which batches follow, is an error all the same
                errors = [each for each in errors if each.kind not in ("no-batches", "batch-size-invalid")]
                resumes = any(each.kind == "batches-resume" for each in findings)
                errors = [] if resumes else errors
            # At these it is a consumer that throws, not the reader (tests/kafka/test_consumed_cases.py).
            errors = [each for each in errors if each.kind not in CONSUMERS_THROW]
            found = errors[0].position if errors else None
            assert found == first_error(case, log.name), (log, findings)
            assert all(finding.file == str(log) for finding in findings)


@pytest.mark.parametrize("broker", ["clean", "old-formats"])
def test_nothing_is_wrong_in_what_a_broker_left_at_a_clean_stop(broker: str) -> None:
    assert list(brokerless.open(broker_data(broker)).verify()) == []


def test_a_killed_brokers_directory_has_only_the_damage_that_recovery_repairs() -> None:
    findings = list(brokerless.open(broker_data("unclean")).verify())
    assert {finding.kind for finding in findings} == {"index-not-trimmed", "truncated-batch", "zero-tail"}
    assert [finding.severity for finding in findings if finding.kind == "truncated-batch"] == ["warning"]


def test_an_index_that_does_not_fit_its_log_is_found(tmp_path: Path) -> None:
    source = broker_data("clean") / "segments-0"
    shutil.copytree(source, tmp_path / "segments-0")
    index = sorted((tmp_path / "segments-0").glob("*.index"))[0]
    entries = bytearray(index.read_bytes())
    entries[7] ^= 1  # the first entry's position
    index.write_bytes(entries)
    findings = list(brokerless.open(tmp_path / "segments-0").verify())
    assert [(finding.severity, finding.kind, finding.file) for finding in findings] == [
        ("error", "offset-index-mismatch", str(index))
    ]


def test_a_segment_whose_name_is_above_its_offsets_is_found(tmp_path: Path) -> None:
    """Kafka counts offsets in indexes from the name on, and so refuses to recover it (``LogSegment``, 4.1.1)."""
    shutil.copytree(broker_data("clean") / "segments-0", tmp_path / "segments-0")
    _, second, third, *_ = sorted((tmp_path / "segments-0").glob("*.log"))
    for path in second.parent.glob(f"{second.stem}.*"):
        path.rename(path.with_name(f"{int(third.stem) - 1:020}{path.suffix}"))
    found = [each for each in brokerless.open(tmp_path / "segments-0").verify() if each.kind == "offset-order"]
    assert found
    assert (found[0].position, found[0].offset, found[0].found) == (0, int(second.stem), str(int(second.stem)))
    assert "below the offset that its file is named after" in found[0].message


def test_batches_after_a_break_are_found_and_checked(tmp_path: Path) -> None:
    source = sorted((broker_data("clean") / "codec-lz4-0").glob("*.log"))[0].read_bytes()
    damaged = bytearray(source)
    second = 12 + int.from_bytes(source[8:12], "big")
    damaged[second + 8 : second + 12] = (3).to_bytes(4, "big")
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(damaged)
    found = list(brokerless.open(path).verify())
    third = second + 12 + int.from_bytes(source[second + 8 : second + 12], "big")
    assert [(each.kind, each.position) for each in found] == [("batch-size-invalid", second), ("batches-resume", third)]
