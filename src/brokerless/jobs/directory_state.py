"""Checks a log directory: its checkpoints against its partitions, and the other files in it.

Sources: ``LogManager`` (``loadLogs``, ``loadLog``), ``LogCleanerManager``, ``ReplicaManager`` (4.1.1); KIP-858.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind, Severity
from brokerless.log import names
from brokerless.log.checkpoint.meta_properties import load_meta_properties
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint
from brokerless.log.directory import LogDirectory, PartitionPath
from brokerless.log.storage.directory_lock import is_locked
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.paths import is_remote, local

Place = tuple[str, int]
Lines = Mapping[str, tuple[str, int]]
"""One partition's lines in its log directory's checkpoints, by the file's name: its path, and the offset."""


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """A log directory's checkpoints: offsets by topic and partition, for the name of each file that is there.

    ``was_clean``: it has the mark of a clean stop. ``findings``: files that Kafka could not read.
    """

    files: Mapping[str, DirectoryEntry] = field(default_factory=dict[str, DirectoryEntry])
    offsets: Mapping[str, Mapping[Place, int]] = field(default_factory=dict[str, Mapping[Place, int]])
    findings: tuple[Finding, ...] = ()

    @property
    def was_clean(self) -> bool:
        return names.CLEAN_SHUTDOWN in self.files

    def of(self, partition: PartitionPath) -> Lines:
        """One partition's lines; they are not of what is deleted or stray."""
        place = partition.topic or "", -1 if partition.partition is None else partition.partition
        live = self.offsets.items() if partition.state in ("live", "future") else ()
        return {name: (self.files[name].path, offsets[place]) for name, offsets in live if place in offsets}


def running_broker(state: DirectoryState) -> Path | None:
    """The log directory, if a broker or another process that writes holds its lock."""
    lock = state.files.get(names.LOCK)
    if lock is None or is_remote(lock.path):
        return None
    directory = Path(local(lock.path)).parent
    return directory if is_locked(directory) else None


def load_directory_state(directory: LogDirectory) -> DirectoryState:
    """The metadata files of a log directory; for a partition's directory, of the local one that it is in. None of it
    raises."""
    files = directory.files
    if directory.kind == "partition" and "://" not in directory.path:
        with suppress(UnreadableError):
            entries = directory.location.at(str(Path(directory.path).absolute().parent)).entries()
            files = {entry.name: entry for entry in entries if names.is_log_directory_file(entry.name)}
    offsets: dict[str, Mapping[Place, int]] = {}
    findings: list[Finding] = []
    for name in names.OFFSET_CHECKPOINTS:
        if name in files:
            loaded = load_offset_checkpoint(files[name].location)
            offsets[name] = loaded.offsets
            findings += loaded.findings
    return DirectoryState(files, offsets, tuple(findings))


def check_lines(lines: Lines, start_offset: int, end_offset: int) -> Iterator[Finding]:
    """One partition's lines against its log, which has ``start_offset <= offset < end_offset``."""
    for name, kind, severity, text in _BEYOND_END:
        path, offset = lines.get(name, ("", 0))
        if offset > end_offset:
            expected, found = f"at most {end_offset}, where the log ends", f"offset {offset}"
            yield Finding(severity, kind, path, offset=offset, message=text, expected=expected, found=found)
    for name, kind, text in _BEFORE_START:
        path, offset = lines.get(name, ("", start_offset))
        if offset < start_offset:
            expected, found = f"{start_offset} or more, where the log begins", f"offset {offset}"
            yield Finding("info", kind, path, offset=offset, message=text, expected=expected, found=found)


