"""A job's manifest: the files that it read and wrote, with sizes and hashes, so that a later run can resume.

A file of JSON Lines. The first line says what job it is: ``{"manifest": 1, "job": "convert", "settings": {...}}``. Each
other one is a task that is done: ``{"task": "orders-0", "finished": "2026-01-01T00:00:00Z", "inputs": [...],
"outputs": [...], "result": {...}}``, files being ``{"path": ..., "sizeInBytes": ..., "modified": ..., "sha256": ...}``
(absolute paths or URLs; bytes; ms since the epoch or null; SHA-256 in hexadecimal digits). A line is synced before what
it lists gets its names, and a later line of a task replaces an earlier one. So whoever has other tools can check all
that was written: ``jq -r '.outputs[]? | "\\(.sha256)  \\(.path)"' manifest.jsonl | sha256sum --check``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

from msgspec import Meta
from msgspec.structs import replace

from brokerless.bounds import MAX_INT64
from brokerless.errors import UnreadableError, UsageError
from brokerless.log.own_file import end_of_lines
from brokerless.log.segment import Chunk
from brokerless.log.storage.atomic import sync_directory
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.files import File
from brokerless.log.storage.guarded_files import open_own
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import full_path, is_remote, local
from brokerless.log.storage.write_errors import unwritable
from brokerless.values import Int64, LenientValue, Value, WrongJsonError, from_json, members, parse_object

_VERSION = 1
_BLOCK = 8 << 20
_LIMIT = 256 << 20
"""Bytes of a manifest that is gone on with: some 200 for each file."""
_LINE_LIMIT = 1 << 20
"""Bytes of its first line."""
_BY_TOPIC = {"exported_ids"}
"""Settings whose members are named by topics."""


class ManifestFile(Value, frozen=True, rename={"size": "sizeInBytes"}):
    """A file as it was."""

    path: str
    size: Int64
    modified: Annotated[int, Meta(ge=-MAX_INT64, le=MAX_INT64)] | None
    """When it was modified (ms since the epoch); None if the storage does not say."""
    sha256: str


class ManifestTask(Value, frozen=True):
    """A task that is done: what it read and wrote, and its result as plain values of JSON."""

    task: str
    inputs: tuple[ManifestFile, ...]
    outputs: tuple[ManifestFile, ...]
    result: dict[str, Any]
    finished: str | None = None
    """When it was done, in the format of ISO 8601; set where it is recorded."""


class FileHasher:
    """The SHA-256 of a file that is being scanned, of bytes that are in the processor's cache anyway."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._at = 0

    def before(self, position: int) -> hashlib._Hash | None:  # pyright: ignore[reportPrivateUsage]
        """Return the hash of all bytes before a position, if these are the ones that were taken."""
        return self._sha256.copy() if position == self._at else None

    def add(self, chunk: Chunk) -> None:
        """Takes the bytes of a chunk, and those before it that were not in one."""
        self._up_to(chunk.base)
        end = int(chunk.batches.ends[-1])
        self._sha256.update(chunk.buffer[:end].data)
        self._at = chunk.base + end

    def finish(self, entry: DirectoryEntry) -> ManifestFile:
        """Takes the rest of the file."""
        self._up_to(self._file.size)
        return ManifestFile(full_path(entry.path), self._file.size, entry.modified, self._sha256.hexdigest())

    def _up_to(self, end: int) -> None:
        while self._at < end:
            block = self._file.read(self._at, min(_BLOCK, end - self._at))
            if not len(block):
                return
            self._sha256.update(block.data)
            self._at += len(block)


def describe_file(entry: DirectoryEntry, as_path: str | None = None) -> ManifestFile:
    """Reads a whole file. ``as_path``: what it is recorded as, if it is to get that name. Raises UnreadableError."""
    with entry.location.open() as file:
        described = FileHasher(file).finish(entry)
    return described if as_path is None else replace(described, path=full_path(as_path))


