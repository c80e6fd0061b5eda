"""Shows what a drill tried and found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from brokerless.jobs.drill.results import CheckName, DrillCheck, DrillResult
from brokerless.text import count_of, format_bytes
from brokerless.views.text import format_times

_CLEAN: Mapping[CheckName, str] = {
    "rebuild": "nothing is lost",
    "verify": "intact",
    "start": "a start changes nothing",
    "offsets": "starts, ends and numbers of records as in the snapshot",
    "positions": "none is past an end",
    "broker": "a consumer got what the snapshot has",
}


def drill_lines(result: DrillResult) -> Iterator[str]:
    """Yield what each check tried and found, what was not tried, and the verdict."""
    snapshot = result.snapshot
    (time,) = format_times([snapshot.created])
    name = "" if snapshot.name is None else f" ({snapshot.name})"
    yield f"snapshot {snapshot.id}{name} of {time}"
    for each in result.checks:
        yield f"{each.name:9}  {drill_counts(each)}: {drill_verdict(each)}"
        yield from (f"  lost     {text}" if each.name == "rebuild" else f"  {text}" for text in each.lost)
        yield from (f"  {finding.severity:8} {finding}" for finding in each.findings)
    if result.kafka is not None:
        yield f"the broker was Kafka {result.kafka}"
    yield f"not tried: {'; '.join(result.not_tried)}"
    if result.scratch is not None:
        yield f"the rebuilt cluster is in {result.scratch}"
    failed = [each.name for each in result.checks if not each.is_clean]
    seconds = seconds_of(result.ended - result.began)
    yield f"{'clean' if not failed else 'not clean: ' + ', '.join(failed)}; {seconds} s"


def seconds_of(duration: int) -> str:
    """Return ms for people."""
    return f"{duration / 1000:.1f}"


def drill_verdict(check: DrillCheck) -> str:
    """Return how a check went."""
    return _CLEAN[check.name] if check.is_clean else "not as it should be"


def drill_counts(check: DrillCheck) -> str:
    """Return how much a check tried."""
    counts = check.counts
    if check.name == "verify":
        return f"{count_of(counts['logs'], 'log')}, {format_bytes(counts['bytes'])}"
    if check.name == "start":
        return f"{count_of(counts['nodes'], 'node')}"
    if check.name == "offsets":
        return f"{count_of(counts['partitions'], 'partition')}, {count_of(counts['records'], 'record')}"
    if check.name == "positions":
        where = f"{counts['onRecord']:,} on a record, {counts['atEnd']:,} at the end"
        return f"{count_of(counts['positions'], 'position')} of {count_of(counts['groups'], 'group')}, {where}"
    if check.name == "broker":
        where = f"{count_of(counts['records'], 'record')}, {counts['committed']:,} of them with read_committed"
        return f"{count_of(counts['partitions'], 'partition')}, {where}"
    return f"{count_of(counts['partitions'], 'partition')}"
