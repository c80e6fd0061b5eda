"""Positions of groups in partitions, and those past a partition's end, from where a group does not go on.

Consumers commit offsets to ``__consumer_offsets``; the share coordinator has the start offset of a share group, and the
states of records after it, in ``__share_group_state``. Where a log ends before a position, a share group gets none of
the records that are written below it, and other groups go by ``auto.offset.reset`` or end with a
LogTruncationException. Sources: ``OffsetMetadataManager``, ``ShareCoordinatorShard``, ``SharePartition`` (4.4.0),
KIP-320, KIP-932.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from brokerless.findings import Finding, Kind
from brokerless.format.messages.layouts import ZERO_UUID
from brokerless.format.messages.writer import encode
from brokerless.internals.coordinators import Entry, load_entries, share_key
from brokerless.internals.entries import RawRecord, decode_entry, last_by_key, read_entries
from brokerless.internals.messages import messages
from brokerless.internals.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from brokerless.log.directory import PartitionPath
from brokerless.progress import Report, ignore
from brokerless.values import Row

ResetTo = Literal["start", "end"]

SNAPSHOT, UPDATE = "SHARE_SNAPSHOT", "SHARE_UPDATE"
_NO_OFFSET, _NO_EPOCH = -1, -1
_NAMES = {CONSUMER_OFFSETS: "group", SHARE_GROUP_STATE: "share group"}


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's position in a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    """The offset from which the group goes on; for a share group, the offset up to which it has got records."""
    source: tuple[str, int]
    """The topic and partition that has the position."""
    key: bytes
    """The key of its record; for a share group, of a snapshot's record. The same holds for ``version`` and
    ``value``."""
    version: int
    value: Row

    @property
    def is_shared(self) -> bool:
        return self.source[0] == SHARE_GROUP_STATE


@dataclass(frozen=True, slots=True)
class LostPosition:
    """A position past the end of its partition, of which ``start_offset <= offset < end_offset`` is left."""

    position: GroupPosition
    start_offset: int
    end_offset: int
    was_past_end: bool = False
    """Whether it is past the end of what is there now, too, as a position that was set by hand may be."""

    def __str__(self) -> str:
        at = self.position
        group = f"{_NAMES[at.source[0]]} {at.group!r}"
        return f"{group} is at offset {at.offset} of {at.topic}-{at.partition}, which ends at {self.end_offset}"

    def finding(self, path: str) -> Finding:
        """Return the warning; ``path``: of what was read."""
        at = self.position
        text = f"{self}, so that it goes on by auto.offset.reset or ends with a LogTruncationException"
        if at.is_shared:
            text = f"{self}, so that it gets none of the records that are written before its own"
        expected, found = f"up to offset {self.end_offset}", f"offset {at.offset}"
        return Kind.POSITION_PAST_END.at(path, text, severity="warning", expected=expected, found=found)

    def row(self) -> Row:
        """Return it for programs."""
        at = self.position
        return {
            "group": at.group,
            "isShareGroup": at.is_shared,
            "topic": at.topic,
            "partition": at.partition,
            "offset": at.offset,
            "startOffset": self.start_offset,
            "endOffset": self.end_offset,
            "wasPastEnd": self.was_past_end,
        }

    def record(self, reset_to: ResetTo, now_ms: int) -> tuple[bytes, bytes]:
        """Return the key and value of the record that moves this position to the end or the start of what is left."""
        at = self.position
        offset = self.end_offset if reset_to == "end" else self.start_offset
        if not at.is_shared:
            value = {**at.value, "offset": offset, "commitTimestamp": now_ms}
            if "leaderEpoch" in value:  # with one, a consumer would look for where the logs diverged
                value["leaderEpoch"] = _NO_EPOCH
        else:
            start = min(at.value["startOffset"], offset)
            value = {
                **at.value,
                "snapshotEpoch": at.value["snapshotEpoch"] + 1,
                "startOffset": start,
                "stateBatches": _within(at.value["stateBatches"], start, offset) if reset_to == "end" else [],
                "writeTimestamp": now_ms,
            }
            value.pop("deliveryCompleteCount", None)  # it is counted again
        layout = messages(at.source[0]).values[int.from_bytes(at.key[:2], "big")]
        return at.key, at.version.to_bytes(2, "big") + encode(layout, at.version, value)


def read_positions(
    partitions: Iterable[PartitionPath],
    topics: Mapping[str, str],
    on_damage: Report,
    max_batch_bytes: int | None = None,
    end_of: Callable[[PartitionPath], int | None] = ignore,
    counts: Mapping[str, int] | None = None,
) -> Iterator[GroupPosition]:
    """Yield the positions that coordinators load from some partitions of Kafka's own topics; other partitions are
    passed over, and positions in partitions where no coordinator looks are reported. ``topics``: names by ID; positions
    in topics that had the name before are left out. ``end_of``: the offset before which such a partition is read, None
    for all of it. ``counts``: how many partitions Kafka's own topics have (:func:`partition_counts`); without it,
    as the metadata in the partitions' log directories has it."""
    ids = {name: topic_id for topic_id, name in topics.items()}
    found: dict[str, list[Entry[GroupPosition]]] = {CONSUMER_OFFSETS: [], SHARE_GROUP_STATE: []}
    there: dict[str, dict[int, PartitionPath]] = {topic: {} for topic in found}
    for each in partitions:
        if each.topic is None or each.topic not in found:
            continue
        number = each.partition or 0
        there[each.topic][number] = each
        is_classic = each.topic == CONSUMER_OFFSETS
        entries = (last_by_key if is_classic else read_entries)(
            each, each.topic, on_damage, end_offset=end_of(each), max_batch_bytes=max_batch_bytes
        )
        found[each.topic] += (_committed if is_classic else _shared)(
            number, entries, ids if is_classic else topics, on_damage
        )
    for topic, own in found.items():
        loaded, _, moved = load_entries(topic, own, there[topic], counts)
        yield from (each.value for each in loaded)
        for finding in moved:
            on_damage(finding)


