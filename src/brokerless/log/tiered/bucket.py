"""Partitions and their remote segments in a bucket, or in a directory with the same objects.

What is listed is kept for a moment, as a directory is listed several times while it is resolved.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from threading import RLock

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.log import names
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import SnapshotFile
from brokerless.log.backups.state import SnapshotState, load_state
from brokerless.log.checkpoint.leader_epochs import Epochs
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered import object_names
from brokerless.log.tiered.decryption import BackupKeys, KeyPairs
from brokerless.log.tiered.detection import DEPTH, MOST_LISTED, BucketPlace
from brokerless.log.tiered.layout import Layout
from brokerless.log.tiered.lineage import parse_lineage, read_lineage
from brokerless.log.tiered.listing.encrypted_backup import data_keys, read_stored_file
from brokerless.log.tiered.listing.folder import Folder, FolderObjects
from brokerless.log.tiered.listing.snapshot_folders import folders_of
from brokerless.log.tiered.manifest import LIMIT, Manifest, parse_manifest
from brokerless.log.tiered.object_names import ObjectKind, PartitionName
from brokerless.log.tiered.remote_history import Elsewhere, InBucket, Standing, is_read_alone, standing_of, verdict_of
from brokerless.log.tiered.segment_log import check_ends, read_index
from brokerless.log.tiered.segments import (
    RemoteLog,
    RemoteSegment,
    SegmentObjects,
    check_segments,
    choose,
    graded_damage,
    have_same_log,
    manifest_invalid,
    needs_lineage,
    newest,
    place_of,
    spans_of,
)
from brokerless.offset_spans import without
from brokerless.values import WrongJsonError

FRESH_S = 0.5
"""How many seconds a listing is kept for the next request, and so many times as long as it took."""
_TIMES_KEPT = 4
_MOST_COPIES = 2
"""Copies of a segment that are read next to it, in case that it is damaged."""


class Bucket:
    """The partitions in one bucket or several, as they are listed again from time to time.

    ``places``: where the objects are; there are copies of segments (``layout``: how they are named) in the first one
    only. ``unread``: IDs of segments that brokers do not read, with their last states. ``snapshot``: the name of the
    files of a backup's snapshot, whose segments alone are read.
    """

    def __init__(
        self,
        places: Sequence[BucketPlace],
        layout: Layout | None,
        keys: KeyPairs,
        unread: Mapping[str, str],
        *,
        snapshot: str | None = None,
    ) -> None:
        self.root, self._places, self._layout, self._unread = places[0][0], places, layout, unread
        self.keys = keys if snapshot is None else BackupKeys(keys, lambda: data_keys(BackupPlace(self.root)))
        self._folders: dict[str, Folder] | None = None
        self._listed_at = self._took_s = 0.0
        self._seen: list[str] = []
        self._listed: list[Folder] = []
        self._lock = RLock()
        self._snapshot = snapshot
        self._state: SnapshotState | None = None

    def refresh(self, kept_s: float = 0) -> None:
        """Lists again at the next call, unless that was done within so many seconds."""
        with self._lock:
            if time.monotonic() - self._listed_at >= (kept_s and kept_s + _TIMES_KEPT * self._took_s):
                self._folders = None

    def folders(self) -> Mapping[str, Folder]:
        """Return the partitions, by the name that their directories have in a log directory."""
        with self._lock:
            if self._folders is None:
                began, known = time.monotonic(), self._known()
                if self._layout is None:
                    found = _merged(each for place in self._places for each in _list(*place, known))
                else:
                    found = self._list_copies(self._layout)
                if self._layout is not None and not found:
                    raise UnreadableError(self.root.path, _nothing_matches(self._layout, self._seen))
                if self._state is not None and not self._state.is_current:
                    self._state = None
                if (state := self.snapshot_state()) is not None:
                    found = folders_of(state, found, self.root)
                self._listed = found
                self._folders = _by_name(found)
                for each in self._folders.values() if self._unread else ():
                    _leave_out(each, self._unread)
                self._listed_at = time.monotonic()
                self._took_s = self._listed_at - began
            return self._folders

    def snapshot_state(self) -> SnapshotState | None:
        """Return the snapshot of a backup that is read, if one is. Raises :class:`UnreadableError`."""
        if self._state is None and self._snapshot is not None:
            self._state = load_state(self.root, self._snapshot)
        return self._state

    def read_file(self, file: SnapshotFile, shown: str) -> bytes:
        """Return a file of the snapshot that is no segment. ``shown``: its path in messages. Raises
        :class:`UnreadableError`."""
        return read_stored_file(BackupPlace(self.root), file, self.keys, shown)

    def load_all(self) -> None:
        """Reads the manifests of all partitions together, before each of them needs its own."""
        with self._lock:
            began, folders = time.monotonic(), self.folders().values()
            missing = [(each, entry) for each in folders if each.log is None for entry in _manifests_of(each)]
            missing = [(each, entry) for each, entry in missing if entry not in each.manifests]
            loaded = side_by_side(lambda each: _load_manifest(each[1]), missing, self.root.is_remote)
            for (folder, entry), manifest in zip(missing, loaded, strict=True):
                folder.manifests[entry] = manifest
            self._took_s += time.monotonic() - began
            self._listed_at = time.monotonic()

    def _known(self) -> dict[DirectoryEntry, Manifest | Finding]:
        """Manifests of the last listing: what has the same name and ETag is the same."""
        of_all = (each.manifests for each in self._listed)
        return {entry: each for of_one in of_all for entry, each in of_one.items() if isinstance(each, Manifest)}

    def log(self, folder: Folder) -> RemoteLog:
        """Return the segments of a partition. What is wrong with their objects is in the findings."""
        with self._lock:
            if folder.log is None:
                folder.log = self._read_log(folder)
            return folder.log

    def log_within(self, folder: Folder, lineage: Epochs) -> RemoteLog:
        """Return the remote segments of a log whose leader epochs are known."""
        with self._lock:
            return self._read_log(folder, lineage) if lineage else self.log(folder)

    def inventory(self) -> list[SegmentObjects]:
        """Return the objects of all segments, also of those that are not read."""
        self.folders()
        found: list[SegmentObjects] = []
        for folder in self._listed:
            objects = {**folder.objects, **folder.left_out}
            load_manifests(folder, [each["rsm-manifest"] for each in objects.values() if "rsm-manifest" in each])
            name = folder.name
            for (start_offset, segment_id), own in sorted(objects.items()):
                known = _own_manifest(folder, (start_offset, segment_id), own)
                place = name.topic, name.topic_id, name.partition, start_offset, segment_id
                found.append(SegmentObjects(*place, own, known, name.is_plain))
        return found

    @property
    def is_part(self) -> bool:
        """Whether a place is the directory of a topic, or objects are chosen by a prefix: there may be others."""
        return any(_is_part(*each) for each in self._places)

    def _read_log(self, folder: Folder, lineage: Epochs = ()) -> RemoteLog:
        findings, segments = list(folder.findings), list[RemoteSegment]()
        load_manifests(folder, _manifests_of(folder))
        for key, objects in sorted(folder.objects.items()):
            manifest = None if folder.name.is_plain else _manifest_of(folder, key, objects)
            if isinstance(manifest, Finding):
                findings.append(manifest)
            else:
                segments.append(RemoteSegment(*key, objects, manifest))
        findings += check_segments(segments)
        segments, wrong_ends = check_ends([each for each in segments if "log" in each.objects], self.keys)
        findings += wrong_ends
        if not lineage and needs_lineage(segments):
            lineage = self._lineage_of(segments)
        log = choose(segments, lineage)
        chosen = _with_copies(folder, log.segments, self._unread)
        graded = graded_damage(findings, chosen)
        return replace(log, segments=chosen, findings=(*graded, *log.findings))

    def lineage(self, folder: Folder) -> Epochs:
        """Return the leader epochs up to the end of a partition's last segment; nothing where they are not known."""
        with self._lock:
            segments = self.log(folder).segments
            if segments and segments[-1].manifest is None:
                entry = segments[-1].objects.get("leader_epoch_checkpoint")
                return () if entry is None else read_lineage(entry.location)
            return self._lineage_of(segments)

    def _lineage_of(self, segments: Sequence[RemoteSegment]) -> Epochs:
        """Return the lineage by the index of the newest segment, which has the epochs before it as well."""
        last = newest(segments)
        if last is None:
            return ()
        with suppress(UnreadableError):
            return parse_lineage(read_index(last, "leaderEpoch", self.keys)) or last.epochs
        return last.epochs

    def _list_copies(self, layout: Layout) -> list[Folder]:
        found: dict[tuple[str, int], Folder] = {}
        self._seen = []
        level = [("", self.root)]
        for depth in range(layout.depth + 1):
            entries = side_by_side(lambda each: _entries(each[1], is_needed=not each[0]), level, self.root.is_remote)
            following: list[tuple[str, Location]] = []
            for (prefix, _), inner in zip(level, entries, strict=True):
                for each in inner:
                    if depth == layout.depth or not each.is_directory:
                        self._seen += [prefix + each.name] * (len(self._seen) < MOST_LISTED)
                    if each.is_directory:
                        following.append((f"{prefix}{each.name}/", each.location))
                        continue
                    copy = layout.parse(prefix + each.name) if depth == layout.depth else None
                    if copy is None:
                        continue
                    named = PartitionName(copy.topic, "", copy.partition, is_plain=True)
                    folder = found.setdefault((copy.topic, copy.partition), Folder(named, self.root, {}))
                    stem = each.path.rpartition(".")[0]
                    folder.objects.setdefault((copy.start_offset, stem), {})[copy.kind] = each
            level = following
        return list(found.values())


