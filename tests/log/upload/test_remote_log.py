"""A segment that the plugin wrote is written again with its settings: the same objects, but for IDs, times and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.log.tiered import golden, key_pairs

from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.config import LogConfig
from brokerless.log.producer.snapshot import parse_producer_snapshot
from brokerless.log.producer.state import ProducerState, load_state
from brokerless.log.storage.location import Location
from brokerless.log.tiered.bucket import Bucket
from brokerless.log.tiered.decryption import KeyPairs
from brokerless.log.tiered.lineage import parse_lineage
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.manifest import IndexName
from brokerless.log.tiered.segment_log import open_log, read_index
from brokerless.log.tiered.segments import RemoteSegment
from brokerless.log.tiered.writing.encryption import PublicKey, new_data_key
from brokerless.log.tiered.writing.objects import ObjectFormat, UploadPlace
from brokerless.log.upload.remote_log import RemoteLogOutput, UploadedLog

KEYS = KeyPairs({name: path.read_bytes() for name, path in key_pairs().items()})
FORMATS: dict[str, tuple[ObjectFormat, str | None]] = {
    "plain": (ObjectFormat(4096), None),
    "compressed": (ObjectFormat(5000, "all"), None),
    "heuristic": (ObjectFormat(4096, "heuristic"), None),
    "encrypted": (ObjectFormat(4096), "key1"),
    "compressed-encrypted": (ObjectFormat(8192, "all"), "key2"),
}
OWN = LogConfig(index_interval_bytes=1024)
UNEQUAL = ("id", "eventTimestampMs")


def public_key(name: str) -> PublicKey:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    private = load_pem_private_key(KEYS[name], None)
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(name, pem)


def format_of(name: str) -> ObjectFormat:
    own, key = FORMATS[name]
    return own if key is None else ObjectFormat(own.chunk_size, own.compression, new_data_key([public_key(key)]))


def bucket_of(path: Path) -> Bucket:
    return Bucket([(Location(str(path)), "")], None, KEYS, {})


def log_of(segment: RemoteSegment) -> np.ndarray[Any, Any]:
    with open_log(segment, segment.log.path, KEYS) as file:
        return file.read(0, file.size).copy()


def state_before(segments: list[RemoteSegment], at: int) -> ProducerState:
    """What the segment before has of producers."""
    before = segments[at - 1] if at else None
    start = segments[at].start_offset
    if before is None or before.end_offset != start - 1:
        return ProducerState(start)
    data = np.frombuffer(read_index(before, "producerSnapshot", KEYS), np.uint8)
    return load_state(parse_producer_snapshot(data, ""), start)


def written_again(folder: Folder, segments: list[RemoteSegment], at: int, to: Path, how: ObjectFormat) -> RemoteSegment:
    segment = segments[at]
    epochs: Epochs = tuple(parse_lineage(read_index(segment, "leaderEpoch", KEYS)))
    name = folder.name
    place = UploadPlace(Location(str(to)), name.topic, name.topic_id, name.partition, broker_id=1)
    log = UploadedLog(segment.start_offset, state_before(segments, at), epochs, OWN)
    with RemoteLogOutput(place, log, how) as output:
        output.append(log_of(segment))
        (stored,) = output.finish()
    (own,) = bucket_of(to).folders().values()
    (again,) = bucket_of(to).log(own).segments
    assert (again.segment_id, again.end_offset) == (stored.segment_id, stored.end_offset)
    return again


def manifest_of(segment: RemoteSegment, data: bytes | None = None) -> dict[str, Any]:
    """Without what is of one upload only. Of keys, the name."""
    found = json.loads(segment.objects["rsm-manifest"].location.read(1 << 20) if data is None else data)
    own = found["remoteLogSegmentMetadata"]
    del own["remoteLogSegmentId"]["id"], own["eventTimestampMs"]
    if "encryption" in found:
        found["encryption"] = found["encryption"]["dataKey"].partition(":")[0]
    return found


def segments_of(name: str) -> list[tuple[Folder, list[RemoteSegment], int]]:
    bucket = bucket_of(golden() / name / "bucket")
    found = [(folder, list(bucket.log(folder).segments)) for folder in bucket.folders().values()]
    return [(folder, segments, at) for folder, segments in found for at in range(len(segments))]


def is_whole(segments: list[RemoteSegment], at: int) -> bool:
    """Whether all that is before a segment is here, so that its producers are known."""
    return not segments[at].start_offset if not at else segments[at - 1].end_offset == segments[at].start_offset - 1


def content_of(segment: RemoteSegment, index: IndexName) -> bytes | None:
    assert segment.manifest is not None
    return read_index(segment, index, KEYS) if index in segment.manifest.indexes else None


def producers_of(segment: RemoteSegment) -> list[tuple[int, ...]]:
    """By their IDs: a broker writes them in the order of its hash table."""
    found = parse_producer_snapshot(np.frombuffer(read_index(segment, "producerSnapshot", KEYS), np.uint8), "")
    assert not found.findings
    columns = (
        found.producer_ids, found.producer_epochs, found.last_sequences, found.last_offsets, found.offset_deltas,
        found.timestamps, found.coordinator_epochs, found.current_txn_first_offsets,
    )  # fmt: skip
    return sorted(zip(*(each.tolist() for each in columns), strict=True))


def broker_went_on(segments: list[RemoteSegment], at: int) -> bool:
    """Whether one run of the broker wrote a segment: at its start, a broker forgets how many bytes are after the last
    entry of an index."""
    manifest = segments[at].manifest
    return manifest is not None and len(manifest.epochs) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_a_segment_of_the_plugin_is_written_as_the_plugin_did(name: str, tmp_path: Path) -> None:
    compared = 0
    for number, (folder, segments, at) in enumerate(segments_of(name)):
        if not is_whole(segments, at):
            continue
        segment, place = segments[at], f"{folder.directory} {segments[at].start_offset}"
        again = written_again(folder, segments, at, tmp_path / str(number), format_of(name))
        assert (log_of(again) == log_of(segment)).all(), place
        if again.manifest is not None and again.manifest.encryption is None:
            assert again.log.location.read(1 << 20) == segment.log.location.read(1 << 20), place
        own, theirs = manifest_of(again), manifest_of(segment)
        assert producers_of(again) == producers_of(segment), place
        for index in ("leaderEpoch", "transaction"):
            assert content_of(again, index) == content_of(segment, index), f"{place} {index}"
        if not broker_went_on(segments, at):
            del own["segmentIndexes"], theirs["segmentIndexes"]
        else:
            compared += 1
            for index in ("offset", "timestamp"):
                assert content_of(again, index) == content_of(segment, index), f"{place} {index}"
        assert own == theirs, place
    assert compared > 1
