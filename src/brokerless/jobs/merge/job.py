"""Merges several replicas of each partition, from brokers' disks, into one log.

The replica of the last leader has the history that counts; what others have beyond the offset up to which they agree
with it is left out, as replication would cut it off. Its damage is made good from the other replicas. Offsets never
change, and nothing is written to what is read.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

from brokerless.clusters.directory_state import DirectoryState, load_directory_state
from brokerless.errors import UsageError
from brokerless.findings import Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.merge.agreement import Agreement, MergedReplica
from brokerless.jobs.merge.merged_log import read_merged_log
from brokerless.jobs.merge.outcome import (
    Contribution,
    Divergence,
    contributions,
    cut_off,
    cut_within,
    divergences,
    losses,
)
from brokerless.jobs.merge.replica_merge import MergedBatches, differing
from brokerless.jobs.merge.replicas import report_batches
from brokerless.jobs.named_partitions import topic_id_of_partition, topic_ids_of
from brokerless.jobs.recovered.damaged_regions import FindingCollector
from brokerless.jobs.recovered.losses import Loss, summed
from brokerless.jobs.recovered.open_files import OpenFiles, with_open_files
from brokerless.jobs.recovered.quorum import newest_quorum_files
from brokerless.jobs.recovered.reading import PartitionFiles, describe_files, list_files_again
from brokerless.jobs.recovered.writing import PartitionContents, write_unfinished
from brokerless.jobs.rewrite.oversized import report_oversized
from brokerless.jobs.rewrite.plan import OfTarget, Plan, RewriteTask, Source, TargetPartition, plan_target
from brokerless.jobs.rewrite.run import PartitionResult, Rewrite, TaskResult, result_of, rewrite
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log import names
from brokerless.log.checkpoint.leader_epochs import Epochs, truncate_from_end
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.commit.types import StagedPartition
from brokerless.log.config import LogConfig, with_segment_bytes
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import refuse_repeated
from brokerless.progress import Done, Report
from brokerless.requests.recovery import MergeRequest
from brokerless.tables.read_options import bound


@dataclass(frozen=True, slots=True)
class Merge:
    """The settings of a merge, which are the same for all partitions."""

    config: LogConfig = field(default_factory=LogConfig)
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """How many bytes one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is done but writing."""
    committed_only: bool = False
    """Whether the tail that is not known to be committed is left out."""

    @classmethod
    def of(cls, request: MergeRequest) -> Merge:
        """Return what was requested."""
        config = with_segment_bytes(request.segment_bytes) or LogConfig()
        return cls(config, bound(request.max_batch_bytes), request.dry_run, request.committed_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask(RewriteTask):
    """One partition to merge."""

    replicas: tuple[PartitionFiles, ...]
    merge: Merge
    ends_at: int | None = None
    """The offset before which the merged log ends; None if that is where its history does."""
    markers: tuple[bytes, ...] = ()
    """Batches that are written from ``ends_at`` on, an offset each."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The directory of each replica."""
        return tuple(replica.paths[0].path for replica in self.replicas)

    @property
    def read_paths(self) -> tuple[str, ...]:
        return tuple(paths.path for replica in self.replicas for paths in replica.paths)

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(replica.size for replica in self.replicas)

    @property
    def is_unreadable(self) -> bool:
        """Whether no replica can be opened, so that nothing is written."""
        return all(replica.is_unreadable for replica in self.replicas)


@dataclass(frozen=True, slots=True, repr=False)
class MergeResult(PartitionResult[MergeTask]):
    """The result of merging one partition. The log has ``start_offset <= offset < end_offset``. All tuples but
    ``contributions``, ``divergences`` and ``losses`` are by replica."""

    start_offset: int
    end_offset: int
    batches: int
    records: int
    bytes: int
    leading: int
    """The number of the replica with the history that counts."""
    replicas: tuple[MergedReplica, ...]
    """The replicas, without their batches and losses."""
    agreements: tuple[Agreement, ...]
    """How far each replica has the history that counts."""
    damaged: tuple[int, ...]
    """How many bytes of each replica are in no intact batch."""
    differing: tuple[int, ...]
    """How many batches of each replica have other contents, though offsets and epochs are the same."""
    contributions: tuple[Contribution, ...]
    divergences: tuple[Divergence, ...]
    losses: tuple[Loss, ...]
    committed: int | None
    """The offset before which all is known to be committed; None if nothing is known."""
    reach: int
    """The offset to which the history that counts goes on. What is between ``committed`` and this is in the log unless
    ``committed_only`` was requested."""

    @property
    def is_whole(self) -> bool:
        """Whether a replica could be read, nothing is lost, no replica has another history, and, if only what is
        committed was requested, anything says what that is."""
        if self.task.is_unreadable:
            return False
        if self.task.merge.committed_only and self.committed is None and self.reach > self.start_offset:
            return False
        return not self.losses and not self.divergences and not any(self.differing)


