"""Formats findings, grouped by severity and kind, as there may be thousands of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from brokerless.findings import Finding, Severity, describe_kinds
from brokerless.text import show_name
from brokerless.views.screen import colored
from brokerless.views.table import count_of

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first."""
SHOWN = 5
"""Findings of one kind that are shown."""


def is_at_least(finding: Finding, severity: Severity) -> bool:
    """Whether a finding is as bad as ``severity``, or worse."""
    return SEVERITIES.index(finding.severity) <= SEVERITIES.index(severity)


@dataclass(slots=True)
class _Kind:
    first: list[Finding]
    last: Finding
    count: int = 0
    files: int = 0


def explain_kind(kind: str) -> Iterator[str]:
    """Say what a kind of finding means, what to do about it, and where the documents speak of it."""
    described = describe_kinds()[kind]
    yield f"{kind} ({' or '.join(described.severities)})"
    yield described.sentence
    yield f"what to do: {described.advice}"
    if described.remedy is not None:
        yield f"before a start: {described.remedy}"
    yield f"more: docs/{described.page}.md"


class FindingGroups:
    """Collects findings by severity and kind: how many there are, the first ones and the last."""

    def __init__(self) -> None:
        self.counts: Counter[Severity] = Counter()
        self._kinds: dict[tuple[int, str], _Kind] = {}

    def add(self, finding: Finding) -> None:
        self.counts[finding.severity] += 1
        kind = self._kinds.setdefault((SEVERITIES.index(finding.severity), finding.kind), _Kind([], finding))
        kind.files += kind.count == 0 or kind.last.file != finding.file
        kind.count, kind.last = kind.count + 1, finding
        if len(kind.first) < SHOWN:
            kind.first.append(finding)

    def lines(self) -> Iterator[str]:
        """The worst first; of each kind the first few, how many more, and where the last one is."""
        for _, kind in sorted(self._kinds.items(), key=lambda each: each[0][0]):
            for finding in kind.first:
                yield f"{colored(finding.severity, 7)}  {show_name(str(finding))}"
            more = kind.count - len(kind.first)
            if more:
                place = (
                    kind.last.file if kind.last.position is None else f"{kind.last.file}, position {kind.last.position}"
                )
                of_kind = (
                    f"{more:,} more of this kind ({kind.last.kind}), {kind.count:,} in {count_of(kind.files, 'file')}"
                )
                yield f"{'':7}  ... and {of_kind}; the last: {show_name(place)}"

    def verdict(self) -> str:
        """``2 errors, 1 warning``."""
        return f"{count_of(self.counts['error'], 'error')}, {count_of(self.counts['warning'], 'warning')}"
