"""Translates the topic ids in ``__consumer_offsets`` into those that the target's cluster has.

Since 4.1 a committed offset names its topic's id as well, and a coordinator has no offset for a topic with another one:
members of a group of the consumer protocol would begin again (``OffsetMetadataManager.isMismatchedTopicId``, 4.4.0;
KIP-848). An id has 16 bytes wherever it is, so that uncompressed batches, which brokers write here by default, keep
their sizes: only those bytes and the checksum change.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.findings import Finding, Kind
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.internals.metadata.cluster import Cluster
from brokerless.log.segment import scan
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.location import Location
from brokerless.progress import Report

ChangedTopicIds = Mapping[bytes, bytes]
"""Ids of the target's topics by those of the source's, 16 bytes each."""
_NONE = bytes(16)


def changed_topic_ids(offsets: Iterable[Mapping[str, Any]], source: Cluster | None, target: Cluster) -> ChangedTopicIds:
    """Return which ids become which. ``offsets``: committed ones, as ``internals`` has them. A topic's id in the source
    is the one in its metadata, or else in the latest commit; what was committed for an earlier topic of that name
    stays. Topics that the target does not have are left out."""
    latest: dict[str, tuple[int, str]] = {}
    for row in offsets:
        if row["topicId"] is not None:
            commit = row["commitTimestamp"] or 0, row["topicId"]
            latest[row["topic"]] = max(latest.get(row["topic"], commit), commit)
    old = {topic: topic_id for topic, (_, topic_id) in latest.items()}
    if source is not None:
        old = {topic: source.id_of(topic) or topic_id for topic, topic_id in old.items()}
    new = {topic: topic_id for topic in old if (topic_id := target.id_of(topic)) is not None}
    found = {_raw(old[topic]): _raw(topic_id) for topic, topic_id in new.items()}
    return {before: after for before, after in found.items() if before not in (after, _NONE)}


def check_share_groups(source: Cluster, target: Cluster, path: str) -> Iterator[Finding]:
    """Yield what of ``__share_group_state`` is of no use: its keys have topics' ids, and these decide the partition
    that a record is in (``SharePartitionKey``, 4.4.0), so that they are not translated."""
    changed = sorted(topic for topic_id, topic in source.topics.items() if target.id_of(topic) not in (None, topic_id))
    if changed:
        text = f"share groups' positions are kept by topics' ids, of {len(changed)} topics this cluster has others, "
        text += f"{changed[0]} among them: share groups begin again there"
        yield Kind.SHARE_GROUP_TOPIC_IDS.at(path, text)


def _raw(topic_id: str) -> bytes:
    return urlsafe_b64decode(topic_id + "==")


def translate(directory: Path, ids: ChangedTopicIds, report: Report) -> None:
    """Changes ids in the logs of a partition that is not visible yet. Compressed batches stay, and are reported."""
    for path in sorted(directory.glob("*.log")):
        compressed: list[int] = []
        descriptor = open_own(path, os.O_RDWR)
        try:
            with Location(str(path)).open() as file:
                for chunk in scan(file, report):
                    batches = chunk.batches
                    is_compressed = (batches.magic < layouts.MAGIC_V2) | (batches.codec != 0)
                    compressed += batches.entry_offset[is_compressed].tolist()
                    for start, data in _changed(chunk.buffer, batches.take(~is_compressed), ids):
                        os.pwrite(descriptor, data, chunk.base + start)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if compressed:
            text = f"{len(compressed)} batches from here on are compressed, and topic ids in them are not translated: "
            text += "groups of the consumer protocol begin again where these have their offsets"
            report(Kind.TOPIC_IDS_COMPRESSED.at(directory.name, text, offset=compressed[0]))


def _changed(buffer: NDArray[np.uint8], batches: Batches, ids: ChangedTopicIds) -> Iterator[tuple[int, bytes]]:
    """The batches that change, with their places in the buffer."""
    from brokerless.format.crc.kernels import crc32c_ranges

    for start, end in zip(batches.positions.tolist(), batches.ends.tolist(), strict=True):
        before = buffer[start:end].tobytes()
        after = before[layouts.BATCH_V2_SIZE :]
        for old, new in ids.items():
            after = after.replace(old, new)
        data = np.frombuffer(before[: layouts.BATCH_V2_SIZE] + after, np.uint8).copy()
        if data.tobytes() != before:
            checksum = np.zeros(1, np.uint32)
            crc32c_ranges(data, np.array([layouts.BATCH_CRC_START]), np.array([len(data)]), checksum)
            data[: layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)["crc"] = checksum
            yield start, data.tobytes()