def plan(sources: Sequence[Source], to: str | os.PathLike[str] | Location, merge: Merge) -> Plan[MergeTask]:
    """Return a task for each partition that was chosen of at least one of the sources.

    Raises :class:`UsageError` if one cannot be written: it is there already, its name is not known, its replicas are of
    two topics of that name, or ``to`` is in what is read; and for a path that is given twice.
    """
    logs = [each.directory for each in sources]
    directory = output_directory(Location.of(to), [log.path for log in logs])
    refuse_repeated((each.path for each in logs), "it is one replica, and would count as two")
    found: dict[tuple[str, int], list[tuple[PartitionPath, DirectoryState]]] = {}
    for log, chosen in sources:
        state = load_directory_state(log)
        for each in chosen:
            if each.topic is None or each.partition is None:
                raise UsageError(f"{each.path}: the name does not say which partition this is; give its directory")
            found.setdefault((each.topic, each.partition), []).append((each, state))
    known = _topic_ids([each for replicas in found.values() for each in replicas])
    new = [
        TargetPartition(topic, partition, known[topic][0], tuple(each.path for each, _ in found[topic, partition]))
        for topic, partition in sorted(found)
    ]
    target, topic_ids = plan_target("merge", OfTarget("", directory, list(sources)), new, dry_run=merge.dry_run)
    tasks = [
        MergeTask(
            topic=each.topic, partition=each.partition, to=directory, topic_id=topic_id,
            replicas=tuple(describe_files([one], state, ()) for one, state in found[each.topic, each.partition]),
            merge=merge,
        )
        for each, topic_id in zip(new, topic_ids, strict=True)
    ]  # fmt: skip
    return Plan(tuple(tasks), (target,), merge.dry_run)


def merge(
    plan: Plan[MergeTask],
    report: Report,
    running: RunOptions = HERE,
) -> Generator[MergeResult]:
    """Runs a plan, and commits all partitions when they are written; the results come in the order of the tasks.

    ``report`` is called with what is unexpected or left out; ``done`` of ``running`` with the bytes that were read, and
    again with those that were written.
    """
    job = Rewrite("merge", run_task, result_of, is_lossy=True, of_one_node=False)
    return rewrite(job, plan, report, running)


def run_task(task: MergeTask, done: Done) -> TaskResult[MergeResult]:
    """Merges one partition, under a name that readers pass over."""

    def merge_current(replicas: tuple[PartitionFiles, ...], opened: OpenFiles) -> TaskResult[MergeResult]:
        return _merge(replace(task, replicas=replicas), opened, done)

    return with_open_files(
        task.replicas,
        lambda replicas: [file for files in replicas for file in files.files],
        lambda replicas: tuple(map(list_files_again, replicas)),
        merge_current,
    )


def _merge(task: MergeTask, opened: OpenFiles, done: Done) -> TaskResult[MergeResult]:
    report = FindingCollector()
    how = task.merge
    merged = read_merged_log(task.replicas, opened, how.max_batch_bytes, report=report, done=done)
    replicas, agreements, paths, filled = merged.replicas, merged.agreements, merged.paths, merged.filled
    begin, start, end, reach, committed = merged.begin, merged.start, merged.end, merged.reach, merged.committed
    if how.committed_only:
        if committed is None and reach > start:
            text = (
                "nothing says what of this partition is committed, so all of it is left out: there is one replica, and "
                "no high watermark is recorded; give log directories with their replication-offset-checkpoint, or "
                "more replicas, or leave out --committed-only"
            )
            report(Kind.NOTHING_KNOWN_TO_BE_COMMITTED.at(task.paths[0], text, offset=start))
        end = max(start, min(end, committed or 0))
        filled = cut_off(filled, end)
    if task.ends_at is not None:
        end = max(start, min(end, task.ends_at))
        filled = cut_within(filled, end)
    _report(task, replicas, agreements, filled=filled, paths=paths, report=report)
    staged = None
    if not how.dry_run and not task.is_unreadable:
        filled, staged = _write(
            task, filled, opened, limits=(begin, start, end), recorded=merged.recorded, report=report, done=done
        )
    sizes, offsets = filled.batches["size"], filled.batches["first"]
    report_oversized(sizes, offsets, how.config, task.paths[0], report=report)
    differ = [
        differing(replica, each.until, filled.batches) for replica, each in zip(replicas, agreements, strict=True)
    ]
    for replica, rows in zip(replicas, differ, strict=True):
        text = "another replica, which was taken, has other contents at these offsets in the same leader epoch"
        report_batches(replica, rows[:1].tolist(), paths, kind=Kind.REPLICAS_DIFFER, text=text, report=report)
    result = MergeResult(
        task,
        start,
        end,
        batches=len(filled.batches),
        records=int(filled.batches["records"].sum()),
        bytes=int(filled.batches["size"].sum()),
        leading=merged.leading,
        replicas=tuple(replace(replica, batches=replica.batches[:0].copy(), losses=()) for replica in replicas),
        agreements=tuple(agreements),
        damaged=tuple(sum(each.size for each, _ in found.regions if not each.is_empty) for found in merged.founds),
        differing=tuple(map(len, differ)),
        contributions=contributions(filled),
        divergences=divergences(replicas, agreements),
        losses=summed(losses(filled, replicas, agreements, merged.leading, start, end)),
        committed=committed,
        reach=reach,
    )
    return TaskResult(result, report.findings(task.name), staged)


