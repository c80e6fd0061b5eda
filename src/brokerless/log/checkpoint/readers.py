"""The small files beside the segments: what Kafka notes about a partition's producers and epochs, and about a log
directory.

Each ``load_*`` gives a value whose fields are empty or None where the file is not what Kafka would read, and then says
why in its ``findings``. Kafka takes such a file as a whole or not at all, and so do these. None of them raises.

Sources, all 3.9.1: ``CheckpointFile``, ``OffsetCheckpointFile``, ``LeaderEpochCheckpointFile``,
``PartitionMetadataReadBuffer``, ``ProducerStateManager`` and its message ``ProducerSnapshot``, ``MetaProperties``,
``FileQuorumStateStore`` and its message ``QuorumStateData``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.errors import Finding, UnreadableError
from brokerless.format import layouts
from brokerless.log import names
from brokerless.log.storage.paths import StorageOptions, exists, is_remote, join, local, parent_directory, read_bytes

if TYPE_CHECKING:
    from brokerless.log.directory import PartitionPath

Int64s = NDArray[np.int64]
Findings = tuple[Finding, ...]

TEXT_LIMIT = 16 << 20
"""Bytes of a text file that is read: a line for each of some 300,000 partitions fits."""
SNAPSHOT_LIMIT = 256 << 20
"""Bytes of a producer snapshot that is read: 46 for each producer."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_NO_UUID = "A" * 22


@dataclass(frozen=True, slots=True)
class LeaderEpochs:
    """``leader-epoch-checkpoint`` (KIP-101): the first offset of each leader epoch; int64 arrays of one length."""

    file: str
    epochs: Int64s
    start_offsets: Int64s
    findings: Findings = ()


@dataclass(frozen=True, slots=True)
class OffsetCheckpoint:
    """A ``*-offset-checkpoint``: an offset for each (topic, partition) of a log directory."""

    file: str
    offsets: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    findings: Findings = ()


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """``partition.metadata`` (KIP-516): ``topic_id`` as Kafka writes it, in base64."""

    file: str
    version: int | None = None
    topic_id: str | None = None
    findings: Findings = ()


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """``meta.properties``: whose log directory it is. ``node_id`` is ``broker.id`` in version 0."""

    file: str
    version: int | None = None
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    properties: dict[str, str] = field(default_factory=dict[str, str])
    findings: Findings = ()


@dataclass(frozen=True, slots=True)
class QuorumState:
    """``quorum-state`` (KIP-595): the vote of a KRaft node. Version 0 has ``voters``, version 1 (KIP-853) a
    ``voted_directory_id``; -1 where there is no leader or vote."""

    file: str
    version: int | None = None
    leader_id: int | None = None
    leader_epoch: int | None = None
    voted_id: int | None = None
    voted_directory_id: str | None = None
    voters: tuple[int, ...] = ()
    findings: Findings = ()


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """``.snapshot``: what a broker knew of each producer when the log ended at ``offset`` (the file's name).

    Arrays of one length, int64. Of the producer's last batch: ``last_sequences``, ``last_offsets`` (-1 if there was
    none, as after a marker), ``offset_deltas`` (last offset less first), ``timestamps`` (ms).
    ``current_txn_first_offsets`` are -1 outside of a transaction.
    """

    file: str
    producer_ids: Int64s
    producer_epochs: Int64s
    last_sequences: Int64s
    last_offsets: Int64s
    offset_deltas: Int64s
    timestamps: Int64s
    coordinator_epochs: Int64s
    current_txn_first_offsets: Int64s
    findings: Findings = ()

    @property
    def first_sequences(self) -> Int64s:
        """Of the producer's last batch; sequences go on at 0 behind 2^31 - 1."""
        first = self.last_sequences - self.offset_deltas
        return np.where(first < 0, first + MAX_INT32 + 1, first)

    @property
    def first_offsets(self) -> Int64s:
        """Of the producer's last batch; means nothing where the last offset is -1."""
        return self.last_offsets - self.offset_deltas


