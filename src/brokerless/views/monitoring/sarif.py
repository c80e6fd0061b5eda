"""Formats a run as SARIF 2.1.0, which code scanning and editors show: results of findings, rules of their kinds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from brokerless.findings import Finding, Severity, describe_kinds
from brokerless.jobs.audit.advice import advice_at
from brokerless.log.storage import paths
from brokerless.text import readable
from brokerless.views.monitoring.checked_run import CheckedRun

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def sarif(run: CheckedRun, version: str) -> str:
    """Return the document. ``version``: of brokerless."""
    kinds = sorted({str(finding.kind) for _, finding in run.findings})
    notes = [{"level": "error", "message": {"text": readable(each)}} for each in run.unread]
    if run.left_out:
        notes.append({"level": "note", "message": {"text": f"{run.left_out:,} more findings are left out"}})
    invocation: dict[str, Any] = {
        "executionSuccessful": not run.unread,
        "exitCode": run.exit_code,
        "startTimeUtc": _time(run.started_ms),
        "endTimeUtc": _time(run.ended_ms),
    }
    if notes:
        invocation["toolExecutionNotifications"] = notes
    rules = [_rule(kind, [finding for _, finding in run.findings if finding.kind == kind]) for kind in kinds]
    results = [_result(run, path, finding, kinds) for path, finding in run.findings]
    driver = {"name": "brokerless", "version": version, "rules": rules}
    own = {"tool": {"driver": driver}, "invocations": [invocation], "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [own]}, indent=1) + "\n"


def _rule(kind: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """The advice is that for the places of the findings: on a broker's disk, in a bucket, or in both."""
    advice = dict.fromkeys(each for finding in findings if (each := advice_at(finding)) is not None)
    sentence = describe_kinds()[kind].sentence
    return {"id": kind, "shortDescription": {"text": sentence}, "help": {"text": "; or else: ".join(advice)}}


def _result(run: CheckedRun, path: str, finding: Finding, kinds: list[str]) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.position is not None:
        place["region"] = {"byteOffset": finding.position}
    location: dict[str, Any] = {"physicalLocation": place}
    if path in run.places:
        location["logicalLocations"] = [{"fullyQualifiedName": readable(run.places[path].name), "kind": "resource"}]
    known = {"offset": finding.offset, "expected": finding.expected, "found": finding.found}
    result: dict[str, Any] = {
        "ruleId": str(finding.kind),
        "ruleIndex": kinds.index(str(finding.kind)),
        "level": _LEVELS[finding.severity],
        "message": {"text": readable(finding.message)},
        "locations": [location],
    }
    properties = {
        name: readable(each) if isinstance(each, str) else each for name, each in known.items() if each is not None
    }
    return {**result, "properties": properties} if properties else result


def _uri(path: str) -> str:
    if paths.is_remote(path):
        return quote(readable(path), safe=":/?#[]@!$&'()*+,;=~%")
    return Path(paths.local(path)).absolute().as_uri()


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
