"""Shows backups: what a run stored, which snapshots there are, what a check found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from brokerless.jobs.backup.job import BackupResult
from brokerless.jobs.backup.sets.joining import JoinedSet
from brokerless.jobs.check.job import CheckResult
from brokerless.jobs.forget.job import ForgetResult
from brokerless.jobs.forget.prune import PruneResult
from brokerless.log import names
from brokerless.log.backups.snapshot import RunKeys, Snapshot, SnapshotPartition
from brokerless.text import count_of, format_bytes
from brokerless.values import members
from brokerless.views.findings import turn_line
from brokerless.views.table import NOTHING, format_number, table
from brokerless.views.text import format_times

_GROUPS = ("topics", "partitions", "records", "size", "stored")
_SNAPSHOTS = ("snapshot", "time", "name", "topics", "partitions", "size", "stored", "missing", "lost offsets")
_OFFSETS = ("partition", "start", "end", "committed", "records", "size", "node", "open transactions")
_LOST = ("partition", "offsets", "because")


def snapshot_row(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot for programs, without what it says of each partition."""
    found = members(snapshot)
    left_out = ("snapshot", "partitions", "files", "findings", "segments", "leaders")
    return {
        **{name: value for name, value in found.items() if name not in left_out},
        "partitions": len(snapshot.partitions),
        "sizeInBytes": snapshot.size,
        "newSizeInBytes": snapshot.new_size,
        "lostRanges": sum(len(each.lost) for each in snapshot.partitions),
        "isComplete": snapshot.is_complete,
    }


def partition_rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield a row for each partition, with the snapshot that it is of."""
    for each in snapshot.partitions:
        yield {"snapshot": snapshot.id, **members(each)}


def lost_rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Yield a row for each range that is lost, and each partition that is missing."""
    for each in snapshot.partitions:
        for lost in each.lost:
            place = {"snapshot": snapshot.id, "topic": each.topic, "partition": each.partition}
            yield {**place, **members(lost), "reason": None}
    for missing in snapshot.missing:
        place = {"snapshot": snapshot.id, "topic": missing.topic, "partition": missing.partition}
        yield {**place, "firstOffset": None, "lastOffset": None, "causes": [], "reason": missing.reason}


def backup_lines(result: BackupResult) -> Iterator[str]:
    """Yield what was read and stored, what is lost, and the sum."""
    snapshot = result.snapshot
    yield from _cluster_lines(snapshot)
    yield ""
    yield from table(_GROUPS, list(_group_cells(snapshot)), right=_GROUPS[1:])
    yield ""
    lost = list(lost_lines(snapshot))
    yield from [*lost, ""] if lost else []
    partitions = count_of(len(snapshot.partitions) + len(snapshot.missing), "partition")
    text = f"{len(snapshot.partitions):,} of {partitions}, {format_bytes(snapshot.size)}"
    text += f", {format_bytes(snapshot.new_size)} of them new"
    if result.dry_run:
        yield f"{text}: nothing was written, as in a dry run"
    else:
        what = "snapshot" if snapshot.set_name is None else f"part of the set {snapshot.set_name}:"
        yield f"{what} {snapshot.id} in {result.place}: {text}"
    if result.joined is not None and snapshot.set_name is not None:
        yield set_line(snapshot.set_name, result.joined)


def set_line(name: str, joined: JoinedSet) -> str:
    """Return what there is of a set: the snapshot of all hosts, or which hosts have not stored their parts yet."""
    nodes = ", ".join(map(str, joined.nodes))
    if joined.awaited:
        return f"set {name}: parts of nodes {nodes}; awaited: nodes {', '.join(map(str, joined.awaited))}"
    snapshot = joined.snapshot
    partitions = count_of(len(snapshot.partitions) + len(snapshot.missing), "partition")
    text = f"{len(snapshot.partitions):,} of {partitions}, {format_bytes(snapshot.size)}"
    return f"set {name}: snapshot {snapshot.id} of nodes {nodes}: {text}"


