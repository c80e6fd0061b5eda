"""What a Spark task does: reads its splits and gives them as Arrow record batches of about 8 MiB, in bounded memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from brokerless.errors import Finding, UnreadableError, raise_errors
from brokerless.log.segment import Report, scan, scan_headers, within_log
from brokerless.log.storage import File, StorageOptions, exists, open_file
from brokerless.schemas import BATCHES, RECORDS, SEGMENTS
from brokerless.spark.columns import Columns, corrupt_rows, to_spark
from brokerless.spark.options import Options
from brokerless.spark.splits import Split
from brokerless.tables import Source, chunk_batches, project, record_batches, segment_row, transactions_table

_log = logging.getLogger(__name__)


def read_split(split: Split, options: Options, columns: Columns) -> Iterator[pa.RecordBatch]:
    """One split's rows in Spark's form. Damage is raised as :class:`DamageError` (FAILFAST), told as a row of its own
    after what was readable before it (PERMISSIVE, where the schema has a column for it), or logged and passed over."""
    found: list[Finding] = []
    report = raise_errors if options.mode == "FAILFAST" else found.append
    report = within_log(report) if split.is_followed else report
    if split.segment is None and split.paths is None:
        if columns.corrupt is not None:  # otherwise the log has it, from planning
            yield corrupt_rows(split.findings, split.topic, split.partition, columns)
        return
    for batch in _table(split, options, columns, report):
        if batch.num_rows:
            yield to_spark(batch, columns)
        del batch  # what is huge is not to stay while the next is read
        yield from _tell(found, split, options, columns)
    yield from _tell(found, split, options, columns)


def _tell(found: list[Finding], split: Split, options: Options, columns: Columns) -> Iterator[pa.RecordBatch]:
    told = {(each.file, each.position) for each in split.findings}
    damages = [each for each in found if each.severity == "error" and (each.file, each.position) not in told]
    found.clear()
    if damages and options.mode == "PERMISSIVE" and columns.corrupt is not None:
        yield corrupt_rows(damages, split.topic, split.partition, columns)
    elif options.mode == "PERMISSIVE":
        for damage in damages:
            _log.warning("damaged and not read: %s", damage)


def _table(split: Split, options: Options, columns: Columns, report: Report) -> Iterator[pa.RecordBatch]:
    match options.table:
        case "records":
            yield from _records(split, options, columns.of_table, report)
        case "batches":
            yield from _batches(split, options, columns.of_table, report)
        case "segments":
            yield _segments(split, options, columns.of_table, report)
        case "transactions":
            from brokerless.log.partition import transactions_of

            assert split.paths is not None
            transactions = transactions_of(split.paths, options.storage or None, report)
            table = transactions_table(transactions, Source(split.paths.path, split.topic, split.partition))
            yield from table.select(columns.of_table).combine_chunks().to_batches()


def _records(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    from brokerless.log.partition import Reading, read_file
    from brokerless.log.seek import position_of_offset

    assert split.segment is not None
    storage = options.storage or None
    schema = project(RECORDS, names)
    reading = Reading(
        range=split.bounds,
        keys="key" in names,
        values="value" in names,
        headers="headers" in names,
        control=options.control and not options.committed,
        transactions=split.transactions,
        limit=options.limit,
        span=split.span,
    )
    with _open_log(split.segment.log.path, storage) as file:
        start = split.start
        if not start and split.bounds.start_offset is not None:
            start = position_of_offset(file, split.segment, split.bounds.start_offset, storage)
        pieces = read_file(file, reading, report, start, split.end)
        yield from record_batches(pieces, split.topic, split.partition, schema)


def _open_log(path: str, storage: StorageOptions | None) -> File:
    """A segment that a broker lets go gets another name first, and goes a minute later (``file.delete.delay.ms``)."""
    try:
        return open_file(path, storage)
    except UnreadableError:
        if exists(path, storage) or not exists(f"{path}.deleted", storage):
            raise
        return open_file(f"{path}.deleted", storage)


def _batches(split: Split, options: Options, names: list[str], report: Report) -> Iterator[pa.RecordBatch]:
    assert split.segment is not None
    schema = project(BATCHES, names)
    check = "isValid" in names and options.checksums
    source = Source(split.segment.log.path, split.topic, split.partition)
    with open_file(split.segment.log.path, options.storage or None) as file:
        for chunk in (scan if check else scan_headers)(file, report, split.start, split.end):
            if not split.bounds.is_everything:
                chunk = chunk.take(split.bounds.batches(chunk.batches))
            if not len(chunk.batches):
                continue
            valid = None
            if check:
                from brokerless.format.batches import checksums_match

                valid = checksums_match(chunk.buffer, chunk.batches)
            yield from chunk_batches(chunk, source, schema, valid, options.limit)


def _segments(split: Split, options: Options, names: list[str], report: Report) -> pa.RecordBatch:
    from brokerless.log.summary import summarize

    assert split.segment is not None
    source = Source(split.segment.log.path, split.topic, split.partition)
    with open_file(source.file, options.storage or None) as file:
        row = segment_row(split.segment, source, summarize(file, report))
    return pa.RecordBatch.from_pylist([row], SEGMENTS).select(names)
