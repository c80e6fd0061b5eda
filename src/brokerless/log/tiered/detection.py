"""Finds out whether a path has objects of tiered storage, and names the log directory that they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.log.backups import names as snapshot_names
from brokerless.log.storage import paths
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.tiered import object_names

if TYPE_CHECKING:
    from brokerless.log.backups.names import SnapshotName
    from brokerless.log.backups.place import BackupPlace

OPTION = "tiered"
"""The storage option with those of tiered storage: ``key_pairs``, ``layout``, ``remote`` (a list) and ``unread``."""
DEPTH = 3
"""Levels of directories below a path in which partitions are looked for."""
MOST_LISTED = 100
"""Directories that have no name of remote storage, and are listed nevertheless."""


def is_tiered(location: Location) -> bool:
    """Return whether a path is in a log directory that is made of a bucket's objects."""
    return location.path.startswith(paths.TIERED)


def is_joined(location: Location) -> bool:
    """Return whether a user chose where the remote segments of the log in a path are."""
    own = (location.options or {}).get(OPTION) or {}
    return not is_tiered(location) and own.get("remote") is not None


BucketPlace = tuple[Location, str]
"""A directory with objects, and what the names of topics in it begin with."""


def as_log_directory(
    location: Location, start: str = "", others: Sequence[BucketPlace] = (), *, snapshot: str | None = None
) -> Location:
    """Return the log directory that the objects in a directory are. ``start``: what the names of topics begin with.
    ``others``: more directories with objects, of the same topics or of others. ``snapshot``: of a backup, which of its
    segments are read: what the files of that snapshot are called."""
    path, options = paths.full_path(location.path), dict(location.options or {})
    own: dict[str, Any] = dict(options.pop(OPTION, None) or {})
    if own.pop("remote", None) is not None:
        raise UsageError(f"remote: {location.path} has remote segments itself; give a log directory as the path")
    if start or others:
        own["start"] = start, [(paths.full_path(at.path), without_remote(at).options, name) for at, name in others]
    if snapshot is not None:
        own["unread"] = snapshot
    if not paths.is_remote(path):
        if "::" in path:
            raise UnreadableError(location.path, "objects of tiered storage are not read in a path with '::'")
        return refreshed(Location(f"{paths.TIERED}::file://{path}", {OPTION: own}))
    first, *rest = path.split("::")
    protocols = {each.partition("://")[0] for each in rest}
    inner = {name: value for name, value in options.items() if name not in protocols}
    outer = {name: value for name, value in options.items() if name in protocols}
    return refreshed(Location(f"{paths.TIERED}::{path}", {OPTION: own, first.partition("://")[0]: inner, **outer}))


def refreshed(location: Location) -> Location:
    """Return what is in a log directory of objects, which are listed again when it is read next."""
    if is_tiered(location) and "::" in location.path:
        file_system, _ = location.file_system()
        file_system.refresh()
    return location


def has_objects(location: Location, entries: Sequence[DirectoryEntry]) -> bool:
    """Return whether a directory has objects of tiered storage, by the names in it."""
    if any(each.is_directory and object_names.is_topic_directory(each.name) for each in entries):
        return True
    if any(not each.is_directory and object_names.parse_object_name(each.name) for each in entries):
        return True
    return object_names.is_topic_directory(location.name) and any(each.name.isdecimal() for each in entries)


def has_objects_below(entries: Sequence[DirectoryEntry]) -> bool:
    """Return whether there are objects some levels further down, as far as few directories are listed for it."""
    level, listed = [each.location for each in entries if each.is_directory], 0
    for _ in range(DEPTH):
        following: list[Location] = []
        for each in level:
            listed += 1
            if listed > MOST_LISTED:
                return False
            with suppress(UnreadableError):
                inner = each.entries()
                if has_objects(each, inner):
                    return True
                following += (entry.location for entry in inner if entry.is_directory)
        level = following
    return False


def unread_objects(location: Location, foreign: Sequence[DirectoryEntry], topics: Iterable[str]) -> dict[str, Finding]:
    """Findings about objects of tiered storage in a log directory, by the topics whose partitions lack them; what is of
    none of the ``topics`` is said of the first. ``foreign``: what else is in the directory."""
    directories = [each for each in foreign if each.is_directory]
    objects = any(not each.is_directory and object_names.parse_object_name(each.name) for each in foreign)
    if not topics or not (objects or directories):
        return {}
    found: dict[str, Finding] = {}
    known, text = list(topics), "not read: objects of tiered storage are in this log directory"
    others = [each for each in directories if not object_names.is_topic_directory(each.name)]
    for each in directories:
        topic = object_names.topic_of_directory(each.name)
        if topic in known and _has_partitions(each.location):
            found[topic] = Kind.REMOTE_OBJECTS_UNREAD.at(each.path, text)
        elif topic is not None:
            others.append(each)
    if objects or (others and has_objects_below(others)):
        place = next((each.path for each in [*others, *foreign]), location.path)
        found.setdefault(known[0], Kind.REMOTE_OBJECTS_UNREAD.at(place, text))
    return found


