"""Compares the replicas of a partition that were erased in parallel: they have to be the same again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.jobs.erase.job import ErasedPartition
from brokerless.log.directory import resolve
from brokerless.log.segment import scan
from brokerless.progress import ignore

_BATCH = np.dtype([("base", "i8"), ("last", "i8"), ("size", "i8"), ("checksum", "u4"), ("epoch", "i4")])


@dataclass(frozen=True, slots=True)
class ReplicaComparison:
    """A comparison of two replicas of one partition."""

    name: str
    paths: tuple[str, str]
    is_same: bool
    """Whether all batches are identical that both have."""
    text: str
    """Where they begin or end at other offsets, or where the first difference is; empty if there is none."""

    def as_dict(self) -> dict[str, Any]:
        return {"partition": self.name, "replicas": list(self.paths), "isSame": self.is_same, "text": self.text}


def compare_replicas(results: Sequence[ErasedPartition]) -> Iterator[ReplicaComparison]:
    """Compares each replica that was written with the first one of its partition, by the headers of all batches, whose
    checksums cover the records."""
    by_name: dict[str, list[ErasedPartition]] = {}
    for each in results:
        if not each.damages and not each.task.erasure.dry_run:
            by_name.setdefault(each.task.name, []).append(each)
    for name, replicas in sorted(by_name.items()):
        if len(replicas) > 1:
            first = replicas[0]
            headers = _headers(first)
            for other in replicas[1:]:
                yield _compare(name, first, headers, other=other, other_headers=_headers(other))


def _compare(
    name: str,
    first: ErasedPartition,
    headers: NDArray[np.void],
    other: ErasedPartition,
    other_headers: NDArray[np.void],
) -> ReplicaComparison:
    paths = (first.task.directory.join(name), other.task.directory.join(name))
    start, end = max(first.start_offset, other.start_offset), min(first.end_offset, other.end_offset)
    one, two = (each[(each["last"] >= start) & (each["last"] < end)] for each in (headers, other_headers))
    count = min(len(one), len(two))
    differs = np.flatnonzero(one[:count] != two[:count])
    if len(differs) or len(one) != len(two):
        at = int(differs[0]) if len(differs) else count
        offset = int((one if at < len(one) else two)["base"][at])
        text = f"other batches from offset {offset} on, as before: see brokerless merge for which replica is right"
        return ReplicaComparison(name, paths, False, text)
    texts = [
        f"{what} at offset {mine} and {theirs}"
        for what, mine, theirs in (
            ("begin", first.start_offset, other.start_offset),
            ("end", first.end_offset, other.end_offset),
        )
        if mine != theirs
    ]
    return ReplicaComparison(name, paths, True, " and ".join(texts))


def _headers(each: ErasedPartition) -> NDArray[np.void]:
    parts = [np.empty(0, _BATCH)]
    (partition,) = resolve(each.task.directory.location / each.task.name, ()).partitions
    for segment in partition.segments:
        with segment.log.location.open() as file:
            for chunk in scan(file, ignore):
                part = np.zeros(len(chunk.batches), _BATCH)
                part["base"], part["last"] = chunk.batches.entry_offset, chunk.batches.last_offset
                part["size"], part["checksum"] = chunk.batches.sizes, chunk.batches.checksum
                part["epoch"] = chunk.batches.partition_leader_epoch
                parts.append(part)
    return np.concatenate(parts)
