"""Publishes the files of export tasks: as files that readers of Parquet see, or by a commit of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from brokerless.errors import BrokerlessError, UsageError
from brokerless.jobs.export.commit import ExportedPartition
from brokerless.jobs.export.plan import ExportPlan
from brokerless.jobs.export.tables import PlannedTables
from brokerless.jobs.export.tasks import ExportTask
from brokerless.log.storage import file_tree
from brokerless.log.storage.location import Location
from brokerless.table_formats import export_state, parquet_files
from brokerless.table_formats.export_state import Exported, ExportState
from brokerless.table_formats.parquet_files import ParquetFile
from brokerless.table_formats.types import AnotherExportError

_COMMIT_BYTES = 64 << 30
"""Bytes of a log after which a table's commit does not wait for the rest of the topic."""


class DirectoryTarget:
    """Files in a directory for each topic: each is renamed, and then recorded in the topic's manifest."""

    def __init__(self, plan: ExportPlan) -> None:
        self._plan = plan
        self._topics: list[str] = []

    def begin(self, plan: ExportPlan) -> dict[str, ExportState]:
        manifests: dict[str, ExportState] = {}
        for topic in dict.fromkeys(task.topic for task in plan.tasks):
            with plan.refusals.refusing(topic):
                manifests[topic] = self._begin_topic(topic, [task for task in plan.tasks if task.topic == topic])
        return manifests

    def _begin_topic(self, topic: str, tasks: list[ExportTask]) -> ExportState:
        plan = self._plan
        now = export_state.load(plan.directory, topic)
        if now != plan.manifests[topic]:
            raise UsageError(f"{plan.directory}: another export of {topic} has been here meanwhile; run this again")
        before = now or ExportState(
            topic, None, plan.export.by_date, plan.export.isolation, is_decoded=plan.export.decoding is not None
        )
        own = replace(before, topic_id=plan.topic_ids[topic] or before.topic_id)
        export_state.clean(plan.directory, own, {task.partition for task in tasks})
        for number, each in own.partitions.items():
            if each.filling and number in {task.partition for task in tasks}:
                own = own.with_partition(number, replace(each, filling=()))
        there: Counter[int] | None = None  # all that is there is listed only if it matters
        for task in tasks:
            exported = own.partitions.get(task.partition, Exported(task.start, files=0))
            if exported.files is None or plan.export.allow_removed:
                if there is None:
                    there = export_state.count_files(plan.directory, topic)
                exported = replace(exported, files=there[task.partition])
            if task.mark is None:
                exported = replace(exported, until=max(exported.until or 0, task.end))
            else:
                exported = replace(exported, filling=(*exported.filling, (task.start, task.end)))
            own = own.with_partition(task.partition, exported)
        self._topics.append(topic)
        export_state.save(own, plan.directory)
        return own

    def publish(self, task: ExportTask, files: Sequence[ParquetFile], state: ExportState) -> None:
        for each in files:
            parquet_files.publish_file(each, task.layout)
        export_state.save(state, self._plan.directory)

    def finish(self, partition: ExportedPartition) -> Iterable[ExportedPartition]:
        is_refused = partition.topic in self._plan.refusals.topics
        return [] if is_refused and not partition.has_more else [partition]

    def end(self) -> None:
        for topic in self._topics:
            with suppress(BrokerlessError) if topic in self._plan.refusals.topics else nullcontext():
                file_tree.remove_unfinished(export_state.topic_directory(self._plan.directory, topic))


@dataclass(slots=True)
class _Pending:
    """The next commit of a topic's table."""

    left: int
    """How many partitions are not done."""
    state: ExportState
    latest: ExportState
    files: list[ParquetFile] = field(default_factory=list[ParquetFile])
    done: list[ExportedPartition] = field(default_factory=list[ExportedPartition])
    """The partitions that are done, and wait for the others."""
    size: int = 0


class TableTarget:
    """Tables, each with one commit when its topic is done: the files, and how far the export is then."""

    def __init__(self, tables: PlannedTables) -> None:
        self._tables = tables
        self._pending: dict[str, _Pending] = {}

    def begin(self, plan: ExportPlan) -> dict[str, ExportState]:
        manifests: dict[str, ExportState] = {}
        for topic in self._tables.targets:
            before = self._tables.begun[topic]
            keys, values = self._tables.named_by.get(topic, (before.keys_named_by, before.values_named_by))
            own = replace(
                before,
                topic_id=plan.topic_ids[topic] or before.topic_id,
                keys_named_by=keys,
                values_named_by=values,
            )
            tasks = [task for task in plan.tasks if task.topic == topic]
            target = self._tables.targets[topic]
            if target.is_local and plan.directory.path:  # which is locked; elsewhere, another run may be at work
                with self._tables.refusals.refusing(topic):
                    target.clean(before, partial(self._tables.store.listed_files, topic))
            if topic in self._tables.refusals.topics:
                continue
            for task in tasks:
                if task.partition not in own.partitions:
                    own = own.with_partition(task.partition, Exported(task.start))
            manifests[topic] = own
            partitions = len({task.partition for task in tasks})
            self._pending[topic] = _Pending(partitions, before, own)
        return manifests

    def publish(self, task: ExportTask, files: Sequence[ParquetFile], state: ExportState) -> None:
        pending = self._pending[task.topic]
        pending.files += files
        pending.latest = state
        pending.size += task.size
        if pending.size >= _COMMIT_BYTES:
            self._commit(task.topic)

    def finish(self, partition: ExportedPartition) -> Iterable[ExportedPartition]:
        pending = self._pending[partition.topic]
        pending.left -= 1
        pending.done.append(partition)
        if pending.left:
            return []
        self._commit(partition.topic)
        return [] if partition.topic in self._tables.refusals.topics else pending.done

    def end(self) -> None:
        for topic, pending in self._pending.items():
            target = self._tables.targets[topic]
            with suppress(BrokerlessError) if topic in self._tables.refusals.topics else nullcontext():
                for each in pending.files:
                    target.remove(each.name)
                    target.remove(each.unfinished or each.name)
                if target.is_local:
                    file_tree.remove_unfinished(Location(target.directory))

    def _commit(self, topic: str) -> None:
        pending = self._pending[topic]
        after = replace(
            pending.latest,
            partitions={number: _recorded(each) for number, each in pending.latest.partitions.items()},
        )
        if topic in self._tables.refusals.topics or (not pending.files and after == pending.state):
            return  # end() removes the files
        with self._tables.refusals.refusing(topic):
            self._commit_files(topic, after)

    def _commit_files(self, topic: str, after: ExportState) -> None:
        pending, target = self._pending[topic], self._tables.targets[topic]
        for each in pending.files:
            target.publish(each.unfinished or each.name, each.name)
        files, before = pending.files, pending.state
        # From here on, who knows whether the commit was made; what it did not take, the next run removes.
        pending.files, pending.size, pending.state = [], 0, after
        try:
            self._tables.store.commit(target, files, before, after)
        except AnotherExportError:
            for each in files:
                target.remove(each.name)
            raise


def _recorded(exported: Exported) -> Exported:
    """Without what only a directory of files needs: a table's files are those that its commits list."""
    return replace(exported, until=None, filling=(), files=None)
