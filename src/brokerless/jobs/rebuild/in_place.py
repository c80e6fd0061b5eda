"""Changes log directories in place, and changes them back: what is replaced is saved first, and a journal says where.

A broker takes every directory in a log directory for a partition's, so that what is saved lies beside the new
directories. In place only the metadata is replaced, ``meta.properties`` rewritten, and ``partition.metadata`` written
where a partition had none that can be read: partitions' logs stay as they were. While this goes on there is no
``meta.properties``, so that no broker starts on a half. Whatever a kill cut short, an undo too, the next undo puts
back.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.rebuild.node_directories import METADATA, held_in, write_metadata, write_properties
from brokerless.jobs.rebuild.nodes import TargetDirectory
from brokerless.jobs.rebuild.plan import Rebuild
from brokerless.jobs.rebuild.unfinished import Inodes, has_started, remove_new, remove_unfinished
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import committing
from brokerless.log.checkpoint.partition_metadata import partition_metadata
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.atomic import SUFFIX, sync_directory, write_file
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.guarded_files import make_inner_directory, read_own, refuse_links
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import unwritable
from brokerless.values import Value, WrongJsonError

JOURNAL = "rebuild-journal.json"
SAVED = "rebuild-saved"
_LIMIT = 4 << 30


class _Directory(Value, frozen=True):
    """A directory that was changed."""

    path: str
    files: dict[str, str]
    """The SHA-256 of each file that was replaced, by its path in the directory."""
    has_metadata: bool
    added_to: tuple[str, ...]
    """Partitions that got a ``partition.metadata``."""

    def __post_init__(self) -> None:
        if any(names.parse_partition_directory(each) is None for each in self.added_to):
            raise WrongJsonError("addedTo has what is no partition's directory")
        replaced = {(names.META_PROPERTIES,), *((each, names.PARTITION_METADATA) for each in self.added_to)}
        for file in self.files:
            parts = Path(file).parts
            if parts not in replaced and not (len(parts) == 2 and parts[0] == METADATA and parts[1] != ".."):
                raise WrongJsonError("files has another file than brokerless replaces")


class _RebuildJournal(Value, frozen=True):
    brokerless: Literal["rebuild"]
    format: Literal[1]
    directories: tuple[_Directory, ...]
    new: Inodes


_JOURNAL = OwnFile(
    _RebuildJournal, "a journal of brokerless rebuild", "name the directory that the rebuild wrote to", 1 << 26
)


def refuse_journal(to: Path) -> None:
    """Raises :class:`UsageError` where an earlier run's changes are neither undone nor forgotten."""
    if (to / JOURNAL).exists():
        text = "is of an earlier run that changed disks in place; undo it with --undo, or write to another directory"
        raise UsageError(f"{to / JOURNAL}: this {text}")


def change_in_place(rebuild: Rebuild, to: Path, new: Mapping[str, int]) -> None:
    """Replaces the metadata in the directories that stay where they are. ``new``: the directories that were made, by
    their inode numbers, for an undo to remove. Raises :class:`UsageError` if a broker runs on one, UnwritableError,
    UnreadableError and OSError; what was changed by then is undone by :func:`undo`."""
    targets = [each for each in rebuild.directories if not each.is_new]
    with ExitStack() as stack:
        _hold(stack, [Path(each.path) for each in targets])
        shutil.rmtree(to / SAVED, ignore_errors=True)  # without a journal, nothing was changed since
        entries = [_save(rebuild, each, to / SAVED / str(at)) for at, each in enumerate(targets)]
        sync_directory(to / SAVED)  # a journal without what was saved could undo nothing
        _JOURNAL.save(Location(str(to / JOURNAL)), _RebuildJournal("rebuild", 1, tuple(entries), dict(new)))
        for each in targets:
            path = Path(each.path)
            (path / names.META_PROPERTIES).unlink(missing_ok=True)
            sync_directory(path)
            _remove_metadata(path)
            if each.is_first:
                write_metadata(rebuild, path)
            for directory, topic_id in _unnamed(rebuild, each):
                write_file(directory / names.PARTITION_METADATA, partition_metadata(topic_id))
        for each in targets:
            write_properties(rebuild, each, Path(each.path))


def _hold(stack: ExitStack, paths: Sequence[Path]) -> None:
    """Keeps brokers, and others of us, out of directories. Their marks of a clean stop stay: no log is changed."""
    for path in paths:
        stack.enter_context(unwritable(path))
        stack.enter_context(lock_directory(path, exclusive=False))
    for path in sorted(paths):
        stack.enter_context(committing(path))


def _unnamed(rebuild: Rebuild, target: TargetDirectory) -> list[tuple[Path, str]]:
    """Partitions without a ``partition.metadata`` that can be read, and the topic ids that they get."""
    return [
        (Path(each.replica.paths.path), each.topic_id)
        for each in held_in(rebuild, target)
        if each.replica.topic_id is None
    ]


