"""Joins the parts of a set, each of which has what the node of one host leads, to one snapshot, as one run has it.

Whoever stores the last part finds all others and writes the snapshot: readers see it as any other. The newest metadata
among the parts says which partitions there are. A partition whose leader moved between two runs may be in two parts, of
which the longer history counts, or in none, which is named.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import structs

from brokerless.clusters.missing_partitions import partition_missing
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.jobs.backup.closing import cut_open, undecided
from brokerless.jobs.backup.previous import Earlier, newest_parts
from brokerless.kafka_names import TopicIdPartition, TopicPartition
from brokerless.log import names
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import Replacements
from brokerless.log.backups.snapshot import (
    MissingPartition,
    SegmentsFile,
    Snapshot,
    SnapshotCut,
    SnapshotPartition,
    SnapshotSegment,
    UndecidedTransaction,
    dump_segments,
)
from brokerless.log.producer.snapshot import parse_producer_snapshot
from brokerless.log.producer.state import Producer, load_state


@dataclass(frozen=True, slots=True)
class JoinedSet:
    """The snapshot that the parts of a set are together."""

    snapshot: Snapshot
    """The snapshot to write."""
    segments: bytes
    """The list of its segments, as it is written."""
    nodes: tuple[int, ...]
    """The IDs of the nodes that have a part."""
    awaited: tuple[int, ...]
    """The IDs of the nodes without a part that lead something which no part has."""
    findings: tuple[Finding, ...]
    """About parts that cannot be read, partitions that no part has, and transactions that may be divided."""


@dataclass(frozen=True, slots=True)
class _HostRun:
    """One host's run, with its partitions and segments."""

    snapshot: Snapshot
    partitions: Mapping[TopicIdPartition, SnapshotPartition]
    segments: Mapping[TopicIdPartition, Sequence[SnapshotSegment]]

    @property
    def began(self) -> int:
        """When its logs were cut (ms)."""
        return self.snapshot.created if self.snapshot.cut is None else self.snapshot.cut.began

    @property
    def nodes(self) -> set[int]:
        return {each.node_id for each in self.snapshot.disks}

    @property
    def metadata_end(self) -> tuple[int, int]:
        """How new its metadata is."""
        found = self.snapshot.metadata
        return (-1, -1) if found is None else (found.epoch, found.end_offset)


def join_parts(place: BackupPlace, set_name: str) -> JoinedSet | None:
    """Return what the newest parts of a set are together; None without one that can be read."""
    parts: list[_HostRun] = []
    findings: list[Finding] = []
    for each in sorted(newest_parts(place, set_name), key=lambda each: each.name):
        try:
            parts.append(_load(each))
        except UnreadableError as error:
            findings.append(error.finding(error.path))
    if not parts:
        return None
    newest = max(parts, key=lambda each: each.metadata_end)
    expected = {
        (each.topic_id, number): (each.topic, leader)
        for each in newest.snapshot.leaders
        for number, leader in each.leaders
    }
    chosen = _chosen(parts, newest, expected)
    missing = list(_missing(parts, newest, expected, chosen))
    there = {node for each in parts for node in each.nodes}
    awaited = {expected[each.topic_id, each.partition][1] for each in missing} - there
    found = [*findings, *(_in_no_part(place, each) for each in missing)]
    divided = list(_divided(parts, chosen))
    found += (cut_open(place.location.path, each) for each in divided)
    listed = dump_segments(segment for at, part in _in_order(chosen) for segment in part.segments.get(at, ()))
    rows = sum(len(part.segments.get(at, ())) for at, part in chosen.items())
    snapshot = _joined(parts, newest, set_name, chosen=chosen, missing=missing, divided=divided)
    snapshot = structs.replace(
        snapshot, id=_id_of(snapshot, listed), segments=SegmentsFile(hashlib.sha256(listed).hexdigest(), rows),
        findings=(*snapshot.findings, *(each.as_dict() for each in found)),
    )  # fmt: skip
    return JoinedSet(snapshot, listed, tuple(sorted(there)), tuple(sorted(awaited)), findings=tuple(found))


