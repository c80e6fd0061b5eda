"""Formats findings, grouped by severity and kind, as there may be thousands of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from brokerless.findings import SEVERITIES, Finding, Severity, describe_kinds, harm_of
from brokerless.jobs.audit.advice import abort_command, advice_at
from brokerless.log.tiered.object_names import partition_directory_of
from brokerless.text import format_bytes, show_name
from brokerless.views import screen
from brokerless.views.screen import colored, wrapped
from brokerless.views.table import count_of
from brokerless.views.text import format_times

if TYPE_CHECKING:
    from brokerless.jobs.verify.turn import Turn

SHOWN = 5
"""Findings of one kind that are shown, if they do not say the same."""
MOST = 1000
"""Findings of one kind that are shown at most."""


def is_at_least(finding: Finding, severity: Severity) -> bool:
    """Return whether a finding is as bad as ``severity``, or worse."""
    return SEVERITIES.index(finding.severity) <= SEVERITIES.index(severity)


def explain_kind(kind: str) -> Iterator[str]:
    """Say what a kind of finding means, what to do about it, and where the documents speak of it."""
    described = describe_kinds()[kind]
    yield f"{kind} ({' or '.join(described.severities)})"
    yield described.sentence
    yield f"what to do: {described.advice}"
    if described.remedy is not None:
        yield f"before a start: {described.remedy}"
    yield f"more: docs/{described.page}.md"


@dataclass(slots=True)
class _Equal:
    """Findings that say the same, of different places; ``has_one_text``: they expect and found the same as well."""

    first: Finding
    last: Finding
    count: int = 1
    files: int = 1
    has_one_text: bool = True


@dataclass(slots=True)
class _Kind:
    equal: dict[str, _Equal]
    last: Finding
    count: int = 0
    files: int = 0
    advice: set[str | None] = field(default_factory=set[str | None])


def concerns_indexes(finding: Finding) -> bool:
    """Return whether a finding is about what a broker builds again from the records, so that none of these are lost."""
    return _concerns(finding.kind) == "indexes"


def concerns_records(finding: Finding) -> bool:
    """Return whether a finding is about records that are damaged, missing or not readable."""
    return _concerns(finding.kind) == "records"


def _concerns(kind: str) -> str | None:
    described = describe_kinds().get(kind)
    return None if described is None else described.concerns


class FindingGroups:
    """Collects findings by severity and kind, those that say the same as one: how many there are, the first and the
    last. ``counts`` are by severity, those about indexes apart; ``places``: in how many places records are damaged or
    missing, by partition or file."""

    def __init__(self, *, all_of_them: bool = False) -> None:
        """``all_of_them``: equal ones stay apart, up to :data:`MOST` of a kind."""
        self.counts: Counter[Severity] = Counter()
        self.index_counts: Counter[Severity] = Counter()
        self.places: Counter[str] = Counter()
        self._kinds: dict[tuple[int, int, int, str], _Kind] = {}
        self._shown, self._keeps_apart = (MOST if all_of_them else SHOWN), all_of_them

    def add(self, finding: Finding, count: int = 1) -> None:
        """``count``: how often it was found; more than once where only the first ones are known."""
        (self.index_counts if concerns_indexes(finding) else self.counts)[finding.severity] += count
        if finding.severity == "error" and concerns_records(finding):
            self.places[_partition(finding.file)] += count
        kind = self._kinds.setdefault((*harm_of(finding.severity, finding.kind), finding.kind), _Kind({}, finding))
        kind.files += kind.count == 0 or kind.last.file != finding.file
        kind.count, kind.last = kind.count + count, finding
        kind.advice.add(advice_at(finding))
        has_command = abort_command(finding) is not None
        text = str(finding) if self._keeps_apart or has_command else finding.message
        equal = kind.equal.get(text)
        if equal is not None:
            equal.files += equal.last.file != finding.file
            equal.has_one_text &= (equal.last.expected, equal.last.found) == (finding.expected, finding.found)
            equal.count, equal.last = equal.count + count, finding
        elif len(kind.equal) < self._shown:
            kind.equal[text] = _Equal(finding, finding, count)

    def lines(self, root: str = "", *, has_advice: bool = False) -> Iterator[str]:
        """Yield lines for findings, the worst first (:func:`brokerless.findings.harm_of`). Each kind shows its first
        few, how many more there are, and where the last one is. Paths are shown from ``root`` on."""
        for _, kind in sorted(self._kinds.items(), key=lambda each: each[0][:3]):
            for equal in kind.equal.values():
                yield from marked(colored(equal.first.severity, 7), _text(equal, root))
            more = kind.count - sum(each.count for each in kind.equal.values())
            if more:
                of_kind = (
                    f"{more:,} more of this kind ({kind.last.kind}), {kind.count:,} in {count_of(kind.files, 'file')}"
                )
                yield from marked(" " * 7, f"... and {of_kind}; the last: {_place(kind.last, root)}")
            if has_advice:
                yield from _advice(kind)

    def verdict(self) -> str:
        """``2 errors, 1 warning``, and how many there are of indexes."""
        text = _counted(self.counts)
        return f"{text}; of indexes: {_counted(self.index_counts)}" if self._has_indexes else text

    @property
    def is_clean(self) -> bool:
        """Whether there are neither errors nor warnings."""
        return not self._has_indexes and not self.counts["error"] and not self.counts["warning"]

    @property
    def _has_indexes(self) -> bool:
        return bool(self.index_counts["error"] or self.index_counts["warning"])


def summary_line(name: str, text: str) -> Iterator[str]:
    """A line of a summary, wrapped to the screen."""
    return marked(f"{name:8}", show_name(text), " " * 10)


def turn_line(turn: Turn) -> str:
    """Return how much a run with a budget verified, and how far all such runs have come."""
    read, total = format_bytes(turn.bytes), format_bytes(turn.total)
    since = turn.oldest
    if since is None:
        so_far = format_bytes(turn.verified_bytes)
        return f"verified {read} of {total} in this run; {so_far} so far, and the rest in the next"
    return f"verified {read} of {total} in this run; all was verified since {format_times([since], 's')[0]}"


def damaged_places(places: Counter[str]) -> str:
    """Return the partitions or files in which records are damaged or missing: ``orders-0 (2 places), orders-1``."""
    named = [f"{name} ({count:,} places)" if count > 1 else name for name, count in places.most_common(SHOWN)]
    more = len(places) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def _counted(counts: Counter[Severity]) -> str:
    return f"{count_of(counts['error'], 'error')}, {count_of(counts['warning'], 'warning')}"


def _partition(file: str) -> str:
    """Return what a file belongs to: a partition's directory, or itself."""
    return partition_directory_of(file) or PurePosixPath(file).name