def load_leader_epochs(path: str, storage_options: StorageOptions | None = None) -> LeaderEpochs:
    """Reads a ``leader-epoch-checkpoint``."""
    rows, findings = _text(path, storage_options, _leader_epochs, [], "checkpoint-corrupt")
    columns = np.array(rows, np.int64).reshape(-1, 2)
    epochs, start_offsets = columns[:, 0].copy(), columns[:, 1].copy()
    falls = np.flatnonzero((epochs[1:] <= epochs[:-1]) | (start_offsets[1:] <= start_offsets[:-1])) + 1
    if len(falls):
        at = int(falls[0])
        text = (
            "leader epochs and their start offsets must grow; a broker drops what does not fit when it reads this file"
        )
        expected = f"more than epoch {epochs[at - 1]} from offset {start_offsets[at - 1]}"
        found = f"epoch {epochs[at]} from offset {start_offsets[at]}"
        offset = int(start_offsets[at])
        findings = Finding("warning", "checkpoint-not-sorted", path, None, offset, text, expected, found), *findings
    return LeaderEpochs(path, epochs, start_offsets, findings)


def load_offset_checkpoint(path: str, storage_options: StorageOptions | None = None) -> OffsetCheckpoint:
    """Reads a recovery point, high watermark (``replication-``), log start or cleaner ``-offset-checkpoint``."""
    offsets, findings = _text(path, storage_options, _offsets, {}, "checkpoint-corrupt")
    return OffsetCheckpoint(path, offsets, findings)


def noted_offset(partition: PartitionPath, name: str, storage_options: StorageOptions | None = None) -> int | None:
    """What a checkpoint of the log directory that a partition is in notes of it, if anything.

    Raises :class:`UnreadableError` if the checkpoint cannot be read.
    """
    path = partition.path if is_remote(partition.path) else str(Path(local(partition.path)).resolve())
    log_directory = parent_directory(path)
    if partition.topic is None or log_directory is None:
        return None
    checkpoint = join(log_directory, name)
    if not exists(checkpoint, storage_options):
        return None
    return load_offset_checkpoint(checkpoint, storage_options).offsets.get((partition.topic, partition.partition or 0))


def was_clean(partition: PartitionPath, storage_options: StorageOptions | None = None) -> bool:
    """Whether the log directory that a partition is in has the mark of a clean stop."""
    path = partition.path if is_remote(partition.path) else str(Path(local(partition.path)).resolve())
    log_directory = parent_directory(path)
    return log_directory is not None and exists(join(log_directory, names.CLEAN_SHUTDOWN), storage_options)


def load_partition_metadata(path: str, storage_options: StorageOptions | None = None) -> PartitionMetadata:
    """Reads a ``partition.metadata``."""
    parsed, findings = _text(path, storage_options, _partition_metadata, (None, None), "partition-metadata-corrupt")
    return PartitionMetadata(path, *parsed, findings)


def load_meta_properties(path: str, storage_options: StorageOptions | None = None) -> MetaProperties:
    """Reads a ``meta.properties``."""
    properties, findings = _text(path, storage_options, _meta_properties, {}, "meta-properties-corrupt", "latin-1")
    version = int(properties.get("version", "0"))
    node_id = properties.get("node.id" if version else "broker.id")
    return MetaProperties(
        path,
        None if findings else version,
        properties.get("cluster.id"),
        None if node_id is None else int(node_id),
        properties.get("directory.id"),
        properties,
        findings,
    )


def load_quorum_state(path: str, storage_options: StorageOptions | None = None) -> QuorumState:
    """Reads a ``quorum-state``."""
    state, findings = _text(path, storage_options, _quorum_state, {}, "quorum-state-corrupt")
    return QuorumState(path, findings=findings, **state)


def load_producer_snapshot(path: str, storage_options: StorageOptions | None = None) -> ProducerSnapshot:
    """Reads a producer snapshot; one whose checksum does not match gives no entries, as Kafka then drops it."""
    entry = layouts.PRODUCER_SNAPSHOT_ENTRY
    entries, findings = _loaded(
        lambda: _producer_snapshot(np.frombuffer(read_bytes(path, SNAPSHOT_LIMIT, storage_options), np.uint8)),
        path,
        np.empty(0, entry),
        "producer-snapshot-corrupt",
    )
    return ProducerSnapshot(path, *(entries[name].astype(np.int64) for name in entry.names or ()), findings=findings)


