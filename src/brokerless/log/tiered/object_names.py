"""Names of remote segments' objects: in the layout of Aiven's plugin, and of Kafka's LocalTieredStorage.

Sources: ``ObjectKeyFactory`` of Aiven's tiered-storage-for-apache-kafka, ``RemoteLogSegmentFileset`` (4.4.0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.log import names
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import TIERED

ObjectKind = Literal[
    "log", "indexes", "rsm-manifest", "index", "timeindex", "txnindex", "snapshot", "leader_epoch_checkpoint"
]
_ID = "[A-Za-z0-9_-]{22}"
_OBJECT = re.compile(
    rf"(?P<offset>[0-9]{{20}})-(?P<id>{_ID})"
    r"\.(?P<kind>log|indexes|rsm-manifest|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"
)
_TOPIC = re.compile(rf"(?P<topic>.+)-(?P<id>{_ID})", re.DOTALL)
_PARTITION = re.compile(rf"(?P<topic>.+)-(?P<partition>0|[1-9][0-9]{{0,9}})-(?P<id>{_ID})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """What the name of an object says of the segment that it belongs to."""

    start_offset: int
    segment_id: str
    kind: ObjectKind


@dataclass(frozen=True, slots=True)
class PartitionName:
    """A partition's name, by the place of its objects."""

    topic: str
    topic_id: str
    partition: int
    is_plain: bool
    """Whether the objects are in Kafka's own layout, without manifests."""


def parse_object_name(name: str) -> ObjectName | None:
    """Parse the name of an object of a segment; None for any other."""
    match = _OBJECT.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_INT64:
        return None
    return ObjectName(int(match["offset"]), match["id"], cast("ObjectKind", match["kind"]))


def is_topic_directory(name: str) -> bool:
    """Return whether a directory may have objects of a topic, by its name."""
    return _TOPIC.fullmatch(name) is not None


def topic_of_directory(name: str) -> str | None:
    """Return the topic whose objects may be in a directory of this name, with or without a partition."""
    match = _PARTITION.fullmatch(name) or _TOPIC.fullmatch(name)
    return None if match is None else match["topic"]


def parse_partition(above: str, name: str) -> PartitionName | None:
    """Return the partition whose objects are in a directory: ``TOPIC-ID/PARTITION``, or ``TOPIC-PARTITION-ID``.
    ``above``: the name of the directory that it is in."""
    plain, topic = _PARTITION.fullmatch(name), _TOPIC.fullmatch(above)
    if topic is not None and re.fullmatch("0|[1-9][0-9]{0,9}", name):
        found = PartitionName(topic["topic"], topic["id"], int(name), is_plain=False)
    elif plain is not None:
        found = PartitionName(plain["topic"], plain["id"], int(plain["partition"]), is_plain=True)
    else:
        return None
    return found if found.partition <= MAX_INT32 else None


def partition_directory_of(path: str) -> str | None:
    """Return the name of the partition's directory that a path leads to or into, or whose objects it leads to:
    ``orders-0``; None where the path does not say so."""
    inside = path.removeprefix(TIERED).partition("::")[0] if path.startswith(TIERED) else path
    *_, above, directory, name = ("", "", *inside.rstrip("/").split("/"))
    found = next((each for each in (name, directory) if names.parse_partition_directory(each) is not None), None)
    if found is not None:
        return found
    of_objects = parse_partition(above, directory) or parse_partition(directory, name)
    return None if of_objects is None else names.partition_directory(of_objects.topic, of_objects.partition)


def object_name(start_offset: int, segment_id: str, kind: ObjectKind) -> str:
    """Return the name of an object of a segment."""
    return f"{start_offset:020d}-{segment_id}.{kind}"


def segment_directory(bucket: Location, topic: str, topic_id: str, partition: int) -> Location:
    """Return where the segments of a partition are."""
    return bucket / f"{topic}-{topic_id}" / str(partition)
