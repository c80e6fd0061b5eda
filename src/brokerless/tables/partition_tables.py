"""Reads the tables of partitions: records, batches, segments and transactions; and finds the offset of a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.errors import UnreadableError, raise_errors
from brokerless.findings import NOT_OPENED, Finding
from brokerless.kafka_names import Isolation
from brokerless.log.directory import PartitionPath
from brokerless.progress import Done, Report, ignore
from brokerless.schemas import BATCHES

if TYPE_CHECKING:
    from brokerless.log.ranges import Range
    from brokerless.log.segment import Chunk
    from brokerless.tables.prepared_records import Prepare
    from brokerless.tables.read_options import ReadOptions

OnUnreadable = Callable[[UnreadableError], None]


def read_records(partitions: Iterable[PartitionPath], options: ReadOptions) -> pa.RecordBatchReader:
    """Return the records of several partitions, one partition after the other. The range applies to each of them, the
    limit to all."""
    return pa.RecordBatchReader.from_batches(options.schema(), _read_in_turn(partitions, options))


def _read_in_turn(partitions: Iterable[PartitionPath], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    for each in partitions:
        left = options.limit
        for batch, _ in read_prepared(each, options):
            left = None if left is None else left - batch.num_rows
            yield batch
        if left == 0:
            return
        options = replace(options, limit=left)


def read_prepared(
    partition: PartitionPath, options: ReadOptions, prepare: Prepare | None = None
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Return the records of one partition, and for each record batch what ``prepare`` makes of it in the thread that
    decoded it; None where no thread did, and where the limit cuts the record batch."""
    from brokerless.tables.prepared_records import prepared_records

    return first_rows(prepared_records(partition, options, prepare), options.limit)


def read_batches(
    partitions: Iterable[PartitionPath],
    columns: Sequence[str] | None = None,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
    done: Done = ignore,
) -> pa.RecordBatchReader:
    """Return the batches of several partitions, one partition after the other (schema :data:`schemas.BATCHES`).

    Only headers are read, unless ``isValid`` (checksums) or ``baseOffset`` (of wrapper messages) is requested.
    ``on_damage``: called with each finding; without it, the first error is raised.
    """
    from brokerless.tables.read_options import whole_number
    from brokerless.tables.record_batches import project

    schema = project(BATCHES, columns)
    whole_number("max_batch_bytes", max_batch_bytes)
    of_each = (_batches(each, schema, max_batch_bytes, on_damage=on_damage, done=done) for each in partitions)
    return pa.RecordBatchReader.from_batches(schema, (batch for of_partition in of_each for batch in of_partition))


def _batches(
    partition: PartitionPath,
    schema: pa.Schema,
    max_batch_bytes: int | None,
    on_damage: Report | None,
    done: Done,
) -> Iterator[pa.RecordBatch]:
    from brokerless.log.offsets_once.findings import report_past_last
    from brokerless.log.segment import check_checksums, scan, scan_headers
    from brokerless.log.walk import walk
    from brokerless.tables.read_progress import ReadProgress
    from brokerless.tables.record_batches import RowSource, chunk_batches

    check = "isValid" in schema.names
    progress = ReadProgress(partition, done)
    report = on_damage or raise_errors
    for each in walk(partition, report):
        source = RowSource(each.file.path, partition.topic, partition.partition)
        for chunk in (scan if check else scan_headers)(each.file, each.graded(report), each.start):
            wrong: list[Finding] = []
            valid = check_checksums(chunk, each.file.path, wrong.append) if check else None
            yield from chunk_batches(
                chunk, source, schema, is_valid=valid, report=report, max_batch_bytes=max_batch_bytes
            )
            if on_damage is not None:
                report_past_last(chunk if valid is None else chunk.take(valid), each.file.path, on_damage)
            if on_damage is not None:
                for finding in wrong:
                    on_damage(finding)
            progress.reach(each.file.path, chunk.base + int(chunk.batches.ends[-1]))
    progress.finish()


