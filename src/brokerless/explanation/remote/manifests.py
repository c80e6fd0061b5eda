"""Fields of a remote segment's manifest (``.rsm-manifest``): members of JSON, each with the name and what separates it
from the one before. The sizes of chunks, which are Base64 of zstd, are unfolded.

Source: ``SegmentManifestV1``, ``ChunkSizesBinaryCodec`` of Aiven's tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass

import numpy as np
import zstandard

from brokerless.explanation.builder import FieldBudget, FieldBuilder, Said, build
from brokerless.explanation.field import Field, Inflated
from brokerless.explanation.records import RecordRange
from brokerless.log.tiered.manifest import LIMIT, Manifest, parse_manifest
from brokerless.values import WrongJsonError

_NAME = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*)"\s*:\s*')
_BEGIN, _END = re.compile(r"\s*\{"), re.compile(r"\s*\}\s*")
_DEPTH = 10
_MOST_UNFOLDED = 16 << 20
_INT32 = np.dtype(">i4")

_NOTES = {
    "version": "of the manifest; 1 is the only one that is read",
    "chunkIndex.type": "fixed: chunks of one size in the object; variable: a list of sizes",
    "chunkIndex.originalChunkSize": "bytes of the segment in each chunk but the last",
    "chunkIndex.originalFileSize": "bytes of the segment",
    "chunkIndex.transformedChunkSize": "bytes that each chunk but the last takes in the object",
    "chunkIndex.finalTransformedChunkSize": "bytes that the last chunk takes in the object",
    "chunkIndex.transformedChunks": "Base64 of zstd: bytes that each chunk takes in the object",
    "segmentIndexes.*.position": "where the index begins in the object with the indexes",
    "segmentIndexes.*.size": "bytes that it takes there",
    "segmentIndexes.transaction": "null: no transaction was aborted in this segment",
    "compression": "whether each chunk is a zstd frame",
    "encryption.dataKey": "the name of the key pair, and the segment's AES key, encrypted with RSA-OAEP",
    "encryption.aad": "what AES-GCM authenticates besides what it encrypts",
    "remoteLogSegmentMetadata.remoteLogSegmentId.id": "of this copy of the segment; a part of the object's name",
    "remoteLogSegmentMetadata.remoteLogSegmentId.topicIdPartition.topicId": "KIP-516: in base64",
    "remoteLogSegmentMetadata.startOffset": "the segment's first offset",
    "remoteLogSegmentMetadata.endOffset": "its last offset",
    "remoteLogSegmentMetadata.maxTimestampMs": "its largest timestamp: retention by time goes by it",
    "remoteLogSegmentMetadata.brokerId": "the broker that copied it",
    "remoteLogSegmentMetadata.eventTimestampMs": "when copying began",
    "remoteLogSegmentMetadata.segmentLeaderEpochs.*": "a leader epoch's first offset in this segment",
    "remoteLogSegmentMetadata.txnIdxEmpty": "whether no transaction was aborted in this segment",
}
"""What members mean, by their paths; ``*`` is any name."""


def explain_manifest(data: bytes, chosen: RecordRange, budget: FieldBudget) -> tuple[Field, ...]:
    """Return the fields of a manifest. At most ``chosen.limit`` chunks are listed."""
    try:
        manifest, problem = parse_manifest(data), None
    except WrongJsonError as error:
        manifest, problem = None, str(error)

    def fill(builder: FieldBuilder) -> None:
        if len(data) > LIMIT:
            builder.expect(f"a manifest of at most {LIMIT} bytes")
        with builder.group("manifest") as group:
            if manifest is not None:
                group.note = _summary(manifest)
            _Members(builder, data.decode("latin-1"), chosen, manifest=manifest, cut_off=_cut_off(data)).take_object(
                "", 0
            )
            builder.take_rest("after the end of the object", "nothing")
            group.expected = problem and f"a manifest: {problem}"

    return build(data, 0, fill, budget)


def _cut_off(data: bytes) -> str:
    """Return the text for a file that ends within the JSON; an empty one for any other."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        if error.pos >= len(data.rstrip()) or error.msg.startswith("Unterminated"):
            return f"; the file is cut off: it ends within the JSON, at byte {len(data)}"
    except (ValueError, RecursionError):
        pass
    return ""


def _summary(manifest: Manifest) -> str:
    chunks = manifest.chunks
    how = " and ".join(["compressed"] * manifest.is_compressed + ["encrypted"] * (manifest.encryption is not None))
    text = f"offsets {manifest.start_offset} to {manifest.end_offset} of {manifest.topic}-{manifest.partition}, "
    text += f"{chunks.size} bytes, " + (f"{how} in chunks" if how else "stored unchanged")
    return f"{text}: the object has {chunks.stored_size} bytes, in {chunks.count} chunk{'s' * (chunks.count != 1)}"