def _id_of(snapshot: Snapshot, listed: bytes) -> str:
    """Return the same ID for the same parts and the same list, as two hosts may write it at the same time."""
    return hashlib.sha256("".join(snapshot.parts).encode() + listed).hexdigest()[:8]


def _load(part: Earlier) -> _HostRun:
    """Return a part as it was written; what erasures replaced since is replaced where the snapshot is read."""
    segments: dict[TopicIdPartition, list[SnapshotSegment]] = defaultdict(list)
    for each in part.place.segments(part.name, part.snapshot, Replacements()):
        segments[each.place].append(each)
    return _HostRun(part.snapshot, {each.place: each for each in part.snapshot.partitions}, segments)


def _chosen(
    parts: Sequence[_HostRun], newest: _HostRun, expected: Mapping[TopicIdPartition, object]
) -> dict[TopicIdPartition, _HostRun]:
    """Return which part each partition is taken of: that with the newest epoch, and of these the longest. Partitions
    that the newest metadata does not have were deleted meanwhile."""
    found: dict[TopicIdPartition, tuple[tuple[int, int], _HostRun]] = {}
    for part in parts:
        for each in part.snapshot.partitions:
            if each.topic == names.CLUSTER_METADATA:
                rank = (1, 0) if part is newest else (0, 0)
            elif each.place in expected:
                rank = (each.epochs[-1][0] if each.epochs else -1, each.end_offset)
            else:
                continue
            if each.place not in found or rank >= found[each.place][0]:
                found[each.place] = rank, part
    return {place: part for place, (_, part) in found.items()}


def _in_order(chosen: Mapping[TopicIdPartition, _HostRun]) -> list[tuple[TopicIdPartition, _HostRun]]:
    named = [(part.partitions[at].topic, at, part) for at, part in chosen.items()]
    return [(at, part) for _, at, part in sorted(named, key=lambda each: (each[0], each[1]))]


def _missing(
    parts: Sequence[_HostRun],
    newest: _HostRun,
    expected: Mapping[TopicIdPartition, tuple[str, int]],
    chosen: Mapping[TopicIdPartition, _HostRun],
) -> Iterator[MissingPartition]:
    """Yield the partitions that no part has, each with the reason."""
    known = {(each.topic_id, each.partition): each for part in parts for each in part.snapshot.missing}
    for at, (topic, leader) in sorted(expected.items(), key=lambda each: (each[1][0], each[0])):
        if at in chosen:
            continue
        own = next((each for each in parts if leader in each.nodes), None)
        if own is None:
            reason = f"node {leader} leads it, and there is no part of that"
        elif at in known:
            reason = known[at].reason
        elif own.metadata_end < newest.metadata_end:
            own_end, end = own.metadata_end[1], newest.metadata_end[1]
            reason = f"node {leader} leads it by the metadata up to offset {end - 1}, and stored with that up to "
            reason += f"{own_end - 1}"
        else:
            reason = f"its leader moved to node {leader} while the parts were stored"
        yield MissingPartition(topic, at[0], at[1], reason)


def _in_no_part(place: BackupPlace, missing: MissingPartition) -> Finding:
    name = names.partition_directory(missing.topic, missing.partition)
    return partition_missing(place.location.path, name, "set", expected=missing.reason)