def describe_directory(
    log_directory: Destination, directory: str, name: str, copied: Mapping[str, ManifestFile] | None = None
) -> tuple[ManifestFile, ...]:
    """All files of a directory in one that is written to, as they will be when it is called ``name``. ``copied``: by
    name, those whose sizes and hashes are known, as all bytes are those of another file or were hashed while they were
    written; these are not read again."""
    described: list[ManifestFile] = []
    for each in log_directory.entries(directory):
        path, known = log_directory.join(name, each.name), (copied or {}).get(each.name)
        if known is not None and known.size == each.size:
            described.append(ManifestFile(full_path(path), known.size, each.modified, known.sha256))
        else:
            described.append(describe_file(each, path))
    return tuple(described)


def entry_of(location: Location) -> DirectoryEntry:
    """Return a file by its path. Raises :class:`UnreadableError`."""
    with location.open() as file:
        modified = None if is_remote(location.path) else Path(local(location.path)).stat().st_mtime_ns // 1_000_000
        return DirectoryEntry(location.path.rpartition("/")[2], location, False, size=file.size, modified=modified)


class _ManifestHead(LenientValue, frozen=True):
    manifest: Literal[1]


class JobManifest:
    """A manifest that is open, for one run at a time."""

    def __init__(self, path: str, file: BinaryIO | None, tasks: dict[str, ManifestTask]) -> None:
        self.path = path
        self._file = file
        self._tasks = tasks

    def is_done(self, task: str, inputs: Iterable[DirectoryEntry]) -> bool:
        """Return whether a task is done: its inputs are what they were, and its outputs are there. An input of another
        age but of the same size is read, and counts as unchanged if its hash is the same."""
        done = self._tasks.get(task)
        if done is None:
            return False
        entries = {full_path(entry.path): entry for entry in inputs}
        if list(entries) != [file.path for file in done.inputs] or not all(map(_is_there, done.outputs)):
            return False
        return all(_is_unchanged(file, entries[file.path]) for file in done.inputs)

    def change(self, task: str, inputs: Iterable[DirectoryEntry]) -> str | None:
        """Return what a task that was done once would read otherwise now, while all that it wrote is there; None if
        nothing is."""
        done = self._tasks.get(task)
        if done is None or not all(map(_is_there, done.outputs)):
            return None
        entries = {full_path(entry.path): entry for entry in inputs}
        recorded = {file.path: file for file in done.inputs}
        for path in (*recorded, *entries):
            if path not in entries:
                return f"{path} is not read any more"
            if path not in recorded:
                return f"{path} is new"
            now, before = entries[path].size or 0, recorded[path].size
            if now != before:
                return f"{path} has {now} bytes now, and had {before}"
            if not _is_unchanged(recorded[path], entries[path]):
                return f"{path} has another content now"
        return None

    def knows(self, task: str) -> bool:
        """Return whether a task was done once."""
        return task in self._tasks

    def recorded_task(self, task: str) -> ManifestTask:
        """Return what was recorded of a task that is done."""
        return self._tasks[task]

    def add(self, done: ManifestTask) -> None:
        """Records a task whose outputs are about to get their names. Raises UnwritableError; nothing in a dry run."""
        self._tasks[done.task] = done
        finished = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._write(members(replace(done, finished=finished)))

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        with unwritable(Path(self.path)):
            self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    @classmethod
    @contextmanager
    def open(cls, path: str, job: str, settings: Any, *, dry_run: bool = False) -> Generator[JobManifest]:
        """Begins a manifest, or goes on with one. ``settings``: a dataclass of plain values; a manifest that was begun
        with others is not gone on with. With ``dry_run`` nothing is written.

        Raises :class:`UsageError` for a file that is no manifest, or that of another job, or of one that is running;
        UnwritableError.
        """
        head = {"manifest": _VERSION, "job": job, "settings": json.loads(json.dumps(asdict(settings), default=str))}
        if is_remote(path):
            raise UsageError(f"{path}: a manifest is written to a local file")
        path = local(path)
        if not Path(path).absolute().parent.is_dir():
            text = f"there is no directory {Path(path).absolute().parent}; make it, or give another file"
            raise UsageError(f"{path}: the manifest cannot be written, as {text}")
        if dry_run:
            tasks: dict[str, ManifestTask] = {}
            if os.path.lexists(path):
                with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
                    tasks = _load(path, file, head)[0]
            yield cls(path, None, tasks)
            return
        with unwritable(Path(path)):
            is_new = not os.path.lexists(path)
            descriptor = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        with os.fdopen(descriptor, "r+b") as file:
            _lock(path, file)
            tasks, end = _load(path, file, head)
            manifest = cls(path, file, tasks)
            with unwritable(Path(path)):
                file.truncate(end)  # a line that a stop cut off
                if is_new:
                    sync_directory(Path(path).absolute().parent)
            if not end:
                manifest._write(head)
            yield manifest


