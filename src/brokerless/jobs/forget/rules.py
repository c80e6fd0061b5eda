"""Decides by rules which snapshots of a backup stay, each with the reasons.

What fills a place of a rule is complete, and has no end of a partition that is before the one of the last snapshot: a
false one, or one of disks that were lost, does not crowd out a true one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.log.backups.snapshot import Snapshot
from brokerless.requests.backups import ForgetRequest

_DAY_MS = 86_400_000
DELETED_TOPIC_MS = 90 * _DAY_MS
"""How long the last snapshot of a topic stays that later ones do not have."""
_PERIODS = {"hourly": "%Y%m%d%H", "daily": "%Y%m%d", "weekly": "%G%V", "monthly": "%Y%m", "yearly": "%Y"}


@dataclass(frozen=True, slots=True)
class KeepRules:
    """The rules by which snapshots of a backup stay."""

    last: int = 0
    """How many of the newest ones stay."""
    hourly: int = 0
    """Of so many hours (UTC) that have a snapshot, the newest one stays. ``daily``, ``weekly``, ``monthly`` and
    ``yearly`` are the same of days, weeks, months and years."""
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    drilled: int = 0
    """How many of the newest ones that passed a drill stay."""
    within_ms: int = 0
    """All stay that are not older than this, including those that are not complete."""

    @classmethod
    def of(cls, request: ForgetRequest) -> KeepRules | None:
        """Return what was requested; None where no rule was."""
        counts = {each: getattr(request, f"keep_{each}") for each in ("last", *_PERIODS, "drilled")}
        if not any(counts.values()) and not request.keep_within:
            return None
        return cls(**counts, within_ms=request.keep_within * _DAY_MS)

    def __post_init__(self) -> None:
        """Raises :class:`UsageError` where nothing is to stay."""
        counts = [getattr(self, each.name) for each in fields(self)]
        if any(each < 0 for each in counts):
            raise UsageError("a rule keeps no fewer than 0 snapshots")
        if not any(counts):
            raise UsageError("give at least one rule of what stays, such as --keep-daily 7")


@dataclass(frozen=True, slots=True)
class Decision:
    """A snapshot, and why it stays; without a reason it is forgotten."""

    snapshot: Snapshot
    reasons: tuple[str, ...]


def decide(
    snapshots: Sequence[Snapshot],
    stored: Mapping[str, int],
    rules: KeepRules,
    now: int,
    path: str,
    unsigned: Collection[str] = (),
    drilled: Collection[str] = (),
) -> tuple[list[Decision], list[Finding]]:
    """Decide which snapshots stay. ``snapshots``: the oldest first. ``stored``: when each came into the store (ms since
    the epoch), by its ID, as far as that is known: a rule keeps what it would by the one time or the other. ``path``:
    of the backup. ``unsigned``: IDs of snapshots that no trusted key has signed, which fill no place; ``drilled``: of
    those that passed a drill."""
    reasons: dict[str, list[str]] = {each.id: [] for each in snapshots}
    findings: list[Finding] = []
    groups: dict[object, list[Snapshot]] = {}
    for each in snapshots:
        of = frozenset(one.place for one in each.partitions) if each.is_selection else None
        groups.setdefault(of, []).append(each)
    for group in groups.values():
        signed = [each for each in group if each.id not in unsigned]
        counted = list(_counted(_last_of_sets(signed), path, findings.append))
        passed = [each for each in counted if each.id in drilled]
        for snapshot in passed[-rules.drilled :] if rules.drilled else ():
            reasons[snapshot.id].append("drilled")
        for time in (lambda each: each.created, lambda each: stored.get(each.id, each.created)):
            for snapshot, reason in _kept(counted, rules, time):
                reasons[snapshot.id].append(reason)
            for snapshot in group if rules.within_ms else ():
                reasons[snapshot.id] += ["within"] * (time(snapshot) >= now - rules.within_ms)
        newest = counted[-1].created if counted else -1
        for each in group:
            if each not in counted and each.created > newest:
                reasons[each.id].append("newer than what is complete")
    for each, topic in _last_of_topics(snapshots, now):
        reasons[each.id].append(f"last of {topic}")
    return [Decision(each, tuple(dict.fromkeys(reasons[each.id]))) for each in snapshots], findings


def _last_of_sets(group: Sequence[Snapshot]) -> list[Snapshot]:
    """Leave out what a later snapshot of the same set replaces: a host ran again, and the set was joined again."""
    last = {each.name: each.id for each in group if each.parts and each.is_complete}
    return [each for each in group if not each.parts or last.get(each.name, each.id) == each.id]


def _counted(group: Sequence[Snapshot], path: str, report: Callable[[Finding], object]) -> Iterator[Snapshot]:
    ends: dict[tuple[str, int], int] = {}
    for each in group:
        if not each.is_complete:
            continue
        own = {one.place: one.end_offset for one in each.partitions}
        lower = [one for one in each.partitions if one.end_offset < ends.get(one.place, 0)]
        if lower:
            text = f"{lower[0].name} ends at offset {lower[0].end_offset}, and at {ends[lower[0].place]} in one before"
            report(Kind.SNAPSHOT_SHRINKS.at(path, f"snapshot {each.id} fills no place of a rule: {text}"))
            continue
        ends |= own
        yield each


def _kept(
    counted: Sequence[Snapshot], rules: KeepRules, time: Callable[[Snapshot], int]
) -> Iterator[tuple[Snapshot, str]]:
    newest_first = sorted(counted, key=lambda each: (time(each), each.created), reverse=True)
    yield from ((each, "last") for each in newest_first[: max(rules.last, 1)])
    for name, pattern in _PERIODS.items():
        periods: dict[str, Snapshot] = {}
        for each in newest_first:
            periods.setdefault(f"{datetime.fromtimestamp(time(each) / 1000, UTC):{pattern}}", each)
        yield from ((each, name) for each in list(periods.values())[: getattr(rules, name)])


def _last_of_topics(snapshots: Sequence[Snapshot], now: int) -> Iterator[tuple[Snapshot, str]]:
    """The last snapshots with partitions that no later one has."""
    seen: set[tuple[str, int]] = set()
    for each in reversed(snapshots):
        new = [one for one in each.partitions if one.place not in seen]
        if new and seen and each.created >= now - DELETED_TOPIC_MS:
            yield each, new[0].topic
        seen |= {one.place for one in new}