def segment_rows(
    partition: PartitionPath,
    *,
    max_batch_bytes: int | None = None,
    on_damage: Report | None = None,
    on_unreadable: OnUnreadable | None = None,
    watch: Callable[[Chunk], None] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a row for each segment, from its batch headers: of schema :data:`schemas.SEGMENTS`, timestamps in ms.

    Records are counted from the log start offset on, without control records; offsets and timestamps are of what is
    from there on, too.

    ``watch`` is called with each chunk of batch headers, before the row of its segment. ``on_unreadable`` is called
    for a segment that cannot be opened, and the next one is read; without it, ``on_damage`` is, and without both, that
    is raised.
    """
    from brokerless.log.offsets_once.segments import FirstSegmentWins
    from brokerless.log.seek import from_reported_start
    from brokerless.log.walk import walk
    from brokerless.tables.record_batches import RowSource, segment_row
    from brokerless.tables.segment_summary import summarize

    report = on_damage or raise_errors

    def unreadable(error: UnreadableError, path: str) -> None:
        if on_unreadable is not None:
            on_unreadable(error)
        elif on_damage is not None:
            on_damage(error.finding(path))
        else:
            raise error

    def report_readable(finding: Finding) -> None:
        if finding.kind not in NOT_OPENED:
            report(finding)
        elif on_unreadable is not None:
            on_unreadable(UnreadableError(finding.file, finding.message, finding.kind))
        else:
            unreadable(UnreadableError("", str(finding), finding.kind), finding.file)

    seen = FirstSegmentWins()
    start = from_reported_start(partition, report).start_offset or 0
    try:
        for each in walk(partition, report_readable):
            source = RowSource(each.file.path, partition.topic, partition.partition)
            try:
                seen.begin(each)
                summary = summarize(
                    each.file,
                    report,
                    start,
                    max_batch_bytes=max_batch_bytes,
                    seen=seen,
                    watch=watch,
                    is_last=each.is_last,
                )
                seen.end(each)
                row = segment_row(each.segment, source, summary)
                each.skips_gap = each.reaches_next(summary.last_offset)
            except UnreadableError as error:
                each.skips_gap = True
                unreadable(error, each.file.path)
                continue
            if not each.start:  # else its records were in segments that have had their rows
                yield row
    except UnreadableError as error:
        unreadable(error, partition.path)


def read_transactions(partition: PartitionPath, on_damage: Report | None) -> pa.Table:
    """Return a row for each transaction of a partition that did not end before its log start offset, in the order in
    which they ended (schema :data:`schemas.TRANSACTIONS`).

    ``on_damage``: called with each finding; without it, the first error is raised (:class:`DamageError`,
    :class:`UnreadableError`).
    """
    from brokerless.log.offset_gaps import check_head
    from brokerless.log.partition import transactions_of
    from brokerless.tables.record_batches import RowSource, transactions_table

    report = on_damage or raise_errors
    check_head(partition, report)
    source = RowSource(partition.path, partition.topic, partition.partition)
    every = transactions_of(partition, report, is_all_read=True)
    return transactions_table(every.since(partition.start_offset or 0), source)


def offset_for_time(
    partition: PartitionPath, timestamp: int, isolation: Isolation, max_batch_bytes: int | None = None
) -> int | None:
    """Return the offset of a partition's first record whose timestamp (ms) is at least this; None if there is none.

    As ``KafkaConsumer.offsetsForTimes``: from the log start offset on, and with ``read_committed`` only before the last
    stable offset (``Partition.fetchOffsetForTimestamp``, 4.1.1).
    """
    from brokerless.log.seek import offset_for_timestamp

    found = offset_for_timestamp(partition, timestamp, max_batch_bytes)
    if found is None or isolation == "read_uncommitted":
        return None if found is None else found[0]
    from brokerless.log.partition import transactions_of

    stable = transactions_of(partition).last_stable_offset
    return found[0] if stable is None or found[0] < stable else None


def count_in_range(
    partition: PartitionPath,
    range: Range,
    isolation: Isolation = "read_uncommitted",
    max_batch_bytes: int | None = None,
) -> int:
    """Return how many records of a partition are in a range; damaged ones are passed over."""
    from brokerless.tables.read_options import ReadOptions

    options = ReadOptions(["offset"], range, isolation, max_batch_bytes=max_batch_bytes, on_damage=ignore)
    return sum(batch.num_rows for batch in read_records([partition], options))


def first_rows(
    batches: Iterator[tuple[pa.RecordBatch, Any]], limit: int | None
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Yield at most so many rows of record batches, and what was made of each that is not cut; nothing more is read
    then. None yields all."""
    while limit is None or limit > 0:
        if (following := next(batches, None)) is None:
            return
        batch, prepared = following
        rows = batch.num_rows
        yield (batch, prepared) if limit is None or rows <= limit else (batch.slice(0, limit), None)
        limit = None if limit is None else limit - rows
        del following, batch, prepared  # freed before the next one is read
