"""A snapshot as it is written: ``snapshots/TIME-ID.json``, and the segments that it has, ``TIME-ID.parquet``.

They come from a bucket that others may write to: each member is checked, and what it may be is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import pyarrow as pa
from msgspec import Meta

from brokerless.errors import UnreadableError
from brokerless.findings import Kind
from brokerless.log import names
from brokerless.log.own_file import OwnFile, digest, dump_table, parse_table, table_schema
from brokerless.log.storage.location import Location
from brokerless.values import (
    Int32,
    Int32OrNone,
    Int64,
    Int64OrNone,
    LenientValue,
    Sha256,
    Uuid,
    WrongJsonError,
    from_members,
    members,
    parse_object,
    to_json,
)

VERSION = 1
LIMIT = 256 << 20
"""Bytes of a snapshot that are read: some hundreds for each partition and each segment."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What a run may be called."""
_DIGEST = "sha256"
"""The member of a snapshot with the hash of all others."""
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
SnapshotId = Annotated[str, Meta(pattern=r"\A[0-9a-f]{8}\Z")]
KeyName = Annotated[str, Meta(pattern=r"\A[^:\x00-\x1f]{1,200}\Z")]
WrappedKey = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9+/]{2,8192}={0,2}\Z")]
_Xxh3 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]


def check_partition(topic: str, partition: int) -> None:
    """Raises :class:`WrongJsonError` for a name that no partition has."""
    if not names.is_partition(topic, partition):
        raise WrongJsonError("topic is no name of a topic")


class BackupConfig(LenientValue, frozen=True):
    """The content of ``config.json``, which marks a directory as a backup."""

    backup: Literal[1]
    id: SnapshotId
    created: Int64
    """When the backup was created, in ms since the epoch."""
    is_encrypted: bool = False
    """Whether all that is stored is encrypted."""


class RunKeys(LenientValue, frozen=True):
    """The content of ``keys/RUN.json``: the data key of a run, encrypted for each of some key pairs."""

    keys: Literal[1]
    run: SnapshotId
    id: Sha256
    """The data key's ID, by what manifests have of it (:func:`brokerless.log.tiered.decryption.data_key_id`)."""
    key_pair: KeyName
    """The key pair for which manifests have the data key."""
    data_keys: dict[KeyName, WrappedKey]
    """The encrypted data key (Base64) by the names of key pairs."""


CONFIG_FILE = OwnFile(
    BackupConfig, "the config.json of a backup", "name the directory or bucket that backup wrote to", 1 << 20
)
KEYS_FILE = OwnFile(RunKeys, "what a backup has of a run's data key", "only its snapshots are unreadable", 1 << 20)


class LastBatch(LenientValue, frozen=True):
    """The last batch of a partition, by its header."""

    first_offset: Int64
    last_offset: Int64
    size_in_bytes: Int64
    checksum: Int64


class OngoingTransaction(LenientValue, frozen=True):
    """A transaction without a marker."""

    producer_id: Int64
    first_offset: Int64


class LostRange(LenientValue, frozen=True):
    """Offsets that no replica has intact, the last one included; None where nothing shows how far the log went."""

    first_offset: Int64
    last_offset: Int64 | None
    causes: tuple[str, ...] = ()


class _OffsetsOfPartition(LenientValue, frozen=True):
    """Offsets of a partition, in a snapshot or in a segment."""

    topic: str
    topic_id: Uuid
    partition: Int32
    start_offset: Int64
    end_offset: Int64

    def __post_init__(self) -> None:
        check_partition(self.topic, self.partition)
        if self.end_offset < self.start_offset:
            raise WrongJsonError("endOffset is below startOffset")

    @property
    def place(self) -> tuple[str, int]:
        """The topic's ID, and the number: what a partition is known by."""
        return self.topic_id, self.partition


