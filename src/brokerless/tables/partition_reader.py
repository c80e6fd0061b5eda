"""Reads the tables of one partition: records, batches, segments and transactions, and its offsets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.arrow import table_of
from brokerless.clock import Time, milliseconds
from brokerless.errors import UnreadableError, raise_errors
from brokerless.findings import NOT_OPENED, Finding
from brokerless.kafka_names import Isolation
from brokerless.log.directory import PartitionPath, SegmentPaths, resolve
from brokerless.log.names import Include
from brokerless.log.storage.location import Location
from brokerless.progress import Done, Report, ignore
from brokerless.schemas import BATCHES, SEGMENTS
from brokerless.text import html_table

if TYPE_CHECKING:
    from brokerless.log.segment import Chunk
    from brokerless.tables.prepared_records import Prepare
    from brokerless.tables.read_options import ReadOptions

OnUnreadable = Callable[[UnreadableError], None]


def open_partitions(location: Location, include: Collection[Include] | Include = ()) -> list[PartitionReader]:
    """Readers of all partitions in a path, as :func:`brokerless.open` finds them."""
    return [PartitionReader(each) for each in resolve(location, include).partitions]


@dataclass(frozen=True)
class PartitionReader:
    """One partition's log: its segments, in order. ``topic`` and ``partition`` are None for a lone file."""

    paths: PartitionPath

    @property
    def topic(self) -> str | None:
        return self.paths.topic

    @property
    def partition(self) -> int | None:
        return self.paths.partition

    @property
    def path(self) -> str:
        return self.paths.path

    @property
    def segment_paths(self) -> tuple[SegmentPaths, ...]:
        return self.paths.segments

    def _repr_html_(self) -> str:
        """For notebooks: the segments by name, of which nothing is read."""
        rows = [(each.base_offset, each.size, each.log.path) for each in self.segment_paths]
        return html_table(self.path, ("base offset", "bytes", "segment"), rows)

    def read(self, options: ReadOptions) -> pa.RecordBatchReader:
        """Read the records, in offset order, as Arrow record batches of about 8 MiB (schema :data:`schemas.RECORDS`).

        One file at a time is open, until the reader is exhausted, raises or is released. Raises :class:`UsageError` for
        options that cannot be; while reading, what :class:`ReadOptions` says.
        """
        return read_records([self], options)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        done: Done = ignore,
    ) -> pa.RecordBatchReader:
        """Read the batches of all segments (v0 and v1: messages and wrapper messages), in file order, as Arrow record
        batches.

        Those before the log start offset, which the files still hold, are among them. Only headers are read, unless
        ``isValid`` (checksums) or ``baseOffset`` (of wrapper messages) is requested.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        max_batch_bytes : int, optional
            Bytes that a wrapper message may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding`; a batch whose checksum is wrong is listed all the same.
        done : callable, optional
            Called with the bytes of log that were read, or passed over, since the last call.

        Returns
        -------
        pyarrow.RecordBatchReader
            Schema :data:`schemas.BATCHES`.

        Raises
        ------
        UsageError
            For an unknown column.
        DamageError
            While reading, without ``on_damage``: where a batch scan breaks off, and for a wrapper message that
            inflates past ``max_batch_bytes``.
        UnreadableError
            While reading, for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> partition = brokerless.open("demo/data").partition("users", 0)
        >>> partition.batches(["baseOffset", "lastOffset"]).read_all().num_rows > 1
        True
        """
        return read_batches([self], columns, max_batch_bytes, on_damage=on_damage, done=done)

    def _batches(
        self, schema: pa.Schema, max_batch_bytes: int | None, on_damage: Report | None, done: Done
    ) -> Iterator[pa.RecordBatch]:
        from brokerless.log.live_segments import open_segments
        from brokerless.log.offset_checks import report_past_last
        from brokerless.log.offset_gaps import check_end, check_following, check_head
        from brokerless.log.read_progress import ReadProgress
        from brokerless.log.segment import check_checksums, scan, scan_headers, within_log
        from brokerless.tables.record_batches import RowSource, chunk_batches

        check = "isValid" in schema.names
        progress = ReadProgress(self.paths, done)
        report = on_damage or raise_errors
        check_head(self.paths, report)
        for each in open_segments(self.paths, report):
            source = RowSource(each.file.path, self.topic, self.partition)
            graded = report if each.is_last else within_log(report)
            for chunk in (scan if check else scan_headers)(each.file, graded, each.start):
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
            check_following(each.partition, each.segment, each.file, report)
        check_end(self.paths, report)
        progress.finish()

    def segments(self, *, max_batch_bytes: int | None = None, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each segment, from its batch headers.

        Records are counted from the log start offset on, without control records: as many as :meth:`records` returns;
        offsets and timestamps are of what is from there on, too.

        Parameters
        ----------
        max_batch_bytes : int, optional
            Bytes that a wrapper message may inflate to (128 MiB); its records are counted by looking into it.
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.SEGMENTS`.

        Raises
        ------
        DamageError, UnreadableError
            Without ``on_damage``, for the first error.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("users", 0).segments().num_rows
        6
        """
        return table_of(list(self.segment_rows(max_batch_bytes=max_batch_bytes, on_damage=on_damage)), SEGMENTS)

    def segment_rows(
        self,
        *,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        on_unreadable: OnUnreadable | None = None,
        watch: Callable[[Chunk], None] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of :meth:`segments`, each as a dict, timestamps in ms. ``watch`` is called with each chunk of batch
        headers, before the row of its segment.

        ``on_unreadable`` is called for a segment that cannot be opened, and the next one is read; without it,
        ``on_damage`` is, and without both, that is raised.
        """
        from brokerless.log.live_segments import open_segments
        from brokerless.log.offset_checks import SeenOffsets
        from brokerless.log.offset_gaps import check_end, check_following, check_head, is_followed
        from brokerless.log.seek import from_reported_start
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
            if finding.kind in NOT_OPENED:
                unreadable(UnreadableError("", str(finding), finding.kind), finding.file)
            else:
                report(finding)

        seen = SeenOffsets()
        start = from_reported_start(self.paths, report).start_offset or 0
        check_head(self.paths, report)
        try:
            for each in open_segments(self.paths, report_readable):
                source = RowSource(each.file.path, self.topic, self.partition)
                try:
                    seen.begin(each.segment.base_offset, is_merged=each.is_merged)
                    summary = summarize(
                        each.file,
                        report,
                        start,
                        max_batch_bytes=max_batch_bytes,
                        seen=seen,
                        watch=watch,
                        is_last=each.is_last,
                    )
                    seen.end(each.file, each.next_base_offset)
                    row = segment_row(each.segment, source, summary)
                    if not is_followed(each.partition, each.segment, summary.last_offset):
                        check_following(each.partition, each.segment, each.file, report)
                except UnreadableError as error:
                    unreadable(error, each.file.path)
                    continue
                if not each.start:  # else its records were in segments that have had their rows
                    yield row
        except UnreadableError as error:
            unreadable(error, self.path)
        check_end(self.paths, report)

    def transactions(self, *, on_damage: Report | None = None) -> pa.Table:
        """Return a row for each transaction that did not end before the log start offset, in the order in which they
        ended.

        Parameters
        ----------
        on_damage : callable, optional
            Called with each :class:`Finding`, and reading goes on. Without it, the first error is raised.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.TRANSACTIONS`.

        Raises
        ------
        DamageError, UnreadableError
            Without ``on_damage``, for the first error.
        """
        from brokerless.log.offset_gaps import check_head
        from brokerless.log.partition import transactions_of
        from brokerless.tables.record_batches import RowSource, transactions_table

        check_head(self.paths, on_damage or raise_errors)
        source = RowSource(self.path, self.topic, self.partition)
        every = transactions_of(self.paths, on_damage or raise_errors, is_all_read=True)
        return transactions_table(every.since(self.start_offset or 0), source)

    def offset_for_timestamp(
        self, timestamp: Time, *, isolation: Isolation = "read_uncommitted", max_batch_bytes: int | None = None
    ) -> int | None:
        """Return the offset of the first record whose timestamp is at least this; None if there is none.

        As ``KafkaConsumer.offsetsForTimes``: from the log start offset on, and with ``read_committed`` only before the
        last stable offset (``Partition.fetchOffsetForTimestamp``, 4.1.1).

        Parameters
        ----------
        timestamp : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``
            The time.
        isolation : {"read_uncommitted", "read_committed"}
            As in :meth:`records`.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Returns
        -------
        int or None
            The offset.

        Raises
        ------
        DamageError, UnreadableError
            Where what is read for it is damaged, or cannot be read.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0).offset_for_timestamp("2026-11-01")
        0
        """
        from brokerless.log.seek import offset_for_timestamp

        at = milliseconds(timestamp)
        assert at is not None
        found = offset_for_timestamp(self.paths, at, max_batch_bytes)
        if found is None or isolation == "read_uncommitted":
            return None if found is None else found[0]
        from brokerless.log.partition import transactions_of

        stable = transactions_of(self.paths).last_stable_offset
        return found[0] if stable is None or found[0] < stable else None

    @property
    def start_offset(self) -> int | None:
        """The log start offset: the first segment's base offset, or a later one after records were deleted; None
        without a segment."""
        return self.paths.start_offset

    @cached_property
    def end_offset(self) -> int | None:
        """The offset after the last one in the log, by the last segment's headers; None without a segment."""
        from brokerless.log.live_segments import open_listed, with_current_listing
        from brokerless.log.seek import last_offset

        def end_of(paths: PartitionPath) -> int | None:
            for segment in reversed(paths.segments):
                with open_listed(segment, segment is paths.segments[-1]) as file:
                    last = last_offset(file, segment)
                if last is not None:
                    return last + 1
                if segment.base_offset:
                    return segment.base_offset
            return self.start_offset

        return with_current_listing(self.paths, end_of)


