"""Whether findings are as src/brokerless/findings.toml describes their kinds."""

from __future__ import annotations

from collections.abc import Iterable

from brokerless.findings import Finding, describe_kinds


def undescribed(findings: Iterable[Finding]) -> list[Finding]:
    """Return those whose severity is none of their kind's."""
    kinds = describe_kinds()
    return [each for each in findings if each.severity not in kinds[each.kind].severities]
