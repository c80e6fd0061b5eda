"""The content of the small files beside the segments, byte for byte as Kafka writes it.

Each function gives the bytes of a whole file, which :mod:`brokerless.log.checkpoint.readers` reads and
:func:`brokerless.log.storage.atomic.write_file` writes.

Sources, all 4.1.1: ``CheckpointFile``, ``LeaderEpochCheckpointFile``, ``OffsetCheckpointFile``, ``PartitionMetadata``,
``MetaProperties`` and ``PropertiesUtils``, ``ProducerStateManager.writeSnapshot``, ``Uuid``.
"""

from __future__ import annotations

import base64
import re
import time
import uuid
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.format import layouts


def leader_epoch_checkpoint(epochs: Iterable[tuple[int, int]]) -> bytes:
    """``leader-epoch-checkpoint`` (KIP-101): pairs of an epoch and its first offset, both growing."""
    return _checkpoint(f"{epoch} {offset}" for epoch, offset in epochs)


def offset_checkpoint(offsets: Mapping[tuple[str, int], int]) -> bytes:
    """A ``*-offset-checkpoint``: an offset for each (topic, partition); lines come in the mapping's order."""
    return _checkpoint(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def _checkpoint(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def partition_metadata(topic_id: str) -> bytes:
    """``partition.metadata`` (KIP-516), version 0. ``topic_id``: 16 bytes in base64 for URLs, without padding."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def meta_properties(
    cluster_id: str, node_id: int, directory_id: str | None = None, written_ms: int | None = None
) -> bytes:
    """``meta.properties`` of a KRaft node's log directory, version 1. A comment tells ``written_ms`` (ms since epoch),
    which is now if it is not given.

    Raises :class:`UsageError` for a cluster ID that is not printable ASCII.
    """
    if not re.fullmatch(r"[!-~]+", cluster_id):
        raise UsageError(f"a cluster ID of printable ASCII characters is needed, not {cluster_id!r}")
    at = time.gmtime(time.time() if written_ms is None else written_ms // 1000)
    # Kafka writes through java.util.Properties: a comment (an empty one), the date, and what its hash table gives.
    lines = ["#", f"#{_date(at)}", f"node.id={node_id}"]
    lines += [f"directory.id={directory_id}"] if directory_id is not None else []
    lines += ["version=1", "cluster.id=" + re.sub(r"([\\:=#!])", r"\\\1", cluster_id)]
    return "".join(f"{line}\n" for line in lines).encode()


def _date(at: time.struct_time) -> str:
    """As ``java.util.Date.toString``, whatever the locale."""
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.tm_wday]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[at.tm_mon - 1]
    return f"{day} {month} {at.tm_mday:02} {at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} UTC {at.tm_year}"


def producer_snapshot(entries: NDArray[np.void]) -> bytes:
    """``.snapshot``, version 1, of entries of :data:`layouts.PRODUCER_SNAPSHOT_ENTRY`, one for each producer."""
    # Numba is not imported before a snapshot is to be written.
    from brokerless.format.crc.kernels import crc32c_ranges

    header = np.zeros(1, layouts.PRODUCER_SNAPSHOT_HEADER)
    header["version"], header["count"] = 1, len(entries)
    data = np.concatenate([header.view(np.uint8), np.ascontiguousarray(entries).view(np.uint8).reshape(-1)])
    crc = np.zeros(1, np.uint32)
    crc32c_ranges(data, np.array([layouts.PRODUCER_SNAPSHOT_CRC_START]), np.array([len(data)]), crc)
    data[: header.itemsize].view(layouts.PRODUCER_SNAPSHOT_HEADER)["crc"] = crc
    return data.tobytes()


def random_id() -> str:
    """A new topic or directory ID (``Uuid.randomUuid``): base64 for URLs, never beginning with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
