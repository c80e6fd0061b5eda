"""Plans an export: what is new in each partition since the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from brokerless.errors import UsageError
from brokerless.findings import BEFORE_FIRST_SEGMENT, Finding
from brokerless.jobs.export.refusals import OF_TOPIC, Refusals, Refuse, as_findings, files_missing, have_one_cause
from brokerless.jobs.export.tables import PlannedTables
from brokerless.jobs.export.tasks import Export, ExportTask, left_out_before, tasks_of
from brokerless.jobs.named_partitions import by_name, topic_id_of_partition
from brokerless.kafka_names import COMPRESSION_TYPES, ISOLATION_LEVELS
from brokerless.log import names
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.directory import PartitionPath
from brokerless.log.offset_gaps import missing_logs
from brokerless.log.storage.location import Location
from brokerless.offset_spans import Span
from brokerless.progress import Report, ignore
from brokerless.table_formats import export_directory, export_state
from brokerless.table_formats.column_types import file_type
from brokerless.table_formats.export_state import Exported, ExportState, RefusedTopicError
from brokerless.table_formats.store import open_store
from brokerless.tables.last_record import other_record
from brokerless.tables.read_options import ReadOptions
from brokerless.typed.resolve import resolve_topic
from brokerless.typed.schema_source import load_registry
from brokerless.typed.topic_type import TopicType

_NOWHERE = Location("")


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """The plan of an export: its tasks, and what is known before they run."""

    directory: Location
    tasks: tuple[ExportTask, ...]
    manifests: dict[str, ExportState | None]
    topic_ids: dict[str, str | None]
    export: Export
    unchanged: int = 0
    """How many partitions have nothing new."""
    findings: tuple[Finding, ...] = ()
    """Findings about partitions of which nothing can be read."""
    tables: PlannedTables | None = None
    """Where the tables are, and the columns of each topic's; None if no tables are written."""
    refusals: Refusals = field(default_factory=Refusals)
    """The topics that the export goes on without."""
    left_out: Mapping[tuple[str, int], Sequence[Span]] = field(default_factory=dict[tuple[str, int], Sequence[Span]])
    """By topic and partition, the offsets that earlier runs left out as damaged, and this one does not read."""

    @property
    def without_table(self) -> list[str]:
        """The topics that have no table, and get none, as there is nothing to read: a table gets its columns with the
        first records, and those of decoded values are not known before."""
        there = {topic for topic, state in self.manifests.items() if state is not None}
        return sorted(self.manifests.keys() - there - {each.topic for each in self.tasks} - self.refusals.topics.keys())


