"""Reads the splits of a Spark task, as Arrow record batches of about 8 MiB, in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.clusters.listing import read_setting
from brokerless.errors import UnreadableError, raise_errors
from brokerless.findings import Finding, Kind
from brokerless.format.read.batch_headers import Batches
from brokerless.jobs.run.spark_worker import keep_what_is_loaded
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.live_segments import OpenSegment, ReplacedError, list_again, open_listed, open_segments
from brokerless.log.offsets_once.segments import NamedSegmentWins, RepeatedOffsets
from brokerless.log.ranges import Range
from brokerless.log.segment import Chunk, scan, scan_headers, within_log
from brokerless.log.storage.files import File
from brokerless.ordered_threads import read_ahead
from brokerless.progress import Report, ignore
from brokerless.schemas import BATCHES, RECORDS, SEGMENTS
from brokerless.spark.columns import SelectedColumns, corrupt_rows, to_spark
from brokerless.spark.options import Options
from brokerless.spark.split import ReadTask, Split, first_batch, start_of
from brokerless.tables.joined import Size, joined
from brokerless.tables.record_batches import (
    RowSource,
    chunk_batches,
    project,
    record_batches,
    segment_row,
    transactions_table,
)

_log = logging.getLogger(__name__)
_SMALL, _ENOUGH = Size(4096, 256 << 10), Size(1 << 16, 1 << 20)


def read_task(task: ReadTask, options: Options, columns: SelectedColumns) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all splits of a task; the next record batch is decoded while Spark takes this one. Many small
    files have a small one each, and handing one to Spark costs 0.07 ms, so these are joined."""

    def batches() -> Iterator[pa.RecordBatch]:
        for split in task.splits:
            yield from read_split(split, options, columns)

    yield from read_ahead(lambda: joined(batches(), _SMALL, _ENOUGH))
    keep_what_is_loaded()


def read_split(split: Split, options: Options, columns: SelectedColumns) -> Iterator[pa.RecordBatch]:
    """One split's rows in Spark's form. Damage is raised as :class:`DamageError` (FAILFAST), reported as a row of its
    own after what was readable before it (PERMISSIVE, where the schema has a column for it), or logged and passed
    over."""
    found: list[Finding] = []
    report = _fail_fast if options.mode == "FAILFAST" else found.append
    if split.segment is None and split.paths is None:
        if columns.corrupt is not None:  # otherwise the log has it, from planning
            yield corrupt_rows(split.findings, split.topic, split.partition, columns)
        return
    for batch in _table(split, options, columns, report):
        if batch.num_rows:
            yield to_spark(batch, columns)
        del batch  # freed before the next one is read
        yield from _report_damage(found, split, options, columns)
    yield from _report_damage(found, split, options, columns)


def _fail_fast(finding: Finding) -> None:
    _warn(finding)
    raise_errors(finding)


def _warn(finding: Finding) -> None:
    """Log that a filter of times may miss records, of which no row and no error is made."""
    if finding.kind == Kind.TIMESTAMP_ABOVE_HEADER:
        _log.warning("%s", finding)


def _report_damage(
    found: list[Finding], split: Split, options: Options, columns: SelectedColumns
) -> Iterator[pa.RecordBatch]:
    for each in found:
        _warn(each)
    reported = {(each.file, each.position) for each in split.findings}
    damages = [each for each in found if each.severity == "error" and (each.file, each.position) not in reported]
    found.clear()
    if damages and options.mode == "PERMISSIVE" and columns.corrupt is not None:
        yield corrupt_rows(damages, split.topic, split.partition, columns)
    elif options.mode == "PERMISSIVE":
        for damage in damages:
            _log.warning("damaged and not read: %s", damage)


def _table(split: Split, options: Options, columns: SelectedColumns, report: Report) -> Iterator[pa.RecordBatch]:
    match options.table:
        case "records":
            yield from _decoded(split, options, columns.of_table, report)
        case "batches":
            yield from _batches(split, options, columns.of_table, report)
        case "segments":
            yield from _segments(split, options, columns.of_table, report)
        case "transactions":
            from brokerless.log.partition import transactions_of

            assert split.paths is not None
            transactions = transactions_of(split.paths, report)
            transactions = transactions.since(split.paths.start_offset or 0)
            table = transactions_table(transactions, RowSource(split.paths.path, split.topic, split.partition))
            yield from table.select(columns.of_table).combine_chunks().to_batches()