def _cluster_lines(snapshot: Snapshot) -> Iterator[str]:
    nodes = {each.node_id for each in snapshot.disks if each.node_id >= 0}
    metadata = snapshot.metadata
    known = "no metadata" if metadata is None else f"metadata up to offset {metadata.end_offset - 1:,}"
    disks = count_of(len(snapshot.disks), "disk")
    yield f"cluster {snapshot.cluster_id or NOTHING}: {count_of(len(nodes), 'node')}, {disks}, {known}"
    if snapshot.cut is not None:
        began, seconds = snapshot.cut.began, (snapshot.cut.ended - snapshot.cut.began) / 1000
        (time,) = format_times([began])
        yield f"cut at {time}, within {seconds:.1f} s; {count_of(snapshot.cut.closed, 'transaction')} closed"
    if metadata is None:
        yield "without the cluster's metadata, nobody knows which partitions are missing"


def _group_cells(snapshot: Snapshot) -> Iterator[list[str]]:
    groups: dict[str, list[SnapshotPartition]] = {"delete": [], "compact": [], "Kafka's own": []}
    for each in snapshot.partitions:
        own = "Kafka's own" if names.is_internal(each.topic) else "compact" if each.is_compacted else "delete"
        groups[own].append(each)
    for name, own in groups.items():
        if own:
            yield [
                name, format_number(len(own)), format_number(sum(each.records for each in own)),
                format_bytes(sum(each.size_in_bytes for each in own)),
                format_bytes(sum(each.new_size_in_bytes for each in own)),
            ]  # fmt: skip


