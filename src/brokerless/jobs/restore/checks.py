"""Compares what is restored with the target's settings: what would be refused, deleted or changed there.

Sources: ``LogValidator``, ``UnifiedLog.deleteRetentionMsBreachedSegments``, ``LogConfig`` (4.4.0); KIP-937 for the
limits of timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.restore.results import GroupRestore, Limits, Settings, TopicRestore
from brokerless.log import names
from brokerless.text import format_bytes

_UNLIMITED = 2**63 - 1
_RETENTION_MS, _RETENTION_BYTES = "retention.ms", "retention.bytes"
_COMPARED = (
    "cleanup.policy", "compression.type", "delete.retention.ms", "max.message.bytes", "message.timestamp.type",
    "message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "min.insync.replicas", _RETENTION_MS,
    _RETENTION_BYTES,
)  # fmt: skip


def limits_of(settings: Settings, now_ms: int) -> Limits:
    """Return what a topic's settings, defaults among them, let in and keep."""
    retention = _number(settings, _RETENTION_MS)
    before, after = (_number(settings, f"message.timestamp.{each}.max.ms") for each in ("before", "after"))
    keeps_time = settings.get("message.timestamp.type", "CreateTime") == "CreateTime"
    deletes = "delete" in settings.get("cleanup.policy", "delete")
    return Limits(
        expired_before=now_ms - retention
        if deletes and keeps_time and retention is not None and retention >= 0
        else None,
        earliest=now_ms - before if keeps_time and before is not None and before < _UNLIMITED else None,
        latest=now_ms + after if keeps_time and after is not None and after < _UNLIMITED else None,
        largest=_number(settings, "max.message.bytes"),
    )


