"""The jobs that a log and a partition have as methods, by the options of the commands."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from brokerless.clock import Time, milliseconds
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, harm_of
from brokerless.kafka_names import Isolation
from brokerless.log.directory import LogDirectory, PartitionPath, resolve
from brokerless.log.names import Include
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import named
from brokerless.progress import Report, ignore
from brokerless.tables.partition_tables import read_records
from brokerless.text import ShownList, html_table, name_options, parse_bytes, short_html, short_repr

if TYPE_CHECKING:
    import pyarrow as pa

    from brokerless.clusters.start.results import DirectoryRestart, Restart
    from brokerless.dataset.table_dataset import TableDataset
    from brokerless.dataset.tables import TableName, Tables
    from brokerless.explanation.files import Explanation
    from brokerless.jobs.audit.job import PartitionAudit
    from brokerless.jobs.audit.remote import RemoteAudit
    from brokerless.jobs.compact.job import CompactResult
    from brokerless.jobs.compact.settings import CompactOptions
    from brokerless.jobs.convert.job import Conversion, ConvertResult
    from brokerless.jobs.rewrite.plan import Source
    from brokerless.jobs.run.types import Spark
    from brokerless.jobs.salvage.job import Salvage, SalvageResult
    from brokerless.jobs.size.choices import Choice
    from brokerless.jobs.size.result import TopicSize
    from brokerless.jobs.trim.job import Trim
    from brokerless.log.config import LogConfig
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


Paths = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]
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


def bound(max_batch_bytes: int | None) -> int:
    """Return what one batch may inflate to, in bytes: as requested, or 128 MiB. Raises :class:`UsageError`."""
    from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
    from brokerless.tables.read_options import check_bound

    return check_bound(max_batch_bytes) or DEFAULT_MAX_BATCH_BYTES


def records(partitions: Sequence[PartitionPath], options: ReadOptions, decode: Decode) -> pa.RecordBatchReader:
    if decode is None or decode is False:
        return read_records(partitions, options)
    from brokerless.typed.records import read_typed

    return read_typed(partitions, decode, options)


def schema(partitions: Sequence[PartitionPath], decode: Decoding | None, max_batch_bytes: int | None) -> SchemaReport:
    from brokerless.typed.usage import report_schemas

    return report_schemas(partitions, decode, max_batch_bytes=max_batch_bytes)


def verify(
    partitions: Sequence[PartitionPath],
    max_batch_bytes: int | None,
    spark: Spark,
    budget: int | None = None,
    state: str | os.PathLike[str] | None = None,
) -> Generator[Finding]:
    from brokerless.jobs.verify.job import verify

    bytes_ = bound(max_batch_bytes)
    turn = None
    if budget is not None or state is not None:
        from brokerless.jobs.verify.turn import begin_turn

        turn = begin_turn(partitions, budget, None if state is None else os.fspath(state))
    for finding in verify(partitions, bytes_, spark=spark, processes=1, turn=turn):
        if isinstance(finding, UnreadableError):
            raise finding
        yield finding


def audit(
    directory: LogDirectory,
    selected: Sequence[PartitionPath] | None,
    max_batch_bytes: int | None,
    spark: Spark,
    price_per_gb: float | None = None,
    kafka: str | None = None,
    log_dirs: LogDirs = (),
) -> LogAudit:
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.clusters.start.start import foresee_start
    from brokerless.jobs.audit.job import audit_directory, audit_partitions, errors_of
    from brokerless.jobs.audit.remote import audit_remote, has_remote, local_part, without_reported

    foreseen = None
    if kafka is not None or log_dirs:
        own = _with_others(local_part(directory), log_dirs)
        is_whole = selected is None
        foreseen = foresee_start(own, max_batch_bytes, with_partitions=is_whole, version=kafka).get(directory.path)
    if price_per_gb is not None and not 0 < price_per_gb < math.inf:
        raise UsageError(f"price_per_gb: {price_per_gb!r} is no number above 0")
    if price_per_gb is not None and not has_remote(directory):
        raise UsageError("price_per_gb: this is the price of what is in a bucket, which open(..., remote=...) names")
    state, partitions = load_directory_state(directory), directory.partitions if selected is None else selected
    partitions = tuple(map(without_reported, partitions)) if has_remote(directory) else partitions
    places = None if selected is None else {(each.topic or "", each.partition or 0) for each in selected}
    audits: list[PartitionAudit] = []
    results = audit_partitions(partitions, state, bound(max_batch_bytes), spark=spark, processes=1)
    with closing(results):
        for each in results:
            if isinstance(each, UnreadableError):
                raise each
            audits.append(each)
    remote = audit_remote(directory, price_per_gb, places, errors_of(audits))
    return LogAudit(tuple(audits), tuple(audit_directory(directory, state, audits, foreseen)), remote)


def restart(
    directory: LogDirectory,
    selected: Sequence[PartitionPath] | None,
    kafka: str | None,
    max_batch_bytes: int | None,
    remote: Paths | None = None,
    log_dirs: LogDirs = (),
) -> LogRestart:
    from brokerless.clusters.directory_state import load_directory_state
    from brokerless.clusters.start.directories import plan_directories
    from brokerless.clusters.start.job import plan_partition

    state = load_directory_state(directory)
    own = _with_others(directory, log_dirs)
    start = next(iter(plan_directories(own, None, max_batch_bytes, version=kafka, bucket=remote)), None)
    partitions = directory.partitions if selected is None else selected
    restarts = (plan_partition(each, state, start, max_batch_bytes) for each in partitions)
    return LogRestart(tuple(restarts), start, is_whole=selected is None)


def _with_others(directory: LogDirectory, log_dirs: LogDirs) -> list[LogDirectory]:
    """Return a log directory, and the other ones of its broker: those at which nothing is, too, at which it ends."""
    from brokerless.clusters.start.start import bare_directories

    paths = list_paths(log_dirs, "") if log_dirs else []
    bare = {each.path: each for each in bare_directories([directory], paths)}
    return [directory, *(bare.get(each) or resolve(Location(each)) for each in paths)]


def salvage(
    sources: Sequence[Source],
    to: Location,
    settings: Salvage,
    include: Collection[Include],
    on_damage: Report | None,
    spark: Spark,
) -> list[SalvageResult]:
    from brokerless.jobs.salvage.job import plan, salvage

    planned = plan(sources, to, settings, include)
    return ShownList(salvage(planned, on_damage or ignore, spark=spark, processes=1))


def salvage_settings(
    as_: Literal["segments", "parquet"],
    segment_bytes: int | None,
    partial: bool,
    dry_run: bool,
    max_batch_bytes: int | None,
) -> Salvage:
    from brokerless.jobs.salvage.job import Salvage

    return Salvage(
        log_config(segment_bytes), bound(max_batch_bytes), dry_run, partial=partial, parquet=as_ == "parquet"
    )


def convert(
    sources: Sequence[Source],
    to: Location,
    conversion: Conversion,
    named: Collection[str],
    manifest: str | os.PathLike[str] | None,
    on_damage: Report | None,
    spark: Spark,
) -> list[ConvertResult]:
    """``manifest``: by which a later run goes on; what an earlier one has converted is not in the result."""
    from brokerless.jobs.convert.job import ConvertSettings, convert, plan
    from brokerless.jobs.manifest import JobManifest
    from brokerless.jobs.rewrite.reading import raise_damage
    from brokerless.log.storage.paths import full_path

    with ExitStack() as stack:
        journal = None
        if manifest is not None:
            settings = ConvertSettings(full_path(to.path), replace(conversion, dry_run=False))
            opened = JobManifest.open(os.fspath(manifest), "convert", settings, dry_run=conversion.dry_run)
            journal = stack.enter_context(opened)
        planned = plan(sources, to, conversion, named, journal)
        results = convert(planned, on_damage or raise_damage, spark=spark, manifest=journal, processes=1)
        return ShownList(results)


def log_config(segment_bytes: int | None) -> LogConfig | None:
    """Return the sizes of segments and indexes; None where segments end as in the source."""
    from brokerless.log.config import LogConfig

    return None if segment_bytes is None else LogConfig(segment_bytes=segment_bytes)


def trim(
    directory: LogDirectory,
    selected: Sequence[PartitionPath] | None,
    *,
    free: int | str | None,
    retention: bool,
    before: Time | None,
    topics: Collection[str] | None,
    log_dirs: LogDirs,
    apply: bool,
) -> Trim:
    from brokerless.jobs.trim.candidates import TrimLimits
    from brokerless.jobs.trim.job import trim

    partitions, named = selected, None if topics is None else set(topics)
    if named is not None:
        partitions = [each for each in selected or directory.partitions if each.topic in named]
    elif selected is not None:
        named = {each.topic or "" for each in selected}
    others = [resolve(Location(os.fspath(each))) for each in log_dirs]
    size = parse_bytes(free) if isinstance(free, str) else free
    if free is not None and (size is None or size < 1):
        raise UsageError(f"free={free!r} is not a number of bytes above 0; use one such as 1000000, '500MB' or '1GiB'")
    return trim(
        directory, TrimLimits.one_of(size, milliseconds(before), retention=retention), partitions=partitions,
        named=named or (), others=others, apply=apply,
    )  # fmt: skip


def size(
    partitions: Sequence[PartitionPath],
    choices: Iterable[Choice],
    sample: float | None,
    full: bool,
    max_batch_bytes: int | None,
    spark: Spark,
) -> list[TopicSize]:
    from brokerless.jobs.size.job import SizeSettings, size

    if full and sample is not None:
        raise UsageError("full and sample exclude each other; use one of them")
    settings = SizeSettings(tuple(choices), sample, full, bound(max_batch_bytes))
    return ShownList(size(partitions, settings, spark=spark, processes=1))


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


def compact(
    sources: Sequence[Source],
    to: Location | None,
    options: CompactOptions,
    topics: Collection[str],
    on_damage: Report | None,
    spark: Spark,
) -> list[CompactResult]:
    from brokerless.jobs.compact.job import compact, plan
    from brokerless.jobs.rewrite.reading import raise_damage

    planned = plan(sources, to, options, topics, on_damage or ignore)
    return ShownList(compact(planned, on_damage or raise_damage, spark=spark, processes=1))


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
