"""Writes Arrow record batches as new partitions, in one pass.

Each step is a module: rows are checked and cast to Kafka's types (``tables/rows``), routed to partitions
(``jobs/load/routing``), cut into batches and encoded (``tables/batcher``), and staged
(``log/commit/partition_writer``). When everything is written and synced, the partitions are renamed to their final
names; an error before that leaves nothing.

:func:`load_into` is all of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa

from brokerless import clock
from brokerless.errors import UsageError
from brokerless.format.arrays import Int64s
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.jobs.load.routing import Router, Routing
from brokerless.jobs.load.row_buffer import COLUMNS, RowBuffer, check_same, records_of
from brokerless.jobs.load.target_topics import TargetTopics
from brokerless.jobs.run.encoders import AT_ONCE, Encoders
from brokerless.log.checkpoint.topic_ids import check_topic_ids
from brokerless.log.commit.commit import commit, discard
from brokerless.log.commit.job_commit import owner_of_command, prepare, remove_unused
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.write.follower_append import check_sizes
from brokerless.log.write.log_writer import Appended
from brokerless.log.write.new_partition import checked_name
from brokerless.progress import Done, ignore
from brokerless.tables.batcher import Batcher, BatchSettings, Cut, Encoded, observe
from brokerless.tables.rows import bounded
from brokerless.text import short_html, short_repr

_GROUP, _GROUP_OF_EACH = 4 << 20, 32 << 10
"""Bytes of rows that are sorted by partition at once, and what each partition that there is adds to them."""
_SMALL = 1 << 20
"""Bytes that are written without another thread: two with much to do in Python mostly wait for its lock."""
CheckTarget = Callable[[Destination, str, int], object]
"""Raises :class:`UsageError` for a partition (topic and number) of a directory that cannot be written."""
BeforeCommit = Callable[["Loaded", Sequence[StagedPartition]], object]


@dataclass(frozen=True, slots=True)
class LoadedPartition:
    """A partition that was written."""

    topic: str
    partition: int
    records: int
    """How many records were written."""
    size_in_bytes: int
    """The bytes of its log."""
    first_offset: int
    last_offset: int

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load: the partitions that were written."""

    partitions: tuple[LoadedPartition, ...]
    rows: int
    control_records: int
    """How many rows were control records, which are not written."""
    unknown: tuple[str, ...] = ()
    """Partitions that the cluster's metadata in the directory does not know: a broker takes them for strays."""

    __repr__ = short_repr
    _repr_html_ = short_html


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """The settings of a load that its manifest records as the job."""

    to: str
    bytes: str
    """How strings of JSON are read."""
    placement: Routing
    settings: BatchSettings
    config: LogConfig


@dataclass(frozen=True, slots=True)
class Loading:
    """The settings of a load: where rows are written, in what batches, in what segments."""

    routing: Routing = field(default_factory=Routing)
    settings: BatchSettings = field(default_factory=BatchSettings)
    config: LogConfig = field(default_factory=LogConfig)
    dry_run: bool = False
    """Whether everything is done but writing."""


def load_into(
    to: Destination,
    batches: Iterable[pa.RecordBatch],
    loading: Loading,
    done: Done = ignore,
    before_commit: BeforeCommit = ignore,
) -> Loaded:
    """Writes record batches as new partitions of a directory that was checked, as :func:`brokerless.load`."""
    with Loader(to, loading) as loader:
        for batch in batches:
            for part in bounded(batch):
                loader.add(part)
                done(part.num_rows)
        return loader.commit(before_commit)


@dataclass(slots=True)
class _OpenPartition:
    """A partition that is being written."""

    batcher: Batcher
    output: PartitionWriter | None
    first_offset: int
    first_row: int
    size: int = 0


