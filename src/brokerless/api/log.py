"""What :func:`brokerless.open` returns: a log with its partitions, their tables, and what the commands do to them.

The same methods are on a :class:`Log` (all its partitions, one after the other) and on a :class:`Partition`; those
named like a command take its options by the same names, with the same defaults.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from brokerless.api import erasing, exporting, jobs
from brokerless.api.jobs import LogAudit, LogRestart
from brokerless.api.log_tables import LogTables
from brokerless.api.partition import Partition
from brokerless.api.topic import Topic
from brokerless.api.topic_names import check_name, hint
from brokerless.clock import Time, milliseconds
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.kafka_names import Isolation
from brokerless.log.directory import LogDirectory
from brokerless.log.names import Include
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.tables.partition_reader import OnDamage
from brokerless.text import ShownList, format_bytes

if TYPE_CHECKING:
    from brokerless.api.erasing import ErasedLogs
    from brokerless.api.exporting import Catalog, ExportedPartition, ExportForm
    from brokerless.api.jobs import CompactResult, ConvertResult, SalvageResult, TopicSize, Trim
    from brokerless.jobs.report.plots import Plots
    from brokerless.jobs.run.types import Spark
    from brokerless.typed.topic_type import Decoding


def open(
    path: str | os.PathLike[str],
    *,
    include: Collection[Include] | Include = (),
    storage_options: StorageOptions | None = None,
    key_pairs: Mapping[str, str | os.PathLike[str]] | None = None,
    layout: str | None = None,
    remote: str | os.PathLike[str] | None = None,
) -> Log:
    """Opens a log directory, a partition's directory, or a single log file (a segment, or a KRaft snapshot).

    ``path``: local, or a URL that fsspec knows (``s3://...``). ``include``: also read partitions that are ``"future"``,
    ``"delete"`` or ``"stray"``; with ``"deleted"``, records before the log start offset, as far as files still hold
    them (all reads begin at that offset otherwise; of a lone file, everything is read). Only names and log start
    offsets are read here.

    ``path`` can be a bucket, or a directory in it, with the objects of tiered storage. ``key_pairs``: files with the
    private keys (PEM) of encrypted segments, by the names of their key pairs. ``layout``: how copies of segments are
    named there, such as ``{topic}/{partition}/{offset}-*.log``. ``remote``: the bucket with the remote segments of the
    log at ``path``, so that both are read as one.

    Raises :class:`UnreadableError` if there is nothing at this path or nothing that is a log.
    """
    if not isinstance(path, (str, os.PathLike, Location)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"path: {path!r} is no path; open takes one, and each of several is opened by itself")
    own = Location.of(path, storage_options)
    if key_pairs or layout is not None or remote is not None:
        from brokerless.log.tiered.options import with_tiered_options

        own = with_tiered_options(own, key_pairs, layout, remote)
    return Log(jobs.open_directory(own, include))


@dataclass(frozen=True)
class Log(LogTables):
    """What is in a path: ``partitions``, by topic and partition."""

    def _with(self, others: Sequence[Log] | Log) -> list[LogDirectory]:
        listed = [others] if isinstance(others, Log) else others
        return [self.directory, *(each.directory for each in listed)]

    def partition(self, topic: str, partition: int) -> Partition:
        """One partition. Raises :class:`UnreadableError` if it is not there, :class:`UsageError` for what is no name of
        a topic, or no number."""
        from brokerless.tables.read_options import whole_number

        check_name(topic)
        whole_number("partition", partition)
        for each in self.partitions:
            if (each.topic, each.partition) == (topic, partition):
                return each
        numbers = [each.partition for each in self.partitions if each.topic == topic and each.partition is not None]
        more = f"; there are {min(numbers)} to {max(numbers)}" if numbers else hint(topic, self._topic_names)
        raise UnreadableError(self.path, f"there is no partition {topic}-{partition}{more}")

    @property
    def topics(self) -> list[Topic]:
        """Its topics, by name."""
        return ShownList(self.topic(each) for each in self._topic_names)

    def topic(self, name: str) -> Topic:
        """One topic: its records as tables, its partitions. Raises :class:`UsageError` if it is not there, with the
        nearest name."""
        check_name(name)
        if name not in self._topic_names:
            raise UsageError(f"there is no topic {name}{hint(name, self._topic_names)}")
        return Topic(self.directory, name, [each for each in self.partitions if each.topic == name])

    @property
    def _topic_names(self) -> list[str]:
        return sorted({each.topic for each in self.directory.partitions if each.topic is not None})

    def __iter__(self) -> Iterator[Partition]:
        """Its partitions."""
        return iter(self.partitions)

    def __len__(self) -> int:
        """Return how many partitions there are."""
        return len(self.directory.partitions)

    def __bool__(self) -> bool:
        """A log without partitions is a log."""
        return True

    @cached_property
    def plot(self) -> Plots:
        """Charts for notebooks: ``log.plot.timeline()``, ``.sizes()``, ``.throughput()`` and more; of headers alone."""
        from brokerless.jobs.report.plots import Plots

        return Plots(self.partitions)

    def report(self, to: str | os.PathLike[str], *, max_batch_bytes: int | None = None) -> None:
        """Writes a page that shows the log, as ``brokerless report``: one HTML file ``to`` that needs no network. All
        data is read, for the audit. Without the extra ``brokerless[report]``, it has no charts."""
        from brokerless.jobs.report.page import write_report

        write_report(self.directory, self.partitions, to, max_batch_bytes=max_batch_bytes)

    def __repr__(self) -> str:
        """``Log('/var/lib/kafka', 8 partitions, 464.0 KB)``, by the listing; nothing is read."""
        found = self.directory.partitions
        size = format_bytes(sum(each.size for each in found))
        return f"Log({self.path!r}, {len(found):,} partition{'' if len(found) == 1 else 's'}, {size})"

    def _repr_html_(self) -> str:
        partitions = ShownList(self.partitions)
        partitions.name = self.path
        return partitions._repr_html_()  # pyright: ignore[reportPrivateUsage]

    def verify(
        self,
        *,
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
        budget: int | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> Generator[Finding]:
        """As :meth:`Partition.verify`, of all partitions, in this process. ``spark``: a session (or SparkContext) to
        run on, or a master for which one is started. ``budget`` and ``state``: verify about so many bytes, what was
        verified longest ago first, and keep in the file ``state`` which segments were; the next call goes on there."""
        return jobs.verify(self._source, max_batch_bytes, spark, budget, state)

    def audit(
        self,
        *,
        price_per_gb: float | None = None,
        max_batch_bytes: int | None = None,
        spark: Spark = "none",
    ) -> LogAudit:
        """As :meth:`Partition.audit`, of all partitions, and of the log directory as a whole: its checkpoints, and what
        Kafka's own topics in it say of its partitions. ``spark`` as in :meth:`verify`.

        Of a log that was opened with ``remote``, or of a bucket, ``remote`` of the result compares what brokers know of
        remote segments with what is in the bucket. ``price_per_gb``: what 1,000,000,000 bytes cost there a month.
        """
        return jobs.audit(self._source, max_batch_bytes, spark, price_per_gb)

    def restart(
        self,
        kafka: str | None = None,
        *,
        remote: str | os.PathLike[str] | None = None,
        max_batch_bytes: int | None = None,
    ) -> LogRestart:
        """As :meth:`Partition.restart`, of all partitions and of the directory: whether a broker starts on it, what is
        stray, which transactions are ended. ``kafka``: the version that starts, ``"4.4"`` (default) or ``"3.9"``.
        ``remote``: the bucket of tiered topics, whose objects that would be deleted are counted. ``max_batch_bytes`` as
        in :meth:`verify`."""
        return jobs.restart(self._source, kafka, max_batch_bytes, remote)

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
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> list[SalvageResult]:
        """Writes every intact batch of damaged partitions to new partitions of the log directory ``to``, or to Parquet
        files there (``as_``). Each result has ``losses``: which offsets are missing, how many bytes, and why.

        ``segment_bytes``: where segments end (as in the source). ``partial``: of batches that break off although their
        checksum matches, save the records before. ``include="delete"``: read ``*.deleted`` files as well.
        ``storage_options``: those of ``to``, where it is a URL. ``on_damage`` is called with what was left out although
        it is intact. ``others`` as in :meth:`convert`, all else as in :meth:`verify`. Raises :class:`UsageError` for
        what cannot be written."""
        return jobs.salvage(
            self._with(others), Location.of(to, storage_options),
            jobs.salvage_settings(as_, segment_bytes, partial, dry_run, max_batch_bytes), include, on_damage, spark,
        )  # fmt: skip

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
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> list[ConvertResult]:
        """Rewrites all partitions as partitions of the log directory ``to``; none is begun unless all can be written.

        ``message_format``: 0, 1 or 2; ``codec``, ``level`` and ``batch_size`` as ``compression.type``,
        ``compression.gzip.level`` and so on, and ``batch.size``; what is None does not change. ``segment_bytes``: where
        segments end (as in the source). Offsets, timestamps, keys and values never change; what a format cannot carry
        is counted in ``totals.lost`` of a result. ``isolation="read_committed"`` leaves out what a consumer would not
        get. ``storage_options``: those of ``to``, where it is a URL. ``max_batch_bytes`` and ``spark`` as in
        :meth:`verify`. ``others``: another log or several, such as those of other brokers; each log directory is
        written to one of its own name in ``to`` then. ``manifest``: a file in which the partitions that were written
        are recorded, each committed by itself; the same call goes on after a stop, and returns what it converted
        itself.

        A damaged partition is not written: the first error is raised as :class:`DamageError`, or with ``on_damage``
        all damage is reported, and is in the result. Raises :class:`UsageError` for what cannot be written, such as a
        partition that exists.
        """
        from brokerless.format.convert import ConversionTarget
        from brokerless.jobs.convert.job import Conversion

        conversion = Conversion(
            ConversionTarget(message_format, codec, level, batch_size), jobs.log_config(segment_bytes), isolation,
            jobs.bound(max_batch_bytes), dry_run,
        )  # fmt: skip
        return jobs.convert(
            self._with(others), Location.of(to, storage_options), conversion, manifest, on_damage, spark
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
        """Plans which whole segments of a broker's log directory go, as ``brokerless trim``, and says what each costs;
        with ``apply``, they are removed.

        One of ``free`` (bytes, or ``"20GB"``), ``retention`` (what settings let go), ``before`` (a time). ``topics``:
        only of these, by name. ``log_dirs``: the broker's other log directories, to know topics and groups by. Raises
        :class:`UsageError` for anything but a local log directory, and with ``apply`` if a broker runs on it."""
        return jobs.trim(
            self._source, free=free, retention=retention, before=before, topics=topics, log_dirs=log_dirs, apply=apply
        )

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
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> ErasedLogs:
        """Removes records, or blanks their values, and writes all others to partitions of the log directory ``to``, at
        their offsets; only batches with such records are rebuilt. Kafka's own topics are copied unchanged.

        The records are those with one of ``keys`` (text is UTF-8), those for which ``where`` holds (DuckDB's SQL on the
        columns of :data:`schemas.RECORDS`, ``key_text``, ``value_text``, ``key_json`` and ``value_json``), or those
        with a ``header`` (name and value). ``blank``: they stay, with null for their values; ``blank_fields``: without
        fields such as ``"address.street"`` (a backslash before a dot within a name); ``totals.fields`` counts values
        that held each, and those that lack it, which go to ``on_damage``, too. ``schemas``: where those of Avro,
        Protobuf and JSON Schema are (else the topic ``_schemas`` beside them); ``value_format``: ``auto``, ``json``, or
        that of values that name no schema. ``manifest``: a file for :func:`brokerless.prove`, signed with ``sign_key``
        (Ed25519 in PEM); the same call completes a stopped run. Others as in :meth:`convert`.

        The list that is returned also has ``copies`` (places that hold such records, or may hold some), ``replicas``
        (comparisons of those that were written) and ``fields``."""
        return erasing.erase(
            self._with(others), Location.of(to, storage_options),
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
        on_damage: OnDamage | None = None,
        spark: Spark = "none",
    ) -> list[CompactResult]:
        """Compacts partitions as Kafka's cleaner does, into the log directory ``to``: topics with the
        ``cleanup.policy`` ``compact``, and those in ``topics``; others are copied. ``dry_run`` (or ``what_if``, which
        is the same), or no ``to``: writes nothing; each result has ``totals``, ``removed``, ``tombstones`` and
        ``frequent_keys``.

        ``delete_retention_ms``, ``min_compaction_lag_ms``, ``segment_bytes``: instead of the topic's settings. ``now``:
        for delete horizons and lags. ``keep_active``: the last segment stays. ``from_start``: what was cleaned before
        is cleaned again. ``key_memory``: bytes for keys, 32 each (256 MB); where that is not enough, keys are read
        again. ``top``: how many frequent keys a dry run returns. ``kafka``: whose rules; those of 3.9 keep v0 and v1.
        Others, and errors, as in :meth:`convert`.
        """
        from brokerless.jobs.compact.settings import KEY_BYTES, CompactOptions

        is_dry = dry_run or what_if or to is None
        options = CompactOptions(
            milliseconds(now), delete_retention_ms, min_compaction_lag_ms, segment_bytes, keep_active, from_start,
            kafka, jobs.bound(max_batch_bytes), is_dry, top if is_dry else 0,
            KEY_BYTES if key_memory is None else key_memory,
        )  # fmt: skip
        return jobs.compact(
            self._with(others),
            None if to is None else Location.of(to, storage_options),
            options,
            topics,
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
        """Estimates what each topic takes, and would take in other formats, codecs, levels and batch sizes, as
        ``brokerless size``: ``sizes`` of a result are bytes by choice with a 95 % interval, and ``best`` is the
        smallest choice that :meth:`convert` can write without losing anything. Nothing is written.

        ``sample``: bytes of each topic to read, or a share below 1 (4 %, at most 4 MiB); ``full`` reads everything, for
        exact sizes. Others say what is compared (the usual ones): formats (0, 1, 2), codecs, levels, bytes and records
        of a batch. ``max_batch_bytes`` and ``spark`` as in :meth:`verify`. Damage is in ``findings`` of a result.
        Raises :class:`UsageError` where nothing is left to compare.
        """
        from brokerless.jobs.size.choices import choices_of

        choices = choices_of(
            tuple(message_formats), tuple(codecs), tuple(levels), tuple(batch_records), tuple(batch_sizes)
        )
        return jobs.size(self._source, choices, sample, full, max_batch_bytes, spark)

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
        on_damage: OnDamage | None = None,
        decode: Decoding | str | bool | None = None,
        spark: Spark = "none",
    ) -> list[ExportedPartition]:
        """Writes the new records of all partitions as Parquet files to ``to``, a directory or URL, or to a table for
        each topic (``as_``: ``iceberg`` or ``delta``; ``catalog``: Iceberg's), and returns the partitions that have
        some. In a log directory, Kafka's own topics are left out; a partition exports them.

        ``by_date``: a directory for each date (UTC). ``compression``: Parquet's codec. ``file_bytes``: about how large
        a file gets (256 MiB). ``allow_removed``: files of earlier exports may be gone. ``storage_options``: those of
        ``to``. ``max_batch_bytes`` and ``spark`` as in :meth:`verify`. Damaged batches are left out and reported;
        without ``on_damage``, the first error is raised as :class:`DamageError`. ``decode`` as in :meth:`records`.
        """
        return exporting.export(
            self._source, to, as_=as_, catalog=catalog, by_date=by_date, isolation=isolation, compression=compression,
            file_bytes=file_bytes, allow_removed=allow_removed, dry_run=dry_run, max_batch_bytes=max_batch_bytes,
            storage_options=storage_options, on_damage=on_damage, decode=decode, spark=spark,
        )  # fmt: skip
