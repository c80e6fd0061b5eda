"""Writes partitions of a log directory as remote segments, each with its log, its indexes and its manifest.

Batches stay byte for byte, and segments begin where those of the log do; indexes are made of the batches. A partition
of which something is damaged is not left in the bucket. It is a backup's way of writing, without a snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from brokerless.clusters.directory_state import load_directory_state
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.backup.partition import BackupTask, BackupTaskResult, SourceReplica, run_task
from brokerless.jobs.backup.plan import named_id
from brokerless.jobs.named_partitions import topic_ids_of
from brokerless.jobs.recovered.losses import NOT_THERE
from brokerless.jobs.recovered.reading import describe_files
from brokerless.jobs.rewrite.plan import Source
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log import names
from brokerless.log.backups.names import has_backup
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import UNBOUNDED
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import remove_object
from brokerless.log.tiered.listing.stored_objects import stored_objects
from brokerless.log.tiered.object_names import object_name
from brokerless.log.tiered.writing.encryption import load_public_keys, new_data_key
from brokerless.log.tiered.writing.objects import ObjectFormat, UploadPlace
from brokerless.progress import Report
from brokerless.requests.writing import UploadRequest
from brokerless.tables.read_options import bound
from brokerless.text import short_html, short_repr

_ADVICE = "leave one out, or choose others with -t and -p"


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """The settings of an upload."""

    segment_bytes: int | None = None
    """The size at which segments end as well."""
    how: ObjectFormat = ObjectFormat()  # noqa: RUF009 - it is frozen
    """How the objects of segments are written."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    dry_run: bool = False
    """Whether everything is read, and nothing written."""

    @classmethod
    def of(cls, request: UploadRequest) -> UploadOptions:
        """Return what was requested. Raises :class:`UsageError`, and UnreadableError for keys."""
        keys = load_public_keys(request.public_keys or {})
        if len(keys) > 1:
            raise UsageError("--public-key: the plugin reads a segment with one key pair; give one")
        key = new_data_key(keys) if keys else None
        how = ObjectFormat(compression="heuristic" if request.compress else "none", data_key=key)
        return cls(request.segment_bytes, how, bound(request.max_batch_bytes), request.dry_run)


