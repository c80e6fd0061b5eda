"""``cluster`` prints what :func:`brokerless.cluster` gives: sections for people, all tables for programs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.golden import broker_data

import brokerless
from brokerless.clusters.description import SCHEMAS

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_sections_are_printed(run: Run) -> None:
    result = run("cluster", DEMO)
    assert result.exit_code == 0
    assert result.lines[0] == "cluster bdhh6u6GT8yYm_jDxKDkxQ, metadata.version 4.1-IV1 (27)"
    for name in ("disks:", "nodes:", "topics:", "configs:", "features:", "groups:"):
        assert name in result.lines
    (orders,) = [line for line in result.lines if line.startswith("  orders ")]
    assert orders.split() == ["orders", "hTkhp5wHQYqIlvaYUVGlzA", "3", "3", "of", "3", "378.4", "KB"]


def test_json_has_all_of_every_table(run: Run) -> None:
    found = brokerless.cluster(DEMO)
    lines = run("cluster", DEMO, "--json").json
    for name in SCHEMAS:
        rows = [
            {key: value for key, value in line.items() if key != "table"} for line in lines if line["table"] == name
        ]
        assert rows == found.rows[name], name


def test_acls_have_kafkas_names_beside_their_codes(run: Run, tmp_path: Path) -> None:
    codes = {"resourceType": 4, "patternType": 3, "operation": 8, "permissionType": 3}
    acl = {"id": "A" * 21 + "g", "resourceName": "kafka-cluster", "principal": "User:*", "host": "*", **codes}
    state = tmp_path / "state.jsonl"
    lines = run("cluster", DEMO, "--json").out
    state.write_bytes(lines + json.dumps({"table": "acls", **acl}).encode() + b"\n")
    assert run("rebuild", DEMO, "--to", tmp_path / "to", "--state", state, "--apply").exit_code == 0
    node = tmp_path / "to" / "node-1"
    (line,) = [line for line in run("cluster", node).lines if "User:*" in line]
    assert line.split() == ["CLUSTER", "kafka-cluster", "LITERAL", "User:*", "*", "DESCRIBE", "ALLOW"]
    (row,) = [row for row in run("cluster", node, "--json").json if row["table"] == "acls"]
    names = {
        "resourceTypeName": "CLUSTER", "patternTypeName": "LITERAL", "operationName": "DESCRIBE",
        "permissionTypeName": "ALLOW",
    }  # fmt: skip
    assert row == {"table": "acls", **acl, **names}


def test_findings_are_printed_and_are_an_exit_code(run: Run) -> None:
    result = run("cluster", broker_data("old-formats"))
    assert result.exit_code == 1
    assert "there is no __cluster_metadata here" in result.lines[-1]
    assert run("cluster", broker_data("old-formats"), "--json").json[-1]["kind"] == "metadata-missing"


def test_what_is_no_disk_is_refused(run: Run) -> None:
    assert run("cluster", DEMO / "orders-0").exit_code == 2
    assert run("cluster", DEMO, "-t", "orders").exit_code == 2
    assert run("cluster", "/nowhere").exit_code == 2
