"""Formats a run as JUnit's XML, which CI servers show: a test case for each partition, which fails with its errors."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree

from brokerless.findings import Finding
from brokerless.text import readable, show
from brokerless.views.monitoring.checked_run import CheckedRun

_MOST = 100
"""Findings that are written of a partition."""


def junit(run: CheckedRun) -> bytes:
    """Return the document. Errors are failures; warnings and infos are the output of their test case; what could not be
    opened, and what is in no partition, is a test case of its own."""
    suite = ElementTree.Element("testsuite", name="brokerless verify")
    failures = 0
    of_paths: dict[str, list[Finding]] = {path: [] for path in run.places}
    for path, finding in run.findings:
        of_paths.setdefault(path, []).append(finding)
    for path, findings in of_paths.items():
        place = run.places.get(path)
        group, name = ("directory", "directory") if place is None else (place.topic or "files", place.name)
        case = ElementTree.SubElement(suite, "testcase", classname=_text(group), name=_text(name))
        failures += _fill(case, findings)
    for each in run.unread:
        case = ElementTree.SubElement(suite, "testcase", classname="paths", name=_text(each.partition(":")[0]))
        ElementTree.SubElement(case, "error", message=_text(each), type="unreadable")
    tests, errors = len(suite), len(run.unread)
    totals = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "time": f"{run.duration_s:.3f}"}
    suite.attrib.update({**totals, "timestamp": datetime.fromtimestamp(run.started_ms / 1000, UTC).isoformat()[:19]})
    root = ElementTree.Element("testsuites", totals)
    root.append(suite)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _fill(case: ElementTree.Element, findings: list[Finding]) -> bool:
    """Writes the findings of a test case; returns whether it fails."""
    errors = [each for each in findings if each.severity == "error"]
    others = [each for each in findings if each.severity != "error"]
    if errors:
        more = f" and {len(errors) - 1} more" if len(errors) > 1 else ""
        failure = ElementTree.SubElement(
            case, "failure", message=_text(f"{errors[0].message}{more}"), type=errors[0].kind
        )
        failure.text = _lines(errors)
    if others:
        ElementTree.SubElement(case, "system-out").text = _lines(others)
    return bool(errors)


def _lines(findings: list[Finding]) -> str:
    more = [f"and {len(findings) - _MOST:,} more"] if len(findings) > _MOST else []
    return "\n".join([*(_text(f"{each.severity} {each}") for each in findings[:_MOST]), *more])


def _text(value: str) -> str:
    """Return a text without the characters that XML cannot have."""
    return show(readable(value))
