"""Pairs the partitions of a cluster with their mirrors by MirrorMaker 2's offset syncs.

MirrorMaker records now and then at which offset of the target a record of the source is (``OffsetSync``, in
``mm2-offset-syncs.ALIAS.internal``); the topic is compacted, so that few of these pairs are left. A mirror has the
topic's name, or that after the source's alias (``DefaultReplicationPolicy``, 4.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from brokerless.clusters.listing import open_directory
from brokerless.errors import UsageError
from brokerless.format.arrays import Int64s
from brokerless.internals.connect.topics import table_of_topic
from brokerless.internals.entries import decode_entry, internal_topic, read_entries
from brokerless.jobs.diff.pairs import Pair, Side, by_name, pair_of
from brokerless.kafka_names import TopicPartition
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.progress import Report

_TABLE = "mirrorOffsetSyncs"
_SEPARATORS = (".", "-", "_")


def load_offset_syncs(path: str, report: Report, max_batch_bytes: int) -> dict[TopicPartition, Int64s]:
    """Return pairs of offsets by the source's partition: int64, shape ``(n, 2)``, source and target, both growing.

    Raises :class:`UsageError` for a path without MirrorMaker's topic, and :class:`UnreadableError`."""
    found: dict[TopicPartition, dict[int, int]] = {}
    partitions = open_directory(Location(path)).partitions
    own = [(each, topic) for each in partitions if table_of_topic(topic := internal_topic(each)) == _TABLE]
    if not own:
        text = "there is no topic of MirrorMaker's offset syncs, such as mm2-offset-syncs.west.internal"
        raise UsageError(f"{path}: {text}")
    for partition, topic in own:
        assert topic is not None
        for entry in read_entries(partition, topic, report, max_batch_bytes=max_batch_bytes):
            record = decode_entry(entry, topic, report)
            if record.payload is None or entry.transaction in ("aborted", "open"):
                continue
            key, data = record.key_data, record.payload["data"]
            if data["offset"] >= 0:  # -1: MirrorMaker began again there
                found.setdefault((key["topic"], key["partition"]), {})[data["upstreamOffset"]] = data["offset"]
    return {name: _growing(pairs) for name, pairs in found.items()}


def _growing(pairs: Mapping[int, int]) -> Int64s:
    """The pairs by their source offsets, without those that go back in the target: MirrorMaker was started again."""
    kept: list[tuple[int, int]] = []
    for source, target in sorted(pairs.items(), reverse=True):
        if not kept or target < kept[-1][1]:
            kept.append((source, target))
    return np.array(kept[::-1], np.int64).reshape(-1, 2)


def pair_by_syncs(left: Side, right: Side, syncs: Mapping[TopicPartition, Int64s]) -> list[Pair]:
    """Return the left side's partitions, each with its mirror on the right one. Topics of MirrorMaker and of Connect
    are left out.

    Raises :class:`UsageError` where the offset syncs have none of them, or a topic may have several mirrors."""
    nameless = next((each for each in left.partitions if each.topic is None), None)
    if nameless is not None:
        raise UsageError(f"{nameless.path}: nothing says which partition this is; give its directory")
    theirs = by_name(right.partitions)
    is_named = left.is_one_partition and right.is_one_partition and len(right.partitions) == 1
    topics = sorted({topic for topic, _ in theirs})
    found: list[Pair] = []
    for name, each in sorted(by_name(left.partitions).items()):
        topic, number = name
        if table_of_topic(topic) is not None or names.is_internal(topic):
            continue
        mirror = right.partitions[0] if is_named else theirs.get((_mirror_of(topic, topics), number))
        one = replace(pair_of(name, each, mirror), topic_ids=None, anchors=syncs.get(name, np.zeros((0, 2), np.int64)))
        found.append(replace(one, is_restored=name in syncs))
    if found and not any(each.is_restored for each in found):
        raise UsageError("the offset syncs have no partition of these, so that nothing can be compared by them")
    return found


def _mirror_of(topic: str, known: list[str]) -> str:
    """Return the name of a topic's mirror; empty where there is none. Raises :class:`UsageError` for several."""
    mirrors = [each for each in known if any(each.endswith(f"{separator}{topic}") for separator in _SEPARATORS)]
    if topic in known and not mirrors:
        return topic
    if len(mirrors) > 1:
        text = f"{', '.join(mirrors)} may be mirrors of {topic}; compare the directories of a partition and its mirror"
        raise UsageError(text)
    return mirrors[0] if mirrors else ""
