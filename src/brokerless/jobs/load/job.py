"""Loads files of records as new partitions: in one pass, or as tasks on Spark.

Both give the same records with the same offsets in the same partitions, or refuse them in the same words. A task on
Spark reads some of the files and writes what is in them as staged partitions; the driver puts those of each
partition after each other, in the order of the files, and commits all of them at once. Where records without a key go
depends on all that come before, so then the tasks first count those.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from brokerless import clock
from brokerless.errors import BrokerlessError, UsageError
from brokerless.format import layouts
from brokerless.interchange.input_files import STDIN, InputFiles, refused
from brokerless.jobs.load.loader import BeforeCommit, Loaded, LoadedPartition, Loader, Loading, PartOfJob, load_into
from brokerless.jobs.load.routing import Router
from brokerless.jobs.load.row_buffer import check_same, records_of
from brokerless.jobs.run.job import in_order, run, started
from brokerless.jobs.run.types import HERE, NONE, RunOptions
from brokerless.log.commit.job_commit import cleared_of, commit_staged, outputs_of_job
from brokerless.log.commit.partition_writer import allow_many_files, output_directory
from brokerless.log.commit.run_record import end_run, forgotten_on_error, record_run, refuse_written, run_of
from brokerless.log.commit.types import StagedPartition
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.progress import Done, ignore
from brokerless.tables.batcher import check_room
from brokerless.tables.rows import RowError, bounded, not_rising

_MOST_TASKS = 1000
"""Each writes a part of nearly every partition."""
_NAME = "brokerless load"


@dataclass(frozen=True, slots=True)
class LoadTask:
    """A task of a load: some of the files, or a part of one."""

    inputs: InputFiles
    size: int
    directory: Destination
    loading: Loading
    job: str
    now: int
    """The timestamp of records without one (ms)."""
    without_key: int = 0
    """What :func:`~brokerless.tables.partitioner.sticky_partition` counts of the rows before this task's."""


@dataclass(frozen=True, slots=True)
class LoadTaskResult:
    """The result of a task: staged partitions, and where their rows are from."""

    loaded: Loaded
    staged: tuple[StagedPartition, ...]
    places: tuple[str, ...]
    """The place of the first row of each partition of ``loaded``."""
    columns: tuple[str, ...] | None
    """The columns of all rows; None if there are no rows."""
    begins: str
    """The place of the first row."""


def load_files(
    inputs: InputFiles,
    directory: Location,
    loading: Loading,
    running: RunOptions = HERE,
    *,
    before_commit: BeforeCommit | None = None,
) -> Loaded:
    """Load files, as :func:`brokerless.load`; without Spark, in one pass in this process.

    A run that was killed once its partitions were there is repeated: they are written again. Not so with
    ``before_commit``, which records what is done by itself, and of what comes from stdin.

    Raises what :func:`brokerless.load` raises, but for a row that cannot become a record
    :class:`UnreadableError` with its place in its file. Then nothing is left.
    """
    routing, dry_run = replace(loading.routing, exported_ids=inputs.topic_ids()), loading.dry_run
    loading = replace(loading, routing=routing)
    to = output_directory(directory, ())
    is_recorded = before_commit is None and not dry_run and STDIN not in inputs.files
    before = before_commit or ignore
    this_run = run_of(f"load {routing.topic} {routing.partition}", inputs.files)
    if is_recorded:
        refuse_written(to, (), this_run)
        before = partial(_record, to, this_run)
    tasks = _plan(inputs, to, loading)
    if not tasks and running.spark not in (None, NONE):
        raise UsageError("what comes from stdin can be read by this process only; give files, or leave out --spark")
    with ExitStack() as stack:
        if is_recorded:
            stack.enter_context(forgotten_on_error(to, this_run))
        if tasks and not dry_run:
            stack.enter_context(cleared_of(to, tasks[0].job))
        place = stack.enter_context(started(running if tasks else HERE, tasks, _NAME))
        if place != NONE:
            loaded = _load_on(tasks, replace(running, spark=place), before)
        else:
            inputs.done = running.done
            try:
                loaded = load_into(to, inputs, loading, before_commit=before)
            except RowError as error:
                raise inputs.refusal(error) from error
    if is_recorded:
        end_run(to)
    return loaded


def _record(directory: Destination, run: str, _: Loaded, partitions: Sequence[StagedPartition]) -> None:
    record_run(directory, partitions, run)


def run_task(task: LoadTask, done: Done) -> LoadTaskResult | BrokerlessError:
    """Writes some of the files. What is refused is given back, as what is refused of the files before counts more."""
    allow_many_files()
    inputs = task.inputs
    inputs.done = done
    try:
        part = PartOfJob(job=task.job, now=task.now, threads=1, without_key=task.without_key)
        with Loader(task.directory, task.loading, part) as loader:
            for batch in inputs:
                for rows in bounded(batch):
                    loader.add(rows)
            staged = tuple(loader.finish())
        columns = None if loader.columns is None else tuple(loader.columns)
        places = tuple(map(inputs.place, loader.first_rows()))
        return LoadTaskResult(
            loader.loaded(),
            staged,
            places,
            columns=columns,
            begins="" if columns is None else inputs.place(loader.first_row),
        )
    except RowError as error:
        return inputs.refusal(error)
    except BrokerlessError as error:
        return error


