"""What is new in partitions since they were exported: which offsets, read by which tasks; nothing is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from brokerless.errors import Finding, UnreadableError, UsageError
from brokerless.format.codecs.inflate import DEFAULT_LIMIT
from brokerless.interchange import export_directory, export_state
from brokerless.interchange.export_state import Exported, ExportState
from brokerless.interchange.parquet_files import FILE_BYTES, ParquetLayout
from brokerless.jobs.export.missing import present
from brokerless.kafka_names import COMPRESSION_TYPES, ISOLATION_LEVELS, Isolation
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import topic_id_of
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import missing_offsets, missing_segment
from brokerless.log.positions import position_of_offset
from brokerless.log.ranges import Range
from brokerless.log.seek import log_start_after_end
from brokerless.log.segment import ignore
from brokerless.log.storage import paths
from brokerless.log.storage.directory_lock import is_locked
from brokerless.log.storage.paths import StorageOptions, open_file
from brokerless.offset_spans import Span, union

_TASK_BYTES = 1 << 30
"""Bytes of segments that are one task; read_committed needs a whole partition at once."""


@dataclass(frozen=True, slots=True)
class Export:
    """How partitions are exported. ``by_date``: by the record's date (UTC) as well. ``codec``: of Parquet.
    ``file_bytes``: about how large a file gets. ``limit``: bytes that one batch may inflate to. ``dry_run``: everything
    is done but writing. ``allow_removed``: files of earlier runs may have been removed on purpose."""

    by_date: bool = False
    isolation: Isolation = "read_uncommitted"
    codec: str = "zstd"
    file_bytes: int = FILE_BYTES
    limit: int = DEFAULT_LIMIT
    dry_run: bool = False
    allow_removed: bool = False


@dataclass(frozen=True, slots=True)
class ExportTask:
    """The offsets ``[start, end)`` of a partition, of which ``source`` has the segments. ``is_live``: a broker runs on
    the log, which may end within a batch.

    ``missing``: offsets that are not in the log, and ``findings`` about them. ``mark``: where the last run ended, if
    this task takes offsets before it that were missing then. ``whole``: all of the partition, where its transactions
    decide."""

    source: PartitionPath
    topic: str
    partition: int
    start: int
    end: int
    is_last: bool
    is_live: bool
    size: int
    export: Export
    layout: ParquetLayout
    storage_options: StorageOptions | None = None
    missing: tuple[Span, ...] = ()
    findings: tuple[Finding, ...] = ()
    mark: int | None = None
    whole: PartitionPath | None = None


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What is to be done. ``unchanged``: how many partitions have nothing new. ``findings``: of those of which nothing
    can be read."""

    directory: str
    tasks: tuple[ExportTask, ...]
    manifests: dict[str, ExportState | None]
    topic_ids: dict[str, str | None]
    export: Export
    storage_options: StorageOptions | None
    unchanged: int = 0
    findings: tuple[Finding, ...] = ()


def plan(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str],
    directory: str | os.PathLike[str],
    export: Export,
    storage_options: StorageOptions | None = None,
    to_storage_options: StorageOptions | None = None,
) -> ExportPlan:
    """What is new in partitions, which are in ``sources``, the paths that were given; nothing is written yet.

    Raises :class:`UsageError` for what cannot be exported to ``directory``: partitions that come twice or are of
    unknown names, another topic of the same name, another layout or isolation than before.
    """
    to = str(output_directory(directory, sources))
    export_directory.check_target(to, to_storage_options)
    _check(export)
    manifests: dict[str, ExportState | None] = {}
    topic_ids: dict[str, str | None] = {}
    named: dict[str, PartitionPath] = {}
    for each in partitions:
        if each.topic is None or each.partition is None:
            raise UsageError(f"{each.path}: which partition this is cannot be told; give its directory, as orders-0")
        name = names.partition_directory(each.topic, each.partition)
        if name in named:
            raise UsageError(f"{name} is both in {named[name].path} and in {each.path}; export one of them")
        named[name] = each
        if each.topic not in manifests:
            manifests[each.topic] = export_state.load(to, each.topic, to_storage_options)
        known = topic_id_of(each.partition_metadata, storage_options)
        _check_same(to, each, known or topic_ids.get(each.topic), topic_ids.get(each.topic), manifests, export)
        topic_ids[each.topic] = known or topic_ids.get(each.topic)
    tasks: list[ExportTask] = []
    findings: list[Finding] = []
    unchanged = 0
    for each in named.values():
        before = manifests[each.topic or ""]
        exported = None if before is None else before.partitions.get(each.partition or 0)
        own = list(_tasks(each, exported, to, export, storage_options, to_storage_options, findings))
        topic_id = topic_ids[each.topic or ""] or (None if before is None else before.topic_id)
        own = [replace(task, layout=replace(task.layout, topic=each.topic, topic_id=topic_id)) for task in own]
        unchanged += not own
        tasks += own
    if not export.allow_removed:
        findings += _removed(to, manifests, named.values(), to_storage_options)
    return ExportPlan(to, tuple(tasks), manifests, topic_ids, export, to_storage_options, unchanged, tuple(findings))


