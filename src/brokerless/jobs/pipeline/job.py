"""Runs a pipeline: finds what is new, verifies it, exports it, keeps the tables healthy, reports.

What was verified is in the ledger, what was exported is in each table's own commit, so that a run that was killed at
any moment is continued by the next one. Each run does what is new and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from brokerless.clock import now
from brokerless.findings import Finding, Kind
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.job import export, plan
from brokerless.jobs.export.reading import NOT_PASSED
from brokerless.jobs.export.refusals import topic_refused
from brokerless.jobs.ledger import Checked, DamagedRange, path_of, run_id_of
from brokerless.jobs.pipeline import tables
from brokerless.jobs.pipeline.checks import check, gone_partitions, is_left_out, not_exported, plan_checks
from brokerless.jobs.pipeline.copies import end_offset, next_copy
from brokerless.jobs.pipeline.recording import PRIVATE, Recording, add_tried
from brokerless.jobs.pipeline.settings import Settings
from brokerless.jobs.pipeline.sources import Copies, find_log_directories, select_copies
from brokerless.jobs.run.job import started
from brokerless.jobs.run.types import NONE, RunOptions, RunPlace, Sized
from brokerless.log import names
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.offset_gaps import missing_logs
from brokerless.log.storage import paths
from brokerless.log.storage.location import Location
from brokerless.progress import Phase, Report, Say, ignore, no_phase
from brokerless.requests.option_types import Spark
from brokerless.table_formats.export_directory import check_target, only_export
from brokerless.table_formats.export_state import Exported, LeftOutOffsets
from brokerless.text import readable, short_html, short_repr

STAGES = ("find", "verify", "export", "maintain", "report")


@dataclass
class PipelineRun:
    """One run of a pipeline: what it did and found."""

    id: str
    started_ms: int
    interrupted: str | None = None
    """The ID of a run that was killed, which this one continued; None without one."""
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """The seconds that each stage took."""
    log_directories: int = 0
    partitions: int = 0
    segments_verified: int = 0
    bytes_verified: int = 0
    exported: list[ExportedPartition] = field(default_factory=list[ExportedPartition])
    findings: list[Finding] = field(default_factory=list[Finding])
    """The findings that no run found before."""
    ranges: list[DamagedRange] = field(default_factory=list[DamagedRange])
    """The damaged ranges that no run found before."""
    pages: tuple[str, ...] = ()
    """The reports, one for each log directory, if any were written."""
    refused: dict[str, str] = field(default_factory=dict[str, str])
    """The topics that cannot go into their tables, and why; all others do."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def counts(self) -> Counter[str]:
        """How many findings there are of each severity."""
        return Counter(each.severity for each in self.findings)

    @property
    def is_new(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.segments_verified or self.exported or self.findings)

    def row(self) -> dict[str, Any]:
        """Return the run as a row of :data:`brokerless.jobs.pipeline.schemas.RUNS`."""
        return {
            "runId": self.id,
            "started": datetime.fromtimestamp(self.started_ms / 1000, UTC),
            "seconds": round(sum(self.seconds.values()), 3),
            **{f"{stage}Seconds": round(self.seconds[stage], 3) for stage in STAGES},
            "logDirectories": self.log_directories,
            "partitions": self.partitions,
            "segmentsVerified": self.segments_verified,
            "bytesVerified": self.bytes_verified,
            "records": sum(each.records for each in self.exported),
            "files": sum(len(each.files) for each in self.exported),
            "bytesWritten": sum(each.size for each in self.exported),
            "errors": self.counts["error"],
            "warnings": self.counts["warning"],
            "damagedRanges": len(self.ranges),
            "interrupted": self.interrupted,
        }


def run_pipeline(
    settings: Settings,
    report: Report = ignore,
    *,
    spark: Spark = None,
    phase: Phase | None = None,
    say: Say = ignore,
    is_following: bool = False,
) -> PipelineRun:
    """Does all that is new, once. ``report`` is called with each new finding. ``spark``: a session, a context or a
    master instead of the settings' one. ``say``: is called with what people should know. ``is_following``: a run over
    nothing new is in no table, as there may be thousands.

    Raises :class:`UnreadableError` for a path without logs, :class:`UsageError` for settings that do not fit what is
    there, or while another run is under way, and :class:`UnwritableError` where the target fails.
    """
    to = str(output_directory(Location.of(settings.to), settings.paths))
    settings = replace(settings, to=to)
    check_target(settings.root)
    with _without_traces(to), only_export(paths.join(to, PRIVATE)):
        own = _RunningPipeline(settings, report, phase or no_phase, say)
        return own.run(settings.spark if spark is None else spark, is_following)


