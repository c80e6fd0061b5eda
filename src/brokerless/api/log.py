"""What :func:`brokerless.open` returns: a log with its partitions, their tables, and what the commands do to them.

A topic of a log and a partition of it are logs as well, with the same methods: they are what ``-t`` and ``-p`` select.
Methods that are named like a command take its options by the same names, with the same defaults.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from brokerless.api import erasing, exporting, jobs
from brokerless.api.jobs import LogAudit, LogRestart, hint
from brokerless.api.log_tables import LogTables
from brokerless.clusters.listing import open_directory
from brokerless.errors import BrokerlessError, UsageError
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.location import Location
from brokerless.requests.checking import (
    AuditRequest,
    ReportRequest,
    RestartRequest,
    SizeRequest,
    TrimRequest,
    VerifyRequest,
)
from brokerless.requests.option_types import OpenedLog
from brokerless.requests.options import asks, takes
from brokerless.requests.reading import OpenRequest, PartitionRequest, TopicRequest
from brokerless.requests.writing import (
    CompactRequest,
    ConvertRequest,
    EraseRequest,
    ExportRequest,
    SalvageRequest,
    UploadRequest,
)
from brokerless.text import ShownList, format_bytes, html_table

if TYPE_CHECKING:
    from brokerless.api.erasing import ErasedLogs
    from brokerless.api.exporting import ExportedPartition
    from brokerless.api.jobs import CompactResult, ConvertResult, SalvageResult, TopicSize, Trim, UploadedPartition
    from brokerless.jobs.report.plots import Plots
    from brokerless.jobs.rewrite.plan import Source


@asks(OpenRequest)
def open(request: OpenRequest) -> Log:
    """Open a log directory, a partition's directory, or a single log file (a segment, or a KRaft snapshot).

    Only names and log start offsets are read here.

    Returns
    -------
    Log
        What is there: partitions, by topic and number.

    Raises
    ------
    UnreadableError
        If there is nothing at this path, or no log.

    Examples
    --------
    >>> import brokerless
    >>> brokerless.open("demo/data")
    Log('demo/data', ... partitions, ...)
    """
    own = Location.of(request.path, request.storage_options)
    if request.key_pairs or request.layout is not None or request.remote is not None:
        from brokerless.log.tiered.options import with_tiered_options

        own = with_tiered_options(own, request.key_pairs, request.layout, request.remote)
    return Log(open_directory(own, request.include, as_it_lies=request.as_it_lies))


@dataclass(frozen=True, repr=False)
class Log(LogTables):
    """The partitions at a path (:func:`open`), of one topic (:meth:`topic`), or a single one (:meth:`partition`)."""

    def _with(self, others: Sequence[OpenedLog] | OpenedLog) -> list[Source]:
        from brokerless.jobs.rewrite.plan import Source

        listed = others if isinstance(others, Sequence) else [others]
        return [Source(each.directory, each.paths) for each in (self, *listed)]

    @property
    def _named(self) -> set[str]:
        """The topics that it was narrowed to: of Kafka's own, too, other batches are made then."""
        return set() if self.selected is None else {each.topic for each in self.selected if each.topic is not None}

    @takes(PartitionRequest)
    def partition(self, request: PartitionRequest) -> Log:
        """Narrow to one partition, as ``-t`` and ``-p`` do.

        Returns
        -------
        Log
            Its ``topic_partition`` is ``(topic, partition)``; it has a ``start_offset`` and an ``end_offset``.

        Raises
        ------
        UsageError
            If the partition does not exist, with those that do; for an invalid name or number.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").partition("orders", 0)
        Log('demo/data', orders-0, 0..1264, 4 segments)
        """
        topic, partition = request.topic, request.partition
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
        """A log for each partition, in the order of topics and numbers."""
        return ShownList(map(self._only_of, self.paths))

    @property
    def topics(self) -> list[Log]:
        """A log for each topic, in the order of their names."""
        return ShownList(map(self.topic, self._topic_names))

    @takes(TopicRequest)
    def topic(self, request: TopicRequest) -> Log:
        """Narrow to one topic, as ``-t`` does.

        Returns
        -------
        Log
            Its ``partitions`` are those of the topic.

        Raises
        ------
        UsageError
            If the topic does not exist, with the name that is nearest.

        Examples
        --------
        >>> import brokerless
        >>> brokerless.open("demo/data").topic("orders")
        Log('demo/data', orders, 3 partitions, ...)
        """
        name = request.name
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
        """Charts for notebooks, from batch headers: ``log.plot.timeline()``, ``.sizes()``, ``.throughput()``, ..."""
        from brokerless.jobs.report.plots import Plots

        return Plots(self.paths)

    @takes(ReportRequest)
    def report(self, request: ReportRequest) -> None:
        """Write a page that shows the log, as ``brokerless report``: one HTML file that needs no network.

        All data is read, for the audit. Without the libraries of the extra ``report``, it has no charts.

        Raises
        ------
        UnwritableError
            If the file cannot be written.
        """
        from brokerless.jobs.check.snapshots import last_complete
        from brokerless.jobs.report.job import LastBackup, refuse_other_cluster
        from brokerless.jobs.report.page import ReportFile, write_report

        backup = None
        if request.backup is not None:
            place = Location.of(request.backup)
            backup = LastBackup(place.path, *last_complete(place))
            refuse_other_cluster(backup, self.directory)
        write_report(
            self.directory, self.paths, ReportFile(request.to, backup), max_batch_bytes=request.max_batch_bytes
        )

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

    @takes(VerifyRequest)
    def verify(self, request: VerifyRequest) -> jobs.Findings:
        """Verify each batch, its checksum and structure, and the indexes against the log, as ``brokerless verify``.

        The first finding of severity ``error`` of a partition is where Kafka's own reader first throws.

        Yields
        ------
        Finding
            As soon as it is found.

        Raises
        ------
        UnreadableError
            For a file that cannot be opened, and a ``state`` that cannot be read.
        UsageError
            For a budget without a state, or a state without a budget.

        Examples
        --------
        >>> import brokerless
        >>> list(brokerless.open("demo/data").verify())
        []
        """
        return jobs.Findings(jobs.verify(self.paths, request))

    @takes(AuditRequest)
    def audit(self, request: AuditRequest) -> LogAudit:
        """Audit all partitions, and the log directory as a whole, as ``brokerless audit``.

        The partitions are compared with the directory's checkpoints, and with what Kafka's own topics in it say.

        Returns
        -------
        LogAudit
            ``partitions`` and ``findings``. For a bucket, or a log that was opened with ``remote``, it also has
            ``remote``: remote segments as brokers know them, compared with the objects in the bucket.

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
        return jobs.audit(self.directory, self.selected, request)

    @takes(RestartRequest)
    def restart(self, request: RestartRequest) -> LogRestart:
        """Predict what a broker's next start makes of the log directory, as ``brokerless restart``. Nothing is
        changed.

        For the directory: whether a broker starts on it, which replicas are stray, which transactions are ended.

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
        return jobs.restart(self.directory, self.selected, request)

    @takes(SalvageRequest)
    def salvage(self, request: SalvageRequest) -> list[SalvageResult]:
        """Write every intact batch of damaged partitions to another log directory, as ``brokerless salvage``.

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
        return jobs.salvage(self._with(request.others), request)

    @takes(ConvertRequest)
    def convert(self, request: ConvertRequest) -> list[ConvertResult]:
        """Rewrite all partitions in another format or codec, as ``brokerless convert``.

        None is begun unless all can be written. Offsets, timestamps, keys and values never change. What a format
        cannot carry is counted in ``totals.lost`` of a result.

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
        return jobs.convert(self._with(request.others), request, self._named)

    @takes(UploadRequest)
    def upload(self, request: UploadRequest) -> list[UploadedPartition]:
        """Write all partitions as remote segments of tiered storage, as ``brokerless convert --tiered``.

        Batches stay byte for byte, in the layout of Aiven's plugin. Kafka's own topics are left out unless they are
        named.

        Returns
        -------
        list of UploadedPartition
            For each partition its ``segments``, and ``damages`` for one that was not written.

        Raises
        ------
        DamageError
            For the first damage, without ``on_damage``.
        UsageError
            For what cannot be written, such as a topic of which the bucket has segments.
        UnreadableError, UnwritableError
            Where the system does not read or write.

        Examples
        --------
        >>> import brokerless
        >>> results = brokerless.open("demo/data").topic("orders").upload("/tmp/bucket", dry_run=True)
        >>> [each.records for each in results]
        [1265, 1235, 1296]
        """
        return jobs.upload(self._with(request.others), request, self._named)

    @takes(TrimRequest)
    def trim(self, request: TrimRequest) -> Trim:
        """Plan which whole segments of a broker's log directory go, as ``brokerless trim``, and what each costs.

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
        return jobs.trim(self.directory, self.selected, request)

    @takes(EraseRequest)
    def erase(self, request: EraseRequest) -> ErasedLogs:
        """Write the log without selected records, or with their values blanked, as ``brokerless erase``.

        All records keep their offsets, and only batches with selected ones are rebuilt. Kafka's own topics are copied
        unchanged. Records are selected by ``keys``, ``where`` or ``header``.

        Returns
        -------
        ErasedLogs
            A list of partitions, with their ``totals``. It also has ``copies`` (places that contain or may contain
            selected records), ``replicas`` (comparisons of those that were written) and ``fields`` (for each blanked
            field, how many values had it, and how many lack it).

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
        return erasing.erase(self._with(request.others), request, self._named)

    @takes(CompactRequest)
    def compact(self, request: CompactRequest) -> list[CompactResult]:
        """Compact partitions as Kafka's cleaner does, into another log directory, as ``brokerless compact``.

        Topics with the ``cleanup.policy`` ``compact``, and those in ``topics``, are compacted; others are copied.

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
        return jobs.compact(self._with(request.others), request, self._named)

    @takes(SizeRequest)
    def size(self, request: SizeRequest) -> list[TopicSize]:
        """Estimate what each topic takes, and would take in other formats and codecs, as ``brokerless size``.

        Nothing is written.

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
        return jobs.size(self.paths, request)

    @takes(ExportRequest)
    def export(self, request: ExportRequest) -> list[ExportedPartition]:
        """Write the new records of all partitions as Parquet files, or to a table for each topic, as ``brokerless
        export``.

        Kafka's own topics are left out, unless the log was narrowed to one of them. Damaged batches are left out and
        reported.

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
        return exporting.export(self.directory, self.selected, request)


def _offsets_of(partition: PartitionPath) -> str:
    """Return ``0..1264, ``: the first and the last offset; ``""`` where they are not known without much work."""
    from brokerless.log.seek import end_offset

    start, end = partition.start_offset, None
    if not partition.location.is_remote:
        with suppress(BrokerlessError):
            end = end_offset(partition)
    return "" if start is None or end is None else f"{start}..{end - 1}, " if end > start else "empty, "
