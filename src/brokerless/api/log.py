"""What :func:`brokerless.open` returns: a log with its partitions, their tables, and what the commands do to them.

A topic of a log and a partition of it are logs as well, with the same methods: they are what ``-t`` and ``-p`` select.
Methods that are named like a command take its options by the same names, with the same defaults.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from brokerless.api import erasing, exporting, jobs
from brokerless.api.jobs import LogAudit, LogRestart, Paths, hint
from brokerless.api.log_tables import LogTables
from brokerless.clock import Time, milliseconds
from brokerless.clusters.listing import open_directory
from brokerless.errors import BrokerlessError, UsageError
from brokerless.kafka_names import Isolation
from brokerless.log.directory import PartitionPath
from brokerless.log.names import Include
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.progress import Report
from brokerless.tables.arguments import checked, checked_methods
from brokerless.text import ShownList, format_bytes, html_table

if TYPE_CHECKING:
    from brokerless.api.erasing import ErasedLogs
    from brokerless.api.exporting import Catalog, ExportedPartition, ExportForm
    from brokerless.api.jobs import CompactResult, ConvertResult, SalvageResult, TopicSize, Trim
    from brokerless.jobs.report.plots import Plots
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.run.types import Spark
    from brokerless.typed.topic_type import Decoding


@checked
def open(
    path: str | os.PathLike[str],
    *,
    include: Collection[Include] | Include = (),
    storage_options: StorageOptions | None = None,
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    layout: str | None = None,
    remote: Paths | None = None,
    as_it_lies: bool = False,
) -> Log:
    """Open a log directory, a partition's directory, or a single log file (a segment, or a KRaft snapshot).

    Only names and log start offsets are read here.

    Parameters
    ----------
    path : path or URL
        Local, or a URL that fsspec knows (``s3://...``); also a bucket, or a directory in it, with the objects of
        tiered storage.
    include : {"future", "delete", "stray", "deleted"} or several, optional
        Read partitions in these states, too; with ``"deleted"``, records before the log start offset, as far as files
        still hold them (all reads begin at that offset otherwise; of a lone file, everything is read).
    storage_options : dict, optional
        fsspec's options of a URL.
    key_pairs : dict of str to path, optional
        Files with the private keys (PEM) of encrypted segments, by the names of their key pairs.
    layout : str, optional
        How copies of segments are named in a bucket, such as ``{topic}/{partition}/{offset}-*.log``.
    remote : path or URL, or several, optional
        The bucket with the remote segments of the log at ``path``, so that both are read as one.
    as_it_lies : bool, default False
        Read the segments that are there now. By default a partition is read as the next start of a broker completes
        it: with what an interrupted compaction had finished, and without what that replaces.

    Returns
    -------
    Log
        What is there: partitions, by topic and number.

    Raises
    ------
    UnreadableError
        If there is nothing at this path or nothing that is a log.

    Examples
    --------
    >>> import brokerless
    >>> brokerless.open("demo/data")
    Log('demo/data', ... partitions, ...)
    """
    if not isinstance(path, (str, os.PathLike, Location)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"path: {path!r} is no path; open takes one, and each of several is opened by itself")
    own = Location.of(path, storage_options)
    if key_pairs or layout is not None or remote is not None:
        from brokerless.log.tiered.options import with_tiered_options

        own = with_tiered_options(own, key_pairs, layout, remote)
    return Log(open_directory(own, include, as_it_lies=as_it_lies))


@checked_methods
@dataclass(frozen=True, repr=False)
class Log(LogTables):
    """What is in a path, or what it was narrowed to: a topic by :meth:`topic`, a partition by :meth:`partition`."""

    def _with(self, others: Sequence[Log] | Log) -> list[Source]:
        from brokerless.jobs.rewrite.plan import Source

        listed = [others] if isinstance(others, Log) else others
        return [Source(each.directory, each.paths) for each in (self, *listed)]

    @property
    def _named(self) -> set[str]:
        """The topics that it was narrowed to: of Kafka's own, too, other batches are made then."""
        return set() if self.selected is None else {each.topic for each in self.selected if each.topic is not None}

    def partition(self, topic: str, partition: int) -> Log:
        """Narrow to one partition, as ``-t`` and ``-p`` do.

        Parameters
        ----------
        topic : str
            Its topic's name.
        partition : int
            Its number.

        Returns
        -------
        Log
            Its ``topic_partition`` is ``(topic, partition)``; it has a ``start_offset`` and an ``end_offset``.

        Raises
        ------
        UsageError
            If it is not there, with what there is; for what is no name of a topic, or no number.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0)
        Log('demo/data', orders-0, 0..1264, 4 segments)
        """
        from brokerless.tables.read_options import whole_number

        whole_number("partition", partition)
        for each in self.paths:
            if (each.topic, each.partition) == (topic, partition):
                return self._only_of(each)
        numbers = [each.partition for each in self.paths if each.topic == topic and each.partition is not None]
        more = f"; there are {min(numbers)} to {max(numbers)}" if numbers else hint(topic, self._topic_names)
        raise UsageError(f"there is no partition {topic}-{partition} in {self.path}{more}")

    def _only_of(self, partition: PartitionPath) -> Log:
        name = partition.path if partition.topic is None else f"{partition.topic}-{partition.partition}"
        return Log(self.directory, (partition,), name)

    @cached_property
    def partitions(self) -> list[Log]:
        """Each of its partitions, by topic and number."""
        return ShownList(map(self._only_of, self.paths))

    @property
    def topics(self) -> list[Log]:
        """Each of its topics, by name."""
        return ShownList(map(self.topic, self._topic_names))

    def topic(self, name: str) -> Log:
        """Narrow to one topic, as ``-t`` does.

        Parameters
        ----------
        name : str
            The topic's name.

        Returns
        -------
        Log
            Its ``partitions`` are those of the topic.

        Raises
        ------
        UsageError
            If it is not there, with the nearest name.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").topic("orders")
        Log('demo/data', orders, 3 partitions, ...)
        """
        if name not in self._topic_names:
            raise UsageError(f"there is no topic {name}{hint(name, self._topic_names)}")
        return Log(self.directory, tuple(each for each in self.paths if each.topic == name), name)

    @property
    def _topic_names(self) -> list[str]:
        return sorted({each.topic for each in self.paths if each.topic is not None})

    def __iter__(self) -> Iterator[Log]:
        """Its partitions."""
        return iter(self.partitions)

    def __len__(self) -> int:
        """Return how many partitions there are."""
        return len(self.paths)

    def __bool__(self) -> bool:
        """A log without partitions is a log."""
        return True

    @cached_property
    def plot(self) -> Plots:
        """Charts for notebooks: ``log.plot.timeline()``, ``.sizes()``, ``.throughput()`` and more; of headers alone."""
        from brokerless.jobs.report.plots import Plots

        return Plots(self.paths)

    def report(self, to: str | os.PathLike[str], *, max_batch_bytes: int | None = None) -> None:
        """Write a page that shows the log, as ``brokerless report``: one HTML file that needs no network.

        All data is read, for the audit. Without the libraries of the extra ``report``, it has no charts.

        Parameters
        ----------
        to : path
            The file to write.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Raises
        ------
        UnwritableError
            If the file cannot be written.
        """
        from brokerless.jobs.report.page import write_report

        write_report(self.directory, self.paths, to, max_batch_bytes=max_batch_bytes)

    def __repr__(self) -> str:
        """``Log('/var/lib/kafka', 8 partitions, 464.0 KB)``, by the listing; nothing is read.

        Of one partition ``Log('/var/lib/kafka', orders-0, 0..1264, 4 segments)``: the last offset is read from the last
        segment, but not of what is remote, and not where it cannot be read.
        """
        one, name = self._one, f"{self.name}, " * bool(self.name)
        if one is None:
            size = format_bytes(sum(each.size for each in self.paths))
            count = f"{len(self.paths):,} partition{'' if len(self.paths) == 1 else 's'}"
            return f"Log({self.directory.path!r}, {name}{count}, {size})"
        offsets, count = _offsets_of(one), len(one.segments)
        return f"Log({self.directory.path!r}, {name}{offsets}{count:,} segment{'' if count == 1 else 's'})"

    def _table_row(self) -> dict[str, Any]:
        """Return what a table of partitions or topics shows of it, by the listing; nothing is read."""
        segments, size = sum(len(each.segments) for each in self.paths), sum(each.size for each in self.paths)
        if (one := self._one) is not None:
            place = {"topic": one.topic, "partition": one.partition, "state": one.state}
            return place | {"segments": segments, "bytes": size, "path": one.path}
        return {"topic": self.name, "partitions": len(self.paths), "segments": segments, "bytes": size}

    def _repr_html_(self) -> str:
        """For notebooks: its partitions, or the segments of one, of which nothing is read."""
        if (one := self._one) is not None:
            rows = [(each.base_offset, each.size, each.log.path) for each in one.segments]
            return html_table(one.path, ("base offset", "bytes", "segment"), rows)
        partitions = ShownList(self.partitions)
        partitions.name = self.name or self.path
        return partitions._repr_html_()  # pyright: ignore[reportPrivateUsage]

    def verify(
        self,
        *,
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
        budget: int | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> jobs.Findings:
        """Verify each batch, its checksum and structure, and the indexes against the log, as ``brokerless verify``.

        The first finding of severity ``error`` of a partition is where Kafka's own reader first throws.

        Parameters
        ----------
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.
        budget : int, optional
            Verify about so many bytes, what was verified longest ago first; needs ``state``.
        state : path, optional
            The file that says which segments were verified, and when; the next call goes on there.

        Yields
        ------
        Finding
            As soon as it is found.

        Raises
        ------
        UnreadableError
            For a file that cannot be opened, and a ``state`` that is none.
        UsageError
            For a budget without a state, or a state without a budget.

        Examples
        --------
        >>> import brokerless
        >>> list(brokerless.open("demo/data").verify())
        []
        """
        return jobs.Findings(jobs.verify(self.paths, max_batch_bytes, spark, budget, state))

    def audit(
        self,
        kafka: str | None = None,
        *,
        log_dirs: Collection[str | os.PathLike[str]] = (),
        price_per_gb: float | None = None,
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
    ) -> LogAudit:
        """Audit all partitions, and the log directory as a whole, as ``brokerless audit``.

        Of the directory: its checkpoints, and what Kafka's own topics in it say of its partitions.

        Parameters
        ----------
        kafka : {"4.4", "4.3", "4.2", "4.1", "4.0", "3.9"}, optional
            The version whose start is foreseen; by default the newest of these that starts.
        log_dirs : collection of paths, optional
            The other log directories of the same broker, which starts with all of them.
        price_per_gb : float, optional
            What 1,000,000,000 bytes in the bucket cost a month; of a bucket, or a log that was opened with ``remote``.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        LogAudit
            ``partitions`` and ``findings``. Of a log that was opened with
            ``remote``, or of a bucket, ``remote`` compares what brokers know of remote segments with what is in the
            bucket.

        Raises
        ------
        UnreadableError
            For a file that cannot be opened.
        UsageError
            For a price without a bucket, or a version that is not known.

        Examples
        --------
        >>> import brokerless
        >>> audit = brokerless.open("demo/data").audit()
        >>> [each.severity for each in audit.findings if each.severity == "error"]
        []
        """
        return jobs.audit(
            self.directory, self.selected, max_batch_bytes, spark,
            price_per_gb=price_per_gb, kafka=kafka, log_dirs=log_dirs,
        )  # fmt: skip

    def restart(
        self,
        kafka: str | None = None,
        *,
        log_dirs: Collection[str | os.PathLike[str]] = (),
        remote: Paths | None = None,
        max_batch_bytes: int | None = None,
    ) -> LogRestart:
        """Predict what a broker's next start makes of the log directory, as ``brokerless restart``. Nothing is
        changed.

        Of the directory: whether it starts, what is stray, which transactions are ended.

        Parameters
        ----------
        kafka : {"4.4", "4.3", "4.2", "4.1", "4.0", "3.9"}, optional
            The version that starts (4.4).
        log_dirs : collection of paths, optional
            The other log directories of the same broker, which starts with all of them.
        remote : path or URL, or several, optional
            The bucket of tiered topics, whose objects that would be deleted are counted.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).

        Returns
        -------
        LogRestart
            ``partitions`` and what concerns the directory.

        Raises
        ------
        UnreadableError
            For anything but a local log directory.

        Examples
        --------
        >>> import brokerless
        >>> restart = brokerless.open("demo/data").restart()
        >>> sum(each.lost_bytes for each in restart.partitions)
        0
        """
        return jobs.restart(self.directory, self.selected, kafka, max_batch_bytes, remote=remote, log_dirs=log_dirs)

    def salvage(
        self,
        to: str | os.PathLike[str],
        *,
        others: Sequence[Log] | Log = (),
        as_: Literal["segments", "parquet"] = "segments",
        segment_bytes: int | None = None,
        partial: bool = False,
        dry_run: bool = False,
        include: Collection[Include] = (),
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> list[SalvageResult]:
        """Write every intact batch of damaged partitions to another log directory, as ``brokerless salvage``.

        Parameters
        ----------
        to : path or URL
            The log directory that is written; one of the source is refused.
        others : Log or sequence of Log, optional
            Other logs that are done with it, such as those of other brokers; each log directory is then written to one
            of its own name in ``to``.
        as_ : {"segments", "parquet"}
            Logs, or Parquet files.
        segment_bytes : int, optional
            Where segments end; as in the source by default.
        partial : bool, default False
            Of batches that break off although their checksum matches, save the records before.
        dry_run : bool, default False
            Read and report everything, and write nothing.
        include : {"delete"} or several, optional
            Read ``*.deleted`` files as well.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        storage_options : dict, optional
            fsspec's options of ``to``, where it is a URL.
        on_damage : callable, optional
            Called with each :class:`Finding` of what was left out although it is intact.
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        list of SalvageResult
            For each partition, ``losses``: which offsets are missing, how many bytes, and why.

        Raises
        ------
        UsageError
            For what cannot be written, such as a partition that exists.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> salvaged = brokerless.open("demo/data").salvage("/tmp/salvaged", dry_run=True)
        >>> [each.losses for each in salvaged if each.losses]
        []
        """
        return jobs.salvage(
            self._with(others),
            Location.of(to, storage_options),
            jobs.salvage_settings(as_, segment_bytes, partial, dry_run=dry_run, max_batch_bytes=max_batch_bytes),
            include,
            on_damage,
            spark,
        )

    def convert(
        self,
        to: str | os.PathLike[str],
        *,
        others: Sequence[Log] | Log = (),
        message_format: int | None = None,
        codec: str | None = None,
        level: int | None = None,
        batch_size: int | None = None,
        segment_bytes: int | None = None,
        isolation: Isolation = "read_uncommitted",
        manifest: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
        max_batch_bytes: int | None = None,
        storage_options: StorageOptions | None = None,
        on_damage: Report | None = None,
        spark: Spark = "none",
    ) -> list[ConvertResult]:
        """Rewrite all partitions in another format or codec, as ``brokerless convert``.

        None is begun unless all can be written. Offsets, timestamps, keys and values never change. What a format
        cannot carry is counted in ``totals.lost`` of a result.

        Parameters
        ----------
        to : path or URL
            The log directory that is written.
        others : Log or sequence of Log, optional
            Other logs that are done with it, such as those of other brokers; each log directory is then written to one
            of its own name in ``to``.
        message_format : {0, 1, 2}, optional
            The version of batches; that of the source by default.
        codec : {"uncompressed", "gzip", "snappy", "lz4", "zstd"}, optional
            As ``compression.type``; that of the source by default.
        level : int, optional
            As ``compression.gzip.level`` and so on.
        batch_size : int, optional
            Bytes, as ``batch.size`` of a producer; batches stay as they are by default.
        segment_bytes : int, optional
            Where segments end; as in the source by default.
        isolation : {"read_uncommitted", "read_committed"}
            ``read_committed`` leaves out what a consumer would not get.
        manifest : path, optional
            A file in which partitions are recorded as they are written, each committed by itself. The same call goes
            on after a stop, and returns what it converted itself.
        dry_run : bool, default False
            Read and count everything, and write nothing.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        storage_options : dict, optional
            fsspec's options of ``to``, where it is a URL.
        on_damage : callable, optional
            Called with each :class:`Finding`; a damaged partition is not written, and all others are. Without it, the
            first error is raised.
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        list of ConvertResult
            For each partition, its ``totals``, and ``damages`` for one that was not written.

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.
        UsageError
            For what cannot be written, such as a partition that exists.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> results = brokerless.open("demo/data").convert("/tmp/zstd", codec="zstd", dry_run=True)
        >>> {each.totals.records_in == each.totals.records_out for each in results}
        {True}
        """
        from brokerless.format.convert import ConversionTarget
        from brokerless.jobs.convert.job import Conversion

        conversion = Conversion(
            ConversionTarget(message_format, codec, level, batch_size), jobs.log_config(segment_bytes), isolation,
            max_batch_bytes=jobs.bound(max_batch_bytes), dry_run=dry_run,
        )  # fmt: skip
        return jobs.convert(
            self._with(others), Location.of(to, storage_options), conversion, self._named, manifest, on_damage, spark
        )

    def trim(
        self,
        *,
        free: int | str | None = None,
        retention: bool = False,
        before: Time | None = None,
        topics: Collection[str] | None = None,
        log_dirs: Collection[str | os.PathLike[str]] = (),
        apply: bool = False,
    ) -> Trim:
        """Plan which whole segments of a broker's log directory go, as ``brokerless trim``, and what each costs.

        Parameters
        ----------
        free : int or str, optional
            Bytes to free, or a text such as ``"20GB"``. One of ``free``, ``retention`` and ``before`` is given.
        retention : bool, default False
            What the topics' settings let go.
        before : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``, optional
            Segments all of whose records are older.
        topics : collection of str, optional
            Only of these topics, by name.
        log_dirs : collection of paths, optional
            The broker's other log directories, by which its topics and groups are known.
        apply : bool, default False
            Remove them; by default nothing is changed.

        Returns
        -------
        Trim
            The segments that go, and for each what is lost with it: records, and groups that have not read them.

        Raises
        ------
        UsageError
            For anything but a local log directory, and with ``apply`` if a broker runs on it.

        Examples
        --------
        >>> import brokerless
        >>> trim = brokerless.open("demo/data").trim(free="10kB", topics=["orders"])
        >>> trim.is_applied
        False
        """
        return jobs.trim(
            self.directory, self.selected,
            free=free, retention=retention, before=before, topics=topics, log_dirs=log_dirs, apply=apply,
        )  # fmt: skip

    def erase(
        self,
        to: str | os.PathLike[str],
        *,
        others: Sequence[Log] | Log = (),
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
    ) -> ErasedLogs:
        """Remove records, or blank their values, and write all others elsewhere, as ``brokerless erase``.

        All others keep their offsets, and only batches with such records are rebuilt. Kafka's own topics are copied
        unchanged. The records are selected by ``keys``, ``where`` or ``header``.

        Parameters
        ----------
        to : path or URL
            The log directory that is written.
        others : Log or sequence of Log, optional
            Other logs that are done with it, such as those of other brokers; each log directory is then written to one
            of its own name in ``to``.
        keys : iterable of bytes or str, optional
            Records with one of these keys; text is UTF-8.
        where : str, optional
            Records for which this condition holds: DuckDB's SQL on the columns of :data:`schemas.RECORDS`,
            ``key_text``, ``value_text``, ``key_json`` and ``value_json``.
        header : (str, bytes or str), optional
            Records with this header, by its name and value.
        blank : bool, default False
            The records stay, with null for their values.
        blank_fields : sequence of str, optional
            The records stay, without these fields of their values, such as ``"address.street"`` (a backslash before a
            dot within a name).
        schemas : path, optional
            Where the schemas of Avro, Protobuf and JSON Schema are; else the topic ``_schemas`` beside the logs.
        value_format : str, default "auto"
            ``"json"``, or that of values that name no schema.
        manifest : path, optional
            A file for :func:`brokerless.prove`; the same call completes a stopped run.
        sign_key : path, optional
            An Ed25519 key in PEM, which signs the manifest.
        dry_run : bool, default False
            Read and count everything, and write nothing.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        storage_options : dict, optional
            fsspec's options of ``to``, where it is a URL.
        on_damage : callable, optional
            Called with each :class:`Finding`, and with one for each field that selected values lack, which is in
            ``fields`` of the result in any case. Without it, the first damage is raised.
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        ErasedLogs
            A list of partitions, with their ``totals``. It also has ``copies`` (places that hold such records, or may
            hold some), ``replicas`` (comparisons of those that were written) and ``fields`` (how many values held each
            field that was blanked, and how many lack it).

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.
        UsageError
            For what cannot be written, such as a partition that exists, and for a manifest of another erasure.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> erased = brokerless.open("demo/data").erase("/tmp/erased", keys=["o-101230"], dry_run=True)
        >>> sum(each.totals.selected for each in erased)
        4
        """
        return erasing.erase(
            self._with(others), Location.of(to, storage_options), named=self._named,
            keys=keys, where=where, header=header, blank=blank, blank_fields=blank_fields,
            schemas=schemas, value_format=value_format, manifest=manifest, sign_key=sign_key, dry_run=dry_run,
            max_batch_bytes=max_batch_bytes, on_damage=on_damage, spark=spark,
        )  # fmt: skip

    def compact(
        self,
        to: str | os.PathLike[str] | None = None,
        *,
        others: Sequence[Log] | Log = (),
        topics: Collection[str] = (),
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
    ) -> list[CompactResult]:
        """Compact partitions as Kafka's cleaner does, into another log directory, as ``brokerless compact``.

        Topics with the ``cleanup.policy`` ``compact``, and those in ``topics``, are compacted; others are copied.

        Parameters
        ----------
        to : path or URL, optional
            The log directory that is written; without it, nothing is.
        others : Log or sequence of Log, optional
            Other logs that are done with it, such as those of other brokers; each log directory is then written to one
            of its own name in ``to``.
        topics : collection of str, optional
            Topics to compact whatever their policy.
        delete_retention_ms, min_compaction_lag_ms : int, optional
            Instead of the topics' settings (ms).
        segment_bytes : int, optional
            Instead of the topics' settings (bytes).
        now : int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``, optional
            The time for delete horizons and lags; that of the call by default.
        keep_active : bool, default False
            The last segment stays as it is.
        from_start : bool, default False
            What was cleaned before is cleaned again.
        kafka : {"4.4", "3.9"}
            Whose rules; those of 3.9 keep v0 and v1.
        key_memory : int, optional
            Bytes for keys, of which each takes 32 (256 MB); where that is not enough, keys are read in several passes.
        top : int, default 10
            How many frequent keys a dry run returns.
        dry_run, what_if : bool, default False
            Write nothing, and count what would go; both are the same.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        storage_options : dict, optional
            fsspec's options of ``to``, where it is a URL.
        on_damage : callable, optional
            Called with each :class:`Finding`; without it, the first error is raised.
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        list of CompactResult
            For each partition, ``totals``, ``removed``, ``tombstones`` and ``frequent_keys``.

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.
        UsageError
            For what cannot be written, such as a partition that exists.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> (users,) = [each for each in brokerless.open("demo/data").compact() if each.topic == "users"]
        >>> users.totals.records_in > users.totals.records_out
        True
        """
        from brokerless.jobs.compact.settings import CompactOptions

        options = CompactOptions(
            milliseconds(now), delete_retention_ms, min_compaction_lag_ms, segment_bytes=segment_bytes,
            keep_active=keep_active, from_start=from_start, kafka=kafka, max_batch_bytes=jobs.bound(max_batch_bytes),
            dry_run=dry_run or what_if, top_keys=top, key_bytes=key_memory,
        )  # fmt: skip
        return jobs.compact(
            self._with(others),
            None if to is None else Location.of(to, storage_options),
            options,
            {*topics, *self._named},
            on_damage,
            spark,
        )

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
    ) -> list[TopicSize]:
        """Estimate what each topic takes, and would take in other formats and codecs, as ``brokerless size``.

        Nothing is written.

        Parameters
        ----------
        sample : float, optional
            Bytes of each topic to read, or a share below 1 (4 %, at most 4 MiB).
        full : bool, default False
            Read everything, for exact sizes.
        message_formats : collection of {0, 1, 2}, optional
            What is compared; the usual ones by default, and so for all that follow.
        codecs : collection of str, optional
            As ``compression.type``.
        levels : collection of int, optional
            Of the codecs.
        batch_sizes : collection of int, optional
            Bytes of a batch.
        batch_records : collection of int, optional
            Records of a batch.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        list of TopicSize
            ``sizes``: bytes by choice, with a 95 % interval; ``best``: the smallest choice that :meth:`convert` can
            write without losing anything; ``findings``: damage.

        Raises
        ------
        UsageError
            Where nothing is left to compare.

        Examples
        --------
        >>> import brokerless
        >>> sizes = brokerless.open("demo/data").size(full=True, codecs=["zstd"])
        >>> [each.topic for each in sizes]
        ['__cluster_metadata', '__consumer_offsets', '__transaction_state', 'orders', 'payments', 'users']
        """
        from brokerless.jobs.size.choices import choices_of

        choices = choices_of(
            tuple(message_formats),
            tuple(codecs),
            tuple(levels),
            batch_records=tuple(batch_records),
            batch_bytes=tuple(batch_sizes),
        )
        return jobs.size(self.paths, choices, sample, full, max_batch_bytes, spark)

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
    ) -> list[ExportedPartition]:
        """Write the new records of all partitions as Parquet files, or to a table for each topic, as ``brokerless
        export``.

        In a log directory, Kafka's own topics are left out; what it was narrowed to is exported. Damaged batches are
        left out and reported.

        Parameters
        ----------
        to : path or URL, or None
            The directory of the tables; None where the catalog says it.
        as_ : {"parquet", "iceberg", "delta"}
            What the tables are.
        catalog : Catalog or str, optional
            Iceberg's.
        by_date : bool, default False
            A directory for each date (UTC) of records' timestamps.
        isolation : {"read_uncommitted", "read_committed"}
            As in :meth:`records`.
        compression : str, default "zstd"
            Parquet's codec.
        file_bytes : int, optional
            About how large a file gets (256 MiB).
        allow_removed : bool, default False
            Files of earlier exports may be gone.
        dry_run : bool, default False
            Write nothing, and count what is new.
        max_batch_bytes : int, optional
            Bytes that one batch may inflate to (128 MiB).
        storage_options : dict, optional
            fsspec's options of ``to``, where it is a URL.
        on_damage : callable, optional
            Called with each :class:`Finding`; without it, the first error is raised.
        decode : True, "auto", a format of values such as "json", or Decoding, optional
            Keys and values are typed, as in :meth:`records`.
        spark : str, SparkSession or SparkContext, default "none"
            A session to run on, or a master such as ``"local[4]"`` for which one is started; a partition is a task. By
            default this process does it all.

        Returns
        -------
        list of ExportedPartition
            The partitions that had something new.

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.
        UsageError
            For what cannot be written, such as a table of another export.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> exported = brokerless.open("demo/data").export("/tmp/tables", dry_run=True)
        >>> sum(each.records for each in exported if each.topic == "orders")
        3796
        """
        return exporting.export(
            self.directory, self.selected, None if to is None else Location.of(to, storage_options),
            as_=as_, catalog=catalog, by_date=by_date, isolation=isolation, compression=compression,
            file_bytes=file_bytes, allow_removed=allow_removed, dry_run=dry_run, max_batch_bytes=max_batch_bytes,
            on_damage=on_damage, decode=decode, spark=spark,
        )  # fmt: skip


def _offsets_of(partition: PartitionPath) -> str:
    """Return ``0..1264, ``: the first and the last offset; ``""`` where they are not known without much work."""
    from brokerless.log.seek import end_offset

    start, end = partition.start_offset, None
    if not partition.location.is_remote:
        with suppress(BrokerlessError):
            end = end_offset(partition)
    return "" if start is None or end is None else f"{start}..{end - 1}, " if end > start else "empty, "