def follow(
    settings: Settings,
    every_s: float,
    report: Report = ignore,
    *,
    spark: Spark = None,
    phase: Phase | None = None,
    say: Say = ignore,
) -> Iterator[PipelineRun]:
    """Runs again and again, ``every_s`` seconds after the run before began, on one Spark session if on any. Others as
    in :func:`run_pipeline`."""
    chosen = settings.spark if spark is None else spark
    with ExitStack() as stack:
        if chosen is not None:
            chosen = stack.enter_context(started(RunOptions(spark=chosen, say=say), (), "brokerless pipeline"))
        while True:
            began = monotonic()
            yield run_pipeline(settings, report, spark=chosen, phase=phase, say=say, is_following=True)
            sleep(max(0.0, began + every_s - monotonic()))


@contextmanager
def _without_traces(to: str) -> Generator[None]:
    """Remove the empty directories of a run that is refused, if they were not there before."""
    made: list[Path] = []
    if not paths.is_remote(to):
        own = Path(paths.local(to)).absolute() / PRIVATE
        made = [each for each in (own, *own.parents) if not each.exists()]
    try:
        yield
    except BaseException:
        with suppress(OSError):  # as there is something in one
            for each in made:
                each.rmdir()
        raise


class _RunningPipeline:
    """One run, while it is under way."""

    def __init__(self, settings: Settings, report: Report, phase: Phase, say: Say) -> None:
        self._settings, self._report, self._phase, self._say = settings, report, phase, say
        started_ms = now()
        self._result = PipelineRun(run_id_of(started_ms), started_ms)
        self._recording = Recording(settings.root)
        self._ledger = self._recording.ledger
        self._firsts: dict[str, PartitionPath] = {}
        """Of each topic the partition that findings of the whole topic are listed with."""

    def run(self, spark: Spark, is_following: bool) -> PipelineRun:
        result, settings = self._result, self._settings
        with self._stage("find"):
            directories = find_log_directories(settings)
            self._ledger.load()
            copies = select_copies(directories, settings, self._ledger.topics, self._say)
            result.log_directories, result.partitions = len(directories), len(copies)
            result.interrupted = self._recording.interrupted(settings.form)
            partitions = [each for own in copies.values() for each in own]
            self._firsts = {each.topic or "": each for each in reversed(partitions)}
            checks = plan_checks(partitions, self._ledger, settings) if settings.verify else []
            exported = self._exported(copies)
            copies_left = {name: own for name, own in copies.items() if own[0].topic not in result.refused}
            wave = self._wave(copies_left, exported, {})
        with self._started(spark, [*checks, *wave.values()]) as place:
            self._recording.begin(result.id, settings.form)
            with self._stage("verify"), self._phase("verifying", sum(each.size for each in checks)) as done:
                judged = partitions if settings.verify else ()
                found = check(judged, checks, self._ledger, result.id, place=place, done=done)
                result.segments_verified, result.bytes_verified = len(checks), sum(each.size for each in checks)
                for each in found:
                    self._found(each)
            with self._stage("export"):
                for topic, reason in result.refused.items():
                    self._refuse(topic, reason)
                for each in partitions:
                    lost = [finding for _, finding in missing_logs(each)]
                    self._record_met(each, [*lost, *(() if each.unreadable is None else (each.unreadable,))], ())
                for each in gone_partitions(copies, self._ledger, settings, directories):
                    self._record_met(each, [each.findings[0]], ())
                self._export(copies_left, exported, place)
                self._list_left_out(copies_left, exported, found)
                self._forget(Kind.TOPIC_REFUSED, self._firsts.keys() - result.refused.keys())
        with self._stage("maintain"):
            self._ledger.flush()
            is_table_changed = bool(result.exported) and self._ledger.has_ranges
            with self._recording.recording():
                is_due = self._ledger.is_changed or result.interrupted or is_table_changed
                if is_due or (result.is_new and not tables.has_findings(settings)):
                    tables.save_findings(settings, self._ledger)
            if result.is_new or not is_following:
                tables.maintain(settings, {each.topic for each in result.exported}, self._say)
            listed = [segment.log.path for each in partitions for segment in each.segments]
            self._ledger.consolidate([each.path for each in directories], listed)
        with self._stage("report"), self._recording.recording():
            self._write_page(directories)
        if result.is_new or not is_following:
            with self._recording.recording():
                tables.add_run(settings, result.row())
        self._recording.end(settings.form)
        if self._recording.failure is not None:
            result.findings.append(self._recording.failure)
            self._report(self._recording.failure)
        return result

    @contextmanager
    def _stage(self, name: str) -> Generator[None]:
        began = monotonic()
        try:
            yield
        finally:
            self._result.seconds[name] += monotonic() - began

    @contextmanager
    def _started(self, spark: Spark, tasks: list[Sized]) -> Generator[RunPlace]:
        """Spark, unless there is nothing to do."""
        running = RunOptions(spark=spark if tasks else NONE, say=self._say)
        with started(running, tasks, "brokerless pipeline") as place:
            yield place

    def _exported(self, copies: Copies) -> dict[str, Exported]:
        """Return how far each partition is in its table."""
        topics = {each.topic or "" for own in copies.values() for each in own}
        loaded = tables.load_states(self._settings, topics)
        self._result.refused |= loaded.refused
        found: dict[str, Exported] = {}
        for name, own in copies.items():
            state = loaded.states.get(own[0].topic or "")
            exported = None if state is None else state.partitions.get(own[0].partition or 0)
            if exported is not None:
                found[name] = exported
        return found

    def _wave(
        self, copies: Copies, exported: dict[str, Exported], tried: dict[str, set[str]]
    ) -> dict[str, PartitionPath]:
        """Return the copy of each partition that is exported next, if one has anything new."""
        chosen = {
            name: next_copy(own, tried.get(name, ()), exported.get(name), self._ledger)
            for name, own in copies.items()
            if own[0].topic not in self._result.refused
        }
        return {name: each for name, each in chosen.items() if each is not None}

    def _export(self, copies: Copies, exported: dict[str, Exported], place: RunPlace) -> None:
        """Exports copy after copy, until none has anything new."""
        tried: dict[str, set[str]] = {}
        unread: set[str] = set()
        while wave := self._wave(copies, exported, tried):
            for name, each in wave.items():
                tried.setdefault(name, set()).add(each.path)
            met: list[Finding] = []
            done = self._export_wave(list(wave.values()), place, met.append)
            self._result.exported += [each for each in done if each.has_more]
            exported.update(self._exported({name: copies[name] for name in wave}))
            self._record_tables({each.topic or "" for each in wave.values()} - self._result.refused.keys(), met)
            left_out = {each.source: each.left_out for each in done}
            for name, partition in wave.items():
                is_reached = self._is_reached(copies[name], exported.get(name))
                within = paths.join(partition.path, "")
                own = [each for each in met if each.file == partition.path or each.file.startswith(within)]
                own = [each for each in own if not is_reached or each.kind != Kind.LOG_END_BEFORE_EXPORT]
                is_denied = any(each.kind == Kind.PERMISSION_DENIED for each in own)  # where nothing is damaged
                self._record_met(partition, own, () if is_denied else left_out.get(partition.path, ()))
                unread |= {partition.path} if any(each.kind in NOT_PASSED for each in own) else set()
        for name in tried.keys() & exported.keys():
            for each in copies[name]:
                if each.path in tried[name] - unread and each.topic not in self._result.refused:
                    add_tried(self._ledger, each, exported[name], self._result.id)

    def _is_reached(self, copies: tuple[PartitionPath, ...], exported: Exported | None) -> bool:
        """Return whether any copy goes as far as the table, so that others may be older."""
        ends = (end_offset(each, self._ledger) for each in copies if each.segments)
        return exported is not None and any(end >= exported.next_offset for end in ends)

    def _list_left_out(self, copies: Copies, exported: dict[str, Exported], checked: Iterable[Checked]) -> None:
        """List what tables do not have as it was damaged, also where the run that met it was killed after its commit,
        and where the log now has another, intact file."""
        changed = {(each.topic, each.partition) for each in checked}
        own_names = names.partition_directory
        filled = {own_names(each.topic, each.partition) for each in self._result.exported if each.filled}
        for name in copies.keys() & exported.keys():
            own = copies[name][0]
            if self._result.interrupted or (own.topic, own.partition) in changed or name in filled:
                self._forget_filled(own, exported[name])
                self._record_met(own, (), exported[name].left_out)

    def _forget_filled(self, partition: PartitionPath, exported: Exported) -> None:
        """Forget what was listed only as the export had left it out, and is in the table now."""
        for each in self._ledger.of_partition(partition.topic, partition.partition):
            ranges = tuple(found for found in each.ranges if is_left_out(found, exported))
            if each.kind == "export" and ranges != each.ranges:
                self._ledger.add(replace(each, ranges=ranges))

    def _export_wave(self, wave: list[PartitionPath], place: RunPlace, report: Report) -> list[ExportedPartition]:
        settings = self._settings
        planned = plan(
            wave, settings.paths, tables.target_of(settings), tables.export_settings(settings), self._refuse,
        )  # fmt: skip
        with self._phase("exporting", sum(task.size for task in planned.tasks)) as done:
            return list(export(planned, report, RunOptions(done, place, self._say)))

    def _refuse(self, topic: str, reason: str) -> None:
        self._result.refused[topic] = reason
        partition = self._firsts[topic]
        self._record_met(partition, [topic_refused(partition.path, topic, reason)], ())

    def _record_tables(self, topics: Iterable[str], met: Iterable[Finding]) -> None:
        """Record what an export reports of whole tables; what only earlier ones reported is no finding any more."""
        found = list(met)
        for topic in topics:
            place = tables.place_of(self._settings, topic)
            own = [each for each in found if each.file == place]
            if Kind.EXPORTED_FILES_MISSING not in {each.kind for each in own}:
                self._forget(Kind.EXPORTED_FILES_MISSING, {topic})
            self._record_met(self._firsts[topic], own, ())

    def _forget(self, kind: Kind, topics: Collection[str]) -> None:
        """Findings of earlier runs that are none any more."""
        for each in list(self._ledger.entries.values()):
            findings = tuple(found for found in each.findings if found.kind != kind)
            if each.topic in topics and findings != each.findings:
                self._ledger.add(replace(each, findings=findings))

    def _record_met(
        self, partition: PartitionPath | Checked, met: Iterable[Finding], left_out: Iterable[LeftOutOffsets]
    ) -> None:
        """Record what only the export found: offsets that no reader reaches, or that went missing since the check."""
        before = self._ledger.get("export", partition.path)
        own = Checked(
            "export",
            path_of(partition.path),
            "",
            verified=now(),
            runId=self._result.id,
            topic=partition.topic,
            partition=partition.partition,
            findings=() if before is None else before.findings,
            ranges=() if before is None else before.ranges,
        )
        of_all = self._ledger.of_partition(partition.topic, partition.partition)
        known = {_place(each) for checked in of_all for each in checked.findings}
        listed = [each for checked in of_all for each in checked.ranges]
        findings = tuple(each for each in met if _place(each) not in known)
        ranges = tuple(not_exported(partition, left_out, listed))
        if findings or ranges:
            self._ledger.add(replace(own, findings=own.findings + findings, ranges=own.ranges + ranges))
            self._found(replace(own, findings=findings, ranges=ranges))

    def _found(self, checked: Checked) -> None:
        self._result.findings += checked.findings
        self._result.ranges += checked.ranges
        for each in checked.findings:
            self._report(each)

    def _write_page(self, directories: list[LogDirectory]) -> None:
        if self._settings.report and self._result.is_new:
            from brokerless.jobs.pipeline.page import write_pages

            self._result.pages = write_pages(directories, self._ledger, self._settings, self._say)


def _place(finding: Finding) -> tuple[Any, ...]:
    return finding.kind, readable(finding.file), finding.position, finding.offset
