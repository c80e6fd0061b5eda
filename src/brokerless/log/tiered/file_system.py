"""The log directory that the objects of tiered storage are, as a file system of fsspec: ``tiered://orders-0::s3://...``.

Each partition is a directory with the names that Kafka gives; a segment's log is read by its chunks. Nothing can be
written. ``Location`` knows it by its protocol.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from fsspec import AbstractFileSystem  # pyright: ignore[reportMissingTypeStubs]

from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.backups.snapshot import SnapshotFile
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.checkpoint.offset_checkpoints import offset_checkpoint
from brokerless.log.checkpoint.partition_metadata import partition_metadata
from brokerless.log.names import SegmentFileKind
from brokerless.log.storage.files import File, RemoteFile
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.tiered.bucket import FRESH_S, Bucket, of_another_topic
from brokerless.log.tiered.decryption import BackupKeys, KeyPairs
from brokerless.log.tiered.detection import BucketPlace
from brokerless.log.tiered.layout import parse_layout
from brokerless.log.tiered.lineage import goes_on
from brokerless.log.tiered.listing.encrypted_backup import check_keys
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.manifest import ENCRYPTED, IndexName
from brokerless.log.tiered.object_names import ObjectKind
from brokerless.log.tiered.segment_log import end_of_local, open_log, read_index
from brokerless.log.tiered.segments import (
    LocalSegment,
    RemoteLog,
    RemoteSegment,
    SegmentsBeside,
    graded_left_out,
    segments_beside,
    segments_from,
    spans_of,
)

_MOST_BUCKETS = 8
_MOST_INDEXES, _LARGEST_KEPT = 8, 4 << 20
"""Indexes that are kept, and bytes of one."""
_INDEXES: tuple[tuple[IndexName, ObjectKind, SegmentFileKind], ...] = (
    ("offset", "index", "offset-index"),
    ("timestamp", "timeindex", "time-index"),
    ("transaction", "txnindex", "transaction-index"),
    ("producerSnapshot", "snapshot", "producer-snapshot"),
)
_buckets: list[tuple[tuple[Any, ...], Bucket]] = []
_lock = Lock()


@dataclass(frozen=True, slots=True)
class _DirectoryFile:
    """A file of a partition's directory."""

    size: int
    open: Callable[[str], File]
    """Returns the file. It takes a path for its findings."""
    identity: str | None = None