def _lock(path: str, file: BinaryIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UsageError(f"{path}: another run is writing this manifest; wait for it, or give another file") from error


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield what is not the same in two values of JSON: its name with dots between, and both, as JSON."""
    if isinstance(one, dict) and isinstance(other, dict):
        both = cast("list[dict[str, Any]]", [one, other])
        for key in {**both[0], **both[1]}:
            yield from _differences(both[0].get(key), both[1].get(key), f"{name}.{key}" if name else key)
    elif one != other:
        yield name.removeprefix("settings."), json.dumps(one), json.dumps(other)


def _have_other_names(one: Any, other: Any) -> bool:
    """Return whether two JSON objects have members with other names, also in objects that both have."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    first, second = cast("list[dict[str, Any]]", [one, other])
    nested = first.keys() - _BY_TOPIC
    return first.keys() != second.keys() or any(_have_other_names(first[key], second[key]) for key in nested)


def _load(path: str, file: BinaryIO, head: Mapping[str, Any]) -> tuple[dict[str, ManifestTask], int]:
    """:func:`_parse` of a file that may be anything, and of any size; and how many bytes are whole lines."""
    size = os.fstat(file.fileno()).st_size
    if size and not _is_manifest(file.readline(_LINE_LIMIT)):
        raise UsageError(f"{path}: this is not a manifest and is not overwritten; give another file")
    if size > _LIMIT:
        raise UsageError(f"{path}: {size} bytes are more than the {_LIMIT} that a manifest may have; give another file")
    end = end_of_lines(file)
    file.seek(0)
    return _parse(path, file.read(end), head), end


def _parse(path: str, data: bytes, head: Mapping[str, Any]) -> dict[str, ManifestTask]:
    """The tasks that are recorded, by name."""
    lines = data.splitlines()
    if lines and (begun := parse_object(lines[0])) != head:
        if begun.get("job") == head["job"] and _have_other_names(begun, head):
            text = "this manifest was begun by another version of brokerless, whose settings have other names"
            raise UsageError(f"{path}: {text}; begin again in a new directory, with a new manifest")
        differ = "; ".join(f"{name} was {one}, and is {other}" for name, one, other in _differences(begun, head))
        raise UsageError(f"{path}: this manifest was begun by a job with other settings: {differ}; give another file")
    tasks: dict[str, ManifestTask] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            task = from_json(line, ManifestTask)
            tasks[task.task] = task
        except WrongJsonError as error:
            text = f"this is not a line of a manifest ({error}); give another file"
            raise UsageError(f"{path}, line {number}: {text}") from error
    return tasks


def _is_manifest(line: bytes) -> bool:
    try:
        from_json(line, _ManifestHead)
    except WrongJsonError:
        return False
    return True


def _is_there(output: ManifestFile) -> bool:
    try:
        with Location(output.path).open() as file:
            return file.size == output.size
    except UnreadableError:
        return False


def _is_unchanged(recorded: ManifestFile, entry: DirectoryEntry) -> bool:
    if entry.size != recorded.size:
        return False
    if entry.modified is not None and entry.modified == recorded.modified:
        return True
    return describe_file(entry).sha256 == recorded.sha256