def check_new(directory: Destination, topic: str, partition: int) -> None:
    """Raises :class:`UsageError` where a partition could not be written: it is there, or a broker runs there."""
    name = checked_name(topic, partition)
    if directory.exists(name):
        raise UsageError(f"{directory.join(name)}: this partition exists already; write to another directory")
    directory.refuse_running_broker()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfJob:
    """A :class:`Loader`'s part of a job, of which it does one task."""

    job: str | None = None
    """The job's name; None for a loader that does all of it. What a task of a job writes of a partition is staged, as
    other tasks may write of it as well."""
    check: CheckTarget = check_new
    """Checks which partitions it may write."""
    now: int | None = None
    """The timestamp (ms) of records without one, where :class:`Routing` has none for them; None for now."""
    threads: int | None = None
    """How many threads encode; None for as many as there are processors."""
    without_key: int = 0
    """What :class:`Router` is passed."""
    owner: str | None = None
    """The owner of :func:`bulk.unfinished_name`, for what is no run of a command."""


class Loader:
    """Partitions that are being written; leaving it without :meth:`commit` leaves nothing."""

    def __init__(self, directory: Destination, loading: Loading, part: PartOfJob | None = None) -> None:
        part = part or PartOfJob()
        routing, settings, job = loading.routing, loading.settings, part.job
        self._directory = directory
        self._settings = settings
        self._config = loading.config
        self._dry_run = loading.dry_run
        self._router = Router(routing, settings.batch_size, part.without_key)
        self._job = job
        self._owner = owner_of_command(job) if part.owner is None else part.owner
        self._check = part.check
        self._start_offset = routing.start_offset
        self._own_timestamp = routing.timestamp
        given = (routing.timestamp, part.now, clock.now())
        self._timestamp = next(each for each in given if each is not None)
        self._topics = TargetTopics(directory, routing, job)
        self._ratios: dict[str, CompressionRatioEstimator] = {}
        self._open: dict[int, _OpenPartition] = {}
        self._rows = RowBuffer()
        self.columns: list[str] | None = None
        self.first_row = 0
        self._row_count = 0
        self._control_records = 0
        self._stack = ExitStack()
        self._encoders = self._stack.enter_context(Encoders(settings, part.threads))
        self._waiting: deque[tuple[_OpenPartition, Future[Encoded]]] = deque()
        self._writing: deque[Future[Appended]] = deque()
        # One thread: writing into the page cache takes as long as encoding, and batches have to come in their order.
        self._writer = ThreadPoolExecutor(1, "brokerless-write")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.shutdown(cancel_futures=True)  # before what it writes to is taken away
        self._stack.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows in; what makes full batches is written, some of it later."""
        rows, numbers = records_of(batch, self._row_count, self._own_timestamp)
        self._row_count += batch.num_rows
        self._control_records += batch.num_rows - rows.num_rows
        if not rows.num_rows:
            return
        names = [name for name in COLUMNS if name in rows.schema.names]
        if self.columns is None:
            self.columns, self.first_row = names, int(numbers[0])
        check_same(self.columns, names, int(numbers[0]))
        self._rows.add(rows.select(names), self._router.place(rows, numbers), numbers, rows.nbytes)
        if self._rows.size >= _GROUP + _GROUP_OF_EACH * len(self._open):
            self._write_group()

    def finish(self) -> list[StagedPartition]:
        """Writes what is left, and hands over all partitions, synced, for
        :func:`brokerless.log.commit.commit.commit`."""
        self._write_group()
        for each in self._open.values():
            self._append(each, each.batcher.finish())
        while self._waiting:
            self._write_oldest()
        self._wait_for_writes(0)
        partitions: list[StagedPartition] = []
        try:
            for each in self._open.values():
                if each.output is None:
                    continue
                if each.batcher.records < each.batcher.next_offset - each.first_offset:
                    each.output.explain_gaps()
                partitions.append(each.output.finish())
        except BaseException:
            discard(self._directory, partitions)
            raise
        return partitions

    def commit(self, before: BeforeCommit = ignore) -> Loaded:
        """Writes what is left, syncs all partitions, calls ``before``, and then gives them their names."""
        partitions = self.finish()
        loaded = self.loaded()
        try:
            if partitions:
                check_topic_ids(self._directory, ((each.topic, each.directory) for each in partitions))
                before(loaded, partitions)
                commit(self._directory, partitions)
        except BaseException:
            discard(self._directory, partitions)
            raise
        return loaded

    def loaded(self) -> Loaded:
        """Return what was written, or would have been; after :meth:`finish`."""
        partitions = (
            LoadedPartition(
                topic, partition, each.batcher.records, size_in_bytes=each.size, first_offset=each.first_offset,
                last_offset=each.batcher.next_offset - 1,
            )
            for topic, partition, each in self._sorted()
        )  # fmt: skip
        return Loaded(
            tuple(partitions), self._row_count, self._control_records, self._topics.unknown(self._router.codes)
        )

    def first_rows(self) -> list[int]:
        """Return the number of each partition's first row, in the order of :meth:`loaded`."""
        return [each.first_row for _, _, each in self._sorted()]

    def _sorted(self) -> Iterator[tuple[str, int, _OpenPartition]]:
        for (topic, partition), code in sorted(self._router.codes.items()):
            yield topic, partition, self._open[code]

    def _write_group(self) -> None:
        for place, rows, numbers in self._rows.take_by_partition():
            self._write(place, rows, numbers)

    def _write(self, place: int, rows: pa.RecordBatch, numbers: Int64s) -> None:
        if place not in self._open:
            self._open[place] = self._begin(*self._router.names[place], rows, int(numbers[0]))
        each = self._open[place]
        self._append(each, each.batcher.add(rows, numbers))

    def _begin(self, topic: str, partition: int, rows: pa.RecordBatch, first_row: int) -> _OpenPartition:
        """Begin a partition with its first rows, from number ``first_row`` on."""
        has_offsets = "offset" in rows.schema.names
        first = rows.column("offset")[0].as_py() if has_offsets else self._start_offset
        ratio = self._ratios.setdefault(topic, CompressionRatioEstimator())
        batcher = Batcher(self._settings, ratio, self._start_offset, self._timestamp)
        topic_id = self._topics.id_of(topic)
        if self._dry_run or self._job is not None:
            self._check(self._directory, topic, partition)
        if self._dry_run:
            return _OpenPartition(batcher, None, first, first_row)
        with unwritable(self._directory):
            if self._job is not None:
                self._directory.make()
            elif not self._open:
                if self._directory.is_missing:
                    self._stack.callback(remove_unused, self._directory)
                prepare(self._directory)
                self._stack.enter_context(self._directory.hold())  # until all is committed
        output = PartitionWriter(
            NewPartition(
                self._directory,
                topic,
                partition,
                self._config,
                topic_id=topic_id,
                owner=self._owner,
                may_exist=self._job is not None,
            ),
            start_offset=first,
            has_offsets=has_offsets,
        )
        return _OpenPartition(batcher, self._stack.enter_context(output), first, first_row)

    def _append(self, each: _OpenPartition, encoded: Iterator[Cut | Encoded]) -> None:
        for one in encoded:
            if isinstance(one, Encoded):
                self._write_encoded(each, one)
                continue
            self._waiting.append((each, self._encoders.submit(one)))
            if len(self._waiting) > AT_ONCE:
                self._write_oldest()

    def _write_oldest(self) -> None:
        each, future = self._waiting.popleft()
        encoded = future.result()
        observe(each.batcher.ratio, encoded, self._settings)
        self._write_encoded(each, encoded)

    def _write_encoded(self, each: _OpenPartition, encoded: Encoded) -> None:
        check_sizes(encoded.batches, self._config)
        if each.output is not None and len(encoded.buffer) < _SMALL:
            self._wait_for_writes(0)
            each.output.append(encoded.buffer, encoded.batches)
        elif each.output is not None:
            self._writing.append(self._writer.submit(each.output.append, encoded.buffer, encoded.batches))
            self._wait_for_writes(AT_ONCE)
        each.size += len(encoded.buffer)

    def _wait_for_writes(self, left: int) -> None:
        while len(self._writing) > left:
            self._writing.popleft().result()
