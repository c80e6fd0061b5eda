"""Formats the dry run of a broker's next start, as text and as rows for JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from typing import Any

from brokerless.clusters.start.effects import directory_effects, partition_effects
from brokerless.clusters.start.results import READ_IN_VAIN, DirectoryRestart, Restart
from brokerless.clusters.start.retention_forecast import Retention
from brokerless.clusters.start.transactions import EndedTransaction
from brokerless.findings import Finding, Kind, remedy_of
from brokerless.log.index.checks import KEEP_INDEXES
from brokerless.log.names import parse_partition_directory
from brokerless.text import count_of, format_bytes, show_name
from brokerless.views.findings import finding_line, root_of
from brokerless.views.table import NOTHING, format_number, table

_COLUMNS = ("partition", "offsets after", "bytes cut", "segments deleted", "indexes rebuilt", "lost offsets", "records")
_RIGHT = ("bytes cut", "segments deleted", "indexes rebuilt", "records")
_DEFAULT = " (Kafka's default)"
_REASONS = {
    "not-flushed": "not known to be flushed",
    "index-missing": "without an offset index",
    "transaction-index-corrupt": "the transaction index does not fit",
}


def row(restart: Restart) -> dict[str, Any]:
    """One partition, for programs: offsets, bytes, paths."""
    return {
        "topic": restart.topic,
        "partition": restart.partition,
        "path": restart.path,
        "refused": restart.refused,
        "remedy": None if restart.refused_by is None else remedy_of(restart.refused_by),
        "stray": None if restart.stray is None else str(restart.stray),
        "unserved": None if restart.unserved is None else str(restart.unserved),
        "markers": restart.markers,
        "logStartOffset": None if restart.refused else restart.log_start_offset,
        "logEndOffset": None if restart.refused else restart.log_end_offset,
        "split": [{"file": file, "baseOffsets": list(bases)} for file, bases in restart.split],
        "recovered": [{"baseOffset": base, "reason": reason} for base, reason in restart.recovered],
        "truncated": [
            {"file": each.file, "sizeInBytes": each.size, "keptBytes": each.kept, "reason": each.reason}
            for each in restart.cut
        ],
        "deleted": [{"file": file, "sizeInBytes": size} for file, size in restart.deleted],
        "rebuilt": list(restart.rebuilt),
        "emptied": list(restart.emptied),
        "unclosed": list(restart.unclosed),
        "misled": [{"effect": each.effect, "file": each.finding.file} for each in restart.misled],
        "removed": list(restart.removed),
        "replaced": [
            {"file": file, "sizeInBytes": size, "offsets": [[first, end - 1] for first, end in spans]}
            for file, size, spans in restart.replaced
        ],
        "renamed": [list(pair) for pair in restart.renamed],
        "retention": None if restart.retention is None else _retention_row(restart.retention),
        "lostBytes": restart.lost_bytes,
        "lostBatches": restart.lost.batches,
        "lostRecords": restart.lost.records,
        "firstLostOffset": restart.lost.first_offset,
        "lastLostOffset": restart.lost.last_offset,
        "effects": [each.row() for each in partition_effects(restart)],
    }


def _retention_row(retention: Retention) -> dict[str, Any]:
    return {
        "segments": [{"file": file, "sizeInBytes": size} for file, size in retention.segments],
        "logStartOffset": retention.log_start_offset,
        "settings": dict(retention.settings),
        "defaults": list(retention.defaults),
        "misread": [each.file for each in retention.misread],
        "segmentsBeforeLogStart": retention.before_start,
    }


def directory_row(restart: DirectoryRestart) -> dict[str, Any]:
    """Return a log directory, for programs; it has neither a topic nor a partition."""
    return {
        "topic": None,
        "partition": None,
        "path": restart.path,
        "refused": str(restart.refused[0]) if restart.refused else None,
        "refusals": [_cause(each) for each in restart.refused],
        "offline": None if restart.offline is None else _cause(restart.offline),
        "stray": [{"path": path, **_cause(each)} for path, each in restart.stray.items()],
        "unserved": [{"path": path, **_cause(each)} for path, each in restart.unserved.items()],
        "created": [list(place) for place in restart.created],
        "deleted": [{"file": path, "sizeInBytes": size} for path, size in restart.deleted],
        "overwritten": list(restart.overwritten),
        "warnings": [_cause(each) for each in restart.warnings],
        "promoted": [{"path": path, "replaced": replaced} for path, replaced in restart.promoted],
        "completed": [
            {
                "transactionalId": each.transactional_id,
                "producerId": each.producer_id,
                "state": each.state,
                "outcome": each.outcome,
                "partitions": [list(place) for place in each.partitions],
            }
            for each in restart.completed
        ],
        "isStateKnown": restart.is_state_known,
        "unknown": restart.unknown,
        "restartsCluster": restart.restarts_cluster,
        "remoteDeletions": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "segments": each.segments,
                "firstOffset": each.first_offset,
                "lastOffset": each.last_offset,
                "sizeInBytes": each.size,
                "objects": each.objects,
            }
            for each in restart.remote_deletions
        ],
        "remoteLogStarts": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "logStartOffset": each.before,
                "movedTo": each.after,
                "objects": each.objects,
            }
            for each in restart.remote_log_starts
        ],
        "lostPositions": [each.row() for each in restart.lost_positions],
        "kafkaVersion": restart.version,
        "effects": [each.row() for each in directory_effects(restart)],
    }


def _cause(finding: Finding) -> dict[str, Any]:
    return {**finding.as_dict(), "remedy": remedy_of(finding)}


def directory_lines(restart: DirectoryRestart, shown: Collection[str] = ()) -> Iterator[str]:
    """Yield what a start does to a log directory, if it is anything but to load it. ``shown``: paths of partitions of
    which :func:`detail_lines` reports."""
    root = root_of([restart.path])
    lines = [
        *(line for each in restart.refused for line in (f"refused: {finding_line(each, root)}", _remedy(each))),
        *(line for each in _offline(restart) for line in each),
        *(line for path, each in restart.stray.items() if path not in shown for line in _stray(path, each, root)),
        *(line for path, each in restart.unserved.items() if path not in shown for line in _unserved(path, each, root)),
        *(f"begun empty: {_place(*place)}, which should be here and is not" for place in restart.created),
        *(f"deleted: {_name(path)} of {format_bytes(size)}, {_why_deleted(path)}" for path, size in restart.deleted),
        *(_promotion(path, replaced) for path, replaced in restart.promoted),
        *map(_overwriting, restart.overwritten),
        *map(_completion, restart.completed),
        *_positions(restart),
        *(f"retention: {finding_line(each.finding, root)}" for each in restart.remote_expired),
        *(line for each in restart.warnings for line in (f"warning: {finding_line(each, root)}", _remedy(each))),
    ]
    if restart.unknown is not None and not any(each.kind == Kind.METADATA_MISSING for each in restart.warnings):
        lines.append(f"not known: which partitions become stray; {show_name(restart.unknown)}")
    if restart.restarts_cluster:
        text = "the log of the cluster's metadata is empty, and this node is the only voter: it begins a new cluster, "
        lines.insert(0, f"lost: {text}to which none of these partitions belongs")
    if lines:
        yield f"\n{show_name(restart.path)}:"
        yield from (f"  {line}" for line in lines)


def _remedy(cause: Finding | str) -> str:
    return f"  remedy: {remedy_of(cause)}"


def _offline(restart: DirectoryRestart) -> Iterator[tuple[str, str]]:
    if restart.offline is not None:
        yield f"offline: {finding_line(restart.offline, root_of([restart.path]))}", _remedy(restart.offline)


def _stray(path: str, finding: Finding, root: str) -> tuple[str, str]:
    text = f"stray: {_name(path)} is renamed to -stray, and its records are not served: {finding_line(finding, root)}"
    return text, _remedy(finding)


def _unserved(path: str, finding: Finding, root: str) -> tuple[str, str]:
    gets = "may get" if finding.kind == Kind.DIRECTORY_ID_MISMATCH else "get"
    loaded = "is offline, and" if finding.kind in READ_IN_VAIN else "is loaded, but"
    loaded = "is not loaded, and" if finding.kind == Kind.META_PROPERTIES_CORRUPT else loaded
    text = f"not served: {_name(path)} {loaded} clients {gets} nothing of it: {finding_line(finding, root)}"
    return text, _remedy(finding)


def _why_deleted(path: str) -> str:
    own = parse_partition_directory(PurePath(path).name)
    return "all of a partition whose commit was cut short" if own is not None and own.is_unfinished else "as marked"


def _promotion(path: str, replaced: str | None) -> str:
    name = show_name(PurePath(path).name.rpartition(".")[0])
    text = f"renamed: {_name(path)} becomes {name}, as the cluster's metadata has this replica here"
    return text if replaced is None else f"{text}; {show_name(replaced)} is deleted"


def _overwriting(path: str) -> str:
    text = "was being moved from a directory that is gone: the broker begins that empty, and truncates this to it"
    return f"lost: {_name(path)} {text}; copy it, or give it its partition's name in that directory, before the start"


_POSITIONS = 20
"""Lost positions that are shown; there is one for each group and partition."""


def _positions(restart: DirectoryRestart) -> Iterator[str]:
    lost = restart.lost_positions
    for each in lost[:_POSITIONS]:
        yield f"{'past the end already' if each.was_past_end else 'lost'}: {show_name(str(each))}"
    if len(lost) > _POSITIONS:
        yield f"... and {format_number(len(lost) - _POSITIONS)} more positions of groups (--json has all)"
    if lost:
        yield "rebuild --reset-positions writes such positions at the end or the start of what is left"


def _place(topic: str, partition: int) -> str:
    """A partition by its topic's name in the cluster's metadata, which may be anything."""
    return f"{show_name(topic)}-{partition}"


def _completion(completion: EndedTransaction) -> str:
    name, places = show_name(completion.transactional_id), ", ".join(_place(*each) for each in completion.partitions)
    why = "its time is over" if completion.state == "Ongoing" else completion.state
    marker = f"a marker is appended to {places or 'no partition that is here'}"
    return f"transaction: the coordinator ends that of {name!r} ({completion.outcome}, as {why}), and {marker}"


def partition_lines(restarts: Sequence[Restart]) -> Iterator[str]:
    """Return a table of partitions."""
    return table(_COLUMNS, [_cells(each) for each in restarts], _RIGHT)


def detail_lines(restart: Restart) -> Iterator[str]:
    """Yield what would happen to one partition and why, if it is more than that unflushed segments are read."""
    changes = (
        restart.refused,
        restart.stray,
        restart.unserved,
        restart.split,
        restart.cut,
        restart.deleted,
        restart.emptied,
        restart.removed,
        restart.renamed,
        restart.unclosed,
        restart.misled,
        restart.retention,
    )
    if not any(changes) and not _reasons_of(restart).keys() - {"not-flushed"}:
        return
    yield f"\n{show_name(restart.path)}:"
    for lines in (_refusal_lines, _recovery_lines, _file_lines):
        yield from (f"  {line}" for line in lines(restart))
    if restart.retention is not None:
        yield from (f"  {line}" for line in _retention(restart.retention, restart.log_start_offset))


def _refusal_lines(restart: Restart) -> Iterator[str]:
    root = root_of([restart.path])
    if restart.refused is not None:
        yield f"the broker cannot load it, and {_then(restart)}: {show_name(restart.refused)}"
    if restart.refused_by is not None:
        yield _remedy(restart.refused_by)
    if restart.stray is not None:
        yield from _stray(restart.path, restart.stray, root)
    if restart.unserved is not None and restart.refused is None:
        yield from _unserved(restart.path, restart.unserved, root)


def _recovery_lines(restart: Restart) -> Iterator[str]:
    root = root_of([restart.path])
    for file, bases in restart.split:
        text = f"splits {show_name(file)} into segments that begin at {', '.join(map(str, bases))}"
        yield f"{text}, as its offsets are too far apart for one"
    for reason, bases in _reasons_of(restart).items():
        yield f"reads segment {', '.join(bases)} batch by batch: {_REASONS[reason]}"
    for each in restart.cut:
        kept, size = format_number(each.kept), format_number(each.size)
        yield f"cuts {_name(each.file)} from {size} bytes to {kept}: {show_name(each.reason)}"
    if restart.beyond_end is not None:
        yield from (f"lost: {finding_line(restart.beyond_end, root)}", _remedy(restart.beyond_end))
    for file, size in restart.deleted:
        yield f"deletes {_name(file)} of {format_number(size)} bytes, and its indexes"
    for text in restart.unclosed:
        yield f"accepts the end of the log without recovery, as the stop was clean: {show_name(text)}"
    for misled in restart.misled:
        if misled.effect == "aborted-shown":
            yield f"gives aborted records to read_committed: {finding_line(misled.finding, root)}"
            yield f"  {_remedy(misled.finding)}"
        if misled.effect == "aborted-exposed":
            yield f"forgets which records were aborted: {finding_line(misled.finding, root)}"
            yield f"  {_remedy(misled.finding.kind)}"


def _file_lines(restart: Restart) -> Iterator[str]:
    for file in restart.emptied:
        effect = "retention then goes by the time of the log file"
        if file.endswith(".index"):
            effect = "every read of this segment then begins at its start"
        yield f"makes an empty {_name(file)}: {effect}"
    for file, size, spans in restart.replaced:
        offsets = ", ".join(f"{first}..{end - 1}" for first, end in spans)
        text = f"deletes {_name(file)} of {format_number(size)} bytes, and no file that stays has offsets {offsets}"
        yield f"lost: {text}; copy the directory before the start (brokerless salvage takes all that is intact)"
    lost = {PurePath(file).name for file, _, _ in restart.replaced}
    for name in restart.removed:
        if name not in lost:
            yield f"deletes {show_name(name)}, left by an earlier stop"
    for source, target in restart.renamed:
        yield f"renames {show_name(source)} to {show_name(target)}"


def _reasons_of(restart: Restart) -> dict[str, list[str]]:
    """Return why segments are read batch by batch, and which ones are."""
    reasons: dict[str, list[str]] = {}
    for base_offset, reason in restart.recovered:
        reasons.setdefault(reason, []).append(str(base_offset))
    return reasons


def _then(restart: Restart) -> str:
    if restart.is_fatal:
        return "ends"
    offline = "takes the log directory offline"
    return offline if restart.ends is False else f"ends, or {offline} where it has another one"


def _retention(retention: Retention, log_start_offset: int) -> Iterator[str]:
    if retention.superseded:
        segments = count_of(len(retention.superseded), "segment")
        size = format_bytes(sum(size for _, size in retention.superseded))
        text = "is" if len(retention.superseded) == 1 else "are"
        text = f"deletes {segments} of {size} some minutes later, which {text} before the log start offset "
        yield f"{text}{log_start_offset}, as usual: nothing of this is served now either"
    if retention.expired:
        yield _expiry(retention)


def _expiry(retention: Retention) -> str:
    segments, size = count_of(len(retention.expired), "segment"), format_bytes(retention.expired_size)
    deciding = retention.deciding
    values = " and ".join(
        f"{name}={retention.settings[name]}{_DEFAULT if name in retention.defaults else ''}" for name in deciding
    )
    if retention.misread:
        names = ", ".join(_name(each.file) for each in retention.misread[:2])
        names += f" and {len(retention.misread) - 2} more" if len(retention.misread) > 2 else ""
        remedy = "delete the .timeindex and .index files before the start, and both are rebuilt"
        if any(each.case == Kind.ABORT_MARKER_MISSING for each in retention.misread):
            remedy = f"its indexes are {KEEP_INDEXES}: set retention.ms of the topic to -1 before the start"
        return (
            f"lost: retention deletes {segments} of {size} some minutes later, up to offset "
            f"{retention.log_start_offset}, whose records are not that old: after a clean stop a broker takes the last "
            f"entry of {names} for the age of the segment; {remedy}"
        )
    caution = ", or as server.properties says" if set(deciding) & set(retention.defaults) else ""
    return (
        f"retention deletes {segments} of {size} some minutes later, up to offset "
        f"{retention.log_start_offset}, by {values}{caution}; to keep them, set retention.ms of the topic to -1"
    )


def _name(path: str) -> str:
    return show_name(PurePath(path).name)


def _cells(restart: Restart) -> list[str]:
    lost, name = restart.lost, f"{restart.topic}-{restart.partition}" if restart.topic is not None else restart.path
    if restart.refused is not None:
        return [show_name(name), "refused", *[NOTHING] * 5]
    place = "stray" if restart.stray is not None else "not served" if restart.unserved is not None else None
    kept = f"{restart.log_start_offset}..{restart.log_end_offset - 1}"
    return [
        show_name(name),
        place or (NOTHING if restart.log_start_offset == restart.log_end_offset else kept),
        format_bytes(restart.lost_bytes) if restart.lost_bytes else NOTHING,
        format_number(len(restart.deleted)) if restart.deleted else NOTHING,
        format_number(len(restart.rebuilt)) if restart.rebuilt else NOTHING,
        NOTHING if lost.first_offset is None else f"{lost.first_offset}..{lost.last_offset}",
        format_number(lost.records) if lost.records else NOTHING,
    ]
