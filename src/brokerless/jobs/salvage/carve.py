"""Carves batches out of any bytes, such as the image of a disk, into partitions ``carved-0``, ``carved-1``, ...

Nothing in a batch says which partition it is of. What is adjacent with growing offsets is taken for one log; a run
that begins at the offset where exactly one earlier run of the same file ended, in the same leader epoch, for its
continuation. What is not certain stays apart.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.errors import UnreadableError
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.recovered.damaged_regions import Region
from brokerless.jobs.recovered.intact_batches import INTACT_BATCH, find_intact_batches
from brokerless.jobs.recovered.open_files import LogFile, OpenFiles
from brokerless.jobs.recovered.writing import PartitionContents, write_batches
from brokerless.jobs.rewrite.oversized import report_oversized
from brokerless.jobs.salvage.tables import (
    SalvagedTable,
    SalvagedTables,
    check_tables,
    tables_of_job,
    wants_tables,
    write_table,
)
from brokerless.log import names
from brokerless.log.checkpoint.topic_ids import random_id, topic_ids_there
from brokerless.log.commit.commit import refuse_existing
from brokerless.log.commit.job_commit import outputs_of_job
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter, output_directory
from brokerless.log.commit.run_record import commit_run, end_run, refuse_written, run_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig, with_segment_bytes
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import directory_name, full_path, parent_directory
from brokerless.progress import Done, Report, ignore
from brokerless.requests.recovery import CarveRequest
from brokerless.tables.read_options import bound

TOPIC = "carved"


@dataclass(frozen=True, slots=True)
class Carving:
    """The request of carving batches out of a file."""

    location: Location
    """The file."""
    directory: Destination
    """The directory that is written to, as :func:`output_directory` returns it."""
    config: LogConfig
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""
    parquet: bool = False
    """Whether tables are written, as an export writes them, and no logs."""

    @property
    def path(self) -> str:
        return self.location.path


@dataclass(frozen=True, slots=True)
class Carved:
    """One group of batches of a file. Timestamps are in ms, -1 if there are none."""

    carving: Carving
    partition: int
    """The number of the partition that the group becomes."""
    runs: tuple[tuple[int, int], ...]
    """Where in the file the batches are: byte ranges ``[position, end)``."""
    first_offset: int
    last_offset: int
    leader_epoch: int
    batches: int
    records: int
    bytes: int
    min_timestamp: int
    max_timestamp: int
    files: tuple[str, ...] = ()
    """The Parquet files, if these were requested, within the target directory."""


def carvings_of(request: CarveRequest, files: Sequence[str]) -> list[Carving]:
    """Return what was requested of each file. Raises :class:`UsageError` for what excludes each other, and as
    :func:`carve_directory`."""
    is_parquet, config = wants_tables(request), with_segment_bytes(request.segment_bytes) or LogConfig()
    to, bytes_ = carve_directory(Location.of(request.to), files), bound(request.max_batch_bytes)
    return [
        Carving(
            Location(path, request.storage_options), to, config,
            max_batch_bytes=bytes_, dry_run=request.dry_run, parquet=is_parquet,
        )
        for path in files
    ]  # fmt: skip


def carve_directory(to: Location, files: Iterable[str]) -> Destination:
    """Return the directory to write to. Raises :class:`UsageError` as :func:`output_directory`, and for one that is the
    directory of a partition from which a file is read, or is in it."""
    sources: list[str] = []
    for each in files:
        above = parent_directory(full_path(each))
        is_partition = above is not None and names.parse_partition_directory(directory_name(above)) is not None
        sources += [each, *([above] if above is not None and is_partition else [])]
    return output_directory(to, sources)


def check(carvings: Sequence[Carving]) -> None:
    """Raises :class:`brokerless.errors.UsageError` if their directory has carved partitions already."""
    for each in carvings[:1]:  # all are carved into one directory
        first = [names.partition_directory(TOPIC, 0)]
        if each.parquet:
            check_tables(each.directory, TOPIC, (0,))
        elif each.dry_run:
            refuse_existing(each.directory, first)
        else:
            refuse_written(each.directory, first, run_of("carve", (each.path for each in carvings)))


def carve(carvings: Sequence[Carving], report: Report, done: Done = ignore) -> Iterator[Carved]:
    """Carves files, all into one directory: a partition for each group, numbered from 0 on; all of them get their names
    when all are written. Memory: some 80 bytes for each batch of a file."""
    carved: list[Carved] = []
    if not carvings:
        return
    how = carvings[0]
    with ExitStack() as stack:
        sources = [LogFile(each.location, 0, 0) for each in carvings]
        files = stack.enter_context(OpenFiles(sources)).open()
        output = _CarveOutput(how, files, report)
        if not how.dry_run:
            stack.enter_context(output.open())
        for number, each in enumerate(carvings):
            try:
                carved += _carve_file(each, number, len(carved), files=files, output=output, report=report, done=done)
            except UnreadableError as error:
                report(error.finding(each.path))
        output.commit(run_of("carve", (each.path for each in carvings)))
    yield from carved
    if not how.dry_run and not how.parquet:
        end_run(how.directory)


def _carve_file(
    carving: Carving,
    number: int,
    first: int,
    files: OpenFiles,
    output: _CarveOutput,
    report: Report,
    done: Done,
) -> Iterator[Carved]:
    found: list[NDArray[np.void]] = [np.zeros(0, INTACT_BATCH)]
    for each in find_intact_batches(files.get(number), carving.max_batch_bytes, is_log=False):
        if not isinstance(each, Region):
            found.append(each)
        done(each.size if isinstance(each, Region) else int(each["size"].sum()))
    intact = np.concatenate(found)
    intact["file"] = number
    groups, runs = group(intact)
    order = np.argsort(groups, kind="stable")
    borders = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 2)).tolist()
    partition = first
    output.begin(range(first, first + len(borders) - 1))
    for start, end in pairwise(borders):
        rows = order[start:end]
        taken, names_of_files = output.write(carving, partition, intact[rows])
        rows = rows[taken]
        if len(rows):
            if not carving.parquet:
                of = intact[rows]
                report_oversized(of["size"], of["first"], carving.config, carving.path, report=report)
            yield _described(carving, partition, intact[rows], runs=runs[rows], files=names_of_files)
            partition += 1
    files.release(number)


def group(intact: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group and the run of each intact batch of one file, in which they are by position; int64. Numbers are
    in the order of the first batch of each."""
    if not len(intact):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    goes_on = np.zeros(len(intact), np.bool_)
    goes_on[1:] = (
        intact["follows"][1:]
        & (intact["first"][1:] > intact["last"][:-1])
        & ((intact["epoch"][1:] >= intact["epoch"][:-1]) | (intact["epoch"][1:] < 0))  # v0 and v1 have none
        & (intact["last"][1:] - intact["first"][:-1] <= MAX_INT32)
    )
    runs = np.cumsum(~goes_on) - 1
    begins = np.flatnonzero(~goes_on)
    ends = np.append(begins[1:], len(intact)) - 1
    waiting: dict[tuple[int, int], list[int]] = {}
    group_of_run = np.zeros(len(begins), np.int64)
    groups = 0
    for run, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        candidates = waiting.get((int(intact["first"][begin]), int(intact["epoch"][begin])), [])
        if len(candidates) == 1:
            group_of_run[run] = candidates.pop()
        else:
            group_of_run[run] = groups
            groups += 1
        key = int(intact["last"][end]) + 1, int(intact["epoch"][end])
        waiting.setdefault(key, []).append(int(group_of_run[run]))
    return group_of_run[runs], runs


