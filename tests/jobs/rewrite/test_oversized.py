from __future__ import annotations

import numpy as np

from brokerless.findings import Finding, Kind
from brokerless.jobs.rewrite.oversized import OversizedBatches, report_oversized
from brokerless.log.config import UNBOUNDED, LogConfig

SIZES, OFFSETS = np.array([100, 101, 5000, 7]), np.array([3, 4, 9, 20])


def found(config: LogConfig) -> list[Finding]:
    findings: list[Finding] = []
    report_oversized(SIZES, OFFSETS, config, "t-0", report=findings.append)
    return findings


def test_batches_that_are_larger_than_a_segment_are_one_finding() -> None:
    (finding,) = found(LogConfig(segment_bytes=100))
    assert (finding.kind, finding.severity, finding.offset) == (Kind.BATCH_ALONE, "warning", 4)
    assert "2 batches are larger than a segment was to be, up to 5,000 bytes" in finding.message
    (finding,) = found(LogConfig(segment_bytes=101))
    assert "a batch has 5,000 bytes, more than a segment was to have" in finding.message


def test_those_that_fit_are_none() -> None:
    assert not found(LogConfig(segment_bytes=5000))
    assert not found(UNBOUNDED)


def test_they_are_counted_over_many_buffers() -> None:
    oversized, findings = OversizedBatches(LogConfig(segment_bytes=100)), list[Finding]()
    for _ in range(3):
        oversized.add_sizes(SIZES, OFFSETS)
    oversized.report("t-0", findings.append)
    assert "6 batches" in findings[0].message