def _list(root: Location, start: str, known: Mapping[DirectoryEntry, Manifest | Finding]) -> list[Folder]:
    """The partitions below a directory. ``start``: what names in it begin with. ``known``: manifests that were read."""
    found: list[Folder] = []
    listed = 0
    level = [("", root, True)]
    for depth in range(DEPTH + 3):
        entries = side_by_side(lambda each: _entries(each[1], is_needed=each[2]), level, root.is_remote)
        following: list[tuple[str, Location, bool]] = []
        for (above, location, _), inner in zip(level, entries, strict=True):
            name = location.name
            if not depth:
                above = "" if location.parent is None else location.parent.name
                inner = [each for each in inner if each.name.startswith(start)]
            named = object_names.parse_partition(above, name)
            objects = {} if named is None else _objects(inner)
            if named is not None and objects:
                found.append(Folder(named, location, objects))
                continue
            is_topic = object_names.is_topic_directory(name)
            for each in inner:
                is_named = object_names.is_topic_directory(each.name) or is_topic
                listed += not is_named
                if each.is_directory and (is_named or (depth < DEPTH and listed <= MOST_LISTED)):
                    following.append((name, each.location, False))
        level = following
    for folder in found:
        folder.manifests.update((each, known[each]) for each in _manifests_of(folder) if each in known)
    return list(side_by_side(_named_by_manifest, found, root.is_remote))