class TieredFileSystem(AbstractFileSystem):
    """Options: ``fo``, ``target_protocol`` and ``target_options`` are the bucket's, as of other chained file systems;
    ``start``: what names in it begin with, and more buckets, each with its options and such a start; ``layout``,
    ``key_pairs`` and ``unread`` as :class:`Bucket` has them; or in place of ``unread``, as text, the ``snapshot``."""

    protocol = "tiered"
    cachable = False

    def __init__(
        self,
        fo: str = "",
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        start: tuple[str, Sequence[tuple[str, Mapping[str, Any] | None, str]]] = ("", ()),
        layout: str | None = None,
        key_pairs: Mapping[str, bytes] | None = None,
        unread: Mapping[str, str] | str | None = None,
    ) -> None:
        super().__init__()
        self._indexes: dict[tuple[DirectoryEntry, IndexName], bytes] = {}
        if not fo:
            raise ValueError("the bucket is missing, as in tiered://orders-0::s3://bucket")
        url = fo if target_protocol in (None, "file", "local") else f"{target_protocol}://{fo}"
        places = [(Location(url, target_options), start[0])]
        places += ((Location(path, options), name) for path, options, name in start[1])
        self._bucket = _bucket_of(places, layout, KeyPairs(key_pairs or {}), unread or {})

    def ls(self, path: str, detail: bool = True, **more: Any) -> list[Any]:
        """Return the partitions, or the files of one."""
        path = _stripped(path)
        if not path:
            self._bucket.load_all()
            if isinstance(self._bucket.keys, BackupKeys):
                check_keys(self._bucket.folders().values(), self._bucket.keys, self._bucket.root.path)
            found = [_info(each, None) for each in self._bucket.folders()]
            found += [_info(each, member) for each, member in self._root_members().items()]
        elif (file := self._file_at(path)) is not None:
            found = [_info(path, file)]
        else:
            found = [_info(f"{path}/{each}", member) for each, member in self._members(path).items()]
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **more: Any) -> dict[str, Any]:
        path = _stripped(path)
        return _info(path, self._file_at(path))

    def invalidate_cache(self, path: str | None = None) -> None:
        self._bucket.refresh(FRESH_S)

    def refresh(self) -> None:
        """Lists the bucket again at the next call."""
        self._bucket.refresh()

    def open_file(self, path: str, shown: str) -> File:
        """Return a file for reading by position; ``shown``: its path in findings. Raises :class:`UnreadableError`."""
        member = self._file_at(_stripped(path))
        if member is None:
            raise IsADirectoryError(path)
        file = member.open(shown)
        file.path = shown
        file.identity = member.identity
        return file

    def findings(self, path: str) -> tuple[Finding, ...]:
        """Return what is wrong with the objects of a partition, or is not read of them."""
        log = self._bucket.log(self._folder(_stripped(path)))
        read = spans_of(log.segments)
        return tuple(graded_left_out(each, 0, read) for each in log.findings)

    def overlapping(self, path: str) -> frozenset[int]:
        """Start offsets of segments that begin within the one before."""
        return self._bucket.log(self._folder(_stripped(path))).overlapping

    @property
    def bucket(self) -> Bucket:
        """What the objects are read of."""
        return self._bucket

    def objects(self) -> dict[tuple[str, int], dict[str, int]]:
        """Return how many objects there are of each segment, by its partition (the topic's ID, and the number) and its
        ID."""
        found: dict[tuple[str, int], dict[str, int]] = {}
        for folder in self._bucket.folders().values():
            of_partition = found.setdefault((folder.name.topic_id, folder.name.partition), {})
            for (_, segment_id), objects in folder.objects.items():
                of_partition[segment_id] = of_partition.get(segment_id, 0) + len(objects)
        return found

    def segments_beside(
        self, path: str, topic_id: str | None, local: Sequence[LocalSegment], lineage: Epochs
    ) -> SegmentsBeside:
        """Return the segments of a partition that a log directory does not have: those before its first one, and those
        after its end. ``local``: the segments that it has; ``lineage``: the leader epochs of the local log."""
        folder = self._folder(_stripped(path))
        if topic_id is not None and folder.name.topic_id not in ("", topic_id):
            return segments_beside(RemoteLog((), frozenset(), (of_another_topic(folder),)), local)
        known = self._bucket.log_within(folder, lineage)
        if not local or max((start for start, _ in folder.objects), default=-1) < local[-1].base_offset:
            return segments_beside(known, local)
        own = self._bucket.log(folder)
        if not any(_is_ahead(each, local[-1]) for each in own.segments):
            return segments_beside(known, local)
        newest, end = self._bucket.lineage(folder), end_of_local(local[-1])
        if lineage and (not newest or newest[-1][0] < lineage[-1][0]):  # a local log that lost its end
            has_ended = bool(newest) and next(at for epoch, at in lineage if epoch > newest[-1][0]) <= end
            return segments_beside(known, local) if has_ended else segments_beside(known, local, end)
        later = self._bucket.log_within(folder, newest)
        after = segments_from(later.segments, end)
        if after and goes_on(newest, after[-1].end_offset, lineage, end):
            return replace(segments_beside(later, local, end), has_epochs=bool(newest))
        beside = segments_beside(known, local)
        if not after:
            return beside
        text = "not read: the bucket goes on after the end of the local log, which has other records before that"
        finding = Kind.REMOTE_AHEAD.at(after[0].log.path, text, severity="warning", offset=after[0].start_offset)
        return replace(beside, log=replace(beside.log, findings=(*beside.log.findings, finding)))

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> Any:
        raise PermissionError("tiered storage is only read")

    def _folder(self, directory: str) -> Folder:
        folders = self._bucket.folders()
        if directory not in folders:
            raise FileNotFoundError(directory)
        return folders[directory]

    def _file_at(self, path: str) -> _DirectoryFile | None:
        """Return the file at a path; None for a directory. Raises FileNotFoundError."""
        directory, _, name = path.partition("/")
        if not name:
            root = self._root_members() if directory else {}
            if directory and directory not in root:
                self._folder(directory)
            return root.get(directory)
        members = self._members(directory)
        if name not in members:
            raise FileNotFoundError(path)
        return members[name]

    def _root_members(self) -> dict[str, _DirectoryFile]:
        """The files of a snapshot's log directory: those of a node, and where logs begin that do not begin with a
        segment."""
        state = self._bucket.snapshot_state()
        files = {} if state is None else state.root_files()
        members = {name: self._stored(file) for name, file in files.items()}
        starts = {
            (folder.name.topic, folder.name.partition): folder.limits[0]
            for folder in self._bucket.folders().values()
            if folder.limits is not None and min((start for start, _ in folder.objects), default=0) < folder.limits[0]
        }
        if starts:
            members[names.LOG_START_OFFSET_CHECKPOINT] = _content(offset_checkpoint(starts))
        return members

    def _stored(self, file: SnapshotFile) -> _DirectoryFile:
        return _DirectoryFile(
            file.size_in_bytes, lambda path: _file_of(path, self._bucket.read_file(file, path)), file.sha256
        )

    def _members(self, directory: str) -> dict[str, _DirectoryFile]:
        folder = self._folder(directory)
        log = self._bucket.log(folder)
        if folder.files is None:  # which each opening of a file needs
            folder.files = self._members_of(folder, log.segments)
        return folder.files

    def _members_of(self, folder: Folder, segments: tuple[RemoteSegment, ...]) -> dict[str, _DirectoryFile]:
        members: dict[str, _DirectoryFile] = {}
        for at, segment in enumerate(segments):
            following = segments[at + 1].start_offset if at + 1 < len(segments) else None
            name = names.segment_file(segment.start_offset, "log")
            members[name] = _DirectoryFile(segment.size, _log_opener(segment, self._bucket.keys), segment.segment_id)
            members.update(self._companions(segment, following))
        if segments:
            members.update(self._own_files(folder, segments[-1]))
        if folder.limits is not None:
            members.update(self._of_snapshot(folder, segments))
        return members

    def _of_snapshot(self, folder: Folder, segments: tuple[RemoteSegment, ...]) -> dict[str, _DirectoryFile]:
        """Return what a snapshot has of a partition next to segments: its files, and an empty segment where it ends
        after them."""
        state = self._bucket.snapshot_state()
        found = {} if state is None else state.files_of(folder.directory)
        members = {name: self._stored(file) for name, file in found.items()}
        _, end = folder.limits or (0, 0)
        last = segments[-1].end_offset if segments else None
        if (0 if last is None else last + 1) < end or not segments:
            members[names.segment_file(end, "log")] = _content(b"")
        if not segments and folder.name.topic_id:
            members[names.PARTITION_METADATA] = _content(partition_metadata(folder.name.topic_id))
        return members

    def _companions(self, segment: RemoteSegment, following: int | None) -> dict[str, _DirectoryFile]:
        members: dict[str, _DirectoryFile] = {}
        for index, suffix, kind in _INDEXES:
            offset: int | None = segment.start_offset
            if kind == "producer-snapshot":  # it is of the offset after the segment
                offset = following if segment.end_offset is None else segment.end_offset + 1
            if offset is None:
                continue
            name = names.segment_file(offset, kind)
            if (member := self._index(segment, index, suffix)) is not None:
                members[name] = member
        return members

    def _own_files(self, folder: Folder, last: RemoteSegment) -> dict[str, _DirectoryFile]:
        members: dict[str, _DirectoryFile] = {}
        epochs = self._index(last, "leaderEpoch", "leader_epoch_checkpoint")
        if epochs is not None:
            members[names.LEADER_EPOCH_CHECKPOINT] = epochs
        if folder.name.topic_id:
            members[names.PARTITION_METADATA] = _content(partition_metadata(folder.name.topic_id))
        return members

    def _index(self, segment: RemoteSegment, index: IndexName, suffix: ObjectKind) -> _DirectoryFile | None:
        manifest = segment.manifest
        if manifest is None:
            entry = segment.objects.get(suffix)
            return None if entry is None else _DirectoryFile(entry.size or 0, lambda _: entry.location.open())
        if index not in manifest.indexes or "indexes" not in segment.objects:
            return None
        size = manifest.indexes[index][1]
        size = max(0, size - ENCRYPTED) if manifest.encryption is not None else size
        keys = self._bucket.keys
        return _DirectoryFile(size, lambda path: _file_of(path, self._read_index(segment, index, keys)))

    def _read_index(self, segment: RemoteSegment, index: IndexName, keys: KeyPairs) -> bytes:
        """An index, of which the last few are kept: a look-up needs it more than once."""
        key = segment.objects["indexes"], index
        if key not in self._indexes:
            data = read_index(segment, index, keys)
            if len(data) > _LARGEST_KEPT:
                return data
            while len(self._indexes) >= _MOST_INDEXES:
                self._indexes.pop(next(iter(self._indexes)), None)
            self._indexes[key] = data
        return self._indexes[key]