def _text(equal: _Equal, root: str) -> str:
    first = equal.first
    if equal.count == 1:
        return show_name(str(replace(first, file=first.file.removeprefix(root))))
    text = str(first if equal.has_one_text else replace(first, expected=None, found=None))
    text = text.removeprefix(root)
    last = "" if equal.last == first else f"; the last: {_place(equal.last, root)}"
    files = f" in {count_of(equal.files, 'file')}" if equal.files > 1 else ""
    return show_name(f"{text} ({equal.count:,} times{files}{last})")


def _place(finding: Finding, root: str) -> str:
    file = finding.file.removeprefix(root)
    return show_name(file if finding.position is None else f"{file}, position {finding.position}")


def _advice(kind: _Kind) -> Iterator[str]:
    for advice in sorted(each for each in kind.advice if each not in (None, "nothing")):
        yield from marked(" " * 7, f"-> {advice}", " " * 12)
    for command in filter(None, (abort_command(each.first) for each in kind.equal.values())):
        yield f"{'':12}{show_name(command)}"


def marked(mark: str, text: str, indent: str = " " * 9) -> Iterator[str]:
    """``text`` after a mark, wrapped to the screen at its words."""
    width = screen.width()
    lines = [text] if width is None else wrapped(text, width - len(indent))
    for number, line in enumerate(lines):
        yield f"{indent if number else mark + '  '}{line}"
