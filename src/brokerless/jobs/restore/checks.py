"""Compares what is restored with the target's settings: what would be refused, deleted or changed there.

Sources: ``LogValidator``, ``UnifiedLog.deleteRetentionMsBreachedSegments``, ``LogConfig`` (4.4.0); KIP-937 for the
limits of timestamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.rebuild.from_snapshot.point_in_time import late_records
from brokerless.jobs.rebuild.from_snapshot.retention import retention_deletes
from brokerless.jobs.restore.results import GroupRestore, Limits, TopicRestore
from brokerless.log import names
from brokerless.log.producer.transactions import open_transaction
from brokerless.log.settings.topic import CLEANUP_POLICY, TopicSettings, cleanup_policies, is_compacted
from brokerless.text import format_bytes

_UNLIMITED = 2**63 - 1
_RETENTION_MS, _RETENTION_BYTES = "retention.ms", "retention.bytes"
_SIZES = ("max.message.bytes", "segment.bytes")
"""Neither of them may be smaller than a batch (``UnifiedLog.append``)."""
_DIFFERENCE = "message.timestamp.difference.max.ms"
"""Both limits of timestamps before KIP-937, and up to 3.9 where the newer one is not set."""


def limits_of(settings: TopicSettings, now_ms: int) -> Limits:
    """Return what a topic's settings, defaults among them, let in and keep."""
    retention = _number(settings, _RETENTION_MS)
    before, after = (_furthest(settings, f"message.timestamp.{each}.max.ms") for each in ("before", "after"))
    keeps_time = settings.get("message.timestamp.type", "CreateTime") == "CreateTime"
    deletes = "delete" in cleanup_policies(settings.get(CLEANUP_POLICY))
    return Limits(
        expired_before=now_ms - retention
        if deletes and keeps_time and retention is not None and retention >= 0
        else None,
        earliest=now_ms - before if keeps_time and before is not None else None,
        latest=now_ms + after if keeps_time and after is not None else None,
        largest=_smallest_size(settings)[0],
    )


def codec_on(settings: TopicSettings, codec: str) -> str:
    """Return the codec that batches have on the target: sent with another one, they are compressed again there, and
    limits are for what comes of it."""
    own = settings.get("compression.type", "producer")
    return codec if own == "producer" else own.replace("uncompressed", "none")


def _furthest(settings: TopicSettings, name: str) -> int | None:
    found = (_number(settings, each) for each in (name, _DIFFERENCE))
    return next((each for each in found if each is not None and each < _UNLIMITED), None)


def _smallest_size(settings: TopicSettings) -> tuple[int | None, str]:
    """Return how many bytes a batch may have at most, and by which setting."""
    known = ((_number(settings, name), name) for name in _SIZES)
    return min(((size, name) for size, name in known if size is not None), default=(None, _SIZES[0]))


def check_topic(topic: TopicRestore, path: str) -> Iterator[Finding]:
    """Yield what is to be known before a topic is restored. An error is what the target would refuse."""
    yield from _check_configs(topic, path)
    yield from _check_retention(topic, path)
    yield from _check_refusals(topic, path)
    policy, timestamps = topic.target.get(CLEANUP_POLICY), topic.target.get("message.timestamp.type")
    if is_compacted(topic.target) and topic.configs is not None and not is_compacted(topic.configs):
        text = f"{topic.topic} is compacted on the target, and was not in the source: only the last record of each key "
        yield Kind.TARGET_COMPACTS.at(path, f"{text}stays", expected="delete", found=policy)
    if timestamps == "LogAppendTime":
        text = (
            f"{topic.topic} has message.timestamp.type=LogAppendTime on the target: all records get the time of now. "
        )
        text += "Set it to CreateTime until they are restored to keep their timestamps"
        yield Kind.TIMESTAMPS_REPLACED.at(path, text, expected="CreateTime", found=timestamps)
    for each in topic.partitions:
        name = names.partition_directory(topic.topic, each.partition)
        if each.late:
            yield late_records(path, name, each.late, end_offset=each.end_offset)
        if each.undecided is not None:
            start, count = each.undecided
            consequence = f"no consumer of committed records gets the {count} records from there on, and they are not "
            consequence += "restored; --isolation read_uncommitted restores them, and aborted ones, too"
            yield open_transaction(path, start, consequence, of=name)
        if each.at_zero:
            text = f"{name}: {each.at_zero} records have the timestamp 0, which librdkafka cannot send; they get 1 ms"
            yield Kind.TIMESTAMP_ZERO.at(path, text)
        if each.unnameable:
            text = f"{name}: {each.unnameable} headers have a zero byte in their names, which librdkafka cannot send; "
            yield Kind.HEADER_NAME.at(path, f"{text}their records would be left out")


def refuse_errors(findings: Iterable[Finding]) -> None:
    """Raises :class:`UsageError` where a finding is an error, with the first."""
    errors = [each for each in findings if each.severity == "error"]
    if len(errors) == 1:
        raise UsageError(f"a finding is an error, and nothing was restored: {errors[0]}")
    if errors:
        raise UsageError(f"{len(errors)} findings are errors, and nothing was restored; the first: {errors[0]}")


