"""Plans the tasks that export what is new in one partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.export.missing import intact, present
from brokerless.kafka_names import Isolation
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import open_segments
from brokerless.log.offset_gaps import missing_end, missing_offsets, missing_segment
from brokerless.log.positions import position_of_offset
from brokerless.log.ranges import Range
from brokerless.log.seek import end_offset, last_offset, log_start_after_end
from brokerless.log.segment import scan_headers
from brokerless.log.storage import paths
from brokerless.log.storage.directory_lock import is_locked
from brokerless.log.storage.location import Location
from brokerless.offset_spans import Span, union, without
from brokerless.progress import ignore
from brokerless.requests.writing import ExportForm, ExportRequest
from brokerless.table_formats import export_state
from brokerless.table_formats.catalog import Catalog
from brokerless.table_formats.export_state import Exported
from brokerless.table_formats.parquet_files import FILE_BYTES, ParquetLayout
from brokerless.tables.read_options import bound
from brokerless.typed.topic_type import Decoding, TopicType, decoding_of

_TASK_BYTES = 1 << 30
"""Bytes of segments that are one task; read_committed needs a whole partition at once."""


@dataclass(frozen=True, slots=True)
class Export:
    """The settings of an export."""

    by_date: bool = False
    """Whether files are split by the record's date (UTC) as well, as those of tables are."""
    isolation: Isolation = "read_uncommitted"
    codec: str = "zstd"
    """The codec of Parquet."""
    file_bytes: int = FILE_BYTES
    """About how large a file gets, in bytes."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""
    allow_removed: bool = False
    """Whether files of earlier runs may have been removed on purpose."""
    decoding: Decoding | None = None
    """How keys and values are typed; None leaves them bytes."""
    form: ExportForm = "parquet"
    """Parquet files alone, or a table of Iceberg or Delta for each topic."""
    catalog: Catalog = field(default_factory=Catalog)
    """Iceberg's catalog."""


def settings_of(request: ExportRequest) -> Export:
    """Return how it was requested. Raises :class:`UsageError`."""
    if request.catalog is not None and request.as_ != "iceberg":
        raise UsageError("--catalog, --catalog-property and --namespace are for --as iceberg")
    catalog = request.catalog if isinstance(request.catalog, Catalog) else Catalog(request.catalog)
    return Export(
        request.by_date,
        request.isolation,
        request.compression,
        file_bytes=request.file_bytes or FILE_BYTES,
        max_batch_bytes=bound(request.max_batch_bytes),
        dry_run=request.dry_run,
        allow_removed=request.allow_removed,
        decoding=decoding_of(request.decode),
        form=request.as_,
        catalog=catalog,
    )


@dataclass(frozen=True, slots=True)
class ExportTask:
    """A task: export the offsets ``[start, end)`` of a partition."""

    source: PartitionPath
    """The partition's segments."""
    topic: str
    partition: int
    start: int
    end: int
    is_last: bool
    is_live: bool
    """Whether a broker runs on the log, which may end within a batch."""
    size: int
    export: Export
    layout: ParquetLayout
    missing: tuple[Span, ...] = ()
    """Offsets that are not in the log."""
    findings: tuple[Finding, ...] = ()
    """Findings about the missing offsets."""
    mark: int | None = None
    """Where the last run ended, if this task takes offsets before it that were missing or damaged then."""
    whole: PartitionPath | None = None
    """All of the partition, where its transactions decide."""
    topic_type: TopicType | None = None