def plan(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str],
    directory: Location | None,
    export: Export,
    refuse: Refuse | None = None,
) -> ExportPlan:
    """Return what is new in partitions, which are in ``sources``, the paths that were given; nothing is written yet.
    ``refuse`` is called for each topic that cannot go where it should, now and when the plan is executed; others go on.
    Without it, the first one ends the export.

    Raises :class:`UsageError` for what cannot be exported to ``directory``: partitions that come twice or are of
    unknown names, another topic of the same name, another layout or isolation than before. ``directory`` is None only
    for tables of Iceberg whose catalogue decides where they are.
    """
    to = _NOWHERE if directory is None else output_directory(directory, sources).location
    if directory is None and export.form != "iceberg":
        raise UsageError("--to: give a directory to write to, as in --to tables")
    _check(export)
    tables, refusals = None, Refusals(refuse)
    if export.form == "parquet":
        export_directory.check_target(to)
    else:  # whose library has settings of its own for a storage
        store = open_store(export.form, None if directory is None else to, export.catalog)
        export_directory.refuse_log_directory(to.path, store.has_file)
        tables = PlannedTables(store, refusals=refusals)
        export = replace(export, by_date=True)
    manifests: dict[str, ExportState | None] = {}
    topic_ids: dict[str, str | None] = {}
    named = by_name(partitions, "export one of them")
    for each in named.values():
        topic = each.topic or ""
        if topic in refusals.topics:
            continue
        with refusals.refusing(topic, OF_TOPIC):
            if topic not in manifests:
                manifests[topic] = export_state.load(to, topic) if tables is None else tables.load(topic)
            known = topic_id_of_partition(each)
            where = export_state.topic_directory(to, topic).path if tables is None else tables.store.describe(topic)
            _check_same(
                where,
                each,
                known or topic_ids.get(topic),
                other_id=topic_ids.get(topic),
                manifests=manifests,
                export=export,
            )
            topic_ids[topic] = known or topic_ids.get(topic)
    named = {name: each for name, each in named.items() if (each.topic or "") not in refusals.topics}
    tasks: list[ExportTask] = []
    findings: list[Finding] = []
    unchanged, left_out = 0, dict[tuple[str, int], Sequence[Span]]()
    for each in named.values():
        topic, own = each.topic or "", list[ExportTask]()
        before = manifests[topic]
        exported = None if before is None else before.partitions.get(each.partition or 0)
        with refusals.refusing(topic, OF_TOPIC):
            _check_last(each, exported, export)
            own = list(tasks_of(each, exported, to, export, findings))
        topic_id = topic_ids[topic] or (None if before is None else before.topic_id)
        own = [replace(task, layout=replace(task.layout, topic=each.topic, topic_id=topic_id)) for task in own]
        unchanged += not own
        left_out[topic, each.partition or 0] = left_out_before(exported, own)
        findings += () if own else (finding for finding in each.findings if finding.kind in BEFORE_FIRST_SEGMENT)
        findings += (finding for _, finding in missing_logs(each))
        tasks += own
    tasks = [task for task in tasks if task.topic not in refusals.topics]
    if tables is not None:
        tasks = tables.plan(tasks, tuple(named.values()), export, topic_ids)
    elif export.decoding is not None:
        tasks = _typed(tasks, named.values(), export, refusals)
    if not export.allow_removed:
        findings += _removed(to, manifests, named.values()) if tables is None else tables.missing()
    return ExportPlan(
        to, tuple(tasks), manifests, topic_ids=topic_ids, export=export,
        unchanged=unchanged, findings=tuple(findings), tables=tables, refusals=refusals, left_out=left_out,
    )  # fmt: skip


def plan_topics(
    partitions: Sequence[PartitionPath],
    sources: Sequence[str],
    directory: Location | None,
    export: Export,
    report: Report,
) -> ExportPlan:
    """Plan an export for people: topics that cannot go where they should are findings, and ``report`` is called with
    them; but where no topic can, the reasons are raised."""
    make = partial(plan, partitions, sources, directory, export)
    topics, refused = {each.topic or "" for each in partitions}, dict[str, str]()
    planned = make(refused.__setitem__) if len(topics) > 1 else make()
    if refused.keys() == topics:
        if have_one_cause(planned.refusals.topics.values()):
            return make()  # which raises the first of these errors, as it does for a single topic
        reasons = "; ".join(f"{topic}: {reason}" for topic, reason in sorted(refused.items()))
        raise UsageError(f"no topic can be exported: {reasons}")
    if len(topics) > 1:
        planned.refusals.refuse = refuse = as_findings(partitions, report)
        for topic, reason in refused.items():
            refuse(topic, reason)
    return planned


def _typed(
    tasks: list[ExportTask], partitions: Iterable[PartitionPath], export: Export, refusals: Refusals
) -> list[ExportTask]:
    """The tasks with the types of their topics, which all records of those decide."""
    decoding, topics = export.decoding, list(dict.fromkeys(task.topic for task in tasks))
    if decoding is None:
        return tasks
    readers = [each for each in partitions if (each.topic or "") in topics]
    registry = load_registry(decoding.schemas, readers)
    typed: list[ExportTask] = []
    for topic in topics:
        of_topic = [each for each in readers if (each.topic or "") == topic]
        with refusals.refusing(topic, OF_TOPIC):
            reading = ReadOptions(max_batch_bytes=export.max_batch_bytes, on_damage=ignore)
            own = _in_files(resolve_topic(of_topic[0].topic, of_topic, decoding, registry, reading=reading))
            for task in (task for task in tasks if task.topic == topic):
                layout = replace(task.layout, schema=own.schema(task.layout.schema))
                typed.append(replace(task, topic_type=own, layout=layout))
    return typed


