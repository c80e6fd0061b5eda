"""Reads the replicas of a partition, and decides which log they make together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from brokerless.jobs.merge.agreement import Agreement, MergedReplica, agree, rank
from brokerless.jobs.merge.misplaced import without_moved
from brokerless.jobs.merge.outcome import committed_until
from brokerless.jobs.merge.replica_merge import MergedBatches, fill
from brokerless.jobs.merge.replicas import begin_of, end_of, read_replicas
from brokerless.jobs.recovered.open_files import OpenFiles
from brokerless.jobs.recovered.reading import PartitionFiles, RecoveredLog, find_log
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.progress import Report


@dataclass(frozen=True, slots=True)
class MergedLog:
    """The merged log of a partition, before it is written. It has ``start <= offset < end``."""

    founds: Sequence[RecoveredLog]
    replicas: Sequence[MergedReplica]
    agreements: Sequence[Agreement]
    leading: int
    """The number of the replica with the history that counts."""
    filled: MergedBatches
    """The log's batches."""
    begin: int
    """The offset at which its first segment begins."""
    start: int
    end: int
    reach: int
    """The offset to which the history that counts goes on."""
    committed: int | None
    """The offset that :func:`committed_until` returns."""
    recorded: Epochs
    """The leader epochs by the leading replica's checkpoint, as far as that can be believed."""
    paths: Sequence[str]
    """The paths of all files, as batches count them."""


def read_merged_log(
    files: Sequence[PartitionFiles],
    opened: OpenFiles,
    max_batch_bytes: int,
    report: Report,
    done: Callable[[int], object],
) -> MergedLog:
    """Read the files of all replicas, and return the log that is made of them. ``opened`` has the files of each
    replica, one replica after the other. ``done`` is called with the bytes that were read. Raises
    :class:`ReplacedError` as :func:`find_log`."""
    firsts = accumulate((len(each.files) for each in files), initial=0)
    founds = without_moved(
        [
            find_log(each, opened, max_batch_bytes, partial=False, report=report, done=done, first=first)
            for each, first in zip(files, firsts, strict=False)
        ]
    )
    paths = [file.path for each in files for file in each.files]
    replicas, recorded = read_replicas(founds, paths, report)
    order = rank(replicas)
    leading = replicas[order[0]]
    agreements = agree(replicas, order)
    begin, start = begin_of(founds[order[0]], recorded[order[0]], replicas, agreements)
    filled = fill(replicas, order, agreements, begin)
    return MergedLog(
        founds,
        replicas,
        agreements,
        leading=order[0],
        filled=filled,
        begin=begin,
        start=start,
        end=end_of(replicas, agreements, leading, filled),
        reach=max([leading.reach, *(filled.batches["last"][-1:] + 1).tolist()]),
        committed=committed_until(replicas, agreements),
        recorded=recorded[order[0]],
        paths=paths,
    )