def tasks_of(
    source: PartitionPath,
    exported: Exported | None,
    to: Location,
    export: Export,
    findings: list[Finding],
) -> Iterator[ExportTask]:
    """Yield the tasks for what is new in one partition. ``findings`` gets those that no task reports."""
    topic, partition = source.place
    bounds = _new_offsets(source, exported, findings)
    if bounds is None:
        return
    start, end = bounds
    directory = None if export.dry_run else export_state.topic_directory(to, topic)
    layout = ParquetLayout(directory, partition, export.by_date, codec=export.codec, file_bytes=export.file_bytes)
    make = partial(ExportTask, topic=topic, partition=partition, export=export, layout=layout)
    filled, lacking = _fills(source, exported, end)
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
        findings += _findings_after_last_batch(source, start)
        yield from (replace(each, is_last=each is fills[-1]) for each in fills)
        return
    yield from fills
    yield from _tasks_after(make, source, exported, span=(start, end), export=export)


def _new_offsets(source: PartitionPath, exported: Exported | None, findings: list[Finding]) -> Span | None:
    """Return the offsets from where the last run ended, or the log starts, to the end of the log; None if nothing can
    be read."""
    if not source.segments:
        findings.extend(source.findings)
        return None
    first = source.start_offset or 0
    if (finding := log_start_after_end(source)) is not None:
        findings.append(finding)
        return None
    start = first if exported is None else max(first, exported.next_offset)
    if exported is not None and first > exported.next_offset:
        text = (
            "the log starts after what was exported so far: the offsets between were deleted before they were exported"
        )
        expected, found = f"offset {exported.next_offset}", f"{first}"
        findings.append(Kind.MISSING_OFFSETS.at(source.path, text, offset=first, expected=expected, found=found))
    try:
        end = _end_offset(source)
    except UnreadableError as error:
        findings.append(error.finding(source.path))
        return None
    findings += _findings_of_batchless_end(source)
    if end < start:
        text = "the log ends before what was exported of it: it was truncated, or is that of a replica that lags"
        expected, found = f"offset {start}", f"{end}"
        findings.append(
            Kind.LOG_END_BEFORE_EXPORT.at(
                source.path, text, severity="error", offset=end, expected=expected, found=found
            )
        )
    return start, end


def _findings_of_batchless_end(source: PartitionPath) -> list[Finding]:
    """Return what is wrong with a last segment in which no batch begins: as there is no offset to read, no task opens
    it."""
    findings: list[Finding] = []
    last = source.segments[-1]
    if last.size:
        # Where a broker has replaced the file since it was listed, the end of the log was found in the new file.
        with suppress(UnreadableError), last.log.location.open() as file:
            if next(scan_headers(file, findings.append), None) is not None:
                return []
    elif (missing := missing_end(source)) is not None:
        findings.append(missing)
    is_being_written = bool(findings) and _is_live(source)
    return [each for each in findings if not (is_being_written and each.kind == Kind.TRUNCATED_BATCH)]


def _findings_after_last_batch(source: PartitionPath, start: int) -> list[Finding]:
    """Return what is wrong after the last batch of a log of which all was exported before ``start``: an earlier run has
    reported it, and left it to the next one."""
    findings: list[Finding] = []
    last = source.segments[-1]
    if last.base_offset >= start or _is_live(source):
        return []
    with suppress(UnreadableError), last.log.location.open() as file:
        for _ in scan_headers(file, findings.append, position_of_offset(file, last, start)):
            findings.clear()  # what is between batches is recorded as left out
    return findings


def left_out_before(exported: Exported | None, tasks: Iterable[ExportTask]) -> list[Span]:
    """Return the offsets that earlier runs left out as damaged, without those that ``tasks`` read."""
    known = () if exported is None else exported.left_out
    spans = union([(first, last + 1) for first, last in known if last is not None])
    return list(without(spans, union([(each.start, each.end) for each in tasks if each.mark is not None])))


def _is_live(source: PartitionPath) -> bool:
    """Return whether a broker may be writing to it."""
    return not paths.is_remote(source.path) and is_locked(Path(paths.local(source.path)).resolve().parent)


