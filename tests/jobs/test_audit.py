"""What real brokers left has no errors; and each kind of finding is made from a broker's files by a small change."""

from __future__ import annotations

import pytest
from tests.golden import broker_data

from brokerless.errors import Finding
from brokerless.jobs.audit import PartitionAudit, audit_directory, audit_partition
from brokerless.jobs.audits.notes import load_notes
from brokerless.log.directory import resolve

NOW = 1_795_300_000_000
"""ms: after all golden files were written."""


def audit(path: object) -> tuple[dict[str, PartitionAudit], list[Finding]]:
    """All audits of a path, by the partition's name, and all findings."""
    directory = resolve(str(path))
    notes = load_notes(directory)
    audits = [audit_partition(each, notes.of(each), NOW) for each in directory.partitions]
    findings = [finding for each in audits for finding in each.findings]
    return {f"{each.topic}-{each.partition}": each for each in audits}, [
        *findings,
        *audit_directory(directory, notes, audits),
    ]


NORMAL = {
    "clean": {"transaction-open"},
    "old-formats": {"legacy-format", "no-timestamps", "leader-epoch-checkpoint-missing"},
    "unclean": {"high-watermark-before-start", "transaction-open", "unclean-stop", "zero-tail"},
}
KILLED = {"truncated-batch", "index-missing"}
"""What is missing of the killed broker's files."""


@pytest.mark.parametrize("broker", NORMAL)
def test_what_brokers_left_has_no_errors(broker: str) -> None:
    _, findings = audit(broker_data(broker))
    assert {each.kind for each in findings if each.severity == "info"} == NORMAL[broker]
    assert {each.kind for each in findings if each.severity != "info"} == (KILLED if broker == "unclean" else set())
    assert not [each for each in findings if each.severity == "error"]