def lost_positions(
    positions: Iterable[GroupPosition], limits_of: Callable[[GroupPosition], tuple[int, int] | None]
) -> Iterator[LostPosition]:
    """Yield those past the end of their partition. ``limits_of``: where the partition of a position starts and ends;
    None where that is not known."""
    for each in positions:
        limits = limits_of(each)
        if limits is not None and each.offset > limits[1]:
            yield LostPosition(each, *limits)


def _committed(
    number: int, entries: Iterable[RawRecord], ids: Mapping[str, str], on_damage: Report
) -> Iterator[Entry[GroupPosition]]:
    """Yield the committed offsets of a partition (``number``). ``ids``: of topics, by name."""
    found: dict[tuple[str, str, int], GroupPosition] = {}
    newest: dict[str, int] = {}
    for entry in entries:
        record = decode_entry(entry, CONSUMER_OFFSETS, on_damage)
        if record.type not in ("OFFSET_COMMIT", "LEGACY_OFFSET_COMMIT") or record.payload is None or entry.key is None:
            continue
        key, data = record.key_data, record.payload["data"]
        topic_id = data.get("topicId", ZERO_UUID)
        if topic_id not in (ZERO_UUID, ids.get(key["topic"])):
            continue
        source = CONSUMER_OFFSETS, number
        place = key["group"], key["topic"], key["partition"]
        newest[place[0]] = max(newest.get(place[0], entry.timestamp), entry.timestamp)
        version = int(record.payload["version"])
        found[place] = GroupPosition(*place, data["offset"], source, entry.key, version, data)
    for each in found.values():
        yield Entry(each.group, number, newest[each.group], each)


def _shared(
    at: int, entries: Iterable[RawRecord], topics: Mapping[str, str], on_damage: Report
) -> Iterator[Entry[GroupPosition]]:
    """Yield the positions of share groups in a partition (``at``). ``topics``: names by ID."""
    states: dict[tuple[str, str, int], Row] = {}
    keys: dict[tuple[str, str, int], tuple[bytes, int]] = {}
    newest: dict[tuple[str, str, int], int] = {}
    for entry in entries:
        record = decode_entry(entry, SHARE_GROUP_STATE, on_damage)
        if record.problem is not None or record.type not in (SNAPSHOT, UPDATE) or entry.key is None:
            continue
        place = record.key_data["groupId"], record.key_data["topicId"], record.key_data["partition"]
        newest[place] = max(newest.get(place, entry.timestamp), entry.timestamp)
        if record.payload is None:
            states.pop(place, None)
        elif record.type == SNAPSHOT:
            states[place] = record.payload["data"]
            keys[place] = entry.key, int(record.payload["version"])
        elif place in states:
            states[place] = _updated(states[place], record.payload["data"])
    for (group, topic_id, number), state in states.items():
        last = max((each["lastOffset"] for each in state["stateBatches"]), default=_NO_OFFSET)
        if topic_id in topics and state["startOffset"] != _NO_OFFSET:
            offset = max(state["startOffset"], last + 1)
            source = SHARE_GROUP_STATE, at
            key, version = keys[group, topic_id, number]
            position = GroupPosition(
                group, topics[topic_id], number, offset=offset, source=source, key=key, version=version, value=state
            )
            yield Entry(share_key(group, topic_id, number), at, newest[group, topic_id, number], position)


def _updated(state: Row, update: Row) -> Row:
    """A snapshot's state after an update; batches of offsets that both have stay in the order of the log
    (``ShareCoordinatorShard.merge``)."""
    start = state["startOffset"] if update["startOffset"] == _NO_OFFSET else update["startOffset"]
    epoch = state["leaderEpoch"] if update["leaderEpoch"] == _NO_EPOCH else update["leaderEpoch"]
    batches = [each for each in (*state["stateBatches"], *update["stateBatches"]) if each["lastOffset"] >= start]
    return {**state, "startOffset": start, "leaderEpoch": epoch, "stateBatches": batches}


def _within(batches: Iterable[Row], start_offset: int, end_offset: int) -> list[Row]:
    """Return the batches of offsets within a range, sorted. Where several have an offset, the last one counts."""
    found: list[Row] = []
    for new in batches:
        first, last = max(new["firstOffset"], start_offset), min(new["lastOffset"], end_offset - 1)
        if first > last:
            continue
        before = [{**each, "lastOffset": min(each["lastOffset"], first - 1)} for each in found]
        after = [{**each, "firstOffset": max(each["firstOffset"], last + 1)} for each in found]
        found = [each for each in (*before, *after) if each["firstOffset"] <= each["lastOffset"]]
        found.append({**new, "firstOffset": first, "lastOffset": last})
    return sorted(found, key=lambda each: each["firstOffset"])
