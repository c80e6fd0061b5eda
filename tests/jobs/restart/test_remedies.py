"""No cause for which a broker does not start, or does not serve a partition, lacks a remedy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import brokerless
from brokerless.findings import Finding, Kind
from brokerless.jobs.restart.metadata_log import _ENDING  # pyright: ignore[reportPrivateUsage]
from brokerless.jobs.restart.remedies import LOG_END_DAMAGED, LOG_REFUSED, REMEDIES, remedy_of

SOURCE = Path(brokerless.__file__).parent
MODULES = [
    *(SOURCE / "jobs" / "restart").glob("*.py"),
    *(
        SOURCE / "log" / "checkpoint" / f"{name}.py"
        for name in ("meta_properties", "offset_checkpoints", "partition_metadata", "quorum_state")
    ),
]
"""Those that make the findings."""
MAKERS = ("Finding", "read_lines")
OF_SEGMENTS = {"offset-index-mismatch"}
"""Reported in words of a partition (``unclosed``), and no cause of these."""


def kinds() -> Iterator[Kind]:
    """All kinds that these modules name in a call: of findings, and of files that cannot be parsed."""
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                yield from (Kind[each.attr] for each in node.args if is_kind(each) and isinstance(each, ast.Attribute))


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind"


def test_each_kind_that_a_dry_run_reports_has_a_remedy() -> None:
    found = {*kinds(), *_ENDING, LOG_REFUSED, LOG_END_DAMAGED, "checkpoint-corrupt", "unreadable-file"} - OF_SEGMENTS
    assert len(found) > 30
    assert found - REMEDIES.keys() == set()
    assert REMEDIES.keys() - found == set()


def test_a_remedy_is_a_sentence_for_a_kind_or_a_finding() -> None:
    finding = Finding("error", Kind.PARTITION_REPEATED, "orders-0", None, None, "it is there twice")
    assert remedy_of(finding) == remedy_of("partition-repeated") == REMEDIES["partition-repeated"]
    assert "keep the one that the metadata names" in remedy_of(finding)
    with pytest.raises(KeyError):
        remedy_of("no-such-kind")
    assert all(re.search("[a-z]{3}", each) for each in REMEDIES.values())