def _save(rebuild: Rebuild, target: TargetDirectory, saved: Path) -> _Directory:
    """Copies what will be replaced, and returns the journal's entry."""
    path = Path(target.path)
    metadata = path / METADATA
    files = [Path(names.META_PROPERTIES)] if (path / names.META_PROPERTIES).exists() else []
    if metadata.is_dir() and not metadata.is_symlink():
        refuse_links(metadata)
        files += [Path(METADATA) / each.name for each in sorted(metadata.iterdir()) if each.is_file()]
    unnamed = [directory.name for directory, _ in _unnamed(rebuild, target)]
    broken = [each for each in unnamed if os.path.lexists(path / each / names.PARTITION_METADATA)]
    files += [Path(each) / names.PARTITION_METADATA for each in broken]
    for each in (METADATA, *broken):
        (saved / each).mkdir(parents=True)
    hashes: dict[str, str] = {}
    for each in files:
        data = read_own(Location(str(path / each)), _LIMIT)
        write_file(saved / each, data)
        hashes[str(each)] = hashlib.sha256(data).hexdigest()
    sync_directory(saved)
    return _Directory(str(path), hashes, metadata.is_dir(), tuple(unnamed))


def _remove_metadata(path: Path) -> None:
    """Removes KRaft's own log, file by file."""
    metadata = path / METADATA
    if metadata.is_symlink():
        raise UsageError(f"{metadata}: this is a symbolic link, and links are not followed here")
    if metadata.is_dir():
        for each in metadata.iterdir():
            each.unlink()
        metadata.rmdir()
        sync_directory(path)


def undo(paths: Sequence[str], to: str, *, force: bool = False) -> tuple[str, ...]:
    """Puts back what :func:`change_in_place` replaced in the directories ``paths``, by the journal in ``to``; returns
    those that were changed. New directories are removed, but for those on which a broker has run, and so are journal
    and saved files. Locks stay: somebody may have one open, and a lock on a file that is gone excludes nobody. Raises
    :class:`UsageError` if the journal names another directory, if a broker runs on one, or has run since, unless
    ``force``; UnreadableError for a journal, or saved files, that are not what was written."""
    root = Path(to)
    journal = root / JOURNAL
    document = _JOURNAL.load(Location(str(journal)))
    entries, new = document.directories, document.new
    named = {Path(os.path.realpath(each)) for each in paths}
    for each in entries:  # nothing is removed where only a file says so
        if Path(os.path.realpath(each.path)) not in named:
            raise UsageError(f"{journal}: it is of {each.path} as well; name that directory, too, to have it put back")
    with ExitStack() as stack:
        _hold(stack, [Path(each.path) for each in entries])
        used = next((Path(each.path) for each in entries if _has_run(Path(each.path), each.files)), None)
        used = used or next((root / each for each in new if has_started(root / each)), None)
        if used is not None and not force:
            text = "a broker has run here since; what it wrote is of a metadata that will be gone"
            raise UsageError(f"{used}: {text}. Give --force to undo all the same")
        saved = [_load_saved(root / SAVED / str(at), each.files) for at, each in enumerate(entries)]
        for each, files in zip(entries, saved, strict=True):
            path = Path(each.path)
            _remove(path / names.META_PROPERTIES)
            sync_directory(path)
            _remove_metadata(path)
            for name in each.added_to:
                _remove(path / name / names.PARTITION_METADATA)
                if (path / name).is_dir():
                    sync_directory(path / name)
            if each.has_metadata:
                make_inner_directory(path / METADATA)
            for name, data in files.items():
                if name != names.META_PROPERTIES:
                    write_file(path / name, data)
            sync_directory(path)
        for each, files in zip(entries, saved, strict=True):
            if names.META_PROPERTIES in files:
                write_file(Path(each.path) / names.META_PROPERTIES, files[names.META_PROPERTIES])
    remove_new(root, new)
    remove_unfinished(root)
    journal.unlink()
    sync_directory(root)  # before what it needs is removed
    shutil.rmtree(root / SAVED, ignore_errors=True)
    return tuple(each.path for each in entries)


def _has_run(path: Path, saved: Mapping[str, str]) -> bool:
    """Return whether a log of the metadata is here that is not one of those that were saved."""
    return any(
        saved.get(f"{METADATA}/{log.name}") != hashlib.sha256(read_own(Location(str(log)), _LIMIT)).hexdigest()
        for log in (path / METADATA).glob("*.log")
    )


def _remove(file: Path) -> None:
    """Removes a file, and what a killed run left of its next content."""
    file.unlink(missing_ok=True)
    file.with_name(file.name + SUFFIX).unlink(missing_ok=True)


def _load_saved(saved: Path, hashes: Mapping[str, str]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name, expected in hashes.items():
        files[name] = read_own(Location(str(saved / name)), _LIMIT)
        if hashlib.sha256(files[name]).hexdigest() != expected:
            raise UnreadableError(saved / name, "this is not what was saved; nothing was changed")
    return files