_ADVICE = "leave one out, or choose others with -t and -p"


def _topic_ids(replicas: Sequence[tuple[PartitionPath, DirectoryState]]) -> dict[str, tuple[str | None, str]]:
    """The ID of each topic, None where no replica has one, and a replica's path. Where a replica has none, it must
    be of the same cluster at least."""
    known = topic_ids_of((each for each, _ in replicas), _ADVICE)
    clusters: dict[str, tuple[str, str]] = {}
    for each, state in replicas:
        topic = each.topic or ""
        if topic_id_of_partition(each) is not None:
            continue
        properties = state.files.get(names.META_PROPERTIES)
        cluster = None if properties is None else load_meta_properties(properties.location).cluster_id
        if cluster is not None:
            first, path = clusters.setdefault(topic, (cluster, each.path))
            if first != cluster:
                raise UsageError(
                    f"{path} is of the cluster {first}, but {each.path} of {cluster}: they are of two topics; {_ADVICE}"
                )
    return {each.topic or "": known.get(each.topic or "", (None, each.path)) for each, _ in replicas}


def _write(
    task: MergeTask,
    filled: MergedBatches,
    opened: OpenFiles,
    limits: tuple[int, int, int],
    recorded: Epochs,
    report: Report,
    done: Done,
) -> tuple[MergedBatches, StagedPartition]:
    """Writes the merged log; what it does not take is missing then."""
    begin, start, end = limits
    place = task.place(task.merge.config)
    contents = PartitionContents(
        filled.batches,
        opened,
        begin,
        start=start,
        end=end if task.ends_at is None else max(end, task.ends_at + len(task.markers)),
        cleaned_until=_cleaned_until(task),
        indexed=[one for replica in task.replicas for each in replica.paths for one in each.segments],
        markers=task.markers,
    )
    epochs = truncate_from_end(recorded, end)
    max_batch_bytes = task.merge.max_batch_bytes
    beside = newest_quorum_files([replica.paths[0] for replica in task.replicas])
    taken, unfinished = write_unfinished(
        place, contents, epochs, report=report, done=done, max_batch_bytes=max_batch_bytes, beside=beside
    )
    refused = filled.batches[~taken]
    spans = zip(refused["first"].tolist(), (refused["last"] + 1).tolist(), strict=True)
    gaps = tuple(sorted((*filled.gaps, *spans)))
    return replace(filled, batches=filled.batches[taken], givers=filled.givers[taken], gaps=gaps), unfinished


def _cleaned_until(task: MergeTask) -> int | None:
    """Up to which offset any of the replicas was compacted."""
    return max((each.cleaned_until for each in task.replicas if each.cleaned_until is not None), default=None)


def _report(
    task: MergeTask,
    replicas: Sequence[MergedReplica],
    agreements: Sequence[Agreement],
    filled: MergedBatches,
    paths: Sequence[str],
    report: Report,
) -> None:
    for number, (replica, agreement) in enumerate(zip(replicas, agreements, strict=True)):
        path = task.paths[number]
        if agreement.by == "contents" and len(replicas) > 1 and replica.starts == () and len(replica.batches):
            text = "batches without leader epochs: the replicas were compared by offsets and contents"
            report(Kind.NO_LEADER_EPOCHS.at(path, text))
        if agreement.by == "nothing":
            text = "a compacted log without leader epochs: where this replica differs is not known, and it is believed"
            report(Kind.NO_LEADER_EPOCHS.at(path, text))
        if task.replicas[number].paths[0].snapshots:
            text = "KRaft snapshots are not merged: those of the replica with the newest one are taken"
            report(Kind.SNAPSHOTS_LEFT_OUT.at(path, text))
    for number, row in filled.misfits:
        text = "left out: its leader epoch is not between those of the batches around it"
        report_batches(replicas[number], [row], paths, kind=Kind.LEADER_EPOCH_ORDER, text=text, report=report)