def _is_ahead(remote: RemoteSegment, last: LocalSegment) -> bool:
    """Return whether a remote segment may go on after the last local one, by its base offset and size: brokers copy
    nothing of the segment that they write to, so that this log is an old one, was cut, or has segments from other
    offsets on."""
    is_longer = remote.start_offset == last.base_offset and remote.size > last.size
    return remote.start_offset > last.base_offset or is_longer


def _stripped(path: str) -> str:
    return path.removeprefix("tiered://").strip("/")


def _info(name: str, file: _DirectoryFile | None) -> dict[str, Any]:
    """Return the entry of a file, or of a directory, as file systems of fsspec have it."""
    if file is None:
        return {"name": name, "type": "directory", "size": 0}
    identity = {} if file.identity is None else {"ETag": file.identity}
    return {"name": name, "type": "file", "size": file.size, **identity}


def _bucket_of(
    places: Sequence[BucketPlace], layout: str | None, keys: KeyPairs, unread: Mapping[str, str] | str
) -> Bucket:
    """Return the same bucket for the same places and keys, so that it is not listed for each file."""
    parts = (places, layout, keys, unread)
    with _lock:
        for known, bucket in _buckets:
            if known == parts:
                return bucket
        parsed = None if layout is None else parse_layout(layout)
        is_snapshot = isinstance(unread, str)
        bucket = Bucket(places, parsed, keys, {} if is_snapshot else unread, snapshot=unread if is_snapshot else None)
        _buckets.append((parts, bucket))
        del _buckets[:-_MOST_BUCKETS]
        return bucket


def _log_opener(segment: RemoteSegment, keys: KeyPairs) -> Callable[[str], File]:
    return lambda path: open_log(segment, path, keys)


def _content(data: bytes) -> _DirectoryFile:
    return _DirectoryFile(len(data), lambda path: _file_of(path, data))


def _file_of(path: str, data: bytes) -> File:
    return RemoteFile(path, io.BytesIO(data), len(data), None)