def _has_partitions(location: Location) -> bool:
    with suppress(UnreadableError):
        return has_objects(location, location.entries())
    return False


def without_remote(location: Location) -> Location:
    """Return a place without what is chosen of remote segments."""
    return Location(location.path, {name: each for name, each in (location.options or {}).items() if name != OPTION})


def remote_of(location: Location) -> Location | None:
    """Return the log directory of the remote segments that belong to a log directory of brokers, as a user chose, of
    one bucket or several; None where nothing was chosen. Raises :class:`UnreadableError` for a place without any."""
    options = dict(location.options or {})
    own: dict[str, Any] = dict(options.pop(OPTION, None) or {})
    chosen: Sequence[str] | None = own.pop("remote", None)
    if not chosen or is_tiered(location):
        return None
    remote = [Location(each, {**options, OPTION: own}) for each in chosen]
    if len(remote) == 1 and is_tiered(remote[0]):
        return refreshed(remote[0])
    (first, start), *others = map(_place_of, remote)
    return as_log_directory(first, start, others)


def backup_at(location: Location) -> tuple[BackupPlace, SnapshotName | None]:
    """Return a backup, and which of its snapshots a path names, if it is ``URL@SNAPSHOT``. Raises
    :class:`UnreadableError` where there is no backup, and :class:`UsageError` where it has no such snapshot."""
    from brokerless.log.backups.place import BackupPlace  # it imports PyArrow

    split = None if location.is_directory() else snapshot_names.split_path(location)
    backup = BackupPlace(location if split is None else split[0])
    if backup.config() is None:
        file = f"{snapshot_names.DIRECTORY}/{snapshot_names.CONFIG}"
        raise UnreadableError(location.path, f"there is no backup here: {file} is missing")
    return backup, None if split is None else backup.find(split[1])


def snapshot_directory(location: Location, text: str = snapshot_names.LATEST) -> Location:
    """Return the log directory that a snapshot of a backup is; ``text``: what people call it. Raises
    :class:`UsageError` where there is none, and :class:`UnreadableError`."""
    backup, _ = backup_at(location)
    return as_log_directory(location, snapshot=backup.find(text).stem)


def snapshot_of(location: Location) -> SnapshotName | None:
    """Return the snapshot of a backup that a log directory is; None for any other."""
    stem = ((location.options or {}).get(OPTION) or {}).get("unread")
    return snapshot_names.parse_stem(stem) if isinstance(stem, str) else None


def snapshot_path(location: Location) -> str | None:
    """Return what people call the snapshot that a log directory is, as ``URL@SNAPSHOT``; None for any other."""
    if (name := snapshot_of(location)) is None:
        return None
    return f"{location.path.partition('::')[2].removeprefix('file://').rstrip('/')}@{name.id}"


def shown_path(location: Location) -> str:
    """Return what people call a log directory: its path, or that of a snapshot as ``URL@SNAPSHOT``."""
    return snapshot_path(location) or location.path


def _place_of(remote: Location) -> BucketPlace:
    if snapshot_names.split_path(remote) is not None or snapshot_names.has_backup(remote):
        raise UsageError(
            f"remote: {remote.path} is a backup, and not the bucket of brokers; give it as a path by itself"
        )
    if is_tiered(remote):
        raise UsageError(f"remote: {remote.path} is made of a bucket; where there are several, give the buckets")
    if not remote.is_directory() and (found := _place_at_prefix(remote)) is not None:
        return found
    entries = remote.entries()
    if not has_objects(remote, entries) and not has_objects_below(entries):
        raise UnreadableError(remote.path, "there are no remote segments here")
    return remote, ""


def directory_at(location: Location) -> Location | None:
    """Return the directory that a path stands for; None for a file, and where there is nothing.

    It is a log directory of objects where a user chose a layout of their names, and where there is nothing, but topics
    next to it have directories whose names begin with the last part of the path. Objects are listed again."""
    own = (location.options or {}).get(OPTION) or {}
    if own.get("layout") is not None and not is_tiered(location):
        return as_log_directory(location)
    if refreshed(location).is_directory():
        return location
    if is_tiered(location) or location.exists():
        return None
    if (snapshot := snapshot_names.split_path(location)) is not None:
        return snapshot_directory(*snapshot)
    found = _place_at_prefix(location)
    return None if found is None else as_log_directory(*found)


def _place_at_prefix(location: Location) -> BucketPlace | None:
    above = location.parent
    if above is None:
        return None
    with suppress(UnreadableError):
        start = location.path.rstrip("/").rpartition("/")[2]
        if any(
            each.is_directory and each.name.startswith(start) and object_names.is_topic_directory(each.name)
            for each in above.entries()
        ):
            return above, start
    return None