def _in_files(found: TopicType) -> TopicType:
    """A topic's types as Parquet files have them."""
    key, value = (replace(side, type=file_type(side.type)) for side in (found.key, found.value))
    return replace(found, key=key, value=value)


def _removed(
    to: Location,
    manifests: dict[str, ExportState | None],
    partitions: Iterable[PartitionPath],
) -> Iterator[Finding]:
    """Partitions of which fewer files are there than were written."""
    there: dict[str, Counter[int]] = {}
    for each in partitions:
        topic, partition = each.place
        before = manifests[topic]
        exported = None if before is None else before.partitions.get(partition)
        if exported is None or exported.files is None or exported.until is not None:
            continue
        if topic not in there:
            there[topic] = export_state.count_files(to, topic)
        missing = exported.files - there[topic][partition]
        if missing > 0:
            where, name = export_state.topic_directory(to, topic).path, names.partition_directory(topic, partition)
            text = f"{missing} of {exported.files} exported files of {name} went missing here"
            yield files_missing(where, text, "move this directory away and export again", is_table=False)


def _check(export: Export) -> None:
    if export.codec not in COMPRESSION_TYPES:
        known = ", ".join(COMPRESSION_TYPES)
        raise UsageError(f"compression: there is no {export.codec!r} in Parquet; there are {known}")
    if export.isolation not in ISOLATION_LEVELS:
        text = f"isolation: {export.isolation!r} is neither 'read_uncommitted' nor 'read_committed'"
        raise UsageError(text)
    if export.file_bytes < 1:
        raise UsageError(f"file_bytes: {export.file_bytes} is not a number of bytes")


def _check_same(
    where: str,
    source: PartitionPath,
    topic_id: str | None,
    other_id: str | None,
    manifests: dict[str, ExportState | None],
    export: Export,
) -> None:
    """Refuses what would be mixed with something else."""
    topic = source.topic or ""
    before = manifests[topic]
    for known in (other_id, None if before is None else before.topic_id):
        if topic_id is not None and known is not None and topic_id != known:
            raise RefusedTopicError(
                topic,
                f"{where}: this is an export of the topic {topic} with ID {known}, and {source.path} is of another "
                f"one, with ID {topic_id}; export it to another directory",
            )
    if before is not None:
        check_options(where, before, export)


def _check_last(source: PartitionPath, exported: Exported | None, export: Export) -> None:
    """Refuses a log with another record at the offset of the last exported one: those before are others, too."""
    last = None if exported is None else exported.last
    other = None if last is None else other_record(source, last, export.max_batch_bytes)
    if other is not None:
        text = "; what it has at offsets that were exported is in no table: export it to another directory"
        raise RefusedTopicError(source.topic or "", f"{source.path}: {other.reason}{text}")


def check_options(where: str, before: ExportState, export: Export) -> None:
    """Raises :class:`UsageError` for an export with other options than those of what is in ``where``."""
    if before.by_date != export.by_date:
        layout = "by date" if before.by_date else "without dates"
        raise UsageError(f"{where}: this was exported {layout}; go on so, or export to another directory")
    if before.is_decoded != (export.decoding is not None):
        form = "with keys and values decoded" if before.is_decoded else "with keys and values as bytes"
        raise UsageError(f"{where}: this was exported {form}; go on so, or export to another directory")
    if before.isolation != export.isolation:
        level = before.isolation
        raise UsageError(f"{where}: this was exported with isolation {level}; go on so, or export to another directory")