def _is_part(root: Location, start: str) -> bool:
    above = root.parent
    names_ = root.name, "" if above is None else above.name
    return bool(start) or any(object_names.is_topic_directory(each) for each in names_)


def _merged(found: Iterable[Folder]) -> list[Folder]:
    """Folders, those of one partition as one: its segments may be in several buckets."""
    folders: dict[PartitionName, Folder] = {}
    for each in found:
        known = folders.setdefault(each.name, each)
        if known is not each:
            known.objects = {**each.objects, **known.objects}
            known.manifests |= each.manifests
    return list(folders.values())


def _nothing_matches(layout: Layout, seen: Sequence[str]) -> str:
    """Return why there are no copies: what the pattern is, and what is there in its place."""
    text = f"nothing here has a name as --layout {layout.text!r}"
    if not seen:
        return f"{text}, of which the last part is {layout.depth} directories down: there are no files"
    return f"{text}; there are {', '.join(seen[:3])}{', ...' if len(seen) > 3 else ''}"


def _mismatch(manifest: Manifest, path: str, name: PartitionName, key: tuple[int, str]) -> Finding | None:
    """Return the finding about a manifest that is not the one of a segment (``key``) of a partition."""
    if (manifest.start_offset, manifest.segment_id) != key:
        text = "the manifest is of another segment than its name"
        expected, found = (f"offset {at}, ID {id}" for at, id in (key, (manifest.start_offset, manifest.segment_id)))
    elif (manifest.partition, manifest.topic_id) != (name.partition, name.topic_id):
        text = "the manifest is of another partition than the directory that it is in"
        expected, found = (f"partition {each.partition} of topic ID {each.topic_id}" for each in (name, manifest))
    else:
        return None
    return manifest_invalid(path, text, key[0], expected=expected, found=found)