_BEYOND_END: tuple[tuple[str, Kind, Severity, str], ...] = (
    (
        names.RECOVERY_POINT_CHECKPOINT,
        Kind.RECOVERY_POINT_BEYOND_END,
        "error",
        "the log ends before its recovery point: what had been flushed to disk is not there",
    ),
    (
        names.HIGH_WATERMARK_CHECKPOINT,
        Kind.HIGH_WATERMARK_BEYOND_END,
        "error",
        "the log ends before its high watermark: what was committed is not there",
    ),
    (
        names.LOG_START_OFFSET_CHECKPOINT,
        Kind.LOG_START_BEYOND_END,
        "error",
        "the log ends before its start offset: a broker deletes all of it at its next start",
    ),
    (
        names.CLEANER_CHECKPOINT,
        Kind.CLEANER_CHECKPOINT_BEYOND_END,
        "warning",
        "the log ends before the offset up to which it was compacted",
    ),
)
_BEFORE_START = (
    (
        names.LOG_START_OFFSET_CHECKPOINT,
        Kind.LOG_START_BEFORE_SEGMENTS,
        "the first segment begins after the log start offset: a segment is missing, or the checkpoint is old",
    ),
    (
        names.HIGH_WATERMARK_CHECKPOINT,
        Kind.HIGH_WATERMARK_BEFORE_START,
        "the first segment begins after the high watermark: the checkpoint is old",
    ),
)


def check_directory(directory: LogDirectory, state: DirectoryState, is_running: bool) -> Iterator[Finding]:
    """Yield what is to say of a log directory as a whole; nothing of another path."""
    if directory.kind != "log-directory":
        return
    yield from state.findings
    if names.META_PROPERTIES in state.files:
        yield from load_meta_properties(state.files[names.META_PROPERTIES].location).findings
    elif state.files:
        text = "there is no meta.properties: a broker would not start on this directory"
        yield Finding("info", Kind.META_PROPERTIES_MISSING, directory.path, message=text)
    if is_running:
        text = "a broker is running on this directory: what is said here is of a moment of its work"
        yield Finding("info", Kind.BROKER_RUNNING, directory.path, message=text)
    elif state.files and not state.was_clean:
        text = "there is no clean-shutdown file: a broker was killed here, or this is a copy of a running one's"
        yield Finding("info", Kind.UNCLEAN_STOP, directory.path, message=text)
    for partition in directory.others:
        yield from partition.findings if partition.state == "live" else check_state(partition)
    for entry in directory.foreign:
        text = "not Kafka's: neither a partition's directory nor one of a log directory's files"
        yield Finding("info", Kind.FOREIGN_FILE, entry.path, message=text)
    there = {(each.topic, each.partition) for each in (*directory.partitions, *directory.others)}
    for place, offset in state.offsets.get(names.RECOVERY_POINT_CHECKPOINT, {}).items():
        if place not in there:
            text = f"there is a recovery point for {place[0]}-{place[1]}, but no such directory"
            path = state.files[names.RECOVERY_POINT_CHECKPOINT].path
            found = f"flushed up to offset {offset}"
            yield Finding(
                "warning",
                Kind.PARTITION_MISSING,
                path,
                offset=offset,
                message=text,
                expected="a directory",
                found=found,
            )


def check_state(partition: PartitionPath) -> Iterator[Finding]:
    """Yield what the name of a partition's directory says of its state, if it is not a live one."""
    if partition.is_unfinished and partition.uncommitted:
        yield from partition.uncommitted
    elif partition.is_unfinished:
        text = "what brokerless was writing here is not finished: a job is going on, or was killed"
        yield Finding("info", Kind.UNFINISHED_DIRECTORY, partition.path, message=text)
    elif partition.state != "live":
        severity, kind, text = _STATES[partition.state]
        yield Finding(severity, kind, partition.path, message=text)


_STATES: Mapping[str, tuple[Severity, Kind, str]] = {
    "stray": ("warning", Kind.STRAY_DIRECTORY, "a replica that the cluster no longer has here; no broker serves it"),
    "future": ("info", Kind.FUTURE_DIRECTORY, "a replica that was being moved to this log directory"),
    "delete": ("info", Kind.DELETED_DIRECTORY, "a deleted partition; a broker removes it soon, or at its next start"),
}


def compare_topic_ids(topic_ids: Iterable[tuple[str, str, str]]) -> Iterator[Finding]:
    """Partitions of one topic with another topic ID: (topic, ID, path of partition.metadata)."""
    first: dict[str, str] = {}
    for topic, topic_id, path in topic_ids:
        if first.setdefault(topic, topic_id) != topic_id:
            text = f"the topic ID is another one than that of {topic}'s other partitions: they are of two topics"
            yield Finding("error", Kind.TOPIC_ID_MISMATCH, path, message=text, expected=first[topic], found=topic_id)
