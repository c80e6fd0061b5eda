"""The jobs that a log and a partition have as methods, by the options of the commands."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from brokerless.clusters.listing import open_directory
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, harm_of
from brokerless.jobs.run.job import values_or_raise
from brokerless.jobs.run.types import RunOptions
from brokerless.kafka_names import Isolation
from brokerless.log.directory import Include, LogDirectory, PartitionPath, resolve
from brokerless.log.storage.location import Location, StorageOptions
from brokerless.log.storage.paths import named
from brokerless.progress import Report, ignore
from brokerless.requests.checking import AuditRequest, RestartRequest, SizeRequest, TrimRequest, VerifyRequest
from brokerless.requests.option_types import Paths, PathsOrLogs, is_log
from brokerless.requests.writing import CompactRequest, ConvertRequest, EraseRequest, SalvageRequest, UploadRequest
from brokerless.tables.partition_tables import read_records
from brokerless.tables.read_options import bound
from brokerless.text import ShownList, html_table, name_options, short_html, short_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.clusters.start.results import DirectoryRestart, Restart
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.dataset.tables import Tables
    from brokerless.explanation.files import Explanation
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.audit.remote import RemoteAudit
    from brokerless.jobs.compact.job import CompactResult
    from brokerless.jobs.convert.job import ConvertResult
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.salvage.job import SalvageResult
    from brokerless.jobs.size.result import TopicSize
    from brokerless.jobs.trim.job import Trim
    from brokerless.jobs.upload.job import UploadedPartition
    from brokerless.requests.reading import TableName
    from brokerless.tables.read_options import ReadOptions
    from brokerless.typed.records import Decode
    from brokerless.typed.topic_type import Decoding
    from brokerless.typed.usage import SchemaReport

_MOST = 200
"""Findings that a notebook shows."""
_SHOWN_TOPICS = 8


@dataclass(frozen=True, slots=True)
class LogAudit:
    """What ``Log.audit()`` found."""

    partitions: tuple[PartitionAudit, ...]
    directory_findings: tuple[Finding, ...]
    """Of the log directory as a whole."""
    remote: RemoteAudit | None = None
    """Of remote segments; None without any."""

    __repr__ = short_repr

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings: of the partitions, of the log directory as a whole, and of remote segments."""
        of_partitions = (each for audit in self.partitions for each in audit.findings)
        of_remote = (each.finding for each in (self.remote.findings if self.remote else ()))
        return (*of_partitions, *self.directory_findings, *of_remote)

    def _repr_html_(self) -> str:
        """For notebooks: the counts, and the findings."""
        return short_html(self) + findings_html(self.findings)


class Findings(Iterator[Finding]):
    """Findings, each when it is found. A notebook that shows them reads all; iterating yields them as well."""

    def __init__(self, found: Iterator[Finding]) -> None:
        self._found, self._read = found, deque[Finding]()

    def __next__(self) -> Finding:
        return self._read.popleft() if self._read else next(self._found)

    def close(self) -> None:
        """End the reading."""
        self._read.clear()
        if isinstance(self._found, Generator):
            self._found.close()

    def _repr_html_(self) -> str:
        self._read.extend(self._found)
        return findings_html(self._read)


def findings_html(found: Iterable[Finding]) -> str:
    """Return findings as a table, the worst first, with what to do."""
    from brokerless.jobs.audit.advice import advice_for

    ordered = sorted(found, key=lambda each: harm_of(each.severity, each.kind))
    rows = [(each.severity, each.kind, str(each), name_options(advice_for(each) or "")) for each in ordered[:_MOST]]
    more = f", the first {_MOST} of them" * (len(ordered) > _MOST)
    names = ("severity", "kind", "finding", "what to do")
    return html_table(f"{len(ordered):,} findings{more}", names, rows)


@dataclass(frozen=True, slots=True)
class LogRestart:
    """What ``Log.restart()`` expects."""

    partitions: tuple[Restart, ...]
    directory: DirectoryRestart | None
    """Of the log directory as a whole; None for the path of a partition or a file."""
    is_whole: bool = True
    """Whether the partitions are all of the directory's, and the log was not narrowed."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def is_harmless(self) -> bool:
        """Whether all that can be read now of these partitions is served afterwards."""
        if not all(each.is_harmless for each in self.partitions):
            return False
        if self.directory is None:
            return True
        return self.directory.is_harmless if self.is_whole else not self.directory.refused


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How the tables of :meth:`Log.dataset` are read."""

    isolation: Isolation = "read_uncommitted"
    control: bool = False
    max_batch_bytes: int | None = None
    on_damage: Report | None = None
    schemas: str | None = None
    prune: bool = True


