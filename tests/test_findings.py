"""Findings and their kinds: each kind is described once, has a page, and is named by code in one way only."""

from __future__ import annotations

import ast
import json
import pickle
import re
import tomllib
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from scripts import update_findings

import brokerless
from brokerless.findings import Finding, Kind, advice_of, describe_kinds, remedy_of
from brokerless.jobs.restart.metadata_log import _ENDING  # pyright: ignore[reportPrivateUsage]
from brokerless.views.findings import explain_kind

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
OTHER_NAMES = {
    ("brokerless/log/recovery/plan.py", "index-missing"),
    ("brokerless/views/restart.py", "index-missing"),
}
"""Reasons of a recovery, which have the name of a finding."""
SEVERITIES = [set(each) for n in (1, 2, 3) for each in combinations(("info", "warning", "error"), n)]
COMMON_WORDS = {Kind.UNREADABLE, Kind.UNCOMMITTED}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCES.rglob("*.py")):
        if path.name != "findings.py" or path.parent.name != "brokerless":
            yield str(path.relative_to(SOURCES)), ast.parse(path.read_text())


def test_each_kind_is_described_once_and_in_the_order_of_its_name() -> None:
    table = tomllib.loads((SOURCES / "brokerless/findings.toml").read_text())
    assert list(table) == [kind.value for kind in Kind]
    assert [kind.name for kind in Kind] == [kind.value.upper().replace("-", "_") for kind in Kind]


@pytest.mark.parametrize("kind", Kind)
def test_a_description_has_a_page_a_sentence_and_an_advice(kind: Kind) -> None:
    described = describe_kinds()[kind]
    assert (ROOT / "docs" / f"{described.page}.md").exists()
    assert re.fullmatch(r"[A-Z].*[.]", described.sentence)
    assert re.fullmatch(r".*[^.]", described.advice)
    assert {*described.severities} in SEVERITIES


def test_no_kind_is_a_literal_elsewhere() -> None:
    names = {kind.value for kind in Kind} - COMMON_WORDS
    found = [
        f"{path}:{node.lineno}: {node.value}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in names and (path, node.value) not in OTHER_NAMES
    ]
    assert found == []


def test_each_kind_is_found_by_something() -> None:
    used = {
        node.attr
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind"
    }
    assert [kind.value for kind in Kind if kind.name not in used] == ["key-not-decoded"]  # by NOT_DECODED


def test_the_severities_of_findings_are_those_of_their_kinds() -> None:
    wrong: list[str] = []
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
                severity, kind = node.args[:2] if len(node.args) > 1 else (None, None)
                if isinstance(severity, ast.Constant) and ast.unparse(kind or severity).startswith("Kind."):
                    assert isinstance(kind, ast.Attribute)
                    known = describe_kinds()[Kind[kind.attr].value].severities
                    if severity.value not in known:
                        wrong.append(f"{path}:{node.lineno}: {kind.attr} {severity.value}, not {known}")
    assert wrong == []


def test_a_kind_is_its_text_wherever_it_goes() -> None:
    kind = Kind.OFFSET_GAP
    assert (str(kind), f"{kind}", repr(kind), json.dumps(kind)) == (
        "offset-gap", "offset-gap", "'offset-gap'", '"offset-gap"',
    )  # fmt: skip
    assert {"offset-gap": 1}[kind] == 1
    assert pa.array([kind], pa.string()).to_pylist() == ["offset-gap"]
    finding = Finding("warning", kind, "f", offset=1, message="text")
    assert pickle.loads(pickle.dumps(finding)) == finding
    assert "kind='offset-gap'" in repr(finding)


def test_findings_are_shown_in_notebooks() -> None:
    html = Finding("error", Kind.CHECKSUM_MISMATCH, "a.log", position=61, offset=7, message="<text>")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "error: checksum-mismatch" in html
    assert "&lt;text&gt;" in html


def test_advice_is_by_kind_and_a_kind_of_another_version_has_none() -> None:
    assert advice_of("index-not-trimmed") == "nothing"
    assert advice_of("of-the-future") is None
    assert brokerless.Kind is Kind


def test_the_page_of_findings_is_made_of_the_table() -> None:
    assert (ROOT / "docs/findings.md").read_text() == update_findings.page(), "stale: run `make format`"


# Remedies of causes for which a broker does not start, or does not serve a partition

MAKERS_OF_CAUSES = [
    *(SOURCES / "brokerless" / "jobs" / "restart").glob("*.py"),
    *(
        SOURCES / "brokerless" / "log" / "checkpoint" / f"{name}.py"
        for name in ("meta_properties", "offset_checkpoints", "partition_metadata", "quorum_state")
    ),
]
"""Those that make the findings."""
MAKERS = ("Finding", "read_lines")
OF_SEGMENTS = {"offset-index-mismatch"}
"""Reported in words of a partition (``unclosed``), and no cause of these."""


def causes() -> Iterator[Kind]:
    """All kinds that these modules name in a call: of findings, and of files that cannot be parsed."""
    for module in MAKERS_OF_CAUSES:
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                yield from (Kind[each.attr] for each in node.args if is_kind(each) and isinstance(each, ast.Attribute))


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind"


def test_each_kind_that_a_dry_run_reports_has_a_remedy() -> None:
    found = {
        *causes(),
        *_ENDING,
        Kind.LOG_REFUSED,
        Kind.LOG_END_DAMAGED,
        Kind.CHECKPOINT_CORRUPT,
        Kind.REMOTE_EPOCHS_LOST,
        Kind.UNREADABLE_FILE,
    } - OF_SEGMENTS
    assert len(found) > 30
    assert {kind for kind, described in describe_kinds().items() if described.remedy is not None} == found


def test_a_remedy_is_a_sentence_for_a_kind_or_a_finding() -> None:
    finding = Finding("error", Kind.PARTITION_REPEATED, "orders-0", message="it is there twice")
    assert remedy_of(finding) == remedy_of("partition-repeated") == describe_kinds()[Kind.PARTITION_REPEATED].remedy
    assert "keep the one that the metadata names" in remedy_of(finding)
    with pytest.raises(KeyError):
        remedy_of("no-such-kind")
    assert all(re.fullmatch(r"[^.]*[a-z]{3}.*[^.]", each.remedy) for each in describe_kinds().values() if each.remedy)
    assert f"before a start: {remedy_of('topic-unknown')}" in list(explain_kind("topic-unknown"))