class SnapshotPartition(_OffsetsOfPartition, frozen=True):
    """A partition of a snapshot. It has ``start_offset <= offset < end_offset``."""

    committed: Int64OrNone
    """Offsets before this one are known to be committed; -1 where nothing is known."""
    records: Int64
    size_in_bytes: Int64
    new_size_in_bytes: Int64
    """Bytes of the partition that the run stored."""
    is_compacted: bool
    node_id: Int32OrNone
    """The node of the replica with the history that counts."""
    directory: str
    """The log directory of that replica."""
    epochs: tuple[tuple[Int32, Int64], ...] = ()
    """Leader epochs, each with its first offset."""
    last_batch: LastBatch | None = None
    open_transactions: tuple[OngoingTransaction, ...] = ()
    lost: tuple[LostRange, ...] = ()

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)


class MissingPartition(LenientValue, frozen=True):
    """A partition that the cluster's metadata has, and the snapshot has not."""

    topic: str
    topic_id: Uuid
    partition: Int32
    reason: str


class SnapshotFile(LenientValue, frozen=True):
    """A file that has no records: ``disk-1/meta.properties``, in ``files/SHA256``, which is that of what is stored: the
    file, or how it is encrypted."""

    name: str
    sha256: Sha256
    size_in_bytes: Int64
    stored_sha256: Sha256
    stored_size_in_bytes: Int64

    def __post_init__(self) -> None:
        if not _FILE_NAME.fullmatch(self.name) or {".", ".."} & set(self.name.split("/")):
            raise WrongJsonError("name is none of a file")


class SnapshotDisk(LenientValue, frozen=True):
    """A log directory that was read; its files are named ``disk-1/...``, in this order."""

    path: str
    node_id: Int32OrNone
    directory_id: str | None
    was_clean: bool
    """Whether the broker had stopped cleanly."""


class MetadataEnd(LenientValue, frozen=True):
    """How far the cluster's metadata goes, and which of the disks it is of, from 1 on."""

    end_offset: Int64
    epoch: Int32OrNone
    disk: Int32


class SegmentsFile(LenientValue, frozen=True):
    """The list of segments next to a snapshot."""

    sha256: Sha256
    rows: Int64


class UndecidedTransaction(LenientValue, frozen=True):
    """A transaction of which it is not known that the snapshot has its end in all partitions or in none."""

    transactional_id: str | None
    """None where no coordinator's log has it."""
    producer_id: Int64OrNone
    partitions: tuple[str, ...]
    """The names of the partitions that the transaction is in, as far as they are known."""


class TopicLeaders(LenientValue, frozen=True):
    """A topic of the cluster: each partition with the node whose replica is backed up, where each host stores what its
    node leads; -1 where there is none."""

    topic: str
    topic_id: Uuid
    leaders: tuple[tuple[Int32, Int32OrNone], ...]

    def __post_init__(self) -> None:
        check_partition(self.topic, 0)


class SnapshotCut(LenientValue, frozen=True):
    """A snapshot's cut: where the logs of running brokers ended."""

    began: Int64
    """When the search for these ends began (ms)."""
    ended: Int64
    """When all of them were found (ms)."""
    closed: Int64
    """For how many transactions the logs were read on until these ended."""
    open: tuple[UndecidedTransaction, ...] = ()
    """The transactions that had not ended in what was read."""


