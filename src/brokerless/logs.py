"""What :func:`brokerless.open` gives: a log, its partitions, and the tables of each.

The same methods are on a :class:`Log` (all its partitions, one after the other) and on a :class:`Partition`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from brokerless.arrow import table_of
from brokerless.clock import Time, milliseconds
from brokerless.errors import Finding, UnreadableError, UsageError, raise_errors
from brokerless.kafka_names import ISOLATION_LEVELS, Isolation
from brokerless.log.directory import LogDirectory, PartitionPath, SegmentPaths, resolve
from brokerless.log.names import Include
from brokerless.log.storage.paths import StorageOptions
from brokerless.schemas import BATCHES, RECORDS, SEGMENTS, TRANSACTIONS

if TYPE_CHECKING:
    from brokerless.jobs.convert.job import ConvertResult
    from brokerless.jobs.export.job import ExportedPartition
    from brokerless.jobs.run.types import Spark

OnDamage = Callable[[Finding], None]
OnUnreadable = Callable[[UnreadableError], None]
Done = Callable[[int], object]


def ignore(_: int) -> None:
    """A ``done`` that nobody wants."""


def open(
    path: str | os.PathLike[str],
    *,
    include: Collection[Include] | Include = (),
    storage_options: StorageOptions | None = None,
) -> Log:
    """Opens a log directory, a partition's directory, or a single log file (a segment, or a KRaft snapshot).

    ``path``: local, or a URL that fsspec knows (``s3://...``). ``include``: also read partitions that are ``"future"``,
    ``"delete"`` or ``"stray"``; with ``"deleted"``, records before the log start offset, as far as files still hold
    them (all reads begin at that offset otherwise; a lone file gives all that it has). Nothing is read yet but names
    and where logs begin.

    Raises :class:`UnreadableError` if there is nothing at this path or nothing that is a log.
    """
    directory = resolve(os.fspath(path), include, storage_options)
    return Log(directory, storage_options)


@dataclass(frozen=True)
class Partition:
    """One partition's log: its segments, in order. ``topic`` and ``partition`` are None for a lone file."""

    paths: PartitionPath
    storage_options: StorageOptions | None = field(default=None, repr=False)

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

    def records(
        self,
        columns: Sequence[str] | None = None,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        max_batch_bytes: int | None = None,
        on_damage: OnDamage | None = None,
        done: Done = ignore,
    ) -> Iterator[pa.RecordBatch]:
        """The records, in offset order, as Arrow record batches of about 8 MiB (schema :data:`schemas.RECORDS`).

        ``columns``: those to give, in that order; all by default. ``start_offset <= offset < end_offset`` and
        ``start_timestamp <= timestamp < end_timestamp`` hold for every record. ``isolation="read_committed"``
        gives what such a consumer gets: without aborted transactions, everything from the first open one on,
        and control records. Otherwise all from the log start offset on is given, and with ``control`` control records
        as well. ``max_batch_bytes``: what one batch may inflate to (128 MiB).

        ``on_damage`` is called with each :class:`Finding` after what could be read before it was given, and reading
        goes on. Without it, the first error is raised as :class:`DamageError`. ``done`` is called with the bytes of log
        that were read, or passed over, since the last call.
        """
        from brokerless.format.codecs.inflate import DEFAULT_LIMIT
        from brokerless.log.partition import Reading, read_partition, transactions_of
        from brokerless.log.ranges import Range
        from brokerless.log.read_progress import ReadProgress
        from brokerless.log.seek import from_reported_start
        from brokerless.tables.record_batches import project, record_batches

        if isolation not in ISOLATION_LEVELS:
            raise UsageError(f"isolation: {isolation!r} is neither 'read_uncommitted' nor 'read_committed'")
        schema = project(RECORDS, columns)
        progress = ReadProgress(self.paths, done)
        committed = isolation == "read_committed"
        report = on_damage or raise_errors
        pending: dict[tuple[str, int | None], Finding] = {}
        wanted = Range(start_offset, end_offset, milliseconds(start_timestamp), milliseconds(end_timestamp))
        wanted = wanted.narrow(from_reported_start(self.paths, report, self.storage_options))
        transactions = None
        if committed:
            transactions = transactions_of(self.paths, self.storage_options, lambda each: _put(pending, each))
        reading = Reading(
            range=wanted,
            keys="key" in schema.names,
            values="value" in schema.names,
            headers="headers" in schema.names,
            control=control and not committed,
            transactions=transactions,
            limit=max_batch_bytes or DEFAULT_LIMIT,
            watch=lambda file, chunk, _: progress.reach(file, chunk.base),
        )

        def tell(finding: Finding) -> None:
            pending.pop((finding.file, finding.position), None)
            report(finding)

        pieces = read_partition(self.paths, reading, tell, self.storage_options)
        yield from record_batches(pieces, self.topic, self.partition, schema)
        # Damage that made a transaction look open lies where a committed reader does not come.
        for finding in pending.values():
            report(finding)
        progress.finish()

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        max_batch_bytes: int | None = None,
        on_damage: OnDamage | None = None,
        done: Done = ignore,
    ) -> Iterator[pa.RecordBatch]:
        """The batches (v0 and v1: messages and wrapper messages), in file order (schema :data:`schemas.BATCHES`),
        of all segments: also of
        those before the log start offset, as this is what files hold.

        Only headers are read, unless ``isValid`` (checksums) or ``baseOffset`` (of wrapper messages) is asked for. A
        batch whose checksum is wrong is listed all the same, and then ``on_damage`` is called with a :class:`Finding`
        for it; without ``on_damage``, only a broken chain of batches, and a wrapper message that inflates past
        ``max_batch_bytes``, is raised as :class:`DamageError`. ``max_batch_bytes`` and ``done`` as in :meth:`records`.
        """
        from brokerless.log.live_segments import open_segments
        from brokerless.log.offset_gaps import check_following, check_head
        from brokerless.log.read_progress import ReadProgress
        from brokerless.log.segment import check_checksums, scan, scan_headers, within_log
        from brokerless.tables.record_batches import Source, chunk_batches, project

        schema = project(BATCHES, columns)
        check = "isValid" in schema.names
        progress = ReadProgress(self.paths, done)
        report = on_damage or raise_errors
        check_head(self.paths, report, self.storage_options)
        for each in open_segments(self.paths, report, storage_options=self.storage_options):
            source = Source(each.file.path, self.topic, self.partition)
            told = report if each.is_last else within_log(report)
            for chunk in (scan if check else scan_headers)(each.file, told, each.start):
                wrong: list[Finding] = []
                valid = check_checksums(chunk, each.file.path, wrong.append) if check else None
                yield from chunk_batches(chunk, source, schema, valid, report, max_batch_bytes)
                if on_damage is not None:
                    for finding in wrong:
                        on_damage(finding)
                progress.reach(each.file.path, chunk.base + int(chunk.batches.ends[-1]))
            check_following(each.partition, each.segment, each.file, report, self.storage_options)
        progress.finish()

    def segments(self, *, max_batch_bytes: int | None = None, on_damage: OnDamage | None = None) -> pa.Table:
        """One row for each segment, from its batch headers (schema :data:`schemas.SEGMENTS`). Records are counted from
        the log start offset on, without control records: as many as :meth:`records` gives; offsets and timestamps are
        of what is from there on, too. ``max_batch_bytes``: what a wrapper message may inflate to (128 MiB); its records
        are counted by looking into it."""
        return table_of(list(self.segment_rows(max_batch_bytes=max_batch_bytes, on_damage=on_damage)), SEGMENTS)

    def segment_rows(
        self,
        *,
        max_batch_bytes: int | None = None,
        on_damage: OnDamage | None = None,
        on_unreadable: OnUnreadable | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The rows of :meth:`segments`, each as a dict, timestamps in ms.

        ``on_unreadable`` is called for a segment that cannot be opened, and the next one is read; without it, that is
        raised.
        """
        from brokerless.log.live_segments import open_segments
        from brokerless.log.offset_gaps import check_following, check_head, is_followed
        from brokerless.log.seek import from_reported_start
        from brokerless.log.segment_summary import summarize
        from brokerless.tables.record_batches import Source, segment_row

        report = on_damage or raise_errors

        def unreadable(error: UnreadableError) -> None:
            if on_unreadable is None:
                raise error
            on_unreadable(error)

        def tell(finding: Finding) -> None:
            if finding.kind == "unreadable-file":
                unreadable(UnreadableError(str(finding)))
            else:
                report(finding)

        start = from_reported_start(self.paths, report, self.storage_options).start_offset or 0
        check_head(self.paths, report, self.storage_options)
        try:
            for each in open_segments(replace(self.paths, findings=()), tell, storage_options=self.storage_options):
                source = Source(each.file.path, self.topic, self.partition)
                try:
                    summary = summarize(each.file, report, start, max_batch_bytes)
                    row = segment_row(each.segment, source, summary)
                    if not is_followed(each.partition, each.segment, summary.last_offset):
                        check_following(each.partition, each.segment, each.file, report, self.storage_options)
                except UnreadableError as error:
                    unreadable(error)
                    continue
                if not each.start:  # else its records were in segments that have had their rows
                    yield row
        except UnreadableError as error:
            unreadable(error)

    def transactions(self) -> pa.Table:
        """One row for each transaction that did not end before the log start offset, in the order in which they ended
        (schema :data:`schemas.TRANSACTIONS`)."""
        from brokerless.log.partition import transactions_of
        from brokerless.tables.record_batches import Source, transactions_table

        source = Source(self.path, self.topic, self.partition)
        found = transactions_of(self.paths, self.storage_options).since(self.start_offset or 0)
        return transactions_table(found, source)

    def verify(self, *, max_batch_bytes: int | None = None) -> Iterator[Finding]:
        """What is wrong or odd: every batch's checksum and structure, and the indexes against the log.

        The first finding of severity ``error`` is where Kafka's own reader first throws.
        """
        from brokerless.format.codecs.inflate import DEFAULT_LIMIT
        from brokerless.jobs.verify.partition import verify_partition

        return verify_partition(self.paths, self.storage_options, max_batch_bytes or DEFAULT_LIMIT)

    def convert(
        self,
        to: str | os.PathLike[str],
        *,
        format: int | None = None,
        codec: str | None = None,
        level: int | None = None,
        batch_size: int | None = None,
        isolation: Isolation = "read_uncommitted",
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: OnDamage | None = None,
    ) -> ConvertResult:
        """Writes the partition anew, as part of the log directory ``to``; see :mod:`brokerless.jobs.convert.job`.
        ``storage_options`` are those of ``to``, where it is a URL.

        ``format``: 0, 1 or 2; ``codec``, ``level`` and ``batch_size`` as Kafka's ``compression.type``,
        ``compression.gzip.level`` and so on, and ``batch.size``; each stays what it is if it is not given. Offsets,
        timestamps, keys and values never change; what a format cannot carry is counted in ``totals.lost`` of what is
        returned. ``isolation="read_committed"`` leaves out what a consumer would not get. ``max_batch_bytes`` as in
        :meth:`records`.

        A damaged partition is not written: the first error is raised as :class:`DamageError`, or with ``on_damage``
        all damage is told, and is in the result. Raises :class:`UsageError` for what cannot be written, such as a
        partition that exists.
        """
        log = Log(LogDirectory(self.path, "partition", (self.paths,)), self.storage_options)
        (result,) = log.convert(
            to,
            format=format,
            codec=codec,
            level=level,
            batch_size=batch_size,
            isolation=isolation,
            max_batch_bytes=max_batch_bytes,
            storage_options=storage_options,
            on_damage=on_damage,
        )
        return result

    def offset_for_timestamp(
        self, timestamp: Time, *, isolation: Isolation = "read_uncommitted", max_batch_bytes: int | None = None
    ) -> int | None:
        """The offset of the first record whose timestamp is at least this; None if there is none.

        As ``KafkaConsumer.offsetsForTimes``: from the log start offset on, and with read_committed only before the
        last stable offset (``Partition.fetchOffsetForTimestamp``, 4.1.1). ``max_batch_bytes`` as in :meth:`records`."""
        from brokerless.log.seek import offset_for_timestamp

        at = milliseconds(timestamp)
        assert at is not None
        found = offset_for_timestamp(self.paths, at, self.storage_options, max_batch_bytes)
        if found is None or isolation == "read_uncommitted":
            return None if found is None else found[0]
        from brokerless.log.partition import transactions_of

        stable = transactions_of(self.paths, self.storage_options).last_stable_offset
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
                with open_listed(segment, segment is paths.segments[-1], self.storage_options) as file:
                    last = last_offset(file, segment, self.storage_options)
                if last is not None:
                    return last + 1
                if segment.base_offset:
                    return segment.base_offset
            return self.start_offset

        return with_current_listing(self.paths, end_of, self.storage_options)


@dataclass(frozen=True)
class Log:
    """What is in a path: ``partitions``, by topic and partition."""

    directory: LogDirectory
    storage_options: StorageOptions | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        return self.directory.path

    @cached_property
    def partitions(self) -> list[Partition]:
        return [Partition(each, self.storage_options) for each in self.directory.partitions]

    def partition(self, topic: str, partition: int) -> Partition:
        """One partition. Raises :class:`UnreadableError` if it is not there."""
        for each in self.partitions:
            if (each.topic, each.partition) == (topic, partition):
                return each
        raise UnreadableError(f"{self.path}: there is no partition {topic}-{partition}")

    def records(
        self,
        columns: Sequence[str] | None = None,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        max_batch_bytes: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`Partition.records`, of all partitions; a range applies to each of them."""
        for partition in self.partitions:
            yield from partition.records(
                columns,
                start_offset=start_offset,
                end_offset=end_offset,
                start_timestamp=start_timestamp,
                end_timestamp=end_timestamp,
                isolation=isolation,
                control=control,
                max_batch_bytes=max_batch_bytes,
                on_damage=on_damage,
            )

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        max_batch_bytes: int | None = None,
        on_damage: OnDamage | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`Partition.batches`, of all partitions."""
        for partition in self.partitions:
            yield from partition.batches(columns, max_batch_bytes=max_batch_bytes, on_damage=on_damage)

    def segments(self, *, max_batch_bytes: int | None = None, on_damage: OnDamage | None = None) -> pa.Table:
        """As :meth:`Partition.segments`, of all partitions."""
        rows = (each.segment_rows(max_batch_bytes=max_batch_bytes, on_damage=on_damage) for each in self.partitions)
        return table_of([row for of_partition in rows for row in of_partition], SEGMENTS)

    def transactions(self) -> pa.Table:
        """As :meth:`Partition.transactions`, of all partitions."""
        return pa.concat_tables([table_of([], TRANSACTIONS), *(each.transactions() for each in self.partitions)])

    def convert(
        self,
        to: str | os.PathLike[str],
        *,
        format: int | None = None,
        codec: str | None = None,
        level: int | None = None,
        batch_size: int | None = None,
        isolation: Isolation = "read_uncommitted",
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> list[ConvertResult]:
        """As :meth:`Partition.convert`, of all partitions; nothing is begun unless all of them can be written.

        ``spark``: as for :meth:`verify`.
        """
        from brokerless.format.codecs.inflate import DEFAULT_LIMIT
        from brokerless.format.convert import ConversionTarget
        from brokerless.jobs.convert.job import Conversion, convert, plan, raise_damage

        limit = max_batch_bytes or DEFAULT_LIMIT
        conversion = Conversion(ConversionTarget(format, codec, level, batch_size), isolation=isolation, limit=limit)
        tasks = plan(self.directory.partitions, [self.path], to, conversion, self.storage_options, storage_options)
        return list(convert(tasks, on_damage or raise_damage, spark=spark, processes=1))

    def export(
        self,
        to: str | os.PathLike[str],
        *,
        by_date: bool = False,
        isolation: Isolation = "read_uncommitted",
        codec: str = "zstd",
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> list[ExportedPartition]:
        """Writes what is new of all partitions as Parquet files to ``to``, a directory or URL; gives those that have
        something new. See :mod:`brokerless.jobs.export.job`; ``storage_options`` are those of ``to``, ``spark`` as for
        :meth:`verify`. What is damaged is left out and told; without ``on_damage``, the first error is raised as
        :class:`DamageError`.
        """
        from brokerless.format.codecs.inflate import DEFAULT_LIMIT
        from brokerless.jobs.export.job import Export, export, plan

        limit = max_batch_bytes or DEFAULT_LIMIT
        partitions, settings = self.directory.partitions, Export(by_date, isolation, codec, limit=limit)
        planned = plan(partitions, [self.path], to, settings, self.storage_options, storage_options)
        return list(export(planned, on_damage or raise_errors, spark=spark, processes=1))

    def verify(self, *, max_batch_bytes: int | None = None, spark: Spark = "none") -> Iterator[Finding]:
        """As :meth:`Partition.verify`, of all partitions, in this process. ``spark``: a session (or SparkContext) on
        which it is done, or a master for which one is started."""
        from brokerless.format.codecs.inflate import DEFAULT_LIMIT
        from brokerless.jobs.verify.job import verify

        limit = max_batch_bytes or DEFAULT_LIMIT
        for finding in verify(self.directory.partitions, limit, self.storage_options, spark=spark, processes=1):
            if isinstance(finding, UnreadableError):
                raise finding
            yield finding


def _put(pending: dict[tuple[str, int | None], Finding], finding: Finding) -> None:
    pending[finding.file, finding.position] = finding