def _joined(
    parts: Sequence[_HostRun],
    newest: _HostRun,
    set_name: str,
    *,
    chosen: Mapping[TopicIdPartition, _HostRun],
    missing: Sequence[MissingPartition],
    divided: Sequence[UndecidedTransaction],
) -> Snapshot:
    """Return the snapshot without its list of segments."""
    disks = [each for part in parts for each in part.snapshot.disks]
    before = {id(part): sum(len(each.snapshot.disks) for each in parts[:at]) for at, part in enumerate(parts)}
    files = (
        structs.replace(each, name=_renumbered(each.name, before[id(part)]))
        for part in parts
        for each in part.snapshot.files
    )
    metadata = newest.snapshot.metadata
    ids = tuple(each.snapshot.id for each in parts)
    return structs.replace(
        newest.snapshot, name=set_name, parent=None,
        created=max(each.snapshot.created for each in parts), ended=max(each.snapshot.ended for each in parts),
        metadata=None if metadata is None else structs.replace(metadata, disk=metadata.disk + before[id(newest)]),
        disks=tuple(disks), partitions=tuple(part.partitions[at] for at, part in _in_order(chosen)),
        missing=tuple(missing), files=tuple(files),
        findings=tuple(finding for each in parts for finding in each.snapshot.findings),
        is_selection=any(each.snapshot.is_selection for each in parts),
        key_pairs=tuple(dict.fromkeys(key for each in parts for key in each.snapshot.key_pairs)),
        cut=_cut(parts, divided), parts=ids, leaders=(),
    )  # fmt: skip


def _renumbered(name: str, before: int) -> str:
    """The name of a file of a disk, ``disk-1/...``, after so many disks of other parts."""
    disk, _, rest = name.partition("/")
    return f"disk-{int(disk.removeprefix('disk-')) + before}/{rest}"


def _cut(parts: Sequence[_HostRun], divided: Sequence[UndecidedTransaction]) -> SnapshotCut | None:
    found = [each.snapshot.cut for each in parts if each.snapshot.cut is not None]
    if not found:
        return None
    return SnapshotCut(
        min(each.began for each in found), max(each.ended for each in found), sum(each.closed for each in found),
        open=(*(one for each in found for one in each.open), *divided),
    )  # fmt: skip


def _divided(parts: Sequence[_HostRun], chosen: Mapping[TopicIdPartition, _HostRun]) -> Iterator[UndecidedTransaction]:
    """Yield the transactions that are open in one part, and may be decided in another, as its producer ended one there
    after the logs of the first were cut."""
    places = {at: (part.partitions[at].topic, at[1]) for at, part in chosen.items()}
    is_open = {one.producer_id for at, part in chosen.items() for one in part.partitions[at].open_transactions}
    ended: dict[int, list[tuple[TopicIdPartition, int]]] = defaultdict(list)
    for at, part in chosen.items() if is_open else ():
        for producer_id, each in _producers(part.segments.get(at, ())).items():
            if producer_id in is_open and each.txn_first_offset < 0:
                ended[producer_id].append((at, each.timestamp))
    found: dict[int, set[TopicPartition]] = defaultdict(set)
    for at, part in chosen.items():
        for one in part.partitions[at].open_transactions:
            for other, timestamp in ended[one.producer_id]:
                if chosen[other] is not part and timestamp >= part.began:
                    found[one.producer_id] |= {places[at], places[other]}
    yield from (undecided(None, producer_id, places) for producer_id, places in sorted(found.items()))


def _producers(segments: Iterable[SnapshotSegment]) -> Mapping[int, Producer]:
    """Return the producers at the end of a partition, as far as its list of segments has them."""
    last = max(segments, key=lambda each: each.end_offset, default=None)
    if last is None or last.producers is None:
        return {}
    try:
        data = base64.b64decode(last.producers)
    except ValueError:
        return {}
    snapshot = parse_producer_snapshot(np.frombuffer(data, np.uint8), last.segment_id)
    return load_state(snapshot, last.end_offset + 1).producers


def open_sets(place: BackupPlace, snapshots: Iterable[Snapshot]) -> Iterator[tuple[str, JoinedSet]]:
    """Yield the sets of which no snapshot has the newest parts, with what is there. ``snapshots``: of the place."""
    joined = {one for each in snapshots for one in each.parts}
    for each in place.sets():
        newest = (own.names()[-1:] for own in place.parts(each))
        if any(name.id not in joined for own in newest for name in own):
            found = join_parts(place, each)
            if found is not None:
                yield each, found