def _decoded(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    if options.topic_type is None:
        yield from _records(split, options, names, report)
        return
    from brokerless.typed.decode import decode_batch
    from brokerless.typed.records import inner_columns

    for batch in _records(split, options, inner_columns(names) or [], report):
        decoded = decode_batch(options.topic_type, batch)
        yield decoded.select(names)


def _records(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    from brokerless.log.partition import Reading, read_file, read_partition
    from brokerless.log.positions import highest_before

    assert split.segment is not None
    schema = project(RECORDS, names)
    reading = Reading(
        range=split.bounds,
        keys="key" in names,
        values="value" in names,
        headers="headers" in names,
        control=options.control and not options.committed,
        transactions=split.transactions,
        max_batch_bytes=options.max_batch_bytes,
        span=split.span,
    )
    try:
        file = _open_planned(split)
    except ReplacedError as error:
        reading = replace(reading, range=_offsets(split), span=None)
        found = _partition_now(split, options, error)
        pieces = read_partition(found, reading, report)
        yield from record_batches(pieces, split.topic, split.partition, schema)
        return
    with file:
        start = start_of(file, split)
        highest = highest_before(file, split.segment, start)
        seen = _overlapping(split)
        pieces = read_file(file, reading, _graded(split, report), start, split.end, seen, highest)
        yield from record_batches(pieces, split.topic, split.partition, schema)
        _check_following(split, file, report)


def _open_planned(split: Split) -> File:
    """The file that was planned. Raises :class:`ReplacedError` if it is not there, under any name."""
    assert split.segment is not None
    if split.segment.log.path == split.directory.path:
        return split.directory.open()
    file = open_listed(split.segment, not split.is_followed)
    if split.first is not None and first_batch(file, split.start) != split.first:
        file.close()
        raise ReplacedError(file.path, f"position {split.start} has another batch than when this was planned")
    return file


def _offsets(split: Split) -> Range:
    return split.bounds.narrow(split.offsets)


def _partition_now(split: Split, options: Options, error: ReplacedError) -> PartitionPath:
    """The partition as it is now, where a split's file is gone. A compaction's output has all that a consumer still
    gets; what was deleted is lost, which ends the query unless ``failOnDataLoss`` is false."""
    assert split.segment is not None
    paths = PartitionPath(split.topic, split.partition, split.directory, read_setting=read_setting)
    first = _offsets(split).start_offset or 0
    now = list_again(paths, ignore)
    if now is not None and now.segments[0].base_offset <= first:
        return now
    if options.fail_on_data_loss:
        raise UnreadableError(
            "", f"{error}; with failOnDataLoss=false the query continues with the data that is left"
        ) from error
    _log.warning("%s; the query continues with the data that is left", error)
    return paths if now is None else now


def _overlapping(split: Split) -> RepeatedOffsets | None:
    """Return what other segments return of a split's batches; None where there are none to list."""
    if split.own is None or split.segment is None or split.segment.log.path == split.directory.path:
        return None
    base, end = split.segment.base_offset, split.own.end_offset

    def list_others() -> list[SegmentPaths] | None:
        now = list_again(PartitionPath(split.topic, split.partition, split.directory), ignore)
        segments = () if now is None else now.segments
        if end is not None and all(each.base_offset != end for each in segments):
            return None
        return list(split.query.segments(segments))

    return NamedSegmentWins(base, end, list_others)


def _graded(split: Split, report: Report) -> Report:
    return within_log(report) if split.is_followed else report


def _batches(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    assert split.segment is not None
    schema = project(BATCHES, names)
    check = "isValid" in names and options.checksums
    source = RowSource(split.segment.log.path, split.topic, split.partition)
    for chunk in _chunks(split, options, report, scan if check else scan_headers):
        if not split.bounds.is_everything:
            chunk = chunk.take(split.bounds.batches(chunk.batches))
        if not len(chunk.batches):
            continue
        valid = None
        if check:
            from brokerless.format.read.batch_headers import checksums_match

            valid = checksums_match(chunk.buffer, chunk.batches)
        yield from chunk_batches(
            chunk, source, schema, is_valid=valid, report=report, max_batch_bytes=options.max_batch_bytes
        )


def _chunks(split: Split, options: Options, report: Report, scan: Callable[..., Iterator[Chunk]]) -> Iterator[Chunk]:
    """The batches of a split, also after they moved to another file."""
    try:
        file = _open_planned(split)
    except ReplacedError as error:
        for each in open_segments(_partition_now(split, options, error), report, split.offsets):
            for chunk in scan(each.file, each.graded(report), each.start):
                yield chunk.take(_ends_in(chunk.batches, split.offsets))
        return
    with file:
        yield from scan(file, _graded(split, report), split.start, split.end)
        _check_following(split, file, report)


def _check_following(split: Split, file: File, report: Report) -> None:
    """Reports what is missing after the last part of a segment."""
    from brokerless.log.offset_gaps import check_following

    if split.following is not None and split.segment is not None and split.end is None:
        opened = OpenSegment(split.following, split.segment, file, is_last=False)
        check_following(opened, report, split.bounds)


def _ends_in(batches: Batches, offsets: Range) -> NDArray[np.bool_]:
    """Return which batches end at these offsets, which begin and end where batches do."""
    start, end = offsets.start_offset, offsets.end_offset
    return (batches.last_offset >= (start or 0)) & (True if end is None else batches.last_offset < end)


def _segments(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    from brokerless.tables.segment_summary import summarize

    assert split.segment is not None
    segment = split.segment
    try:
        file = _open_planned(split)
    except ReplacedError as error:
        now = _partition_now(split, options, error).segments
        same = next((each for each in now if each.base_offset == segment.base_offset), None)
        if same is None:  # another one has what is left of it, of which there is a row
            return
        segment, file = same, same.log.location.open()
    with file:
        source = RowSource(file.path, split.topic, split.partition)
        seen = _overlapping(split)
        graded, is_last = _graded(split, report), not split.is_followed
        summary = summarize(
            file, graded, split.start_offset, max_batch_bytes=options.max_batch_bytes, seen=seen, is_last=is_last
        )
        row = segment_row(segment, source, summary)
        _check_following(split, file, report)
    yield pa.RecordBatch.from_pylist([row], SEGMENTS).select(names)