def tables(directory: LogDirectory, partitions: Sequence[PartitionPath], options: TableOptions) -> Tables:
    from brokerless.dataset.tables import Tables

    return Tables(
        directory, tuple(partitions), options.isolation, options.control,
        options.max_batch_bytes, options.on_damage, options.schemas, options.prune,
    )  # fmt: skip


def dataset(
    directory: LogDirectory, partitions: Sequence[PartitionPath], table: TableName | str, options: TableOptions
) -> TableDataset:
    from brokerless.dataset.tables import TABLES

    of_all = tables(directory, partitions, options)
    if table in TABLES:
        return of_all.dataset(table)
    from brokerless.sql.topics import topics_of

    if table not in topics_of(of_all):
        known = [*TABLES, *sorted(topics_of(of_all))]
        raise UsageError(f"there is no table or topic {table!r}{hint(table, known)}; tables are {', '.join(TABLES)}")
    return topic_dataset(directory, partitions, table, options)


def topic_dataset(
    directory: LogDirectory, partitions: Sequence[PartitionPath], topic: str, options: TableOptions
) -> TableDataset:
    from brokerless.sql import topics

    of_all = tables(directory, partitions, options)
    types = topics.TopicTypes(of_all)
    types.look_at(topic)
    return topics.topic_dataset(of_all, topic, types.get(topic))


def sql(
    directory: LogDirectory,
    of: Sequence[PartitionPath],
    query: str,
    options: TableOptions,
    memory_limit: int | None = None,
) -> pa.RecordBatchReader:
    from brokerless.sql.session import query_once

    return query_once(tables(directory, of, options), query, memory_limit)


LogDirs = Collection[str | os.PathLike[str]]
"""The other log directories of a broker."""


def list_paths(paths: Paths, if_none: str) -> list[str]:
    """Return one path or several as a list of texts. ``if_none``: the text of the :class:`UsageError` where none is."""
    several: Any = paths  # or whatever somebody passed
    is_one = isinstance(paths, str | os.PathLike) or not hasattr(several, "__iter__")
    listed: list[Any] = [paths] if is_one else list(several)
    if not listed:
        raise UsageError(if_none)
    wrong = next((each for each in listed if not isinstance(each, str | os.PathLike)), None)
    if wrong is not None:
        raise UsageError(f"{wrong!r} is no path; give texts or paths")
    return [named(os.fspath(each)) for each in listed]


def open_logs(
    given: PathsOrLogs, if_none: str, storage: StorageOptions | None, include: Collection[Include] | Include = ()
) -> list[LogDirectory]:
    """Open paths; of a log that was opened, return what it was narrowed to. Raises :class:`UsageError` with the text
    ``if_none`` where there is none."""
    several: Any = given
    listed: list[Any] = [several] if isinstance(given, str | os.PathLike) or is_log(given) else list(several)
    if not listed:
        raise UsageError(if_none)
    return [
        replace(each.directory, partitions=each.paths)
        if is_log(each)
        else open_directory(Location.of(each, storage), include)
        for each in listed
    ]


def records(partitions: Sequence[PartitionPath], options: ReadOptions, decode: Decode) -> pa.RecordBatchReader:
    if decode is None or decode is False:
        return read_records(partitions, options)
    from brokerless.typed.records import read_typed

    return read_typed(partitions, decode, options)


def schema(partitions: Sequence[PartitionPath], decode: Decoding | None, max_batch_bytes: int | None) -> SchemaReport:
    from brokerless.typed.usage import report_schemas

    return report_schemas(partitions, decode, max_batch_bytes=max_batch_bytes)


def verify(partitions: Sequence[PartitionPath], request: VerifyRequest) -> Generator[Finding]:
    from brokerless.jobs.verify.job import verify
    from brokerless.jobs.verify.turn import begin_turn

    bytes_ = bound(request.max_batch_bytes)
    turn = begin_turn(partitions, request.budget, None if request.state is None else os.fspath(request.state))
    yield from values_or_raise(verify(partitions, bytes_, RunOptions(spark=request.spark, processes=1), turn=turn))