def check_groups(groups: Iterable[GroupRestore], topics: Iterable[TopicRestore], path: str) -> Iterator[Finding]:
    """Committed offsets after what is restored, which have no place of their own on the target."""
    ends = {each.place: each.end_offset for topic in topics for each in topic.partitions}
    for each in groups:
        end = ends[each.place]
        if each.source_offset > end:
            name = names.partition_directory(*each.place)
            text = f"group {each.group}: its committed offset in {name} is after what is restored; on the target it "
            text += "stands after the last restored record"
            expected, found = f"an offset up to {end}", str(each.source_offset)
            yield Kind.GROUP_OFFSET_AFTER_END.at(path, text, offset=end, expected=expected, found=found)


def _check_configs(topic: TopicRestore, path: str) -> Iterator[Finding]:
    if topic.configs is None:
        text = f"{topic.topic}: the source has no metadata of its cluster, so that the topic's settings are not known"
        if not topic.exists:
            text += "; it is created with the target's defaults, and as many partitions as there are here"
        yield Kind.CONFIGS_UNKNOWN.at(path, text)
    elif topic.exists:
        for name in sorted(topic.configs):
            ours, theirs = topic.configs[name], topic.target.get(name)
            if ours != theirs:
                text = f"{topic.topic}: {name} is another on the target"
                yield Kind.CONFIG_DIFFERS.at(path, text, expected=ours, found=theirs)


def _check_retention(topic: TopicRestore, path: str) -> Iterator[Finding]:
    count, size = (sum(each.expired[at] for each in topic.partitions) for at in (0, 1))
    how = f"kafka-configs --alter --topic {topic.topic} --add-config"
    if count:
        text = f"{topic.topic}: {count} of {topic.records} records ({format_bytes(size)}) are older than the target's "
        text += f"retention.ms, and deleted within minutes, segment by segment. To keep them: {how} retention.ms=-1"
        found = f"retention.ms={topic.target.get(_RETENTION_MS)}"
        yield retention_deletes(path, text, found=found)
    limit = _number(topic.target, _RETENTION_BYTES)
    if limit is None or limit < 0 or "delete" not in cleanup_policies(topic.target.get(CLEANUP_POLICY)):
        return
    over = sum(max(0, each.size - limit) for each in topic.partitions)
    if over:
        text = f"{topic.topic}: about {format_bytes(over)} of {format_bytes(topic.size)} (before compression) are more "
        text += f"than the target's retention.bytes, and deleted within minutes. To keep them: {how} retention.bytes=-1"
        yield retention_deletes(path, text, found=f"retention.bytes={limit}")


def _check_refusals(topic: TopicRestore, path: str) -> Iterator[Finding]:
    limit, setting = _smallest_size(topic.target)
    how = f"kafka-configs --alter --topic {topic.topic} --add-config"
    if not topic.exists:
        how = f"first create {topic.topic} with"
    if topic.replicas is not None and topic.replicas < (needed := _number(topic.target, "min.insync.replicas") or 1):
        text = f"{topic.topic} has {topic.replicas} replicas in sync, and the target takes no record with fewer than "
        text += f"{needed}: start the brokers that are missing, or {how} min.insync.replicas={topic.replicas}"
        found = f"min.insync.replicas={needed}"
        yield Kind.TOO_FEW_REPLICAS.at(path, text, expected=f"at most {topic.replicas}", found=found)
    for each in topic.partitions:
        name = names.partition_directory(topic.topic, each.partition)
        if each.too_large:
            codec = codec_on(topic.target, each.codec)
            is_certain = codec == "none"
            text = f"{name}: {each.too_large} records are larger than the target's {setting}; the largest has "
            text += f"{format_bytes(each.largest[0])}, at offset {each.largest[1]}"
            text += "" if is_certain else f", and may pass once it is compressed ({codec})"
            # A batch has some 100 bytes beside the record; room for these is no harm.
            text += f"; {'' if is_certain else 'if not: '}{how} {setting}={each.largest[0] + 1000}"
            severity = "error" if is_certain else "warning"
            found = f"{setting}={limit}"
            yield Kind.RECORD_TOO_LARGE.at(path, text, severity=severity, offset=each.largest[1], found=found)
        if each.out_of_range:
            text = f"{name}: {each.out_of_range} records have timestamps that the target refuses; set its "
            text += "message.timestamp.before.max.ms and message.timestamp.after.max.ms until they are restored"
            yield Kind.TIMESTAMP_REFUSED.at(path, text)
        if each.without_key and is_compacted(topic.target):
            text = f"{name}: {each.without_key} records have no key, and a compacted topic refuses such"
            yield Kind.KEY_MISSING.at(path, text)


def _number(settings: Mapping[str, str], name: str) -> int | None:
    try:
        return int(settings[name])
    except (KeyError, ValueError):
        return None