def read_records(partitions: Iterable[PartitionReader], options: ReadOptions) -> pa.RecordBatchReader:
    """The records of several partitions, one partition after the other. The range applies to each of them, the limit
    to all."""
    batches = (batch for each in partitions for batch, _ in read_prepared(each, options))
    limit = options.limit
    return pa.RecordBatchReader.from_batches(options.schema(), batches if limit is None else first_rows(batches, limit))


def read_prepared(
    partition: PartitionReader, options: ReadOptions, prepare: Prepare | None = None
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """The records of one partition, and for each record batch what ``prepare`` makes of it in the thread that decoded
    it; None where no thread did. The limit says how many records will be taken; it ends nothing here."""
    from brokerless.tables.prepared_records import prepared_records

    return prepared_records(partition.paths, options, prepare)


def read_batches(
    partitions: Iterable[PartitionReader],
    columns: Sequence[str] | None,
    max_batch_bytes: int | None,
    on_damage: Report | None,
    done: Done,
) -> pa.RecordBatchReader:
    """The batches of several partitions, one partition after the other; see :meth:`PartitionReader.batches`."""
    from brokerless.tables.read_options import whole_number
    from brokerless.tables.record_batches import project

    schema = project(BATCHES, columns)
    whole_number("max_batch_bytes", max_batch_bytes)
    of_each = (each._batches(schema, max_batch_bytes, on_damage, done) for each in partitions)  # pyright: ignore[reportPrivateUsage]
    return pa.RecordBatchReader.from_batches(schema, (batch for of_partition in of_each for batch in of_partition))


def first_rows(batches: Iterator[pa.RecordBatch], limit: int) -> Generator[pa.RecordBatch]:
    """At most so many rows; nothing more is read then."""
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= batch.num_rows