def _tasks_after(
    make: Callable[..., ExportTask], source: PartitionPath, exported: Exported | None, span: Span, export: Export
) -> Iterator[ExportTask]:
    """The tasks for ``span``, which is after everything exported so far."""
    is_live = _is_live(source)
    splits = list(_splits(source, *span, _TASK_BYTES if export.isolation == "read_uncommitted" else None))
    for number, (split, begin, stop) in enumerate(splits):
        is_last = number == len(splits) - 1
        missing = [] if number or exported is None else [(exported.next_offset, source.start_offset or 0)]
        gaps = [] if is_last else _missing_after(source, split.segments[-1])
        missing += [(each.start, each.stop) for each in map(missing_offsets, gaps)]
        yield make(
            split,
            start=begin,
            end=stop,
            is_last=is_last,
            is_live=is_live and is_last,
            size=sum(segment.size for segment in split.segments) - _skipped(split, begin),
            missing=tuple(union(missing)),
            findings=tuple(gaps),
        )


def _fills(source: PartitionPath, exported: Exported | None, end: int) -> tuple[list[Span], list[Finding]]:
    """Return what was missing or damaged in earlier runs and is there now, and findings about what is missing still."""
    filled: list[Span] = []
    findings: list[Finding] = []
    if exported is None:
        return filled, findings
    for first, after in exported.missing:
        found, lacking = present(source, (first, min(after, exported.next_offset)), end)
        filled += found
        findings += [each for each in lacking if each not in findings]
    for first, last in exported.left_out:
        if last is not None:
            filled += intact(source, (first, min(last + 1, exported.next_offset, end)))
    return union(filled), findings


def _missing_after(source: PartitionPath, segment: SegmentPaths) -> list[Finding]:
    """Return what is missing between the segments of two tasks; within one, it is found as they are read."""
    after = next((each.base_offset for each in source.segments if each.base_offset > segment.base_offset), None)
    for each in open_segments(source, ignore, Range(segment.base_offset, after)):
        finding = missing_segment(each)
        return [] if finding is None else [finding]
    return []


def _splits(source: PartitionPath, start: int, end: int, size: int | None) -> Iterator[tuple[PartitionPath, int, int]]:
    """The segments that hold ``[start, end)``, in groups of about ``size`` bytes, with their offsets. What overlaps is
    in one group."""
    segments = source.segments
    ends = [*(each.base_offset for each in segments[1:]), end]
    chosen = [(each, after) for each, after in zip(segments, ends, strict=True) if after > start]
    group, size_of_group = list[int](), 0
    for number, (segment, after) in enumerate(chosen):
        group.append(number)
        size_of_group += segment.size
        is_last = number == len(chosen) - 1
        is_full = size is not None and size_of_group >= size
        if is_last or (is_full and _end_of(segment) <= after):
            own = tuple(chosen[each][0] for each in group)
            findings = source.findings if is_last else ()
            begin = max(start, own[0].base_offset) if group[0] else start
            yield replace(source, segments=own, findings=findings), begin, after
            group, size_of_group = [], 0


def _skipped(split: PartitionPath, start: int) -> int:
    """Bytes at the start of the first segment that need not be read."""
    segment = split.segments[0]
    if start <= segment.base_offset:
        return 0
    try:
        with segment.log.location.open() as file:
            return position_of_offset(file, segment, start)
    except UnreadableError:
        return 0


def _end_offset(source: PartitionPath) -> int:
    """The offset after the last one, by headers; the last segment may be empty. Where segments overlap, those right
    before the last one may go on further."""

    end = end_offset(source)
    end = max(source.segments[-1].base_offset, 0 if end is None else end)
    for before, segment in pairwise(reversed(source.segments)):
        reach = _end_of(segment)
        if reach <= before.base_offset:
            break
        end = max(end, reach)
    return end


def _end_of(segment: SegmentPaths) -> int:
    """The offset after a segment's last one, 0 where it cannot be read, which is reported where it is read."""
    with suppress(UnreadableError), segment.log.location.open() as file:
        last = last_offset(file, segment)
        return 0 if last is None else last + 1
    return 0