class _NotAsKafkaWritesError(Exception):
    """What is wrong with a file; ``args`` are a finding's message, expected and found."""


Parsed = TypeVar("Parsed")


def _loaded(parse: Callable[[], Parsed], path: str, nothing: Parsed, kind: str) -> tuple[Parsed, Findings]:
    try:
        return parse(), ()
    except UnreadableError as error:
        reason = str(error).removeprefix(f"{path}: ")
        return nothing, (Finding("error", "unreadable-file", path, None, None, reason),)
    except _NotAsKafkaWritesError as error:
        text, expected, found = error.args
        return nothing, (Finding("error", kind, path, None, None, text, expected, found),)


def _text(
    path: str,
    storage_options: StorageOptions | None,
    parse: Callable[[list[str]], Parsed],
    nothing: Parsed,
    kind: str,
    encoding: str = "utf-8",
) -> tuple[Parsed, Findings]:
    """What ``parse`` makes of a file's lines, which end as in Java's ``BufferedReader``."""

    def lines() -> Parsed:
        data = read_bytes(path, TEXT_LIMIT, storage_options)
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError as error:
            raise _NotAsKafkaWritesError("the file is not text", "UTF-8", f"{error.reason} at {error.start}") from error
        found = re.split(r"\r\n|\r|\n", text)
        return parse(found if found[-1] else found[:-1])

    return _loaded(lines, path, nothing, kind)


def _integer(text: str, line: str, bits: int = 32) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise _NotAsKafkaWritesError("a malformed line", f"an int{bits} for {_short(text)}", _short(line))
    return value


def _uuid(text: str, line: str) -> str:
    if not _UUID.fullmatch(text):
        raise _NotAsKafkaWritesError("a malformed line", "16 bytes in base64 for a URL", _short(line))
    return text[:22]


def _entries(lines: list[str], width: int) -> list[list[str]]:
    """The entries of a checkpoint, each of ``width`` words; a file that ends before its count has none."""
    if lines and (version := _integer(lines[0], lines[0])) != 0:
        raise _NotAsKafkaWritesError("a checkpoint of an unknown version", "version 0", str(version))
    if len(lines) < 2:
        return []
    count = _integer(lines[1], lines[1])
    entries = [re.split(r"[ \t\x0b\f]+", line.rstrip(" \t\x0b\f")) for line in lines[2:]]
    for line, words in zip(lines[2:], entries, strict=True):
        if len(words) != width:
            raise _NotAsKafkaWritesError("a malformed line", f"{width} words", _short(line))
    if len(entries) != count:
        raise _NotAsKafkaWritesError("the checkpoint is not whole", f"{count} entries", str(len(entries)))
    return entries


def _leader_epochs(lines: list[str]) -> list[tuple[int, int]]:
    entries = _entries(lines, 2)
    return [(_integer(epoch, epoch), _integer(offset, offset, 64)) for epoch, offset in entries]


def _offsets(lines: list[str]) -> dict[tuple[str, int], int]:
    return {
        (topic, _integer(partition, " ".join((topic, partition, offset)))): _integer(offset, offset, 64)
        for topic, partition, offset in _entries(lines, 3)
    }


def _partition_metadata(lines: list[str]) -> tuple[int | None, str | None]:
    values: list[str] = []
    for line in [*lines, "", ""][:2]:
        words = re.split(r":[ \t\x0b\f]+", line)
        if len(words) != 2:
            raise _NotAsKafkaWritesError("a malformed line", "a name, a colon and a value", _short(line))
        values.append(words[1])
    version = _integer(values[0], lines[0])
    topic_id = _uuid(values[1], lines[1])
    if version < 0 or topic_id == _NO_UUID:
        raise _NotAsKafkaWritesError("the topic has no ID", "version 0 or more and an ID", _short(" ".join(values)))
    return version, topic_id