def _manifests_of(folder: Folder) -> list[DirectoryEntry]:
    return [each["rsm-manifest"] for each in folder.objects.values() if "rsm-manifest" in each]


def load_manifests(folder: Folder, entries: Sequence[DirectoryEntry]) -> None:
    """Reads those manifests that were not read yet. An invalid one becomes a finding."""
    missing = [each for each in entries if each not in folder.manifests]
    loaded = side_by_side(_load_manifest, missing, folder.location.is_remote)
    folder.manifests.update(zip(missing, loaded, strict=True))


def _load_manifest(entry: DirectoryEntry) -> Manifest | Finding:
    try:
        return parse_manifest(_read(entry))
    except UnreadableError as error:
        return error.finding(entry.path)
    except WrongJsonError as error:
        return manifest_invalid(entry.path, f"not read: {error}")


def _read(entry: DirectoryEntry) -> bytes:
    """An object by one request: its size is known."""
    if not entry.location.is_remote or entry.size is None or entry.size > LIMIT:
        return entry.location.read(LIMIT)
    return entry.read(0, entry.size)


def _named_by_manifest(folder: Folder) -> Folder:
    """A folder with the topic that a manifest names, if it is that of its segment: what its directory is called may
    begin with a prefix, and ends with the topic."""
    for key, objects in sorted(folder.objects.items(), reverse=True):
        if (entry := objects.get("rsm-manifest")) is None:
            continue
        load_manifests(folder, [entry])
        manifest = _own_manifest(folder, key, objects)
        if manifest is not None and folder.name.topic.endswith(manifest.topic):
            folder.name = replace(folder.name, topic=manifest.topic)
            break
    return folder


def _manifest_of(
    folder: Folder, key: tuple[int, str], objects: Mapping[ObjectKind, DirectoryEntry]
) -> Manifest | Finding | None:
    """Return the manifest of a segment, or why it has none; None where it was not read."""
    if (entry := objects.get("rsm-manifest")) is None:
        return _unfinished(key[0], objects.values())
    found = folder.manifests.get(entry)
    if isinstance(found, Finding):
        return replace(found, offset=key[0])
    return found if found is None else _mismatch(found, entry.path, folder.name, key) or found


def _own_manifest(
    folder: Folder, key: tuple[int, str], objects: Mapping[ObjectKind, DirectoryEntry]
) -> Manifest | None:
    """Return the manifest of a segment, as far as it was read and is not of another one than its name says."""
    found = _manifest_of(folder, key, objects)
    return found if isinstance(found, Manifest) else None


def _by_name(found: Iterable[Folder]) -> dict[str, Folder]:
    """Return the folders by name; of several topics of one name, the one that was written to last."""
    folders: dict[str, Folder] = {}
    for each in found:
        if not names.is_partition(each.name.topic, each.name.partition):
            continue
        other = folders.get(each.directory)
        kept, left = (each, other) if other is None or _time(each) > _time(other) else (other, each)
        if left is not None:
            kept.findings += [*left.findings, of_another_topic(left)]
        folders[each.directory] = kept
    return dict(sorted(folders.items()))


def of_another_topic(folder: Folder) -> Finding:
    """Return the finding about remote segments that are not read, as the topic of this name is another one."""
    text = f"not read: remote segments of another topic of this name, {folder.name.topic_id}"
    return Kind.REMOTE_TOPIC_REPLACED.at(str(folder.location), text)


def _time(folder: Folder) -> tuple[int, str]:
    manifests = (_own_manifest(folder, *each) for each in folder.objects.items())
    return max((each.event_timestamp for each in manifests if each is not None), default=-1), folder.name.topic_id


def _entries(location: Location, *, is_needed: bool) -> list[DirectoryEntry]:
    try:
        return location.entries()
    except UnreadableError:
        if is_needed:
            raise
        return []


def _objects(entries: Iterable[DirectoryEntry]) -> FolderObjects:
    found: FolderObjects = {}
    for entry in entries:
        name = None if entry.is_directory else object_names.parse_object_name(entry.name)
        if name is not None:
            found.setdefault((name.start_offset, name.segment_id), {})[name.kind] = entry
    return found


