"""Findings and their kinds: each kind is described once, has a page, and is named by code in one way only."""

from __future__ import annotations

import ast
import json
import pickle
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest
from scripts import update_findings

import brokerless
from brokerless.clusters.placement import KINDS, MADE_STRAY, UNSERVED, Verdict
from brokerless.clusters.start.metadata_log import _ENDING  # pyright: ignore[reportPrivateUsage]
from brokerless.findings import Finding, Kind, Severities, describe_kinds, remedy_of
from brokerless.views.findings import explain_kind

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
OTHER_NAMES = {
    ("brokerless/log/recovery/trust.py", "index-missing"),
    ("brokerless/views/restart.py", "index-missing"),
    ("brokerless/clusters/placement.py", "topic-unknown"),
    ("brokerless/clusters/placement.py", "partition-unknown"),
}
"""Reasons of a recovery and verdicts, which have the name of a finding."""
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
            if kind := kind_that_is_found(node):
                assert isinstance(node, ast.Call)
                described = describe_kinds()[kind]
                given = next((each.value for each in node.keywords if each.arg == "severity"), None)
                known = described.severities
                if given is None and described.by_scope is None and len(known) > 1:
                    wrong.append(f"{path}:{node.lineno}: {kind} is one of {known}")
                elif isinstance(given, ast.Constant) and given.value not in known:
                    wrong.append(f"{path}:{node.lineno}: {kind} {given.value}, not {known}")
    assert wrong == []


def kind_that_is_found(node: ast.AST) -> Kind | None:
    """The kind of a call such as ``Kind.OFFSET_GAP.at(path)``."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "at"):
        return None
    of = node.func.value
    return Kind[of.attr] if isinstance(of, ast.Attribute) and is_kind(of) else None


def test_findings_are_made_by_their_kinds() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding"
    ]
    assert [each for each in found if not each.startswith("brokerless/jobs/ledger.py:")] == []


def test_a_finding_takes_what_is_not_passed_from_its_kind() -> None:
    finding = Kind.OFFSET_GAP.at("a.log", offset=7)
    assert (finding.severity, finding.message) == ("warning", "offsets between two batches are in no batch")
    assert finding.severities == ("warning", "warning", "warning")
    assert Kind.OFFSET_ORDER.at("a.log").severity == "error"  # the worst of several


def test_a_finding_may_have_a_severity_of_its_own_in_each_scope() -> None:
    finding = Kind.OFFSET_ORDER.at("a.log", severity=Severities("info", "error", "warning"))
    shown = [finding.in_scope(scope).severity for scope in ("log", "start", "cluster")]
    assert (finding.severity, shown, finding.severities.worst) == ("info", ["info", "error", "warning"], "error")
    assert finding.in_scope("start").as_dict()["scope"] == "start"


def test_readers_leave_something_out_by_the_table_of_kinds() -> None:
    left_out = {each.kind for each in map(at_its_worst, Kind) if each.leaves_out and each.severity != "error"}
    assert {*left_out} >= {"uncommitted", "remote-objects-unread", "remote-segment-needed"}
    assert [Kind.REMOTE_AHEAD.at("a", severity=each).leaves_out for each in ("warning", "info")] == [True, False]
    assert [
        Kind.UNCOMMITTED.at("a", severity="warning").is_unread,
        Kind.TRUNCATED_BATCH.at("a", severity="warning").is_unread,
    ] == [True, False]


def at_its_worst(kind: Kind) -> Finding:
    described = describe_kinds()[kind]
    return kind.at("a", severity=described.by_scope or described.severities[0])


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
    assert Kind.LEFTOVER_FILE.at("a.log").advice == "nothing"
    assert replace(Kind.LEFTOVER_FILE.at("a.log"), kind="of-the-future").advice is None  # type: ignore[arg-type]
    assert brokerless.Kind is Kind


def test_advice_is_that_of_the_case_of_its_severity_or_of_the_kind_that_decides() -> None:
    missing = Kind.INDEX_MISSING.at("a.log")
    assert missing.in_case("offset").advice == "nothing"
    assert "time index" in (missing.in_case("time").advice or "")
    assert Kind.ZERO_TAIL.at("a.log", severity="info").advice == "nothing"
    assert Kind.ZERO_TAIL.at("a.log").advice == describe_kinds()["zero-tail"].advice
    kept = missing.in_case(Kind.ABORT_MARKER_MISSING)
    assert kept.advice == describe_kinds()["abort-marker-missing"].advice
    assert remedy_of(kept) == remedy_of(Kind.ABORT_MARKER_MISSING)
    assert "case" not in kept.as_dict()


def test_the_page_of_findings_is_made_of_the_table() -> None:
    assert (ROOT / "docs/findings.md").read_text() == update_findings.page(), "stale: run `make format`"


def test_the_page_of_a_start_has_all_verdicts_and_the_tables_severities() -> None:
    text = (ROOT / "docs/start.md").read_text()
    assert text == update_findings.start_page(), "stale: run `make format`"
    named = {row["kind"] for row in update_findings.ROW.finditer(text)}
    assert named >= {*KINDS.values()}


# Remedies of causes for which a broker does not start, or does not serve a partition

MAKERS_OF_CAUSES = [
    *(each for each in (SOURCES / "brokerless" / "clusters" / "start").glob("*.py") if each.stem != "effects"),
    *(
        SOURCES / "brokerless" / "log" / "checkpoint" / f"{name}.py"
        for name in ("meta_properties", "offset_checkpoints", "partition_metadata", "quorum_state")
    ),
]
"""Those that make the findings."""
MAKERS = ("read_lines",)


def causes() -> Iterator[Kind]:
    """All kinds that these modules name in a call: of findings, and of files that cannot be parsed."""
    for module in MAKERS_OF_CAUSES:
        for node in ast.walk(ast.parse(module.read_text())):
            if kind := kind_that_is_found(node):
                yield kind
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS:
                yield from (Kind[each.attr] for each in node.args if is_kind(each) and isinstance(each, ast.Attribute))


def is_kind(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Kind"


def test_each_kind_that_a_dry_run_reports_has_a_remedy() -> None:
    found = {
        *causes(),
        *_ENDING,
        Kind.LOG_REFUSED,
        Kind.LOG_END_DAMAGED,
        Kind.META_PROPERTIES_MISSING,
        Kind.METADATA_GAP,
        Kind.METADATA_MISSING,
        Kind.SNAPSHOT_NOT_WHOLE,
        Kind.UNCOMMITTED,
        Kind.CHECKPOINT_CORRUPT,
        Kind.REMOTE_EPOCHS_LOST,
        Kind.UNREADABLE_FILE,
        Kind.PERMISSION_DENIED,
        Kind.TRANSACTION_INDEX_MISMATCH,
        Kind.ABORT_MARKER_MISSING,
        Kind.LOG_START_BEYOND_END,
        *(KINDS[each] for each in (*MADE_STRAY, *UNSERVED, Verdict.TWICE, Verdict.BLOCKED, Verdict.ID_CORRUPT)),
    }
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