def _meta_properties(lines: list[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    # Kafka writes this file through java.util.Properties, which escapes colons, equal signs and the like.
    for line in (line.lstrip(" \t\f") for line in lines):
        match = re.match(r"((?:\\.|[^\\:= \t\f])*)[ \t\f]*[:=]?[ \t\f]*(.*)", line)
        if match and line[:1] not in ("", "#", "!"):
            key, value = (re.sub(r"\\(.)", r"\1", each) for each in match.groups())
            properties[key] = value
    version = _integer(properties.get("version", "0"), f"version={properties.get('version')}")
    if version not in (0, 1):
        raise _NotAsKafkaWritesError("meta.properties of an unknown version", "version 0 or 1", str(version))
    for name in ("node.id", "cluster.id") if version else ():
        if name not in properties:
            raise _NotAsKafkaWritesError("meta.properties is not whole", name, None)
    for name in ("broker.id", "node.id"):
        if name in properties:
            _integer(properties[name], f"{name}={properties[name]}")
    if "directory.id" in properties:
        _uuid(properties["directory.id"], f"directory.id={properties['directory.id']}")
    return properties


def _quorum_state(lines: list[str]) -> dict[str, Any]:
    line = lines[0] if lines else ""
    try:
        parsed: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _NotAsKafkaWritesError("this is not JSON", "an object in one line", _short(line)) from error
    state = cast(dict[str, Any], parsed if isinstance(parsed, dict) else {})
    version, voters = state.get("data_version"), cast(Any, state.get("currentVoters") or [])
    numbers = [state.get(name, -1) for name in ("leaderId", "leaderEpoch", "votedId")]
    listed = cast(list[Any], voters if isinstance(voters, list) else [voters])
    voter_ids = [cast(Any, each).get("voterId") if isinstance(each, dict) else None for each in listed]
    directory = state.get("votedDirectoryId")
    is_typed = all(type(each) is int for each in [version, *numbers, *voter_ids])
    if not is_typed or not isinstance(directory, str | None):
        text = "the quorum state lacks fields or has them in other types"
        raise _NotAsKafkaWritesError(text, "data_version, leaderId, leaderEpoch, votedId", _short(line))
    if version not in (0, 1):
        raise _NotAsKafkaWritesError("a quorum state of an unknown version", "version 0 or 1", str(version))
    names = ("leader_id", "leader_epoch", "voted_id")
    found: dict[str, Any] = dict(zip(names, numbers, strict=True))
    return {"version": version, "voted_directory_id": directory, "voters": tuple(voter_ids), **found}


def _producer_snapshot(data: NDArray[np.uint8]) -> NDArray[Any]:
    # Numba is not imported before a snapshot is to be read: listing must not wait for it.
    from brokerless.format.crc.kernels import crc32c_ranges

    header_size = layouts.PRODUCER_SNAPSHOT_HEADER.itemsize
    if len(data) < header_size:
        raise _NotAsKafkaWritesError("the file is too small", f"{header_size} bytes or more", f"{len(data)} bytes")
    header = data[:header_size].view(layouts.PRODUCER_SNAPSHOT_HEADER)[0]
    version, count = int(header["version"]), int(header["count"])
    if version != 1:
        raise _NotAsKafkaWritesError("a producer snapshot of an unknown version", "version 1", str(version))
    computed = np.zeros(1, np.uint32)
    start, end = np.array([layouts.PRODUCER_SNAPSHOT_CRC_START]), np.array([len(data)])
    crc32c_ranges(data, start, end, computed)
    if computed[0] != header["crc"]:
        text = "the checksum of the snapshot does not match"
        raise _NotAsKafkaWritesError(text, f"{int(computed[0]):#010x}", f"{int(header['crc']):#010x}")
    end = header_size + count * layouts.PRODUCER_SNAPSHOT_ENTRY.itemsize
    if not header_size <= end <= len(data):
        raise _NotAsKafkaWritesError("entries are missing", f"{count} entries", f"{len(data) - header_size} bytes")
    return data[header_size:end].view(layouts.PRODUCER_SNAPSHOT_ENTRY)


def _short(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")