class Snapshot(LenientValue, frozen=True):
    """One run of a backup. Times are ms since the epoch."""

    snapshot: int
    id: SnapshotId
    name: str | None
    parent: SnapshotId | None
    """The snapshot before it, from which it went on."""
    tool: str
    created: Int64
    """When the snapshot was made; its name has this time."""
    ended: Int64
    cluster_id: str | None
    metadata: MetadataEnd | None
    disks: tuple[SnapshotDisk, ...]
    partitions: tuple[SnapshotPartition, ...]
    missing: tuple[MissingPartition, ...]
    files: tuple[SnapshotFile, ...]
    findings: tuple[dict[str, Any], ...]
    """As commands print them with ``--json``."""
    segments: SegmentsFile
    is_selection: bool = False
    """Whether only some topics or partitions were chosen."""
    key_pairs: tuple[KeyName, ...] = ()
    """The key pairs that read what the run encrypted."""
    cut: SnapshotCut | None = None
    """Where the logs of running brokers were cut; None if the brokers had stopped."""
    set_name: str | None = None
    """The set that this is of, where each host stores what its node leads."""
    parts: tuple[SnapshotId, ...] = ()
    """The runs of hosts that it was joined of; none for what one run has."""
    leaders: tuple[TopicLeaders, ...] = ()
    """Of the run of one host: all partitions of the cluster, which say whether a set has all."""

    @property
    def is_complete(self) -> bool:
        """Whether no partition is missing, and none has lost offsets."""
        return not self.missing and not any(each.lost for each in self.partitions)

    @property
    def is_part(self) -> bool:
        """Whether this is what one host stored for a set."""
        return self.set_name is not None and not self.parts

    @property
    def runs(self) -> tuple[str, ...]:
        """The IDs of the runs that stored it."""
        return self.parts or (self.id,)

    @property
    def size(self) -> int:
        """Bytes of all logs in the snapshot."""
        return sum(each.size_in_bytes for each in self.partitions)

    @property
    def new_size(self) -> int:
        """Bytes of logs that the run stored."""
        return sum(each.new_size_in_bytes for each in self.partitions)


class SnapshotSegment(_OffsetsOfPartition, frozen=True):
    """A segment of a snapshot.

    Its ``end_offset`` is its last offset. Of each of its objects, the size and the XXH3-128 are recorded.
    """

    segment_id: Uuid
    records: Int64
    max_timestamp: Int64
    size_in_bytes: Int64
    """Bytes of the segment's log."""
    sha256: Sha256
    """The SHA-256 of the segment's log."""
    log_size_in_bytes: Int64
    log_xxh3: _Xxh3
    indexes_size_in_bytes: Int64
    indexes_xxh3: _Xxh3
    manifest_size_in_bytes: Int64
    manifest_xxh3: _Xxh3
    producers: str | None = None
    """A snapshot of the producers after the segment (Base64), from which the next run goes on without a key; None where
    no segment is to follow."""


SEGMENTS = table_schema(SnapshotSegment)


def parse_snapshot(location: Location, data: bytes) -> Snapshot:
    """Raises :class:`UnreadableError` for what is no snapshot, or one of a later version."""
    try:
        found = parse_object(data)
        version = found.get("snapshot")
        if isinstance(version, int) and version > VERSION:
            text = f"a later brokerless wrote this snapshot (version {version}); read it with that"
            raise UnreadableError(location.path, text, Kind.SNAPSHOT_UNREADABLE)
        if found.pop(_DIGEST, None) != digest(found):
            raise WrongJsonError("its members are not those that were written, by its SHA-256")
        return from_members(found, Snapshot)
    except WrongJsonError as error:
        text = f"this is no snapshot of a backup: {error}"
        raise UnreadableError(location.path, text, Kind.SNAPSHOT_UNREADABLE) from error


def dump_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as it is written. Its last member is the SHA-256 of all others, as JSON without spaces whose
    members are sorted (``jq -cSj 'del(.sha256)'``)."""
    found = members(snapshot)
    return to_json({**found, _DIGEST: digest(found)})


def dump_segments(segments: Iterable[SnapshotSegment]) -> bytes:
    """Return the list of segments as Parquet."""
    return dump_table(pa.Table.from_pylist([members(each) for each in segments], SEGMENTS))


def parse_segments(location: Location, data: bytes) -> list[SnapshotSegment]:
    """Raises :class:`UnreadableError` for what is no list of segments."""
    from brokerless.arrow import rows

    try:
        table = parse_table(data, SEGMENTS)
        return [from_members(row, SnapshotSegment) for batch in table.to_batches() for row in rows(batch)]
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0][:200]
        text = f"this is not the list of segments of a snapshot: {reason}"
        raise UnreadableError(location.path, text, Kind.SNAPSHOT_UNREADABLE) from error