def count_without_key(task: LoadTask, done: Done) -> int:
    """Return what is counted of records whose partition nothing decides but how many came before."""
    inputs, rows = task.inputs, 0
    inputs.done = done
    router = Router(task.loading.routing, task.loading.settings.batch_size)
    with suppress(BrokerlessError):  # which the task that writes meets again
        for part in (part for batch in inputs for part in bounded(batch)):
            records, numbers = records_of(part, rows, task.now)
            rows += part.num_rows
            if records.num_rows:
                router.partitions(records, numbers)
    return router.without_key


def _plan(inputs: InputFiles, to: Destination, loading: Loading) -> list[LoadTask]:
    """Return the tasks of a load in parts; none where something comes from stdin, which cannot be divided."""
    if STDIN in inputs.files:
        return []
    # Compressed messages of format v0 have their offsets inside, where they are not changed afterwards.
    settings = loading.settings
    is_one = settings.message_format == layouts.MAGIC_V0 and settings.compression_type != "none"
    job, now = uuid4().hex, clock.now()
    return [
        LoadTask(part, size, to, loading=loading, job=job, now=now)
        for part, size in inputs.split(1 if is_one else _MOST_TASKS)
    ]


def _load_on(tasks: Sequence[LoadTask], running: RunOptions, before_commit: BeforeCommit) -> Loaded:
    first = tasks[0]
    routing = first.loading.routing
    with ExitStack() as stack:
        if not first.loading.dry_run:
            stack.enter_context(outputs_of_job(first.directory, first.job))
        if routing.partition is None and (routing.partitions or 1) > 1:
            # Everything is read twice.
            running = replace(running, done=lambda size, done=running.done: done(size // 2))
            with closing(run(count_without_key, tasks, running, name=_NAME)) as counting:
                tasks = _with_counts(tasks, in_order(counting))
        results = run(run_task, tasks, running, name=_NAME)
        stack.enter_context(closing(results))
        parts: list[LoadTaskResult] = []
        loaded = _together(_successful(in_order(results), parts))
        staged = [each_staged for part in parts for each_staged in part.staged]
        if staged:
            commit_staged(
                first.directory,
                staged,
                first.loading.config,
                only_new=True,
                before_commit=lambda new: before_commit(loaded, new),
            )
        return loaded


def _with_counts(tasks: Sequence[LoadTask], counts: Iterable[int]) -> list[LoadTask]:
    counted, before = list[LoadTask](), 0
    for task, count in zip(tasks, counts, strict=True):
        counted.append(replace(task, without_key=before))
        before += count
    return counted


def _successful(
    values: Iterable[LoadTaskResult | BrokerlessError], parts: list[LoadTaskResult]
) -> Iterator[LoadTaskResult]:
    for value in values:
        if isinstance(value, BrokerlessError):
            raise value
        parts.append(value)
        yield value


def _together(parts: Iterable[LoadTaskResult]) -> Loaded:
    """Return what was loaded in all. Raises what one pass through all files would have raised where parts do not
    fit."""
    columns: tuple[str, ...] | None = None
    found: dict[tuple[str, int], LoadedPartition] = {}
    unknown: set[str] = set()
    rows = control_records = 0
    for part in parts:
        rows += part.loaded.rows
        control_records += part.loaded.control_records
        unknown.update(part.loaded.unknown)
        columns = columns or part.columns
        if columns is None or part.columns is None:
            continue
        with _at(part.begins):
            check_same(columns, part.columns, 0)
        for each, place in zip(part.loaded.partitions, part.places, strict=True):
            before = found.get((each.topic, each.partition))
            with _at(place):
                found[each.topic, each.partition] = each if before is None else _join(before, each, "offset" in columns)
    return Loaded(tuple(found[place] for place in sorted(found)), rows, control_records, tuple(sorted(unknown)))


def _join(before: LoadedPartition, each: LoadedPartition, has_offsets: bool) -> LoadedPartition:
    if not has_offsets:
        check_room(each.records, before.last_offset + 1)
    elif each.first_offset <= before.last_offset:
        raise not_rising(0, each.first_offset, before.last_offset)
    return replace(
        before,
        records=before.records + each.records,
        size_in_bytes=before.size_in_bytes + each.size_in_bytes,
        last_offset=each.last_offset if has_offsets else before.last_offset + each.records,
    )


@contextmanager
def _at(place: str) -> Generator[None]:
    try:
        yield
    except RowError as error:
        raise refused(error, place) from error