def audit(directory: LogDirectory, selected: Sequence[PartitionPath] | None, request: AuditRequest) -> LogAudit:
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.clusters.start.start import foresee_start
    from brokerless.jobs.audit.job import audit_directory, audit_partitions, errors_of
    from brokerless.jobs.audit.remote import audit_remote, check_price, has_remote, local_part, without_reported

    max_batch_bytes, foreseen = bound(request.max_batch_bytes), None
    if request.kafka is not None or request.log_dirs:
        own = _with_others(local_part(directory), request.log_dirs)
        starts = foresee_start(own, max_batch_bytes, with_partitions=selected is None, version=request.kafka)
        foreseen = starts.get(directory.path)
    check_price(request.price_per_gb, [directory])
    state, partitions = load_directory_state(directory), directory.partitions if selected is None else selected
    partitions = tuple(map(without_reported, partitions)) if has_remote(directory) else partitions
    places = None if selected is None else {each.place for each in selected}
    running = RunOptions(spark=request.spark, processes=1)
    audits = list(values_or_raise(audit_partitions(partitions, state, max_batch_bytes, running)))
    remote = audit_remote(directory, request.price_per_gb, places, errors_of(audits))
    return LogAudit(tuple(audits), tuple(audit_directory(directory, state, audits, foreseen)), remote)


def restart(directory: LogDirectory, selected: Sequence[PartitionPath] | None, request: RestartRequest) -> LogRestart:
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.clusters.start.directories import plan_directories
    from brokerless.clusters.start.job import plan_partition

    state, max_batch_bytes = load_directory_state(directory), request.max_batch_bytes
    own = _with_others(directory, request.log_dirs)
    start = next(iter(plan_directories(own, None, max_batch_bytes, version=request.kafka, bucket=request.remote)), None)
    partitions = directory.partitions if selected is None else selected
    restarts = (plan_partition(each, state, start, max_batch_bytes) for each in partitions)
    return LogRestart(tuple(restarts), start, is_whole=selected is None)


def _with_others(directory: LogDirectory, log_dirs: LogDirs) -> list[LogDirectory]:
    """Return a log directory, and the other ones of its broker: those at which nothing is, too, at which it ends."""
    from brokerless.clusters.start.start import bare_directories

    paths = list_paths(log_dirs, "") if log_dirs else []
    bare = {each.path: each for each in bare_directories([directory], paths)}
    return [directory, *(bare.get(each) or resolve(Location(each)) for each in paths)]


def salvage(sources: Sequence[Source], request: SalvageRequest) -> list[SalvageResult]:
    from brokerless.jobs.salvage.job import plan, salvage, settings_of

    planned = plan(sources, _target(request), settings_of(request), request.include)
    return ShownList(salvage(planned, request.on_damage or ignore, RunOptions(spark=request.spark, processes=1)))


def convert(sources: Sequence[Source], request: ConvertRequest, named: Collection[str]) -> list[ConvertResult]:
    """Return what this run converted; what an earlier one of the manifest has is left out."""
    from brokerless.jobs.convert.job import conversion_of, convert, opened_manifest, plan
    from brokerless.jobs.rewrite.reading import raise_damage

    conversion, to = conversion_of(request), _target(request)
    with opened_manifest(request, conversion) as manifest:
        planned = plan(sources, to, conversion, named, manifest)
        report = request.on_damage or raise_damage
        return ShownList(convert(planned, report, RunOptions(spark=request.spark, processes=1), manifest=manifest))


def upload(sources: Sequence[Source], request: UploadRequest, named: Collection[str]) -> list[UploadedPartition]:
    from brokerless.jobs.rewrite.reading import raise_damage
    from brokerless.jobs.upload.job import UploadOptions, plan_upload, target_of, upload

    tasks = plan_upload(sources, target_of(request), UploadOptions.of(request), named)
    return ShownList(upload(tasks, request.on_damage or raise_damage, RunOptions(spark=request.spark, processes=1)))


def _target(request: SalvageRequest | ConvertRequest | EraseRequest) -> Location:
    return Location.of(request.to, request.storage_options)


