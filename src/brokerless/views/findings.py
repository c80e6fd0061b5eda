"""Formats findings, grouped by severity and kind, as there may be thousands of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from brokerless.findings import SEVERITIES, Finding, Kind, Severity, describe_kinds, harm_of
from brokerless.jobs.audit.advice import abort_command, advice_at
from brokerless.log.tiered.object_names import partition_directory_of
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views import screen
from brokerless.views.screen import colored, wrapped
from brokerless.views.text import format_times

if TYPE_CHECKING:
    from brokerless.jobs.turns import Turn

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
    scopes = described.by_scope
    by_scope = "" if scopes is None else ", ".join(f"{scope}: {each}" for scope, each in scopes._asdict().items())
    yield f"{kind} ({by_scope or ' or '.join(described.severities)})"
    yield described.sentence
    yield f"what to do: {described.advice}"
    if described.remedy is not None:
        yield f"before a start: {described.remedy}"
    yield f"more: docs/{described.page}.md"


@dataclass(slots=True)
class _Equal:
    """Findings that say the same, of different places."""

    first: Finding
    last: Finding
    count: int = 1
    files: int = 1
    has_one_text: bool = True
    """Whether they expect and found the same as well."""


@dataclass(slots=True)
class _KindSummary:
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
        """Create empty groups. ``all_of_them``: equal ones stay apart, up to :data:`MOST` of a kind."""
        self.counts: Counter[Severity] = Counter()
        self.index_counts: Counter[Severity] = Counter()
        self.places: Counter[str] = Counter()
        self._kinds: dict[tuple[int, int, int, str], _KindSummary] = {}
        self._shown, self._keeps_apart = (MOST if all_of_them else SHOWN), all_of_them

    @property
    def has_errors(self) -> bool:
        """Whether any finding is an error, of records or of indexes."""
        return bool(self.counts["error"] or self.index_counts["error"])

    def add(self, finding: Finding, count: int = 1) -> None:
        """Add a finding. ``count``: how often it was found; more than once where only the first ones are known."""
        (self.index_counts if concerns_indexes(finding) else self.counts)[finding.severity] += count
        if finding.severity == "error" and concerns_records(finding):
            self.places[_partition(finding.file)] += count
        kind = self._kinds.setdefault(
            (*harm_of(finding.severity, finding.kind), finding.kind), _KindSummary({}, finding)
        )
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


def root_of(paths: Iterable[str]) -> str:
    """Return what the paths of a command line begin with, up to the last ``/`` of that: what comes after it is enough
    to find a file, and fits a line. Empty where they have nothing in common but the root of all files."""
    given = {path.rstrip("/") for path in paths}
    if len(given) == 1:
        return f"{given.pop()}/"
    names = takewhile(lambda each: len(set(each)) == 1, zip(*(path.split("/") for path in given), strict=False))
    common = [each[0] for each in names]
    return f"{'/'.join(common)}/" if any(common) else ""


def relative_to(text: str, root: str) -> str:
    """Return a path, or a text that begins with one, without what all have in common (:func:`root_of`)."""
    return text.removeprefix(root)


def finding_line(finding: Finding, root: str = "") -> str:
    """Return a finding as one line for people, its path from ``root`` on."""
    return show_name(relative_to(str(finding), root))


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield what is to be known before a restore: an empty line, findings with what was found, another empty line."""
    if findings:
        yield ""
    for each in findings:
        yield f"{each.severity}: {each.message}" + (f" ({each.found})" if each.found else "")
    yield ""


def summary_line(name: str, text: str) -> Iterator[str]:
    """Return a line of a summary, wrapped to the screen."""
    return marked(f"{name:8}", show_name(text), " " * 10)


def turn_line(turn: Turn, verified: str = "verified") -> str:
    """Return how much a run with a budget did, and how far all such runs have come. ``verified``: what it did."""
    read, total = format_bytes(turn.bytes), format_bytes(turn.total)
    since = turn.oldest
    if since is None:
        so_far = format_bytes(turn.verified_bytes)
        return f"{verified} {read} of {total} in this run; {so_far} so far, and the rest in the next"
    return f"{verified} {read} of {total} in this run; all was {verified} since {format_times([since], 's')[0]}"


def not_written(name: str, path: str, damages: Sequence[Finding]) -> str:
    """Return why a partition was not written. Only what is damaged is for salvage: of what this user may not read, all
    may be intact."""
    by_kind = {each.kind: each.message for each in reversed(damages)}
    if Kind.BATCH_REFUSED in by_kind:
        return f"{name} {by_kind[Kind.BATCH_REFUSED]}"
    if Kind.NOT_BLANKED in by_kind:
        return f"{name} was not written: {by_kind[Kind.NOT_BLANKED]}"
    if Kind.PERMISSION_DENIED in by_kind:
        return f"{name} was not written, as this user may not read all of it; nothing is known to be damaged"
    return f"{name} was not written, as it is damaged; see brokerless verify {path}, or use brokerless salvage"


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
        return finding_line(first, root)
    text = relative_to(str(first if equal.has_one_text else replace(first, expected=None, found=None)), root)
    last = "" if equal.last == first else f"; the last: {_place(equal.last, root)}"
    files = f" in {count_of(equal.files, 'file')}" if equal.files > 1 else ""
    return show_name(f"{text} ({equal.count:,} times{files}{last})")


def _place(finding: Finding, root: str) -> str:
    file = relative_to(finding.file, root)
    return show_name(file if finding.position is None else f"{file}, position {finding.position}")


def _advice(kind: _KindSummary) -> Iterator[str]:
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