@dataclass(frozen=True, slots=True)
class UploadedPartition:
    """A partition in a bucket, with ``start_offset <= offset < end_offset``. Sizes in bytes are those of logs, and of
    their objects."""

    topic: str
    topic_id: str
    partition: int
    source: str
    start_offset: int
    end_offset: int
    records: int
    segments: tuple[SnapshotSegment, ...]
    """The segments with these offsets; none if there is damage."""
    damages: tuple[Finding, ...]
    """The damage that kept the partition from being uploaded."""
    dry_run: bool

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def size(self) -> int:
        return sum(each.size_in_bytes for each in self.segments)

    @property
    def stored_size(self) -> int:
        return sum(one.size for each in self.segments for one in stored_objects(each))

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``convert --tiered --json`` writes."""
        return {
            "topic": self.topic,
            "topicId": self.topic_id,
            "partition": self.partition,
            "source": self.source,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "records": self.records,
            "segments": len(self.segments),
            "sizeInBytes": self.size,
            "storedSizeInBytes": self.stored_size,
            "damages": len(self.damages),
            "isWritten": bool(self.segments) and not self.damages and not self.dry_run,
        }


def plan_upload(
    sources: Sequence[Source], to: Location, options: UploadOptions, named: Collection[str]
) -> list[BackupTask]:
    """Return a task for each partition that was chosen; of Kafka's own topics, which no broker tiers, for those in
    ``named``.

    Raises :class:`UsageError` for a partition without a name, two of one name, one that the bucket has already, and a
    place with a backup."""
    if has_backup(to):
        raise UsageError(f"{to}: this is a backup, which has segments that its snapshots name; give another place")
    bucket = output_directory(to, [each.directory.path for each in sources]).location
    chosen = [
        (source, each)
        for source in sources
        for each in source.partitions
        if not names.is_internal(each.topic or "") or each.topic in named
    ]
    known = topic_ids_of((each for _, each in chosen), _ADVICE)
    found: dict[tuple[str, int], BackupTask] = {}
    for source, each in chosen:
        if each.topic is None or each.partition is None:
            raise UsageError(f"{each.path}: the name does not say which partition this is; give its directory")
        if each.topic == names.CLUSTER_METADATA:
            raise UsageError(f"{each.path}: no broker has KRaft's own log in a bucket; leave it out")
        place = each.topic, each.partition
        if place in found:
            raise UsageError(f"{each.path}: another log is {names.partition_directory(*place)} as well; {_ADVICE}")
        found[place] = _task(source, each, bucket, known=known, options=options)
    for task in found.values():
        directory = task.place.directory
        if directory.is_directory() and directory.entries():
            raise UsageError(f"{directory}: segments of this topic are there already; remove them, or write elsewhere")
    return [task for _, task in sorted(found.items())]


def _task(
    source: Source,
    paths: PartitionPath,
    bucket: Location,
    *,
    known: dict[str, tuple[str, str]],
    options: UploadOptions,
) -> BackupTask:
    state = load_directory_state(source.directory)
    topic, number = paths.place
    properties = state.files.get(names.META_PROPERTIES)
    cluster_id = None if properties is None else load_meta_properties(properties.location).cluster_id
    topic_id = known[topic][0] if topic in known else named_id(cluster_id, topic)
    config = UNBOUNDED if options.segment_bytes is None else replace(UNBOUNDED, segment_bytes=options.segment_bytes)
    replica = SourceReplica(describe_files([paths], state), -1, source.directory.path)
    return BackupTask(
        UploadPlace(bucket, topic, topic_id, number), (replica,), previous=None, is_compacted=False, is_alone=True,
        config=config, how=options.how, max_batch_bytes=options.max_batch_bytes, dry_run=options.dry_run,
        base_offsets=tuple(each.base_offset for each in paths.segments),
    )  # fmt: skip


def upload(
    tasks: Sequence[BackupTask],
    report: Report,
    running: RunOptions = HERE,
) -> Generator[UploadedPartition]:
    """Run tasks, and yield what became of each, in their order. ``report`` is called with damage, of which nothing is
    left in the bucket; what it raises ends the run. Raises UnwritableError."""
    results = run(run_task, tasks, running, name="brokerless convert")
    with closing(results):
        for task, result in zip(tasks, in_order(results), strict=True):
            found = _uploaded(task, result)
            if found.damages and not task.dry_run:
                _remove(task, result.segments)
            for each in found.damages:
                report(each)
            yield found


def _uploaded(task: BackupTask, result: BackupTaskResult) -> UploadedPartition:
    known, place = result.partition, task.place
    path = task.files[0].paths[0].path
    damages = [each for each in result.findings if each.severity == "error"]
    for lost in () if known is None else known.lost:
        causes = [each for each in lost.causes if each != NOT_THERE]
        last = "and after" if lost.last_offset is None else f"to {lost.last_offset}"
        text = f"{known.name}: offsets {lost.first_offset} {last} are not intact" if known is not None else ""
        damages += [Kind(each).at(path, text, severity="error", offset=lost.first_offset) for each in causes[:1]]
    is_whole = known is not None and not damages
    start, end = (0, 0) if known is None else (known.start_offset, known.end_offset)
    return UploadedPartition(
        place.topic, place.topic_id, place.partition, path, start_offset=start, end_offset=end,
        records=0 if known is None else known.records, segments=result.segments if is_whole else (),
        damages=tuple(damages), dry_run=task.dry_run,
    )  # fmt: skip


def _remove(task: BackupTask, segments: Sequence[SnapshotSegment]) -> None:
    for each in segments:
        for one in reversed(stored_objects(each)):
            remove_object(task.place.directory / object_name(each.start_offset, each.segment_id, one.kind))


def target_of(request: UploadRequest) -> Location:
    """Return the bucket that is written to."""
    return Location.of(os.fspath(request.to), request.storage_options)
