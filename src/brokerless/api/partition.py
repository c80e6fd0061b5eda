"""One partition of a log: its tables, and what the commands do to it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from brokerless.api import erasing, exporting, jobs
from brokerless.api.jobs import records as all_records
from brokerless.clock import Time, milliseconds
from brokerless.errors import BrokerlessError, missing_libraries
from brokerless.findings import Finding
from brokerless.kafka_names import Isolation
from brokerless.log.directory import LogDirectory
from brokerless.log.names import Include
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Done, Report, ignore
from brokerless.tables.arguments import checked_methods
from brokerless.tables.partition_reader import PartitionReader

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.clusters.start.results import Restart
    from brokerless.explanation.files import Explanation
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.compact.job import CompactResult
    from brokerless.jobs.convert.job import ConvertResult
    from brokerless.jobs.erase.job import ErasedPartition
    from brokerless.jobs.export.job import ExportedPartition
    from brokerless.jobs.export.tasks import ExportForm
    from brokerless.jobs.run.types import Spark
    from brokerless.jobs.salvage.job import SalvageResult
    from brokerless.jobs.size.result import TopicSize
    from brokerless.table_formats.catalog import Catalog
    from brokerless.tables.record_filter import RecordFilter
    from brokerless.typed.records import Decode
    from brokerless.typed.topic_type import Decoding


class ReadingOptions(TypedDict, total=False):
    """The options of :meth:`Log.records`."""

    start_offset: int | None
    end_offset: int | None
    start_timestamp: Time | None
    end_timestamp: Time | None
    prune: bool
    isolation: Isolation
    control: bool
    filter: RecordFilter | None
    limit: int | None
    max_batch_bytes: int | None
    on_damage: Report | None
    done: Done
    decode: Decode
    jobs: int | None


class DataFrames:
    """Records in memory as a table of whichever library; without records, a table without rows."""

    def to_table(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> pa.Table:
        """Return all records in memory as Arrow's table.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        pyarrow.Table
            Schema :data:`schemas.RECORDS`.
        """
        return cast("Any", self).records(columns, **options).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> Any:
        """Return all records in memory as a DataFrame of pandas.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        pandas.DataFrame
            A column for each of the table's.

        Raises
        ------
        UsageError
            Where pandas is not installed.
        """
        try:
            import pandas  # noqa: F401  # pyright: ignore[reportMissingTypeStubs, reportUnusedImport]
        except ImportError as error:
            raise missing_libraries("to_pandas needs pandas", "notebook") from error
        return self.to_table(columns, **options).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, **options: Unpack[ReadingOptions]) -> Any:
        """Return all records in memory as a DataFrame of Polars.

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        **options
            As :meth:`Log.records` takes them.

        Returns
        -------
        polars.DataFrame
            A column for each of the table's.

        Raises
        ------
        UsageError
            Where Polars is not installed.
        """
        try:
            import polars  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise missing_libraries("to_polars needs Polars", "polars") from error
        return polars.from_arrow(self.to_table(columns, **options))


@checked_methods
@dataclass(frozen=True)
class Partition(PartitionReader, DataFrames):
    """One partition's log: its segments, in order. ``topic`` and ``partition`` are None for a lone file."""

    def _table_row(self) -> dict[str, Any]:
        """Return what a table of partitions shows of it, by the listing; nothing is read."""
        paths = self.paths
        place = {"topic": paths.topic, "partition": paths.partition, "state": paths.state}
        return place | {"segments": len(paths.segments), "bytes": paths.size, "path": paths.path}

    def __repr__(self) -> str:
        """``Partition(orders-0, 0..1264, 4 segments)``. The last offset is read from the last segment, but not of what
        is remote, and not where it cannot be read."""
        name = repr(self.path) if self.topic is None else f"{self.topic}-{self.partition}"
        end = None
        if not self.paths.location.is_remote:
            with suppress(BrokerlessError):
                end = PartitionReader.end_offset.func(self)  # which is not kept: the log may grow
        start, count = self.start_offset, len(self.paths.segments)
        offsets = "" if start is None or end is None else f"{start}..{end - 1}, " if end > start else "empty, "
        return f"Partition({name}, {offsets}{count:,} segment{'' if count == 1 else 's'})"

    @property
    def _source(self) -> LogDirectory:
        is_file = any(segment.log.path == self.path for segment in self.paths.segments)
        return LogDirectory(self.paths.location, "file" if is_file else "partition", (self.paths,))

    def records(
        self,
        columns: Sequence[str] | None = None,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        start_timestamp: Time | None = None,
        end_timestamp: Time | None = None,
        prune: bool = True,
        isolation: Isolation = "read_uncommitted",
        control: bool = False,
        filter: RecordFilter | None = None,
        limit: int | None = None,
        max_batch_bytes: int | None = None,
        on_damage: Report | None = None,
        done: Done = ignore,
        decode: Decode = None,
        jobs: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read the records, in offset order, as Arrow record batches of about 8 MiB (schema :data:`schemas.RECORDS`).

        Parameters
        ----------
        columns : sequence of str, optional
            The columns to read, in this order; all by default.
        start_offset, end_offset : int, optional
            Only records with ``start_offset <= offset < end_offset``.
        start_timestamp, end_timestamp : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``, optional
            Only records with ``start_timestamp <= timestamp < end_timestamp``.
        prune : bool, default True
            Batches are passed over by the times of headers and time indexes, as Kafka does. Where some are too small
            (``timestamp-above-header``), ``False`` finds all records of a range of times.
        isolation : {"read_uncommitted", "read_committed"}
            ``read_committed`` returns what such a consumer gets: no aborted transactions, nothing from the first open
            one on, and no control records.
        control : bool, default False
            Control records, too; not with ``read_committed``.
        filter : RecordFilter, optional
            Only records that it selects, yielded as they are found. Batches that cannot have any are not decoded, so
            that damage to their records which their checksum does not show is not found.
        limit : int, optional
            At most so many records; reading ends there.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        on_damage : callable, optional
            Called with each :class:`Finding` after the records that could be read before it, and reading goes on.
            Without it, the first error is raised.
        done : callable, optional
            Called with the bytes of log that were read, or passed over, since the last call.
        decode : True, "auto", a format of values such as "json", or Decoding, optional
            Keys and values are typed. The selected records are read twice then: first for the schemas that they name.
            ``key`` and ``value`` have the topic's types, and columns ``keyRaw``, ``keyError``, ``valueRaw`` and
            ``valueError`` come after the others: the bytes of what could not be decoded, and why. How many there were
            is reported to ``on_damage`` at the end, as warnings. A :class:`TopicType` is used unchanged.
        jobs : int, optional
            Threads that decode in parallel (1: none beside the caller's); by default one for each processor, where
            there is much to read. The records and their order are the same; where record batches end may differ.

        Returns
        -------
        pyarrow.RecordBatchReader
            One file at a time is open, until the reader is exhausted, raises or is released.

        Raises
        ------
        UsageError
            For an unknown column or another option that cannot be.
        DamageError, UnreadableError
            While reading: for the first error without ``on_damage``; for a file that the system does not read.

        Examples
        --------
        >>> import brokerless
        >>> partition = brokerless.open("demo/data").partition("orders", 0)
        >>> partition.records(["offset", "key"], start_offset=10, limit=2).read_all().num_rows
        2
        """
        from brokerless.tables.read_options import ReadOptions, range_of

        options = ReadOptions(
            columns=columns,
            range=range_of(start_offset, end_offset, start_timestamp, end_timestamp, prune=prune),
            isolation=isolation,
            control=control,
            filter=filter,
            limit=limit,
            max_batch_bytes=max_batch_bytes,
            on_damage=on_damage,
            done=done,
            jobs=jobs,
        )
        return all_records([self], options, decode)

    def verify(
        self,
        *,
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
        budget: int | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> Iterator[Finding]:
        """Verify each batch, its checksum and structure, and the indexes against the log, as ``brokerless verify``.

        The first finding of severity ``error`` is where Kafka's own reader first throws.

        Parameters
        ----------
        max_batch_bytes, spark, budget, state
            As :meth:`Log.verify` takes them.

        Yields
        ------
        Finding
            As soon as it is found.

        Raises
        ------
        UnreadableError
            For a file that cannot be opened.

        Examples
        --------
        >>> import brokerless
        >>> list(brokerless.open("demo/data").partition("orders", 0).verify())
        []
        """
        from brokerless.jobs.verify.partition import verify_partition

        if spark != "none" or budget is not None or state is not None:
            return jobs.Findings(jobs.verify(self._source, max_batch_bytes, spark, budget, state))
        return jobs.Findings(verify_partition(self.paths, jobs.bound(max_batch_bytes)))

    def audit(self, *, max_batch_bytes: int | None = None, spark: Spark = "none") -> PartitionAudit:
        """Audit the partition, as ``brokerless audit`` of its directory.

        Batches, indexes, offsets, leader epochs, producers, transactions, timestamps, and what the log directory's
        checkpoints record of it.

        Parameters
        ----------
        max_batch_bytes, spark
            As :meth:`Log.verify` takes them.

        Returns
        -------
        PartitionAudit
            Counts, offsets and ``findings`` (of each kind at most 1,000; ``left_out`` counts the rest).

        Raises
        ------
        UnreadableError
            For a file that cannot be opened.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0).audit().findings
        ()
        """
        return jobs.audit(self._source, max_batch_bytes, spark).partitions[0]

    def restart(self, kafka: str | None = None, *, max_batch_bytes: int | None = None) -> Restart:
        """Predict what a broker's next start makes of the partition, as ``brokerless restart`` of its directory.

        Nothing is changed. Files that it cuts and deletes, indexes that it rebuilds, records that are lost.

        Parameters
        ----------
        kafka : {"4.4", "4.3", "4.2", "4.1", "4.0", "3.9"}, optional
            The version that starts (4.4).
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Returns
        -------
        Restart
            What is done to which file, and ``lost``, the offsets that are.

        Raises
        ------
        UnreadableError
            For anything but a local directory.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0).restart().is_harmless
        True
        """
        return jobs.restart(self._source, kafka, max_batch_bytes).partitions[0]

    def salvage(
        self,
        to: str | os.PathLike[str],
        *,
        as_: Literal["segments", "parquet"] = "segments",
        segment_bytes: int | None = None,
        partial: bool = False,
        dry_run: bool = False,
        include: Collection[Include] = (),
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> SalvageResult:
        """Write every intact batch to a partition of another log directory, or as Parquet, as ``brokerless salvage``.

        Parameters
        ----------
        to, as_, segment_bytes, partial, dry_run, include
            As :meth:`Log.salvage` takes them.
        max_batch_bytes, storage_options, on_damage, spark
            As :meth:`Log.salvage` takes them.

        Returns
        -------
        SalvageResult
            ``losses``: which offsets are missing, how many bytes, and why.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.salvage` raises them.
        """
        (result,) = jobs.salvage(
            [self._source],
            Location.of(to, storage_options),
            jobs.salvage_settings(as_, segment_bytes, partial, dry_run=dry_run, max_batch_bytes=max_batch_bytes),
            include,
            on_damage,
            spark,
        )
        return result

    def convert(
        self,
        to: str | os.PathLike[str],
        *,
        message_format: int | None = None,
        codec: str | None = None,
        level: int | None = None,
        batch_size: int | None = None,
        segment_bytes: int | None = None,
        isolation: Isolation = "read_uncommitted",
        dry_run: bool = False,
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> ConvertResult:
        """Rewrite the partition in another format or codec, in another log directory, as ``brokerless convert``.

        Parameters
        ----------
        to, message_format, codec, level, batch_size, segment_bytes, isolation, dry_run
            As :meth:`Log.convert` takes them.
        max_batch_bytes, storage_options, on_damage, spark
            As :meth:`Log.convert` takes them.

        Returns
        -------
        ConvertResult
            Its ``totals``, and ``damages`` if it was not written.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.convert` raises them.
        """
        from brokerless.format.convert import ConversionTarget
        from brokerless.jobs.convert.job import Conversion

        conversion = Conversion(
            ConversionTarget(message_format, codec, level, batch_size), jobs.log_config(segment_bytes), isolation,
            max_batch_bytes=jobs.bound(max_batch_bytes), dry_run=dry_run,
        )  # fmt: skip
        (result,) = jobs.convert([self._source], Location.of(to, storage_options), conversion, None, on_damage, spark)
        return result

    def erase(
        self,
        to: str | os.PathLike[str],
        *,
        keys: Iterable[bytes | str] | None = None,
        where: str | None = None,
        header: tuple[str, bytes | str] | None = None,
        blank: bool = False,
        blank_fields: Sequence[str] = (),
        schemas: str | os.PathLike[str] | None = None,
        value_format: str = "auto",
        manifest: str | os.PathLike[str] | None = None,
        sign_key: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> ErasedPartition | None:
        """Remove records of the partition, or blank their values, as ``brokerless erase``.

        Parameters
        ----------
        to, keys, where, header, blank, blank_fields, schemas, value_format, manifest, sign_key
            As :meth:`Log.erase` takes them.
        dry_run, max_batch_bytes, storage_options, on_damage, spark
            As :meth:`Log.erase` takes them.

        Returns
        -------
        ErasedPartition or None
            Its ``totals``; None if a run with this manifest did it before.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.erase` raises them.
        """
        erased = erasing.erase(
            [self._source], Location.of(to, storage_options),
            keys=keys, where=where, header=header, blank=blank, blank_fields=blank_fields,
            schemas=schemas, value_format=value_format, manifest=manifest, sign_key=sign_key, dry_run=dry_run,
            max_batch_bytes=max_batch_bytes, on_damage=on_damage,
            spark=spark,
        )  # fmt: skip
        return erased[0] if erased else None

    def compact(
        self,
        to: str | os.PathLike[str] | None = None,
        *,
        delete_retention_ms: int | None = None,
        min_compaction_lag_ms: int | None = None,
        segment_bytes: int | None = None,
        now: Time | None = None,
        keep_active: bool = False,
        from_start: bool = False,
        kafka: Literal["3.9", "4.4"] = "4.4",
        key_memory: int | None = None,
        top: int = 10,
        dry_run: bool = False,
        what_if: bool = False,
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> CompactResult:
        """Compact the partition, whatever its ``cleanup.policy``, as ``brokerless compact``.

        Parameters
        ----------
        to, delete_retention_ms, min_compaction_lag_ms, segment_bytes, now, keep_active, from_start
            As :meth:`Log.compact` takes them.
        kafka, key_memory, top, dry_run, what_if, max_batch_bytes, storage_options, on_damage, spark
            As :meth:`Log.compact` takes them.

        Returns
        -------
        CompactResult
            ``totals``, ``removed``, ``tombstones`` and ``frequent_keys``.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.compact` raises them.
        """
        from brokerless.jobs.compact.settings import CompactOptions

        options = CompactOptions(
            milliseconds(now), delete_retention_ms, min_compaction_lag_ms, segment_bytes=segment_bytes,
            keep_active=keep_active, from_start=from_start, kafka=kafka, max_batch_bytes=jobs.bound(max_batch_bytes),
            dry_run=dry_run or what_if, top_keys=top, key_bytes=key_memory,
        )  # fmt: skip
        (result,) = jobs.compact(
            [self._source],
            None if to is None else Location.of(to, storage_options),
            options,
            () if self.topic is None else (self.topic,),
            on_damage,
            spark,
        )
        return result

    def size(
        self,
        *,
        sample: float | None = None,
        full: bool = False,
        message_formats: Collection[int] = (),
        codecs: Collection[str] = (),
        levels: Collection[int] = (),
        batch_sizes: Collection[int] = (),
        batch_records: Collection[int] = (),
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
    ) -> TopicSize:
        """Estimate what the partition takes, and would take otherwise, as ``brokerless size``.

        Parameters
        ----------
        sample, full, message_formats, codecs, levels, batch_sizes, batch_records
            As :meth:`Log.size` takes them.
        max_batch_bytes, spark
            As :meth:`Log.size` takes them.

        Returns
        -------
        TopicSize
            ``sizes`` by choice, and ``best``.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.size` raises them.
        """
        from brokerless.jobs.size.choices import choices_of

        choices = choices_of(
            tuple(message_formats),
            tuple(codecs),
            tuple(levels),
            batch_records=tuple(batch_records),
            batch_bytes=tuple(batch_sizes),
        )
        (result,) = jobs.size(self._source, choices, sample, full, max_batch_bytes, spark)
        return result

    def explain(
        self, *, offset: int | None = None, records: int | None = None, max_batch_bytes: int | None = None
    ) -> Explanation:
        """Explain every byte of a batch, as ``brokerless explain``.

        Parameters
        ----------
        offset : int, optional
            The batch that has this offset, or the next one; by default the first.
        records : int, optional
            How many records are explained; all by default.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Returns
        -------
        Explanation
            Named fields, each with its place and value.

        Raises
        ------
        UnreadableError
            Where no batch has this offset or a later one.

        Examples
        --------
        >>> import brokerless
        >>> explained = brokerless.open("demo/data").partition("orders", 0).explain(records=1)
        >>> explained.fields[0].name
        'batch'
        """
        return jobs.explain(self.paths, offset, records, max_batch_bytes)

    def export(
        self,
        to: str | os.PathLike[str] | None,
        *,
        as_: ExportForm = "parquet",
        catalog: Catalog | str | None = None,
        by_date: bool = False,
        isolation: Isolation = "read_uncommitted",
        compression: str = "zstd",
        file_bytes: int | None = None,
        allow_removed: bool = False,
        dry_run: bool = False,
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        decode: Decoding | str | bool | None = None,
        spark: Spark = "none",
    ) -> ExportedPartition | None:
        """Write the partition's new records as Parquet files, or to a table, as ``brokerless export``.

        Parameters
        ----------
        to, as_, catalog, by_date, isolation, compression, file_bytes, allow_removed, dry_run
            As :meth:`Log.export` takes them.
        max_batch_bytes, storage_options, on_damage, decode, spark
            As :meth:`Log.export` takes them.

        Returns
        -------
        ExportedPartition or None
            None if there was nothing new.

        Raises
        ------
        BrokerlessError
            As :meth:`Log.export` raises them.
        """
        exported = exporting.export(
            self._source, None if to is None else Location.of(to, storage_options),
            as_=as_, catalog=catalog, by_date=by_date, isolation=isolation, compression=compression,
            file_bytes=file_bytes, allow_removed=allow_removed, dry_run=dry_run, max_batch_bytes=max_batch_bytes,
            on_damage=on_damage, decode=decode,
            spark=spark,
        )  # fmt: skip
        return exported[0] if exported else None