def _places(manifest: Manifest) -> str:
    chunks = manifest.chunks
    if chunks.ends is not None or chunks.count < 2:
        return f"{chunks.count} chunk{'s' * (chunks.count != 1)}"
    text = f"{chunks.count} chunks; chunk N begins at byte N * {chunks.stored} of the object"
    return f"{text}, and the last has {chunks.stored_last} bytes"


@dataclass(slots=True)
class _Members:
    """The members of an object in JSON, as they are taken."""

    builder: FieldBuilder
    text: str
    """Has a character for each byte."""
    chosen: RecordRange
    manifest: Manifest | None
    cut_off: str

    def take_object(self, path: str, depth: int) -> None:
        begin = _BEGIN.match(self.text, self.builder.at)
        if begin is None or depth > _DEPTH:
            self.builder.expect(f"an object in JSON{self.cut_off}")
        self.builder.take("begin", begin.end() - self.builder.at)
        while (name := _NAME.match(self.text, self.builder.at)) is not None:
            self._take_member(path, name, depth)
        end = _END.match(self.text, self.builder.at)
        if end is None:
            self.builder.expect(f"a member, or the end of an object, in JSON{self.cut_off}")
        self.builder.take("end", end.end() - self.builder.at)

    def _take_member(self, path: str, name: re.Match[str], depth: int) -> None:
        own = f"{path}.{name[1]}" if path else name[1]
        if self.text[name.end() : name.end() + 1] == "{":
            with self.builder.group(name[1]) as group:
                group.note = _GROUP_NOTES.get(own, "")
                if own == "chunkIndex" and self.manifest is not None:
                    group.note += f": {_places(self.manifest)}"
                self.builder.take("name", name.end() - self.builder.at, name[1])
                self.take_object(own, depth + 1)
            return
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, name.end())
            value = json.loads(self.builder.data[name.end() : end])
        except (ValueError, RecursionError):
            self.builder.expect(f"a value in JSON{self.cut_off}")
        shown = value if isinstance(value, int | float | str | bool | None) else json.dumps(value)
        inflated = self._unfolded(value) if own == "chunkIndex.transformedChunks" and isinstance(value, str) else None
        self.builder.take(name[1] or "member", end - self.builder.at, shown, Said(_note(own)), inflated)

    def _unfolded(self, text: str) -> Inflated | None:
        """The sizes of chunks, as far as they can be read; what is wrong with them is said of the manifest."""
        try:
            packed = base64.b64decode(text, validate=True)
            if not 0 <= zstandard.frame_content_size(packed) <= _MOST_UNFOLDED:
                return None
            data = zstandard.ZstdDecompressor(max_window_size=1 << 25).decompress(packed)
        except (ValueError, zstandard.ZstdError):
            return None
        fields = build(data, 0, lambda builder: _take_sizes(builder, self.chosen), self.builder.budget)
        return Inflated("zstd", len(data), fields)


def _take_sizes(builder: FieldBuilder, chosen: RecordRange) -> None:
    count = builder.take_number("count", _INT32, lambda _: Said("chunks"))
    if count <= 0:
        return
    at, base = 0, 0
    if count > 1:
        base = builder.take_number("base", _INT32, lambda _: Said("bytes: each chunk but the last adds to this"))
        width = builder.take_number("bytes_per_value", np.dtype("i1"), lambda _: Said("of what each chunk adds"))
        if not 1 <= width <= 4:
            builder.expect("1 to 4 bytes for each value")
        shown = count - 1 if chosen.limit is None else min(count - 1, chosen.limit)
        for number in range(shown):
            size = base + int.from_bytes(builder.data[builder.at : builder.at + width], "big")
            if builder.left < width:
                builder.expect(f"{count - 1} values of {width} bytes")
            said = Said(f"base + value: bytes {at} to {at + size - 1} of the object")
            builder.take(f"chunk[{number}]", width, size, said)
            at += size
        rest = (count - 1 - shown) * width
        if rest:
            left = builder.data[builder.at : builder.at + rest]
            at += sum(base + int.from_bytes(left[each : each + width], "big") for each in range(0, len(left), width))
            builder.take("chunks", len(left), None, Said(f"{count - 1 - shown} more; --records shows them"))
    size = int.from_bytes(builder.data[builder.at : builder.at + 4], "big", signed=True)
    name = f"chunk[{count - 1}]"
    builder.take_number(name, _INT32, lambda _: Said(f"the last one: bytes {at} to {at + size - 1} of the object"))


_GROUP_NOTES = {
    "chunkIndex": "how the segment is cut into chunks, and where each is in the object",
    "segmentIndexes": "where each index is in the object with the indexes",
    "encryption": "how the data key is encrypted; each chunk and index has 12 bytes before and 16 after it",
    "remoteLogSegmentMetadata": "the record of __remote_log_metadata, but for size and custom metadata",
}


def _note(path: str) -> str:
    if path in _NOTES:
        return _NOTES[path]
    above, _, name = path.rpartition(".")
    group, _, _ = above.rpartition(".")
    return _NOTES.get(f"{above}.*") or _NOTES.get(f"{group}.*.{name}") or ""