def trim(directory: LogDirectory, selected: Sequence[PartitionPath] | None, request: TrimRequest) -> Trim:
    from brokerless.jobs.trim.candidates import TrimLimits
    from brokerless.jobs.trim.job import trim

    partitions = selected
    if request.topics is not None:
        partitions = select_topics(directory.partitions if selected is None else selected, request.topics)
    named = None if partitions is None else {each.topic or "" for each in partitions}
    others = [resolve(Location(os.fspath(each))) for each in request.log_dirs]
    limits = TrimLimits.of(request)
    return trim(directory, limits, partitions=partitions, named=named or (), others=others, apply=request.apply)


def size(partitions: Sequence[PartitionPath], request: SizeRequest) -> list[TopicSize]:
    from brokerless.jobs.size.job import settings_of, size

    return ShownList(size(partitions, settings_of(request), RunOptions(spark=request.spark, processes=1)))


def explain(
    partition: PartitionPath, offset: int | None, records: int | None, max_batch_bytes: int | None
) -> Explanation:
    from brokerless.explanation.files import MissingOffsetError, explain

    chosen = partition.start_offset if offset is None else offset
    following = [each for each in partition.segments[1:] if chosen is not None and each.base_offset > chosen]
    candidates = partition.segments[len(partition.segments) - 1 - len(following) :]
    for number, segment in enumerate(candidates, 1):
        try:
            return explain(segment.log.location, offset=chosen, records=records, max_batch_bytes=max_batch_bytes)
        except MissingOffsetError:
            if number == len(candidates):
                raise
    raise UnreadableError(partition.path, "there is no segment")


def compact(sources: Sequence[Source], request: CompactRequest, named: Collection[str]) -> list[CompactResult]:
    from brokerless.jobs.compact.job import compact, plan
    from brokerless.jobs.compact.settings import options_of
    from brokerless.jobs.rewrite.reading import raise_damage

    to = None if request.to is None else Location.of(request.to, request.storage_options)
    partitions = [each for source in sources for each in source.partitions]
    chosen = select_topics(partitions, request.topics) if request.topics else ()
    topics = {*named, *(each.topic or "" for each in chosen)}
    planned = plan(sources, to, options_of(request), topics, request.on_damage or ignore)
    return ShownList(compact(planned, request.on_damage or raise_damage, RunOptions(spark=request.spark, processes=1)))


def sources_of(logs: Sequence[LogDirectory], topics: Collection[str] | None) -> list[Source]:
    """Return the partitions of some topics of each log directory; of all for None. Raises :class:`UsageError` for one
    that there is not."""
    from brokerless.jobs.rewrite.plan import Source

    there = {each.topic for log in logs for each in log.partitions}
    missing = sorted(set(topics or ()) - there)
    if missing:
        raise UsageError(f"there is no topic {missing[0]!r}; topics: {', '.join(sorted(filter(None, there)))}")
    return [Source(log, [each for each in log.partitions if topics is None or each.topic in topics]) for log in logs]


def select_topics(partitions: Sequence[PartitionPath], topics: Iterable[str] | str | None) -> Sequence[PartitionPath]:
    """Return the partitions of topics by their names or patterns (``click*``); all for None. Raises
    :class:`UsageError` for one that there is not, with the nearest name."""
    if topics is None:
        return partitions
    patterns = [topics] if isinstance(topics, str) else list(topics)
    for each in patterns:
        if not isinstance(each, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"topics: {each!r} is no name of a topic")
    known = list(dict.fromkeys(each.topic for each in partitions if each.topic is not None))
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise UsageError(f"there is no topic {pattern}{hint(pattern, known)}")
    return [each for each in partitions if is_chosen(each.topic or "", patterns)]


def is_chosen(topic: str, topics: Iterable[str] | str | None) -> bool:
    """Return whether a topic is one of these, by names or patterns; any is for None."""
    patterns = ["*"] if topics is None else [topics] if isinstance(topics, str) else topics
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def hint(name: str, known: Sequence[str]) -> str:
    """Return ``; did you mean orders?``, or some of the names that there are, to be written after a message."""
    from difflib import get_close_matches  # which no right name needs

    near = get_close_matches(name, known, 1) or [each for each in known if each.lower() == name.lower()]
    if near:
        return f"; did you mean {near[0]}?"
    more = f" and {len(known) - _SHOWN_TOPICS:,} more" if len(known) > _SHOWN_TOPICS else ""
    return f"; there are {', '.join(known[:_SHOWN_TOPICS])}{more}" if known else ""