def snapshot_lines(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """Yield a table of snapshots, the newest last."""
    if not snapshots:
        yield "there is no snapshot"
        return
    times = format_times([each.created for each in snapshots])
    cells = [
        [
            each.id, time, each.name or NOTHING, "some" if each.is_selection else "all",
            format_number(len(each.partitions)), format_bytes(each.size),
            format_bytes(each.new_size), format_number(len(each.missing)), _lost_offsets(each),
        ]
        for each, time in zip(snapshots, times, strict=True)
    ]  # fmt: skip
    yield from table(_SNAPSHOTS, cells, right=_SNAPSHOTS[4:])


def _lost_offsets(snapshot: Snapshot) -> str:
    lost = [each for partition in snapshot.partitions for each in partition.lost]
    known = sum(each.last_offset + 1 - each.first_offset for each in lost if each.last_offset is not None)
    return format_number(known) + ("+" if any(each.last_offset is None for each in lost) else "")


def offset_lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield a table of where each partition begins and ends."""
    cells = [
        [
            each.name, str(each.start_offset), str(each.end_offset),
            NOTHING if each.committed < 0 else str(each.committed), format_number(each.records),
            format_bytes(each.size_in_bytes), NOTHING if each.node_id < 0 else str(each.node_id),
            format_number(len(each.open_transactions)),
        ]
        for each in snapshot.partitions
    ]  # fmt: skip
    yield from table(_OFFSETS, cells, right=_OFFSETS[1:])


def lost_lines(snapshot: Snapshot) -> Iterator[str]:
    """Yield a table of what is lost and missing, if anything is."""
    cells = [
        [
            each.name, f"{lost.first_offset}..{'' if lost.last_offset is None else lost.last_offset}",
            ", ".join(lost.causes),
        ]
        for each in snapshot.partitions
        for lost in each.lost
    ]  # fmt: skip
    cells += [[names.partition_directory(each.topic, each.partition), "all", each.reason] for each in snapshot.missing]
    yield from table(_LOST, cells) if cells else ()


def forget_rows(result: ForgetResult) -> Iterator[dict[str, Any]]:
    """Yield a row for each snapshot, with the reasons for which it stays."""
    for each in result.decisions:
        stays = bool(each.reasons)
        own = {"stays": stays, "reasons": list(each.reasons), "isApplied": result.is_applied}
        yield {**snapshot_row(each.snapshot), **own}


def forget_lines(result: ForgetResult) -> Iterator[str]:
    """Yield a table of snapshots, the newest last, and the sum."""
    if result.decisions:
        times = format_times([each.snapshot.created for each in result.decisions])
        cells = [
            [each.snapshot.id, time, each.snapshot.name or NOTHING, ", ".join(each.reasons) or "forgotten"]
            for each, time in zip(result.decisions, times, strict=True)
        ]
        yield from table(("snapshot", "time", "name", "stays"), cells)
    text = count_of(len(result.forgotten), "snapshot")
    if result.is_applied:
        yield f"{text} forgotten; prune removes what no other names"
    else:
        yield f"{text} would be forgotten, with --apply"


def prune_row(result: PruneResult) -> dict[str, Any]:
    """Return what no snapshot names for programs."""
    return {
        "place": result.place, "objects": result.objects, "sizeInBytes": result.size, "youngObjects": result.young,
        "findings": len(result.findings), "isApplied": result.is_applied,
        "held": [{"object": each.location.path, "until": each.until} for each in result.held],
        "unknown": result.unknown,
    }  # fmt: skip


def prune_lines(result: PruneResult) -> Iterator[str]:
    """Yield what no snapshot names."""
    if result.young:
        yield f"{count_of(result.young, 'object')} too young to be removed, as a run may need them"
    for each, time in zip(result.held, format_times([one.until for one in result.held], "s"), strict=True):
        yield f"{each.location.path}: held by Object Lock {'without an end' if each.until is None else f'until {time}'}"
    if result.unknown is not None:
        yield f"whether Object Lock holds objects is not known: {result.unknown}"
    text = f"{count_of(result.objects, 'object')} ({format_bytes(result.size)}) in no snapshot"
    text += f", {len(result.held):,} of them held by Object Lock" if result.held else ""
    removed = result.objects - len(result.findings) - len(result.held)
    yield f"{text}: {removed:,} removed" if result.is_applied else f"{text}; --apply removes them"


def key_rows(runs: Sequence[RunKeys]) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, with the key pairs that read it, the first one as manifests have it."""
    for each in runs:
        yield {"run": each.run, "keyPairs": _key_pairs(each)}


def key_lines(runs: Sequence[RunKeys]) -> Iterator[str]:
    """Yield a table of runs and the key pairs that read them."""
    yield from table(("run", "key pairs"), [[each.run, ", ".join(_key_pairs(each))] for each in runs])


def _key_pairs(run: RunKeys) -> list[str]:
    return [run.key_pair, *(each for each in run.data_keys if each != run.key_pair)]


def check_row(result: CheckResult) -> dict[str, Any]:
    """Return the result of a check for programs; findings are rows of their own."""
    return {
        "place": result.place,
        "snapshots": [each.id for each in result.snapshots],
        "objects": result.objects,
        "sizeInBytes": result.size,
        "unnamedObjects": result.unnamed,
        "unnamedSizeInBytes": result.unnamed_size,
        "isRead": result.is_read,
        **(result.turn.as_dict() if result.turn is not None else {}),
        "findings": len(result.findings),
    }


def check_lines(result: CheckResult) -> Iterator[str]:
    """Yield what is wrong, what no snapshot names, and the sum."""
    for each in result.findings:
        yield f"{each.severity:8} {each}"
    if result.unnamed:
        size = format_bytes(result.unnamed_size or 0)
        yield f"{count_of(result.unnamed, 'object')} ({size}) in no snapshot, as a run that was interrupted leaves them"
    what = "read, and as they were stored" if result.is_read else "there, in their sizes"
    if result.findings:
        what = count_of(len(result.findings), "finding")
    snapshots, objects = count_of(len(result.snapshots), "snapshot"), count_of(result.objects, "object")
    yield f"{snapshots}, {objects}, {format_bytes(result.size)}: {what}"
    if result.turn is not None:
        yield turn_line(result.turn, "read")
