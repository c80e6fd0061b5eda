"""Formats the result of a merge of replicas, as tables and as rows for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.jobs.merge.job import MergeResult
from brokerless.text import format_bytes
from brokerless.views.findings import relative_to, root_of
from brokerless.views.jobs.salvage import loss_row, lost_offsets
from brokerless.views.table import NOTHING, format_number, format_span, table

_PARTITIONS = (
    "partition", "offsets", "records", "size", "replicas", "uncommitted offsets", "divergent", "lost offsets",
)  # fmt: skip
_REPLICAS = ("partition", "replica", "epoch", "offsets", "same until", "gave records", "gave size", "damaged")
_DIVERGENCES = ("partition", "left out of", "offsets", "epochs", "records", "size", "was committed")


def row(result: MergeResult) -> dict[str, Any]:
    """Return a partition for programs. Replicas are numbered in the order in which they are listed."""
    task = result.task
    uncommitted = None
    if _uncommitted(result):
        first = max(result.committed or 0, result.start_offset)
        is_included = not task.merge.committed_only
        uncommitted = {"firstOffset": first, "lastOffset": result.reach - 1, "isIncluded": is_included}
    return {
        "topic": task.topic,
        "partition": task.partition,
        "target": None if task.merge.dry_run else task.directory.join(task.name),
        "startOffset": result.start_offset,
        "endOffset": result.end_offset,
        "batches": result.batches,
        "records": result.records,
        "sizeInBytes": result.bytes,
        "leadingReplica": result.leading,
        "committedUntil": result.committed,
        "uncommitted": uncommitted,
        "replicas": [_replica_row(result, number) for number in range(len(result.replicas))],
        "contributions": [
            {
                "replica": each.replica,
                "firstOffset": each.first_offset,
                "lastOffset": each.last_offset,
                "batches": each.batches,
                "records": each.records,
                "sizeInBytes": each.bytes,
            }
            for each in result.contributions
        ],
        "divergences": [
            {
                "replica": each.replica,
                "firstOffset": each.offset,
                "lastOffset": each.last_offset,
                "lastSameEpoch": each.epoch,
                "leaderEpochs": list(each.epochs),
                "batches": each.batches,
                "records": each.records,
                "sizeInBytes": each.bytes,
                "committedOffsets": each.committed,
            }
            for each in result.divergences
        ],
        "losses": [loss_row(each) for each in result.losses],
    }


def partition_lines(results: Sequence[MergeResult]) -> Iterator[str]:
    cells = [
        [
            each.task.name,
            format_span(each.start_offset, each.end_offset),
            format_number(each.records),
            format_bytes(each.bytes),
            format_number(len(each.replicas)),
            format_number(_uncommitted(each)),
            format_number(sum(divergence.records for divergence in each.divergences)),
            lost_offsets(each.losses),
        ]
        for each in results
    ]
    return table(_PARTITIONS, cells, right=_PARTITIONS[2:])


def replica_lines(results: Sequence[MergeResult]) -> Iterator[str]:
    """Return a table of all replicas; a star is at those that have the history that counts."""
    cells: list[list[str]] = []
    root = _root(results)
    for result in results:
        for number, (path, replica) in enumerate(zip(result.task.paths, result.replicas, strict=True)):
            gave = [each for each in result.contributions if each.replica == number]
            cells.append(
                [
                    result.task.name,
                    relative_to(path, root) + (" *" if number == result.leading else ""),
                    NOTHING if replica.last_epoch < 0 else str(replica.last_epoch),
                    format_span(replica.start, replica.reach),
                    format_number(min(result.agreements[number].until, replica.reach)),
                    format_number(sum(each.records for each in gave)),
                    format_bytes(sum(each.bytes for each in gave)),
                    format_bytes(result.damaged[number]),
                ]
            )
    return table(_REPLICAS, cells, right=(_REPLICAS[2], *_REPLICAS[4:]))


def divergence_lines(results: Sequence[MergeResult]) -> Iterator[str]:
    """Return a table of what replicas have of other histories, if there is any."""
    root = _root(results)
    cells = [
        [
            result.task.name,
            relative_to(result.task.paths[each.replica], root),
            format_span(each.offset, each.last_offset + 1),
            ", ".join(map(str, each.epochs)) if each.epochs != (-1,) else NOTHING,
            format_number(each.records),
            format_bytes(each.bytes),
            format_number(each.committed),
        ]
        for result in results
        for each in result.divergences
    ]
    return table(_DIVERGENCES, cells, right=_DIVERGENCES[4:]) if cells else iter(())


def _root(results: Sequence[MergeResult]) -> str:
    return root_of(path for result in results for path in result.task.paths)


def _replica_row(result: MergeResult, number: int) -> dict[str, Any]:
    replica, agreement = result.replicas[number], result.agreements[number]
    gave = [each for each in result.contributions if each.replica == number]
    return {
        "path": result.task.paths[number],
        "startOffset": replica.start,
        "endOffset": replica.reach,
        "leaderEpochs": [{"epoch": each.epoch, "startOffset": each.latest} for each in replica.starts],
        "highWatermark": replica.high_watermark,
        "sameUntil": min(agreement.until, replica.reach),
        "comparedBy": agreement.by,
        "batches": sum(each.batches for each in gave),
        "records": sum(each.records for each in gave),
        "sizeInBytes": sum(each.bytes for each in gave),
        "damagedBytes": result.damaged[number],
        "differingBatches": result.differing[number],
    }


def _uncommitted(result: MergeResult) -> int:
    """Offsets that are not known to be committed."""
    return max(0, result.reach - max(result.committed or 0, result.start_offset))
