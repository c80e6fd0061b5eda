"""Verifies what is new: a task for each segment, then one for the rest of each partition that changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic

from brokerless import clock
from brokerless.clusters.missing_partitions import partition_missing
from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.jobs.ledger import Checked, DamagedRange, Ledger, path_of
from brokerless.jobs.pipeline.settings import Settings
from brokerless.jobs.pipeline.sources import Copies, is_selected
from brokerless.jobs.recovered.damaged_regions import PlacedRegion, Region, bounded_regions
from brokerless.jobs.recovered.intact_batches import find_intact_batches
from brokerless.jobs.run.job import run
from brokerless.jobs.run.types import RunOptions, RunPlace
from brokerless.jobs.verify.job import (
    VerifyRestTask,
    VerifyTask,
    VerifyTaskResult,
    checked_segment,
    verify_rest_task,
    verify_segment_task,
)
from brokerless.jobs.verify.partition import check_directory, verify_rest
from brokerless.log import names
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths
from brokerless.log.offset_gaps import missing_offsets
from brokerless.log.offsets_once.findings import not_above
from brokerless.log.storage import paths
from brokerless.log.storage.directory_lock import is_locked
from brokerless.offset_spans import Span, union, without
from brokerless.progress import Done, ignore
from brokerless.table_formats.export_state import Exported, LeftOutOffsets

_SAVE_S = 15.0
"""Seconds of verification that a kill may cost."""
_NONE = -1
_TO_THE_END = 1 << 62


def plan_checks(partitions: Iterable[PartitionPath], ledger: Ledger, settings: Settings) -> list[VerifyTask]:
    """Return a task for each segment that was not verified in the state that it has now."""
    return [
        VerifyTask(each, segment, settings.max_batch_bytes)
        for each in partitions
        for segment in each.segments
        if _is_new(segment, ledger)
    ]


def _is_new(segment: SegmentPaths, ledger: Ledger) -> bool:
    """Return whether a segment was not verified in its state, or nobody looked for damaged ranges in it."""
    known = ledger.verified(segment)
    return known is None or not known.has_ranges


def check(
    partitions: Iterable[PartitionPath],
    tasks: Sequence[VerifyTask],
    ledger: Ledger,
    run_id: str,
    *,
    place: RunPlace,
    done: Done = ignore,
) -> list[Checked]:
    """Does the tasks, and records in the ledger what they found, every few seconds; then the same for what concerns a
    partition as a whole, of those with a task, or of which that is not known. Returns what is new, by partition."""
    added: list[Checked] = []

    def add(checked: Checked) -> None:
        before = ledger.entries.get(checked.key)
        known = ((), ()) if before is None or not before.has_ranges else (before.findings, before.ranges)
        ledger.add(checked)
        added.append(_without(checked, *known))

    saved = monotonic()
    with closing(run(check_segment, tasks, RunOptions(done, place), name="brokerless pipeline: verify")) as results:
        for index, value in results:
            verified, ranges = value
            add(replace(checked_segment(tasks[index], verified, run_id), ranges=ranges))
            if monotonic() - saved > _SAVE_S:
                ledger.flush()
                saved = monotonic()
    changed = {each.path: each for each in partitions if each.segments and ledger.get("partition", each.path) is None}
    changed |= {task.partition.path: task.partition for task in tasks}
    late: list[VerifyRestTask] = []
    for partition in changed.values():
        if _has_transactions(partition, ledger):
            late.append(VerifyRestTask(partition))
        else:
            add(_of_partition(partition, verify_rest(partition, False), ledger, run_id))  # fmt: skip
    with closing(run(verify_rest_task, late, RunOptions(spark=place), name="brokerless pipeline: verify")) as rests:
        for index, found in rests:
            add(_of_partition(late[index].partition, found, ledger, run_id))
    ledger.flush()
    return sorted(added, key=lambda each: (each.topic or "", each.partition or 0, each.path))


def check_segment(task: VerifyTask, done: Done) -> tuple[VerifyTaskResult, tuple[DamagedRange, ...]]:
    """Verifies a segment, and if something is wrong, finds the ranges that are in no intact batch."""
    verified = verify_segment_task(task, done)
    findings = verified.findings
    if verified.unreadable is not None:
        findings = (*findings, verified.unreadable.finding(task.segment.log.path))
    if _is_being_written(task):
        findings = tuple(each for each in findings if each.kind != Kind.TRUNCATED_BATCH)
    ranges: list[DamagedRange] = []
    if verified.unreadable is None and any(each.severity != "info" for each in findings):
        ranges = find_damaged_ranges(task)
    ranges += [_missing(each) for each in findings if each.kind == Kind.MISSING_SEGMENT]
    return replace(verified, findings=findings), tuple(ranges)


def find_damaged_ranges(task: VerifyTask) -> list[DamagedRange]:
    """Return what of a segment is in no intact batch; neighbours of one kind are one range where there are
    thousands."""
    segment = task.segment
    regions = bounded_regions()
    pending: list[Region] = []
    try:
        with segment.log.location.open() as file:
            for each in find_intact_batches(file, task.max_batch_bytes):
                if isinstance(each, Region):
                    pending.append(each)
                    continue
                regions.add((region, int(each["first"][0])) for region in pending)
                pending = []
    except UnreadableError:  # gone since it was verified, as a broker's retention does it
        return []
    following = [other.base_offset for other in task.partition.segments if other.base_offset > segment.base_offset]
    after = following[0] if following else _TO_THE_END
    if _is_being_written(task) and not following:
        pending = [each for each in pending if each.kind != Kind.TRUNCATED_BATCH]
    regions.add((region, after) for region in pending)
    return [_range(placed, segment.base_offset) for placed in regions.items if not placed[0].is_empty]


def _range(placed: PlacedRegion, base_offset: int) -> DamagedRange:
    region, before = placed
    first = base_offset if region.after is None else region.after
    if first >= before:
        return DamagedRange(
            region.file,
            region.position,
            region.size,
            firstOffset=None,
            lastOffset=None,
            kind=region.kind,
            message=region.message,
        )
    last = None if before == _TO_THE_END else before - 1
    return DamagedRange(
        region.file,
        region.position,
        region.size,
        firstOffset=first,
        lastOffset=last,
        kind=region.kind,
        message=region.message,
    )


def _missing(finding: Finding) -> DamagedRange:
    missing = missing_offsets(finding)
    return DamagedRange(
        finding.file,
        None,
        0,
        firstOffset=missing.start,
        lastOffset=missing.stop - 1,
        kind=finding.kind,
        message=finding.message,
    )


def gone_partitions(
    copies: Copies, ledger: Ledger, settings: Settings, directories: Iterable[LogDirectory]
) -> list[Checked]:
    """Selected partitions that a run before verified below the paths of this one, and of which no copy has a segment
    now: each as it was known, with one finding, an error unless all of the topic is gone, as a topic may be deleted."""
    there = {(each.topic, each.partition) for own in copies.values() for each in own if each.segments}
    topics = {topic for topic, _ in there}
    roots = {*settings.paths, *(each.path for each in directories)}
    below = tuple(paths.join(path_of(root), "") for root in roots)
    gone: dict[tuple[str, int | None], Checked] = {}
    for each in ledger.entries.values():
        is_known = each.kind == "partition" and paths.join(each.path, "").startswith(below)
        if not is_known or each.topic is None or (each.topic, each.partition) in there:
            continue
        if is_selected(each.topic, settings):
            severity = "error" if each.topic in topics else "warning"
            name = names.partition_directory(each.topic, each.partition or 0)
            finding = partition_missing(each.path, name, "earlier-run", severity=severity)
            gone.setdefault((each.topic, each.partition), replace(each, findings=(finding,)))
    return list(gone.values())


def not_exported(
    partition: PartitionPath | Checked, left_out: Iterable[LeftOutOffsets], listed: Iterable[DamagedRange]
) -> Iterator[DamagedRange]:
    """Offsets that an export left out and that no damaged range has: of segments that were not verified, or that
    changed since."""
    spans = union([_span(each.firstOffset, each.lastOffset) for each in listed if each.firstOffset is not None])
    for first, last in left_out:
        if last is None and any(start <= first < stop for start, stop in spans):
            continue  # and what is after that is not known to have been there
        for start, stop in without([_span(first, last)], spans):
            end = None if stop == _TO_THE_END else stop - 1
            yield DamagedRange(
                partition.path,
                None,
                0,
                firstOffset=start,
                lastOffset=end,
                kind=Kind.NOT_EXPORTED,
                message="left out by the export, as damaged",
            )


def is_left_out(found: DamagedRange, exported: Exported) -> bool:
    """Return whether a table lacks any offset of a range before the end of what was exported."""
    if found.firstOffset is None:
        return True
    first, end = _span(found.firstOffset, found.lastOffset)
    own = [(first, max(first + 1, min(end, exported.next_offset)))]
    lacking = union([*(_span(*each) for each in exported.left_out), *exported.missing])
    return without(own, union([*lacking, (exported.next_offset, _TO_THE_END)])) != own


def _span(first: int, last: int | None) -> Span:
    return first, _TO_THE_END if last is None else last + 1


def _is_being_written(task: VerifyTask) -> bool:
    """Return whether a broker may be about to write the rest of the last batch."""
    path = task.partition.path
    is_last = task.segment == task.partition.segments[-1]
    return is_last and not paths.is_remote(path) and is_locked(Path(paths.local(path)).resolve().parent)


def _of_partition(partition: PartitionPath, rest: Iterable[Finding], ledger: Ledger, run_id: str) -> Checked:
    """Return what concerns a partition as a whole: names, first segments, markers, checkpoints, and overlapping
    segments."""
    findings = [*check_directory(partition), *_overlaps(partition, ledger), *rest]
    ranges = [_missing(each) for each in findings if each.kind == Kind.MISSING_SEGMENT]
    return Checked(
        "partition",
        path_of(partition.path),
        "",
        verified=clock.now(),
        runId=run_id,
        topic=partition.topic,
        partition=partition.partition,
        findings=tuple(findings),
        ranges=tuple(ranges),
    )


def _overlaps(partition: PartitionPath, ledger: Ledger) -> Iterable[Finding]:
    """Segments that begin at or below an offset that the one before has: each was verified by itself."""
    highest = _NONE
    for segment in partition.segments:
        own = ledger.get("segment", segment.log.path)
        if own is None or own.firstOffset is None or own.lastOffset is None:
            continue
        if own.firstOffset <= highest:
            text = "offsets do not go up: the segment begins at or below an offset that was there before"
            yield not_above(segment.log.path, None, own.firstOffset, highest, text=text)
        highest = max(highest, own.lastOffset)


def _has_transactions(partition: PartitionPath, ledger: Ledger) -> bool:
    known = (ledger.get("segment", segment.log.path) for segment in partition.segments)
    return any(each is not None and each.hasTransactions for each in known) or any(
        segment.transaction_index is not None for segment in partition.segments
    )


def _without(checked: Checked, findings: Sequence[Finding], ranges: Sequence[DamagedRange]) -> Checked:
    """Return only findings that were not known before."""
    known = {(each.kind, each.position, each.offset) for each in findings}
    seen = {(each.kind, each.position, each.firstOffset) for each in ranges}
    return replace(
        checked,
        findings=tuple(each for each in checked.findings if (each.kind, each.position, each.offset) not in known),
        ranges=tuple(each for each in checked.ranges if (each.kind, each.position, each.firstOffset) not in seen),
    )