def _removed(
    to: str,
    manifests: dict[str, ExportState | None],
    partitions: Iterable[PartitionPath],
    storage_options: StorageOptions | None,
) -> Iterator[Finding]:
    """Partitions of which fewer files are there than were written."""
    there: dict[str, Counter[int]] = {}
    for each in partitions:
        topic, partition = each.topic or "", each.partition or 0
        before = manifests[topic]
        exported = None if before is None else before.partitions.get(partition)
        if exported is None or exported.files is None or exported.until is not None:
            continue
        if topic not in there:
            there[topic] = export_state.count_files(to, topic, storage_options)
        missing = exported.files - there[topic][partition]
        if missing > 0:
            where, name = export_state.topic_directory(to, topic), names.partition_directory(topic, partition)
            text = (
                f"{missing} of {exported.files} exported files of {name} went missing here. If they were removed on "
                "purpose, export with --allow-removed; to write again what the log still has, move "
                "this directory away and export anew"
            )
            yield Finding("error", "exported-files-missing", where, None, None, text)


def _check(export: Export) -> None:
    if export.codec not in COMPRESSION_TYPES:
        raise UsageError(f"codec: there is no {export.codec!r} in Parquet; there are {', '.join(COMPRESSION_TYPES)}")
    if export.isolation not in ISOLATION_LEVELS:
        text = f"isolation: {export.isolation!r} is neither 'read_uncommitted' nor 'read_committed'"
        raise UsageError(text)
    if export.file_bytes < 1:
        raise UsageError(f"file_bytes: {export.file_bytes} is no number of bytes")


def _check_same(
    to: str,
    source: PartitionPath,
    topic_id: str | None,
    other_id: str | None,
    manifests: dict[str, ExportState | None],
    export: Export,
) -> None:
    """Refuses what would be mixed with something else."""
    topic = source.topic or ""
    before = manifests[topic]
    where = export_state.topic_directory(to, topic)
    for known in (other_id, None if before is None else before.topic_id):
        if topic_id is not None and known is not None and topic_id != known:
            raise UsageError(
                f"{where}: this is an export of the topic {topic} with ID {known}, and {source.path} is of another "
                f"one, with ID {topic_id}; export it to another directory"
            )
    if before is None:
        return
    if before.by_date != export.by_date:
        layout = "by date" if before.by_date else "without dates"
        raise UsageError(f"{where}: this was exported {layout}; go on so, or export to another directory")
    if before.isolation != export.isolation:
        level = before.isolation
        raise UsageError(f"{where}: this was exported with isolation {level}; go on so, or export to another directory")