class _CarveOutput:
    """The place where carved partitions are written, if they are: logs, or tables."""

    def __init__(self, how: Carving, files: OpenFiles, report: Report) -> None:
        self._how, self._files, self._report = how, files, report
        self._tables: SalvagedTables | None = None
        self._owner = self._topic_id = ""
        self._unfinished: list[StagedPartition] = []

    @contextmanager
    def open(self) -> Generator[None]:
        directory = self._how.directory
        with ExitStack() as stack:
            if self._how.parquet:
                self._tables = stack.enter_context(tables_of_job(directory))
            else:
                self._owner = stack.enter_context(outputs_of_job(directory))
                self._topic_id = topic_ids_there(directory, {TOPIC}).get(TOPIC) or random_id()
            yield

    def begin(self, partitions: Collection[int]) -> None:
        if self._tables is not None and partitions:
            self._tables.begin(TOPIC, partitions)

    def write(
        self, carving: Carving, partition: int, batches: NDArray[np.void]
    ) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
        """Return which of the batches were taken, and the names of files with a table."""
        if carving.dry_run:
            return np.ones(len(batches), np.bool_), ()
        first, end = int(batches["first"][0]), int(batches["last"][-1]) + 1
        max_batch_bytes = carving.max_batch_bytes
        if self._tables is not None:
            contents = PartitionContents(batches, self._files, first, start=first, end=end)
            table = SalvagedTable(carving.directory, TOPIC, partition)
            taken, written = write_table(
                table, contents, report=self._report, done=_ignore, max_batch_bytes=max_batch_bytes
            )
            return taken, self._tables.commit(table, written, end) if taken.any() else ()
        place = NewPartition(
            carving.directory, TOPIC, partition, config=carving.config, topic_id=self._topic_id, owner=self._owner
        )
        with PartitionWriter(place, start_offset=first) as output:
            taken = write_batches(
                output, batches, self._files, report=self._report, done=_ignore, max_batch_bytes=max_batch_bytes
            )
            if taken.any():
                output.set_limits(first, end, ())
                self._unfinished.append(output.finish())
        return taken, ()

    def commit(self, run: str) -> None:
        if self._unfinished:
            commit_run(self._how.directory, self._unfinished, run)


def _ignore(_: int) -> None:
    """Bytes that are written are not counted."""


def _described(
    carving: Carving, partition: int, batches: NDArray[np.void], runs: NDArray[np.int64], files: tuple[str, ...]
) -> Carved:
    begins = np.flatnonzero(np.append(True, runs[1:] != runs[:-1]))
    ends = np.append(begins[1:], len(batches)) - 1
    stops = batches["position"] + batches["size"]
    return Carved(
        carving,
        partition,
        tuple(zip(batches["position"][begins].tolist(), stops[ends].tolist(), strict=True)),
        first_offset=int(batches["first"][0]),
        last_offset=int(batches["last"][-1]),
        leader_epoch=int(batches["epoch"].max()),
        batches=len(batches),
        records=int(batches["records"].sum()),
        bytes=int(batches["size"].sum()),
        min_timestamp=int(batches["base_timestamp"].min()),
        max_timestamp=int(batches["max_timestamp"].max()),
        files=files,
    )
