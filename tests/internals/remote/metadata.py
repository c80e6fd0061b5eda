"""What brokers wrote into ``__remote_log_metadata`` and ``__cluster_metadata`` of the golden sets of tests.log.tiered.

``metadata.tar.zst`` has for each set ``data`` (the partitions of these topics that have records) and ``events.jsonl``:
all events, decoded by Kafka's RemoteLogMetadataSerde (4.4.0).
"""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path
from typing import Any

from tests.golden import CACHE
from tests.internals.written import batch
from tests.log.tiered import golden
from tests.once import unpacked_once

from brokerless.format.messages.writer import encode
from brokerless.format.plain_varint import encode_unsigned
from brokerless.internals.messages import messages

ARCHIVE = Path(__file__).parent / "metadata.tar.zst"
SETS = ("killed", "plain", "prefix")
TOPIC = "__remote_log_metadata"


@functools.cache
def metadata() -> Path:
    """The unpacked archive, which tests do not change."""
    return unpacked_once(ARCHIVE, CACHE.with_name("golden-tiered"))


def events(set_: str) -> list[dict[str, Any]]:
    """All events of a set, in the order of each metadata partition's log."""
    return [json.loads(line) for line in (metadata() / set_ / "events.jsonl").read_text().splitlines()]


def broker_directory(set_: str, target: Path) -> Path:
    """A copy of a set's log directory, with the topics of metadata."""
    shutil.copytree(golden() / set_ / "data", target)
    shutil.copytree(metadata() / set_ / "data", target, dirs_exist_ok=True)
    return target


def id_of(name: str) -> str:
    return f"{name:A<22}"


def event(segment: str, state: int, start: int | None = None, end: int = 0, **more: Any) -> bytes:
    """An event of a segment of ``orders-0`` of leader epoch 0; with ``start``, the first one."""
    of = {"name": "orders", "id": id_of("topic"), "partition": 0}
    fields = {
        "remoteLogSegmentId": {"topicIdPartition": of, "id": id_of(segment)},
        "brokerId": 1,
        "eventTimestampMs": 1,
        "customMetadata": None,
        "remoteLogSegmentState": state,
    }
    if start is None:
        return framed(1, fields)
    more = {"segmentLeaderEpochs": [{"leaderEpoch": 0, "offset": start}], **more}
    own = {"startOffset": start, "endOffset": end, "maxTimestampMs": 1, "segmentSizeInBytes": 1}
    return framed(0, {**fields, **own, **more})


def add_event(set_: str, directory: Path, segment_id: str, state: int) -> None:
    """Appends an event of a segment to the metadata in a copy of a set's log directory."""
    number = next(each["metadataPartition"] for each in events(set_) if each["segmentId"] == segment_id)
    last = [each for each in events(set_) if each["metadataPartition"] == number][-1]
    of = {"name": last["topic"], "id": last["topicId"], "partition": last["partition"]}
    fields = {
        "remoteLogSegmentId": {"topicIdPartition": of, "id": segment_id},
        "brokerId": 1,
        "eventTimestampMs": last["eventTimestampMs"] + 1,
        "customMetadata": None,
        "remoteLogSegmentState": state,
    }
    with (directory / f"{TOPIC}-{number}" / f"{0:020}.log").open("ab") as file:
        file.write(batch(last["metadataOffset"] + max(state, 2) - 1, [(None, framed(1, fields))]))


def framed(type_id: int, data: dict[str, Any]) -> bytes:
    message = messages(TOPIC).values[type_id]
    return b"".join(map(encode_unsigned, (1, type_id, 0))) + encode(message, 0, data)