def _tasks(
    source: PartitionPath,
    exported: Exported | None,
    to: str,
    export: Export,
    storage_options: StorageOptions | None,
    to_storage_options: StorageOptions | None,
    findings: list[Finding],
) -> Iterator[ExportTask]:
    """What is new in one partition; and what is said of it, if that is not known to be a task's."""
    topic, partition = source.topic or "", source.partition or 0
    if not source.segments:
        findings.extend(source.findings)
        return
    first = source.start_offset or 0
    if (finding := log_start_after_end(source, storage_options)) is not None:
        findings.append(finding)
        return
    start = first if exported is None else max(first, exported.next_offset)
    if exported is not None and first > exported.next_offset:
        text = "the log begins behind what was exported so far: what is between was deleted before it was exported"
        expected, found = f"offset {exported.next_offset}", f"{first}"
        findings.append(Finding("error", "missing-offsets", source.path, None, first, text, expected, found))
    try:
        end = _end_offset(source, storage_options)
    except UnreadableError as error:
        findings.append(_unreadable(source, error))
        return
    if end < start:
        text = "the log ends before what was exported of it: it was cut back, or is that of a replica that is behind"
        findings.append(
            Finding("error", "log-end-before-export", source.path, None, end, text, f"offset {start}", f"{end}")
        )
    directory = None if export.dry_run else export_state.topic_directory(to, topic)
    layout = ParquetLayout(directory, partition, export.by_date, export.codec, export.file_bytes, to_storage_options)
    make = partial(
        ExportTask, topic=topic, partition=partition, export=export, layout=layout, storage_options=storage_options
    )
    filled, lacking = _fills(source, exported, end, storage_options)
    findings.extend(lacking)
    fills = [
        make(
            replace(source, segments=(own := Range(*span).segments(source.segments)), findings=()),
            start=span[0],
            end=span[1],
            is_last=False,
            is_live=False,
            size=sum(segment.size for segment in own),
            mark=0 if exported is None else exported.next_offset,
            whole=source,
        )
        for span in filled
    ]
    if end <= start:
        yield from (replace(each, is_last=each is fills[-1]) for each in fills)
        return
    yield from fills
    is_live = not paths.is_remote(source.path) and is_locked(Path(paths.local(source.path)).resolve().parent)
    pieces = list(_pieces(source, start, end, _TASK_BYTES if export.isolation == "read_uncommitted" else None))
    for number, (piece, begin, stop) in enumerate(pieces):
        size = sum(segment.size for segment in piece.segments) - _skipped(piece, begin, storage_options)
        is_last = number == len(pieces) - 1
        missing = [] if number or exported is None else [(exported.next_offset, first)]
        told = [] if is_last else _missing_after(source, piece.segments[-1], storage_options)
        missing += [(each.start, each.stop) for each in map(missing_offsets, told)]
        yield make(
            piece,
            start=begin,
            end=stop,
            is_last=is_last,
            is_live=is_live and is_last,
            size=size,
            missing=tuple(union(missing)),
            findings=tuple(told),
        )


def _fills(
    source: PartitionPath, exported: Exported | None, end: int, storage_options: StorageOptions | None
) -> tuple[list[Span], list[Finding]]:
    """What was missing in earlier runs and is there now, and findings about what is missing still."""
    filled: list[Span] = []
    findings: list[Finding] = []
    if exported is None:
        return filled, findings
    for first, after in exported.missing:
        found, lacking = present(source, (first, min(after, exported.next_offset)), end, storage_options)
        filled += found
        findings += [each for each in lacking if each not in findings]
    return filled, findings


def _missing_after(
    source: PartitionPath, segment: SegmentPaths, storage_options: StorageOptions | None
) -> list[Finding]:
    """What is missing between the segments of two tasks; within one, it is found as they are read."""
    after = next((each.base_offset for each in source.segments if each.base_offset > segment.base_offset), None)
    for each in open_segments(source, ignore, Range(segment.base_offset, after), storage_options):
        finding = missing_segment(each.partition, each.segment, each.file, storage_options)
        return [] if finding is None else [finding]
    return []


def _unreadable(source: PartitionPath, error: UnreadableError) -> Finding:
    return Finding("error", "unreadable-file", source.path, None, None, str(error))


def _pieces(source: PartitionPath, start: int, end: int, size: int | None) -> Iterator[tuple[PartitionPath, int, int]]:
    """The segments that hold ``[start, end)``, in groups of about ``size`` bytes, with their offsets."""
    segments = source.segments
    ends = [*(each.base_offset for each in segments[1:]), end]
    chosen = [(each, after) for each, after in zip(segments, ends, strict=True) if after > start]
    group, held = list[int](), 0
    for number, (segment, after) in enumerate(chosen):
        group.append(number)
        held += segment.size
        is_last = number == len(chosen) - 1
        if is_last or (size is not None and held >= size):
            own = tuple(chosen[each][0] for each in group)
            findings = source.findings if is_last else ()
            begin = max(start, own[0].base_offset) if group[0] else start
            yield replace(source, segments=own, findings=findings), begin, after
            group, held = [], 0


def _skipped(piece: PartitionPath, start: int, storage_options: StorageOptions | None) -> int:
    """Bytes at the start of the first segment that need not be read."""
    segment = piece.segments[0]
    if start <= segment.base_offset:
        return 0
    try:
        with open_file(segment.log.path, storage_options) as file:
            return position_of_offset(file, segment, start, storage_options)
    except UnreadableError:
        return 0


def _end_offset(source: PartitionPath, storage_options: StorageOptions | None) -> int:
    """The offset after the last one, by headers; the last segment may be empty."""
    from brokerless.tables.partition_reader import PartitionReader

    end = PartitionReader(source, storage_options).end_offset
    return max(source.segments[-1].base_offset, 0 if end is None else end)