_UNREAD: Mapping[Standing, str] = {
    Standing.STARTED: "the metadata of brokers does not say that copying this remote segment was finished",
    Standing.REPLACED: "by the metadata of brokers, a later copy has taken the place of this remote segment",
    Standing.DELETING: "by the metadata of brokers, the deletion of this remote segment began",
    Standing.DELETED: "by the metadata of brokers, this remote segment is deleted",
}
"""Why a segment is not read."""


def _needed_copies(folder: Folder, unread: Mapping[str, str]) -> set[str]:
    """The IDs of unread copies that are whole, while what brokers read does not have all of their offsets. Without
    manifests, offsets are not known but for the first one."""
    copies = [key for key in folder.objects if key[1] in unread and is_read_alone(standing_of(unread[key[1]]))]
    if not copies:
        return set()
    load_manifests(folder, _manifests_of(folder))
    read = [each for key in folder.objects if key[1] not in unread and (each := _whole(folder, key)) is not None]
    spans, starts = spans_of(sorted(read, key=place_of)), {each.start_offset for each in read}
    needed: set[str] = set()
    for copy in (each for key in copies if (each := _whole(folder, key)) is not None):
        end = copy.end_offset
        if copy.start_offset not in starts if end is None else without([(copy.start_offset, end + 1)], spans):
            needed.add(copy.segment_id)
    return needed


def _whole(folder: Folder, key: tuple[int, str]) -> RemoteSegment | None:
    """A segment whose log is there in the size that its manifest says; None for others."""
    objects = folder.objects[key] if key in folder.objects else folder.left_out[key]
    manifest = _own_manifest(folder, key, objects)
    if "log" not in objects or (manifest is None and not folder.name.is_plain):
        return None
    segment = RemoteSegment(*key, objects, manifest)
    return segment if segment.is_whole else None


def _with_copies(
    folder: Folder, segments: Iterable[RemoteSegment], unread: Mapping[str, str]
) -> tuple[RemoteSegment, ...]:
    """Segments with their whole copies, which brokers read or not."""
    known: dict[int, list[RemoteSegment]] = {}
    counts = Counter(start for start, _ in (*folder.objects, *folder.left_out))
    for key in sorted((*folder.objects, *folder.left_out)):
        is_copy = counts[key[0]] > 1 and is_read_alone(standing_of(unread.get(key[1])))
        if is_copy and (whole := _whole(folder, key)) is not None:
            known.setdefault(key[0], []).append(whole)
    for each in known.values():
        each.sort(key=place_of)
    return tuple(
        replace(
            each,
            copies=tuple(one for one in known.get(each.start_offset, ()) if have_same_log(each, one))[:_MOST_COPIES],
        )
        for each in segments
    )


def _leave_out(folder: Folder, unread: Mapping[str, str]) -> None:
    """Take segments that brokers do not read out of a folder, with a finding for each. A whole copy
    stays where the one that brokers read is cut or has no log."""
    needed = _needed_copies(folder, unread)
    for key in sorted(each for each in folder.objects if each[1] in unread):
        objects, standing = folder.objects[key], standing_of(unread[key[1]])
        if key[1] in needed:
            continue
        verdict = verdict_of(standing, InBucket.WHOLE, Elsewhere.COPY)
        place = min(each.path for each in objects.values()) if "log" not in objects else objects["log"].path
        if verdict.kind is not None:
            text = f"not read: {_UNREAD[standing]}"
            folder.findings.append(verdict.kind.at(place, text, severity=verdict.severity, offset=key[0]))
        folder.left_out[key] = folder.objects.pop(key)


def _unfinished(start_offset: int, objects: Iterable[DirectoryEntry]) -> Finding:
    listed = sorted(objects, key=lambda each: each.name)
    size = sum(each.size or 0 for each in listed)
    there = " and ".join(each.name.rpartition(".")[2] for each in listed)
    text = f"not read: a remote segment without a manifest ({there}, {size} bytes), as an interrupted upload leaves it"
    return Kind.REMOTE_SEGMENT_UNFINISHED.at(listed[0].path, text, severity="info", offset=start_offset)