def check_topic(topic: TopicRestore, path: str) -> Iterator[Finding]:
    """Yield what is to be known before a topic is restored. An error is what the target would refuse."""
    yield from _check_configs(topic, path)
    yield from _check_retention(topic, path)
    yield from _check_refusals(topic, path)
    policy, timestamps = topic.target.get("cleanup.policy", "delete"), topic.target.get("message.timestamp.type")
    if "compact" in policy and topic.configs is not None and "compact" not in topic.configs.get("cleanup.policy", ""):
        text = f"{topic.topic} is compacted on the target, and was not in the source: only the last record of each key "
        yield Finding("warning", Kind.TARGET_COMPACTS, path, message=f"{text}stays", expected="delete", found=policy)
    if timestamps == "LogAppendTime":
        text = (
            f"{topic.topic} has message.timestamp.type=LogAppendTime on the target: all records get the time of now. "
        )
        text += "Set it to CreateTime until they are restored to keep their timestamps"
        yield Finding("warning", Kind.TIMESTAMPS_REPLACED, path, message=text, expected="CreateTime", found=timestamps)
    for each in topic.partitions:
        name = names.partition_directory(topic.topic, each.partition)
        if each.late:
            text = f"{name}: {each.late} records after offset {each.end_offset} are older than --until, too; they came "
            yield Finding(
                "warning", Kind.LATE_RECORDS, path, offset=each.end_offset, message=f"{text}later, and are not restored"
            )
        if each.undecided is not None:
            start, count = each.undecided
            text = (
                f"{name}: a transaction is open from offset {start} on, so that no consumer of committed records gets "
            )
            text += (
                f"the {count} records from there on, and they are not restored; --isolation read_uncommitted restores "
            )
            yield Finding(
                "warning", Kind.TRANSACTION_OPEN, path, offset=start, message=f"{text}them, and aborted ones, too"
            )
        if each.at_zero:
            text = f"{name}: {each.at_zero} records have the timestamp 0, which librdkafka cannot send; they get 1 ms"
            yield Finding("warning", Kind.TIMESTAMP_ZERO, path, message=text)
        if each.unnameable:
            text = f"{name}: {each.unnameable} headers have a zero byte in their names, which librdkafka cannot send; "
            yield Finding("error", Kind.HEADER_NAME, path, message=f"{text}their records would be left out")


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raises :class:`UsageError` where a finding is an error, with the first."""
    errors = [each for each in findings if each.severity == "error"]
    if len(errors) == 1:
        raise UsageError(f"a finding is an error, and nothing was restored: {errors[0]}")
    if errors:
        raise UsageError(f"{len(errors)} findings are errors, and nothing was restored; the first: {errors[0]}")


def check_groups(groups: Iterable[GroupRestore], topics: Iterable[TopicRestore], path: str) -> Iterator[Finding]:
    """Committed offsets after what is restored, which have no place of their own on the target."""
    ends = {(each.topic, each.partition): each.end_offset for topic in topics for each in topic.partitions}
    for each in groups:
        end = ends[each.topic, each.partition]
        if each.source_offset > end:
            name = names.partition_directory(each.topic, each.partition)
            text = f"group {each.group}: its committed offset in {name} is after what is restored; on the target it "
            text += "stands after the last restored record"
            expected, found = f"an offset up to {end}", str(each.source_offset)
            yield Finding(
                "warning", Kind.GROUP_OFFSET_AFTER_END, path, offset=end, message=text, expected=expected, found=found
            )


def _check_configs(topic: TopicRestore, path: str) -> Iterator[Finding]:
    if topic.configs is None:
        text = f"{topic.topic}: the source has no metadata of its cluster, so that the topic's settings are not known"
        if not topic.exists:
            text += "; it is created with the target's defaults, and as many partitions as there are here"
        yield Finding("info", Kind.CONFIGS_UNKNOWN, path, message=text)
    elif topic.exists:
        for name in sorted({*_COMPARED, *topic.configs} & topic.configs.keys()):
            ours, theirs = topic.configs[name], topic.target.get(name)
            if ours != theirs:
                text = f"{topic.topic}: {name} is another on the target"
                yield Finding("info", Kind.CONFIG_DIFFERS, path, message=text, expected=ours, found=theirs)


def _check_retention(topic: TopicRestore, path: str) -> Iterator[Finding]:
    count, size = (sum(each.expired[at] for each in topic.partitions) for at in (0, 1))
    how = f"kafka-configs --alter --topic {topic.topic} --add-config"
    if count:
        text = f"{topic.topic}: {count} of {topic.records} records ({format_bytes(size)}) are older than the target's "
        text += f"retention.ms, and deleted within minutes, segment by segment. To keep them: {how} retention.ms=-1"
        found = f"retention.ms={topic.target.get(_RETENTION_MS)}"
        yield Finding("warning", Kind.RETENTION_DELETES, path, message=text, found=found)
    limit = _number(topic.target, _RETENTION_BYTES)
    if limit is None or limit < 0 or "delete" not in topic.target.get("cleanup.policy", "delete"):
        return
    over = sum(max(0, each.size - limit) for each in topic.partitions)
    if over:
        text = f"{topic.topic}: about {format_bytes(over)} of {format_bytes(topic.size)} (before compression) are more "
        text += f"than the target's retention.bytes, and deleted within minutes. To keep them: {how} retention.bytes=-1"
        yield Finding("warning", Kind.RETENTION_DELETES, path, message=text, found=f"retention.bytes={limit}")


def _check_refusals(topic: TopicRestore, path: str) -> Iterator[Finding]:
    limit = topic.target.get("max.message.bytes")
    for each in topic.partitions:
        name = names.partition_directory(topic.topic, each.partition)
        if each.too_large:
            is_certain = each.codec == "none"
            text = f"{name}: {each.too_large} records are larger than the target's max.message.bytes; the largest has "
            text += f"{format_bytes(each.largest[0])}, at offset {each.largest[1]}"
            text += "" if is_certain else f", and may pass once it is compressed ({each.codec})"
            severity = "error" if is_certain else "warning"
            found = f"max.message.bytes={limit}"
            yield Finding(severity, Kind.RECORD_TOO_LARGE, path, offset=each.largest[1], message=text, found=found)
        if each.out_of_range:
            text = f"{name}: {each.out_of_range} records have timestamps that the target refuses; set its "
            text += "message.timestamp.before.max.ms and message.timestamp.after.max.ms until they are restored"
            yield Finding("error", Kind.TIMESTAMP_REFUSED, path, message=text)
        if each.without_key and "compact" in topic.target.get("cleanup.policy", ""):
            text = f"{name}: {each.without_key} records have no key, and a compacted topic refuses such"
            yield Finding("error", Kind.KEY_MISSING, path, message=text)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    try:
        return int(settings[name])
    except (KeyError, ValueError):
        return None
