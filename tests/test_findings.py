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
from brokerless.findings import Finding, Kind, advice_of, describe_kinds

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
    finding = Finding("warning", kind, "f", None, 1, "text")
    assert pickle.loads(pickle.dumps(finding)) == finding
    assert "kind='offset-gap'" in repr(finding)


def test_findings_are_shown_in_notebooks() -> None:
    html = Finding("error", Kind.CHECKSUM_MISMATCH, "a.log", 61, 7, "<text>")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "error: checksum-mismatch" in html
    assert "&lt;text&gt;" in html


def test_advice_is_by_kind_and_a_kind_of_another_version_has_none() -> None:
    assert advice_of("index-not-trimmed") == "nothing"
    assert advice_of("of-the-future") is None
    assert brokerless.Kind is Kind


def test_the_page_of_findings_is_made_of_the_table() -> None:
    assert (ROOT / "docs/findings.md").read_text() == update_findings.page(), "stale: run `make format`"
